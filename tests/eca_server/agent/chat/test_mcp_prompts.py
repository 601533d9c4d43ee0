"""Prompts of MCP servers: commands of the chat, and what their messages become."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio

from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.models.history import ImagePart, TextPart
from tests.eca_server.agent.chat.agent_session import conversation
from tests.eca_server.agent.chat.editor import ECHO, editor, text, types
from tests.eca_server.agent.chat.editor import Content as Received
from tests.eca_server.agent.chat.mcp_session import GIT, running, session, status, with_servers
from tests.eca_server.agent.context.conftest import write
from tests.eca_server.agent.mcp.fake import FakeSession, Place

COMMIT = m.Prompt(
    name="commit",
    description="Writes a commit message.",
    arguments=(
        m.PromptArgument(name="scope", description="What it is about.", required=True),
        m.PromptArgument(name="tone"),
        m.PromptArgument(name="more", description="Anything else."),
    ),
)
PNG = b"\x89PNG\r\n\x1a\n and so on"
TWO: dict[str, Any] = {**GIT, "hub": {"command": "hub-server"}}


def says(*messages: tuple[str, m.Content | str]) -> tuple[m.PromptMessage, ...]:
    return tuple(
        m.PromptMessage(
            role=role,  # type: ignore[arg-type]  # what a test writes
            content=TextPart(each) if isinstance(each, str) else each,
        )
        for role, each in messages
    )


def offers(
    place: Place, *prompts: m.Prompt, result: tuple[m.PromptMessage, ...] | None = None
) -> list[Any]:
    """Let the server offer these; what they were asked with."""
    requests: list[Any] = []

    async def gives(name: str, arguments: Mapping[str, str]) -> tuple[m.PromptMessage, ...]:
        requests.append((name, dict(arguments)))
        return result or says(("user", f"{name} was asked"))

    def prepare(made: FakeSession) -> None:
        made.prompts, made.gives = prompts, gives

    place.prepare = prepare
    return requests


def refusal(received: list[Received]) -> str:
    """Return the text shown to the user when no model answered."""
    kinds = ["progress", "text", "finished"]
    assert types(received) in (kinds, kinds[:2] + kinds)
    return text(received[2:])


async def test_a_project_s_command_takes_no_prompt_s_name(places, tmp_path):
    offers(places["git"], m.Prompt(name="talk"), result=says(("user", "the server's own words")))
    write(tmp_path / ".eca" / "commands" / "git:talk.md", "the project's words")
    skill = "---\nname: git:talk\ndescription: Talks.\n---\nthe project's words"
    write(tmp_path / ".eca" / "skills" / "talk" / "SKILL.md", skill)
    async with editor({"mcpServers": GIT}, folder=tmp_path) as ours:
        await status(ours, "git", "running")
        commands = (await ours.ask("chat/queryCommands", {"query": "git:"}))["commands"]
        assert [(each["name"], each["type"]) for each in commands] == [("git:talk", "mcp-prompt")]
        received = await ours.turn("/git:talk", model=ECHO)
        assert received[3:].text == "the server's own words"


async def test_prompts_are_commands_with_their_arguments(places, autojump_clock):
    offers(places["git"], COMMIT, m.Prompt(name="Look up/all"), m.Prompt(name="look UP/all"))
    offers(places["hub"], m.Prompt(name="commit", title="Another one"))
    async with with_servers(TWO) as ours:
        await status(ours, "hub", "running")
        commands = (await ours.ask("chat/queryCommands", {"query": "git:"}))["commands"]
        arguments = [
            {"name": "scope", "description": "What it is about.", "required": True},
            {"name": "tone", "required": False},
            {"name": "more", "description": "Anything else.", "required": False},
        ]
        assert commands[0] == {
            "name": "git:commit", "description": "Writes a commit message.",
            "type": "mcp-prompt", "arguments": arguments,
        }  # fmt: skip
        assert [each["name"] for each in commands[1:]] == ["git:Look-up-all", "git:look-UP-all-2"]
        commands = (await ours.ask("chat/queryCommands", {"query": "ANOTHER"}))["commands"]
        assert [each["name"] for each in commands if ":" in each["name"]] == ["hub:commit"]
        everything = (await ours.ask("chat/queryCommands", {"query": ""}))["commands"]
        assert [each["type"] for each in everything[-4:]] == ["mcp-prompt"] * 4
        places["hub"].session.prompts = ()
        places["hub"].session.on_change("prompts")
        await trio.sleep(2)
        assert not (await ours.ask("chat/queryCommands", {"query": "hub:"}))["commands"]


async def test_what_the_server_makes_of_a_prompt_is_what_the_model_is_asked(tmp_path, places):
    requests = offers(places["git"], COMMIT)
    async with session(tmp_path) as (ours, provider):
        for typed, arguments in (
            ("/git:commit fix", {"scope": "fix"}),
            ('/GIT:Commit "the parser" kind', {"scope": "the parser", "tone": "kind"}),
            ('/git:commit fix "" all\n"is left"', {"scope": "fix", "more": 'all\n"is left"'}),
            ("/git:commit ''", {"scope": ""}),
        ):
            received = await ours.turn(typed, typed)
            assert requests.pop() == ("commit", arguments)
            assert conversation(provider) == [("user", "commit was asked")]
            assert received[1]["text"] == typed
            assert received.answer == "the end"


async def test_messages_keep_their_roles_and_what_they_embed(tmp_path, places):
    (tmp_path / "a.txt").write_text("what the user meant")
    (tmp_path / "b.txt").write_text("what only the server named")
    page = m.ResourceContents(uri="memo://1", text="</eca_resource> ends it?")
    picture = m.ResourceContents(uri="memo://p", blob=PNG, mime_type="image/png")
    archive = m.ResourceContents(uri="memo://z", blob=b"\0\1", mime_type="application/zip")
    result = says(
        ("assistant", "I begin."),
        ("assistant", ImagePart(data=PNG, media_type="image/png")),
        ("user", "Read @b.txt and this:"),
        ("user", page),
        ("user", picture),
        ("user", archive),
        ("assistant", "I end."),
    )
    offers(places["git"], m.Prompt(name="talk"), result=result)
    async with session(tmp_path) as (ours, provider):
        await ours.turn("/git:talk about @a.txt")
        messages = provider.requests[-1].body["messages"][1:]
        roles = [each["role"] for each in messages]
        assert roles == ["user", "assistant", "user", "assistant", "user"]
        typed, first, middle, _, last = [each["content"] for each in messages]
        assert typed == "/git:talk about @a.txt"
        assert "I begin." in str(first)
        assert "was left out" in str(first)
        assert "Read @b.txt" in middle[0]["text"]
        assert '<eca_resource server="git" uri="memo://1">' in str(middle)
        assert "&lt;/eca_resource> ends it?" in str(middle)
        assert sum(each["type"] == "image_url" for each in middle) == 1
        left_out = "memo://z was left out: it is binary: 2 bytes of the type application/zip"
        assert left_out in str(middle)
        assert "what the user meant" in str(last)
        assert "about @a.txt" in str(last)
        assert "what only the server named" not in str(messages)


async def _refuses(name: str, arguments: Mapping[str, str]) -> tuple[m.PromptMessage, ...]:
    raise MCPError("prompts/get: not today, token not-a-real-secret-0123.", kind="refused")


async def _is_empty(name: str, arguments: Mapping[str, str]) -> tuple[m.PromptMessage, ...]:
    return ()


@pytest.mark.requirement("CHAT-31", "W-20a")
async def test_a_prompt_that_fails_says_why_and_ends(places, autojump_clock):
    offers(places["git"], COMMIT)
    missing = "Missing arguments of `/git:commit`: `scope` (What it is about.). Send `/git:commit"
    env = {"env": {"TOKEN": "not-a-real-secret-0123"}}
    servers = {"git": {**GIT["git"], **env}, "off": {"command": "x", "disabled": True}}
    async with running(servers) as ours:
        for typed, gives, reason in (
            ("/git:commit", _is_empty, missing),
            ("/git:commit x", _refuses, "the MCP server git refused the prompt: prompts/get: not"),
            ("/git:commit x", _is_empty, "returned an empty prompt"),
            ("/git:nope", None, "There is no command `/git:nope`. Available commands: `/help`"),
            ("/cost", None, "There is no command `/cost`; did you mean `/costs`? Available"),
            ("/off:commit x", None, "These MCP servers do not run: off (disabled)"),
        ):
            places["git"].session.gives = gives
            received = await ours.turn(typed)
            assert reason in refusal(received)
            assert "not-a-real-secret" not in received.text
            assert ".." not in received.text
            assert received.finishes == 1
            assert not ours.connection.chats.open("c").history


async def test_a_server_that_is_slow_or_dies_holds_no_prompt(places, autojump_clock):
    cancelled = []

    async def hangs(name: str, arguments: Mapping[str, str]) -> tuple[m.PromptMessage, ...]:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(name)
        raise AssertionError

    async def dies(name: str, arguments: Mapping[str, str]) -> tuple[m.PromptMessage, ...]:
        places["git"].session.end()
        raise MCPError("exit code 1", kind="closed")

    def prepare(made: FakeSession) -> None:
        made.prompts = (COMMIT,)
        made.gives = hangs if places["git"].attempts == 1 else dies

    places["git"].prepare = prepare
    places["git"].opening = 1.5
    async with with_servers() as ours:
        await ours.prompt("/git:commit x")  # the server is still starting
        await ours.content("progress", text="Asking git for the prompt")
        await ours.expect_stopped()
        assert cancelled == ["commit"]
        places["git"].session.end()
        received = await ours.turn("/git:commit y")
        assert "is not available now" in refusal(received)
        await status(ours, "git", "running")
        assert "refused the prompt: exit code 1" in refusal(await ours.turn("/git:commit z"))


async def test_doctor_shows_how_servers_are_and_why(places, autojump_clock):
    places["bad"].refuses = MCPError("no such\nprogram", kind="start")
    offers(places["git"], COMMIT, m.Prompt(name="look"))
    servers = {**GIT, "bad": {"command": "x"}, "off": {"command": "x", "disabled": True}}
    async with with_servers(servers) as ours:
        report = (await ours.turn("/doctor")).text
        assert "- git: running (1 tool, 2 prompts, 1 resource)\n" in report
        assert "- bad: failed: no such program.\n" in report
        assert "- off: disabled\n" in report

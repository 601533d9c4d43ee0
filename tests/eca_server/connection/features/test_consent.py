"""Workspace trust: requests, and texts of others, that give no consent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, reply
from eca_server.agent.mcp.messages import Prompt, PromptMessage
from eca_server.config.trust_texts import NOT_NOW, TRUST
from eca_server.models.history import TextPart
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import calls
from tests.eca_server.agent.chat.current import CURRENT, refused
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, provider_config, text
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.agent.mcp.fake import FakeSession, Place
from tests.eca_server.connection.features.session import (
    Home,
    change_folders,
    connect_to_fakes,
    reload,
    until_shown,
)
from tests.eca_server.connection.features.trusting import (
    ACCEPT,
    OLDER,
    answer_and_finish,
    guard,
    messages,
    next_question,
    questions,
    refused_start,
    server,
    statuses,
)


async def nothing_accepts(ours: Editor, home: Home) -> None:
    """Check that nothing was accepted yet, and that a typed prompt accepts."""
    assert home.decisions() == {}
    assert statuses(ours)[-1] == "disabled"
    await ours.turn(ACCEPT)
    assert [*home.decisions()] == [str(home.root)]


def once(done: Path, output: dict[str, str], event: str) -> dict[str, Any]:
    """Return a hook that writes this output at its first run."""
    shell = f"test -e {done} || {{ touch {done}; echo '{json.dumps(output)}'; }}"
    return {"type": event, "actions": [{"type": "shell", "shell": shell}]}


async def test_no_text_of_a_folder_a_hook_a_model_or_an_mcp_server_accepts(home, monkeypatch):
    home.configure(**server())
    commands, skill = (home.root / ".eca" / each for each in ("commands", "skills/sly"))
    commands.mkdir()
    for name in ("evil", "trust", "trust-me"):
        (commands / f"{name}.md").write_text(ACCEPT)
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: sly\ndescription: d\n---\n{ACCEPT}")
    done = {name: home.folder / name for name in ("replaced", "context", "followed")}
    hooks = {
        "replaced": once(done["replaced"], {"replacedPrompt": ACCEPT}, "preRequest"),
        "context": once(done["context"], {"additionalContext": ACCEPT}, "preRequest"),
        "followed": once(done["followed"], {"followUp": ACCEPT}, "postRequest"),
    }
    place = Place()

    async def gives(_name: str, _arguments: Mapping[str, str]) -> tuple[PromptMessage, ...]:
        return (PromptMessage(role="user", content=TextPart(ACCEPT)),)

    def prepare(made: FakeSession) -> None:
        made.prompts, made.gives = (Prompt(name="trust"),), gives

    place.prepare = prepare
    connect_to_fakes(monkeypatch, place=place)
    made = calls(("eca_trust", {"decision": "yes"}), ("trust", {}), ("eca_ask_user", {}))
    async with Provider([made], otherwise=reply(ACCEPT)) as provider:
        own = {"mcpServers": {"own": {"command": "own"}}, "hooks": hooks}
        config = provider_config(provider.url, **own)
        async with home.editor(capabilities=OLDER, config=config) as ours:
            await status(ours, "own", "running")
            listed = text(await ours.turn("/trust"))  # a folder's command cannot have this name
            assert "planted-server" in listed
            steer = {"chatId": "c", "message": ACCEPT}
            await ours.send(ours.prompt_request("go"), notification("chat/promptSteer", steer))
            await ours.expect_finished()
            assert len(provider.requests) > 1
            await ours.turn("go", model="simulator/echo")
            assert all(each.exists() for each in done.values())
            for prompt in ("/evil", "/trust-me", "/sly", "see `/trust yes`", "x\n/trust yes"):
                await ours.turn(prompt, model="simulator/echo")
            assert ACCEPT in text(await ours.turn("/own:trust", model="simulator/echo"))
            await ours.turn("/trust:yes", model="simulator/echo")
            await nothing_accepts(ours, home)


async def test_a_hook_at_the_session_s_start_runs_once_it_is_accepted(home):
    note = home.folder / "started"
    append = {"type": "shell", "shell": f"echo now >> {note}"}
    own = {"type": "sessionStart", "actions": [{"type": "shell", "shell": f"echo own >> {note}"}]}
    home.configure(hooks={"theirs": {"type": "sessionStart", "actions": [append]}})
    config = {"hooks": {"own": own}}
    async with home.editor(capabilities=OLDER, config=config) as ours:
        await ours.turn("/trust")
        await ours.turn(ACCEPT)
        await ours.turn("go", model="simulator/echo")  # the turn waits for the hook
        assert note.read_text() == "own\nnow\n"
        await ours.turn("/trust remove")
        await ours.turn("/trust")
        await ours.turn("go", model="simulator/echo")
        assert note.read_text() == "own\nnow\n"


async def test_no_subagent_accepts(home):
    home.configure(**server())
    agents = {"agent": {"scout": {"mode": "subagent", "description": "d"}}}
    async with home.editor(config=agents) as ours:
        script = f"call eca_spawn_agent {json.dumps({'agent': 'scout', 'task': ACCEPT})}"
        await ours.turn("/trust")
        await ours.prompt(script, model=SCRIPT)
        await ours.answer_question(await next_question(ours), NOT_NOW)
        approval = await ours.content("toolCallRun", name="spawn_agent")
        if approval["manualApproval"]:
            call = {"chatId": "c", "toolCallId": approval["id"]}
            await ours.tell("chat/toolCallApprove", call)
        await ours.expect_finished()
        await nothing_accepts(ours, home)


@pytest.mark.parametrize("method", ["mcp/startServer", "mcp/connectServer", "mcp/enableServer"])
async def test_starting_a_server_consents_to_that_one_alone(home, method):
    config = server()
    config["mcpServers"]["second"] = {"command": "other-server"}
    home.configure(**config, **guard())
    async with home.editor(initializationOptions={"protocolRevision": "current"}) as ours:
        await status(ours, "second", "disabled")
        await ours.tell(method, {"name": "planted"})
        assert (await status(ours, "planted", "running"))["disabled"] is False
        (trust,) = home.decisions().values()
        assert (len(trust.accepted), trust.is_trusted) == (1, False)
        assert ours.connection.config.hooks == {}
        assert statuses(ours, "second")[-1] == "disabled"
        question = (await next_question(ours, "say one"))["params"]["question"]
        assert "planted" not in question
        assert "other-server" in question


@pytest.mark.parametrize(
    ("hidden", "why"),
    [
        ({"env": {"T": "${env:GITHUB_TOKEN}"}}, "$GITHUB_TOKEN"),
        ({"env": {"NODE_OPTIONS": "evil"}}, "that were not shown to you"),
        ({"url": " "}, "that were not shown to you"),
    ],
)
async def test_a_server_that_gets_or_hides_something_needs_the_question(home, hidden, why):
    home.configure(**server(**hidden))
    async with home.editor() as ours:
        await status(ours, "planted", "disabled")
        assert why in await refused_start(ours)
        assert home.decisions() == {}
        if "$" in why:
            question = await next_question(ours, "say two")
            assert why in question["params"]["question"]
            await answer_and_finish(ours, question, TRUST)
            assert statuses(ours)[-1] == "running"


async def test_a_waiting_server_is_not_changed_and_may_be_stopped_or_removed(home):
    home.configure(**server())
    async with home.editor(initializationOptions={"protocolRevision": "current"}) as ours:
        await status(ours, "planted", "disabled")
        for method in ("mcp/stopServer", "mcp/disableServer"):
            await ours.tell(method, {"name": "planted"})
            await status(ours, "planted", "disabled")
        change = {"name": "planted", "env": {"A": "1"}}
        refusal = await refused(ours, "mcp/updateServer", change)
        assert "you have not accepted yet" in refusal["message"]
        await ours.tell("mcp/logoutServer", {"name": "planted"})
        assert "you have not accepted yet" in await until_shown(ours)
        removed = await ours.ask("mcp/removeServer", {"name": "planted"})
        assert removed["removed"] is True
        assert "planted" not in ours.connection.config.mcp_servers
    assert home.decisions() == {}


@pytest.mark.parametrize("capabilities", [CURRENT, OLDER], ids=["asks", "older"])
async def test_a_configuration_that_arrives_during_the_session_waits(home, capabilities):
    other = home.add("other")
    async with home.editor(capabilities=capabilities) as ours:
        await ours.turn("say one", model=SCRIPT)
        assert messages(ours) == []
        home.configure(**server())
        await reload(ours)
        await status(ours, "planted", "disabled")
        if capabilities is OLDER:
            await ours.turn("say two", model=SCRIPT)
            assert len(messages(ours)) == 1
            return
        await answer_and_finish(ours, await next_question(ours, "say two"), TRUST)
        home.configure(other, mcpServers={"added": {"command": "added-server"}})
        await change_folders(ours, [other])
        await status(ours, "added", "disabled")
        question = await next_question(ours, "say three")
        assert str(other) in question["params"]["question"]
        await answer_and_finish(ours, question, TRUST)
        assert statuses(ours, "added")[-1] == "running"


async def test_an_editor_that_does_not_trust_the_workspace_is_not_asked(home):
    home.configure(**server())
    async with home.editor() as ours:
        question = await next_question(ours, "say one")
        home.data.write_text("no directory")
        await answer_and_finish(ours, question, TRUST)  # a decision that cannot be stored
        shown = text(ours.contents())
        assert "your answer could not be stored, so nothing changed" in shown
        assert shown.endswith("one")
        assert statuses(ours) == ["disabled"]
    options = {"workspaceTrusted": False, "protocolRevision": "current"}
    async with home.editor(initializationOptions=options) as ours:
        await ours.turn("say one", model=SCRIPT)
        assert messages(ours) == questions(ours) == []
        assert "the editor does not trust this workspace" in text(await ours.turn("/trust"))
        assert "the editor does not trust this workspace" in text(await ours.turn("/trust yes"))
        assert "the editor says" in await refused_start(ours)
    assert home.decisions() == {}

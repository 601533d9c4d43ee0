"""Slash commands as turns, and the queries an editor asks while the user types (W-40)."""

from __future__ import annotations

import pytest

from eca_protocol.server.texts import named_command
from eca_server.agent.commands import COMMANDS
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, contents, editor, text, types

NAMES = [command.name for command in COMMANDS]


@pytest.mark.requirement("CHAT-2")
@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("/doctor", "Built-in test model: works"),
        ("/doctor and more words", "Built-in test model: works"),
        (" /costs\n", "Tokens of all requests of this chat: 0\n"),
        ("/nope", "There is no command `/nope`. Available commands: `/init`, `/login`, "),
    ],
)
async def test_a_command_is_a_turn_with_an_echo_and_one_finished(prompt, expected):
    async with editor() as ours:
        received = await ours.turn(prompt)
        assert types(received) == ["progress", "text", "finished"]
        assert received[1]["text"] == prompt
        assert expected in text(received[2:])
        roles = [role for role, content in contents(ours.seen) if content["type"] == "text"]
        assert roles == ["user", "system"]
        assert not ours.connection.chats.open("c").history
        assert text((await ours.turn("next", model=ECHO))[2:]) == "next"


@pytest.mark.requirement("CHAT-30", "CHAT-3")
async def test_a_path_is_a_prompt():
    async with editor() as ours:
        for prompt in ("/usr/bin/x is slow", "/a/", "/", "//x", "a /doctor", "1/2"):
            assert text((await ours.turn(prompt, model=ECHO))[2:]) == prompt


async def test_the_first_word_names_the_command():
    assert named_command("/doctor") == named_command("/Doctor") == "doctor"
    assert named_command("\t/costs now") == "costs"
    assert named_command("") is None
    assert named_command("  ") is None


@pytest.mark.requirement("CHAT-28", "W-40b")
@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", NAMES),
        (" ", NAMES),
        (None, NAMES),
        ("DOC", ["doctor"]),
        ("tokens", ["costs"]),
        ("nothing like it", []),
    ],
)
async def test_commands_match_by_name_or_description(query, names):
    async with editor() as ours:
        answer = await ours.ask("chat/queryCommands", {"query": query})
        named = await ours.ask("chat/queryCommands", {"query": query, "chatId": "c"})
    assert [each["name"] for each in answer["commands"]] == names
    assert "chatId" not in answer
    assert named == {**answer, "chatId": "c"}
    for command in answer["commands"]:
        assert command["type"] == "native"
        assert command["description"]
        assert all("required" in argument for argument in command["arguments"])
        assert isinstance(command["arguments"], list)
        assert all(argument["description"] for argument in command["arguments"])


@pytest.mark.requirement("CHAT-29")
async def test_queries_are_answered_while_a_turn_runs():
    async with editor() as ours:
        await ours.prompt("repeat 99999999 x", model=SCRIPT)
        given = {"query": "x", "contexts": [{"type": "repoMap"}]}
        assert await ours.ask("chat/queryContext", given) == {"contexts": []}
        named = await ours.ask("chat/queryContext", {**given, "chatId": "c"})
        assert named == {"chatId": "c", "contexts": []}
        assert (await ours.ask("chat/queryCommands", {"query": "doc"}))["commands"]
        await ours.expect_stopped()

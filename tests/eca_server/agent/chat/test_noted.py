"""Notes for the user about empty answers, changed agents and duplicate names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.eca_server.agent.chat.current import CURRENT, current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, contents, editor, text

EMPTY = "The model returned an empty answer."


def system_texts(ours: Editor, begun: int = 0, chat: str = "c") -> list[str]:
    return [
        each["text"].strip()
        for role, each in contents(ours.seen[begun:], chat)
        if role == "system" and each["type"] == "text"
    ]


@pytest.mark.parametrize(
    ("script", "notes"),
    [
        ("empty", 1),
        ("think of it", 1),
        ("say  ", 1),
        ("call eca_directory_tree {}\nempty", 1),
        ("say some", 0),
        ("draw ff0000", 0),
        ("finish content_filter", 0),
    ],
)
async def test_an_answer_without_anything_for_the_user_is_named(script, notes):
    async with editor() as ours:
        await ours.turn(script, model=SCRIPT)
        assert sum(each.startswith(EMPTY) for each in system_texts(ours)) == notes


@pytest.mark.requirement("W-22")
async def test_a_stop_is_confirmed_as_a_paragraph_of_its_own():
    async with editor() as ours:
        await ours.prompt("say some\nwait forever", model=SCRIPT)
        await ours.content("text", text="some")
        await ours.expect_stopped()
        assert text(ours.contents()[2:]) == "some\n\nStopped."


async def test_an_unknown_agent_is_named_once_in_a_chat():
    async with current() as ours:
        for prompt in ("say a", "say b"):
            await ours.turn(prompt, model=SCRIPT, agent="nope")
        [note] = system_texts(ours)
        assert note.startswith(
            "The agent `nope` does not exist, or cannot be selected: `agent` answers instead."
        )
        assert "`plan`" in note
        begun = len(ours.seen)
        for agent in ("code", "agent", "plan"):
            await ours.turn("say c", model=SCRIPT, agent=agent)
        assert system_texts(ours, begun) == []
        await ours.tell("chat/selectedAgentChanged", {"chatId": "d", "agent": "gone"})
        await ours.turn("say d", "d", model=SCRIPT)
        assert ["`gone`" in each for each in system_texts(ours, begun, "d")] == [True]


async def test_commands_name_the_chats_own_model_and_say_why_their_numbers_differ():
    async with editor() as ours:
        assert f"Selected model: {SCRIPT}\n" in text(await ours.turn("/doctor", model=SCRIPT))
        assert f"Selected model: {ECHO}\n" in text(await ours.turn("/doctor", model=ECHO))
        assert "`/context` shows the size of the next request" in text(await ours.turn("/costs"))
        assert "`/costs` shows the sum of all requests" in text(await ours.turn("/context"))


@pytest.mark.requirement("W-35")
@pytest.mark.parametrize(
    ("client", "capabilities", "summaries"),
    [
        ("emacs", CURRENT, ("Editing file", "Creating file")),
        ("emacs", {"codeAssistant": {"chat": True}}, ("Editing file", "Creating file")),
        ("other", CURRENT, ("Editing file file", "Creating file b (c).txt")),
    ],
)
async def test_a_client_that_names_the_changed_file_is_not_sent_its_name_twice(
    tmp_path, client, capabilities, summaries
):
    (tmp_path / "file").write_text("old")
    edit = {"path": "file", "original_content": "old", "new_content": "new"}
    write = {"path": "b (c).txt", "content": "x"}
    script = f"call eca_edit_file {json.dumps(edit)}\ncall eca_write_file {json.dumps(write)}"
    about = {"capabilities": capabilities, "clientInfo": {"name": client}}
    async with current(folder=tmp_path, **about) as ours:
        await ours.turn(script, model=SCRIPT, trust=True)
        for kind in ("toolCallRun", "toolCallRunning", "toolCalled"):
            shown = [each["summary"] for each in ours.contents() if each["type"] == kind]
            assert tuple(shown) == summaries
        [result, _] = [each["outputs"] for each in ours.contents() if each["type"] == "toolCalled"]
        assert result[0]["text"].endswith("/file: 1 line added, 1 removed.")


@pytest.mark.requirement("W-41")
@pytest.mark.parametrize("lines", ["", ":L1-L2"])
async def test_a_mention_with_blanks_is_its_context_as_emacs_writes_it(tmp_path, lines):
    folder, outside = tmp_path / "my work", tmp_path / "my shot.png"
    folder.mkdir()
    path = folder / "a file (1).txt"
    path.write_text("hello\nyou\n")
    outside.write_bytes(b"\x89PNG\r\n\x1a\n")
    message = f"see @{path}{lines} and @{outside}, @{folder} too"
    contexts: list[dict[str, Any]] = [
        {"type": "file", "path": str(path)},
        {"type": "file", "path": str(outside)},
        {"type": "directory", "path": str(folder)},
    ]
    if lines:
        contexts[0]["linesRange"] = {"start": 1, "end": 2}
    async with current(folder=folder, clientInfo={"name": "emacs"}) as ours:
        await ours.turn(message, model=ECHO, contexts=contexts)
        assert [each for each in system_texts(ours) if "was not read" in each] == []

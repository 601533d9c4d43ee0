"""The server's own texts: notes about empty answers and agents, names, paragraphs (W-26)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eca_protocol.messages import ChatProgressContent, ChatTextContent
from eca_protocol.server.texts import Paragraphs, Role
from tests.eca_server.agent.chat.current import CURRENT, current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, contents, editor, text

EMPTY = "The model returned an empty answer."


def system_texts(ours: Editor, chat: str = "c") -> list[str]:
    return [
        each["text"].strip()
        for role, each in contents(ours.seen, chat)
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


async def test_an_unknown_agent_is_named_once_in_a_chat():
    async with current() as ours:
        for agent in ("nope", "nope", "code", "agent", "plan"):
            await ours.turn("say a", model=SCRIPT, agent=agent)
        [note] = system_texts(ours)
        assert note.startswith(
            "The agent `nope` does not exist, or cannot be selected: `agent` answers instead."
        )
        assert "`plan`" in note
        await ours.tell("chat/selectedAgentChanged", {"chatId": "d", "agent": "gone"})
        await ours.turn("say d", "d", model=SCRIPT)
        assert ["`gone`" in each for each in system_texts(ours, "d")] == [True]


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
        ("emacs", CURRENT, ["Editing file", "Creating file"]),
        ("emacs", {"codeAssistant": {"chat": True}}, ["Editing file", "Creating file"]),
        ("other", CURRENT, ["Editing file file", "Creating file b (c).txt"]),
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
            assert [each["summary"] for each in ours.contents(kind=kind)] == summaries
        [result, _] = ours.contents(kind="toolCalled")
        assert result["outputs"][0]["text"].endswith("/file: 1 line added, 1 removed.")


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


SYSTEM: Role = "system"
MODEL: Role = "assistant"
USER: Role = "user"


@pytest.mark.requirement("W-26d")
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([(SYSTEM, "one")], "one"),
        ([(MODEL, "one"), (MODEL, "two")], "onetwo"),
        ([(MODEL, "one"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(MODEL, "one\n"), (SYSTEM, "two\n")], "one\n\ntwo"),
        ([(MODEL, "one\n\n"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "two\n\n"), (SYSTEM, "three")], "one\n\ntwo\n\nthree"),
        ([(SYSTEM, "one"), (MODEL, "two"), (MODEL, " three")], "one\n\ntwo three"),
        ([(SYSTEM, "one"), (MODEL, ""), (MODEL, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (MODEL, "\ntwo")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "\n"), (MODEL, "two")], "one\n\ntwo"),
        ([(MODEL, "one"), (USER, "steer"), (SYSTEM, "two")], "onesteertwo"),
    ],
)
def test_a_blank_line_parts_what_clients_append(texts, expected):
    paragraphs = Paragraphs()
    written = []
    for role, words in texts:
        content = paragraphs.spaced(role, ChatTextContent(text=words))
        if isinstance(content, ChatTextContent):
            written.append(content.text)
        progress = ChatProgressContent(state="running", text="Working")
        assert paragraphs.spaced(SYSTEM, progress) is progress
    assert "".join(written) == expected

"""Cases of the draft of June 2025: its messages, and a turn with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import all_text, calls, conversation, result_of
from eca_protocol.testing.script import Reply, finish, hang, reply, usage

DRAFT: Final = Revision.DRAFT
FENCED: Final = "Like so:\n```py\nx = 1\n```"


def text_of(chat: ChatSession) -> str:
    """Return all text contents, joined."""
    return "".join(str(each.get("text", "")) for each in chat.of("text"))


def closing_texts(chat: ChatSession) -> list[Mapping[str, Any]]:
    """Return the params of each text that closes a turn."""
    return [params for params in chat.contents if params.get("isComplete") is True]


@case(
    "W-50a", "W-50b", "W-50c", "W-50d", "W-51b", needs="model", since=DRAFT, until=DRAFT,
    initialize={"initializationOptions": ["of any type"]},
)  # fmt: skip
async def a_turn_is_deltas_and_a_closing_text(session: ClientSession) -> None:
    """Send a list as options, then prompt for an answer with fenced code."""
    session.record_pass("W-50a", "W-51b")
    chat = session.chat(reply("Like so:\n```py\nx", " = 1\n```", finish("stop"), usage(100, 20)))
    answer = result_of(await chat.prompt("How?"))
    is_right = (answer.get("chatId"), answer.get("status")) == (chat.id, "success")
    is_right = is_right and isinstance(answer.get("resultMessage"), str)
    session.check("W-50b", is_right, "the chatId, the status success, and a resultMessage", answer)
    await chat.finished()
    flags = [params.get("isComplete") for params in chat.contents]
    is_right = text_of(chat) == FENCED and flags == [False] * (len(flags) - 1) + [True]
    expected = f"deltas that join to {FENCED!r}, and one text with isComplete"
    session.check("W-50c", is_right, expected, chat.contents)
    blocks = [block for each in chat.of("text") for block in each.get("codeBlocks") or ()]
    code_blocks = [(each.get("language"), each.get("code")) for each in blocks]
    expected = "one code block of the language py with `x = 1`"
    session.check("W-50d", code_blocks == [("py", "x = 1")], expected, blocks)


@case("W-50c", "W-50e", since=DRAFT, until=DRAFT)
async def only_a_turn_that_cannot_start_is_a_connection_error(session: ClientSession) -> None:
    """Prompt a failing provider and an unknown model, then stop a turn."""
    refused = session.chat(Reply(status=401, body={"error": {"message": "bad key"}}))
    missing, halted = session.chat(), session.chat(reply("some", hang()))
    statuses = [
        result_of(await refused.prompt("Hi.")).get("status"),
        result_of(await missing.prompt("Hi.", model="no-such/model")).get("status"),
    ]
    expected = "success for a refused request, connection-error for an unknown model"
    session.check("W-50e", statuses == ["success", "connection-error"], expected, statuses)
    await halted.prompt("Hi.")
    await halted.content("text", text="some")
    await halted.stop()
    for what, chat in (("refused", refused), ("missing", missing), ("stopped", halted)):
        ended = await chat.finishes()
        expected = f"exactly one text with isComplete for the turn that was {what}"
        session.check("W-50c", ended and len(closing_texts(chat)) == 1, expected, chat.contents)


@case("W-51a", needs="model", since=DRAFT, until=DRAFT)
async def the_contexts_of_the_draft_are_read(session: ClientSession) -> None:
    """Prompt with a selection, a piece of code, and a terminal."""
    path = session.file("old.txt", "line alpha\nline beta\nline gamma\n")
    contexts = [
        {
            "type": "file",
            "path": str(path),
            "selection": {"startLine": 2, "endLine": 3},
            "cursor": {"line": 3, "character": 1},
        },
        {"type": "code", "content": "SELECT 4711", "language": "sql", "description": "a query"},
        {"type": "terminal", "lines": []},
    ]
    chat = await session.take_turn("Look.", reply("I see."), context=contexts)
    text = all_text(chat.model.first.body)
    is_right = "line beta" in text and "SELECT 4711" in text and "terminal" in text_of(chat) + text
    expected = "the selection and the code in the request, and a note about the terminal"
    got = f"{conversation(chat.model.first.body)}, {text_of(chat)}"
    session.check("W-51a", is_right, expected, got)


@case("W-51c", since=DRAFT, until=DRAFT, needs="config")
async def the_models_of_the_draft_mean_the_default(session: ClientSession) -> None:
    """Prompt with the model `auto`, and with one that is not configured."""
    models = []
    for model in ("auto", "claude-2"):
        chat = await session.take_turn("Hi.", reply("Hi."), model=model)
        models += [request.body.get("model") for request in chat.model.requests]
    expected = "the default model for `auto` and for an unknown model"
    session.check("W-51c", models == ["scripted"] * 2, expected, models)


@case("W-52", needs="model", since=DRAFT, until=DRAFT)
async def a_change_waits_for_octobers_answer(session: ClientSession) -> None:
    """Approve the write of one file, and reject another."""
    for decision, is_made in (("Approve", True), ("Reject", False)):
        path = session.workspace / f"{decision}.txt"
        write = calls(("write_file", {"path": str(path), "content": "one\n"}))
        chat = session.chat(write, reply("Well."))
        await chat.prompt("Write.")
        await chat.content("fileChange", shows="W-52", manualApproval=True)
        early = path.exists()
        named = {"chatId": chat.id, "toolCallId": "the only one"}
        await session.notify(f"chat/toolCall{decision}", named)
        ended = await chat.finishes()
        expected = f"{'a' if is_made else 'no'} written file after chat/toolCall{decision}"
        got = f"the file exists before the decision: {early}, after: {path.exists()}"
        session.check("W-52", ended and not early and path.exists() is is_made, expected, got)

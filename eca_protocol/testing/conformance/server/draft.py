"""Cases of the draft of June 2025: its few messages, and how a turn goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.server.reading import (
    calls,
    conversation,
    finishes,
    result_of,
    words,
)
from eca_protocol.testing.script import Reply, finish, hang, reply, usage

DRAFT: Final = Revision.DRAFT
FENCED: Final = "Like so:\n```py\nx = 1\n```"


def text_of(chat: ChatSeat) -> str:
    """All text that came."""
    return "".join(str(each.get("text", "")) for each in chat.of("text"))


def closings(chat: ChatSeat) -> list[Mapping[str, Any]]:
    """The params of each text that closes a turn."""
    return [params for params in chat.contents if params.get("isComplete") is True]


@case("W-50a", "W-50b", "W-50c", "W-50d", "W-51b", since=DRAFT, until=DRAFT)
async def a_turn_is_deltas_and_a_closing_text(bench: Bench) -> None:
    """Options that are a list, then a prompt that is answered with code in fences."""
    options = {"initializationOptions": ["of any type"]}
    async with bench.seat(initialize=options) as seat:
        bench.saw("W-50a", "W-51b")
        chat = seat.chat(reply("Like so:\n```py\nx", " = 1\n```", finish("stop"), usage(100, 20)))
        answer = result_of(await chat.prompt("How?"))
        bench.check(
            "W-50b",
            (answer.get("chatId"), answer.get("status")) == (chat.id, "success")
            and isinstance(answer.get("resultMessage"), str),
            expected="the chat, success, and a message",
            got=answer,
        )
        await chat.finished()
        flags = [params.get("isComplete") for params in chat.contents]
        bench.check(
            "W-50c",
            text_of(chat) == FENCED and flags == [False] * (len(flags) - 1) + [True],
            expected=f"deltas of {FENCED!r}, and one text that closes the turn",
            got=chat.contents,
        )
        blocks = [block for each in chat.of("text") for block in each.get("codeBlocks") or ()]
        found = [(each.get("language"), each.get("code")) for each in blocks]
        bench.check("W-50d", found == [("py", "x = 1")], expected="one block of py", got=blocks)


@case("W-50c", "W-50e", since=DRAFT, until=DRAFT)
async def only_a_turn_that_cannot_start_is_a_connection_error(bench: Bench) -> None:
    """A provider that refuses, a model that there is not, and a turn that is stopped."""
    async with bench.seat() as seat:
        refused = seat.chat(Reply(status=401, body={"error": {"message": "bad key"}}))
        missing, halted = seat.chat(), seat.chat(reply("some", hang()))
        statuses = [
            result_of(await refused.prompt("Hi.")).get("status"),
            result_of(await missing.prompt("Hi.", model="no-such/model")).get("status"),
        ]
        bench.check(
            "W-50e",
            statuses == ["success", "connection-error"],
            expected="success, then connection-error",
            got=statuses,
        )
        await halted.prompt("Hi.")
        await halted.content("text", text="some")
        await halted.stop()
        for what, chat in (("refused", refused), ("missing", missing), ("stopped", halted)):
            ended = await finishes(chat)
            bench.check(
                "W-50c",
                ended and len(closings(chat)) == 1,
                expected=f"one text that closes the turn that was {what}",
                got=chat.contents,
            )


@case("W-51a", since=DRAFT, until=DRAFT)
async def the_contexts_of_the_draft_are_read(bench: Bench) -> None:
    """A file's selection, a piece of code, and a terminal, which the draft does not define."""
    async with bench.seat() as seat:
        path = seat.workspace / "old.txt"
        path.write_text("line alpha\nline beta\nline gamma\n")
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
        chat = seat.chat(reply("I see."))
        await chat.prompt("Look.", context=contexts)
        await chat.finished()
        told = words(chat.model.first.body)
        bench.check(
            "W-51a",
            "line beta" in told and "SELECT 4711" in told and "terminal" in text_of(chat) + told,
            expected="the selection, the code, and a note of the terminal",
            got=f"{conversation(chat.model.first.body)}, {text_of(chat)}",
        )


@case("W-51c", since=DRAFT, until=DRAFT, needs="config")
async def the_models_of_the_draft_mean_the_default(bench: Bench) -> None:
    """`auto`, and the name of a model that is not configured."""
    async with bench.seat() as seat:
        asked = []
        for model in ("auto", "claude-2"):
            chat = seat.chat(reply("Hi."))
            await chat.prompt("Hi.", model=model)
            await chat.finished()
            asked += [request.body.get("model") for request in chat.model.requests]
        bench.check("W-51c", asked == ["scripted"] * 2, expected="the default model", got=asked)


@case("W-52", since=DRAFT, until=DRAFT)
async def a_change_waits_for_octobers_answer(bench: Bench) -> None:
    """A file is to be written; the user says yes, then of another one no."""
    async with bench.seat() as seat:
        for decision, is_made in (("Approve", True), ("Reject", False)):
            path = seat.workspace / f"{decision}.txt"
            write = calls(("write_file", {"path": str(path), "content": "one\n"}))
            chat = seat.chat(write, reply("Well."))
            await chat.prompt("Write.")
            await chat.content("fileChange", shows="W-52", manualApproval=True)
            early = path.exists()
            named = {"chatId": chat.id, "toolCallId": "the only one"}
            await seat.tell(f"chat/toolCall{decision}", named)
            ended = await finishes(chat)
            bench.check(
                "W-52",
                ended and not early and path.exists() is is_made,
                expected=f"a change that is {'made' if is_made else 'not made'} on that word",
                got=f"there before: {early}, after: {path.exists()}",
            )

"""Cases of what the editor is asked: its diagnostics, by a tool that the model calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.testing.conformance.bench import Bench, ChatSeat, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.personalities import COUNTS_FROM_ZERO, PLAIN
from eca_protocol.testing.conformance.server.reading import calls, id_of, told_of_calls
from eca_protocol.testing.conformance.wire import Heard
from eca_protocol.testing.script import reply

ASKS: Final = "editor/getDiagnostics"
TOOL: Final = "editor_diagnostics"
CAN: Final[Mapping[str, Any]] = {
    "clientInfo": PLAIN.client,
    "capabilities": {"codeAssistant": {"editor": {"diagnostics": True}}},
}
"""A client that has diagnostics, and of which nobody knows that it counts from 0."""

LINE: Final = 4217


def _found(path: str, line: int = LINE, **members: Any) -> dict[str, Any]:
    """What an editor answers that found one fault."""
    place = {"line": line, "character": 31}
    fault = {
        "uri": f"file://{path}",
        "severity": "error",
        "code": "E1",
        "range": {"start": place, "end": place},
        "source": "lint",
        "message": f"a fault of {path}",
        **members,
    }
    return {"diagnostics": [fault]}


async def _calling(seat: Seat, **arguments: Any) -> ChatSeat:
    """A chat whose model looks at diagnostics.

    Raises:
        NotApplicable: the server has no tool for that.
    """
    seat.tool("editor diagnostics")
    seat.replies[ASKS] = None
    chat = seat.chat(calls((TOOL, arguments)), reply("Seen."))
    await chat.prompt("Look.")
    run = await chat.content("toolCallRun", expected="the call of the tool")
    if run.content.get("manualApproval"):
        await chat.approve(id_of(run.content))
    return chat


async def _question(seat: Seat, after: Heard | None = None, *, shows: str | None = None) -> Heard:
    """The next question to the editor, behind another one."""
    return await seat.until(
        lambda message: message.get("method") == ASKS,
        after=after,
        shows=shows,
        expected=f"a request {ASKS}",
    )


async def _answered(seat: Seat, question: Heard, result: Any) -> None:
    answer = {"jsonrpc": "2.0", "id": question.message.get("id"), "result": result}
    await seat.send(answer)


async def _told(chat: ChatSeat, *, shows: str | None = None) -> str:
    """What the model is told of the call, once the turn has ended."""
    await chat.finished(shows=shows)
    return "\n".join(told_of_calls(chat.model.requests[-1].body))


@case("EDIT-1", "EDIT-2", "W-42b", "W-42c", "W-42e")
async def the_editor_is_asked_for_diagnostics(bench: Bench) -> None:
    """The model asks of a file, of all, and gets faults of every kind and an answer of no sense."""
    async with bench.seat(fresh=True, initialize=CAN) as seat:
        path = seat.workspace / "faulty.py"
        path.write_text("oops\n")
        chat = await _calling(seat, path=str(path))
        question = await _question(seat, shows="EDIT-1")
        got = question.params.get("uri")
        named = isinstance(got, str) and got.endswith(f"/{path.name}")
        bench.check("EDIT-1", named, expected=path.as_uri(), got=question.params)
        await _answered(seat, question, _found(str(path)))
        told = await _told(chat)
        bench.check(
            "W-42c",
            str(LINE) in told and str(LINE + 1) not in told,
            expected=f"line {LINE}, which counts from 1, in what the model sees",
            got=told,
        )
        chat = await _calling(seat)
        question = await _question(seat, question, shows="EDIT-2")
        bench.check(
            "EDIT-2",
            question.params.get("uri") is None,
            expected="no uri, for all workspaces",
            got=question.params,
        )
        for members in (
            {"severity": "unknown", "code": None, "source": None},
            {"severity": "information", "code": 7},
        ):
            await _answered(seat, question, _found(str(path), **members))
            told = await _told(chat)
            bench.check(
                "W-42b",
                f"a fault of {path}" in told,
                expected=f"a fault with {members} is read",
                got=told,
            )
            chat = await _calling(seat)
            question = await _question(seat, question)
        await _answered(seat, question, {"diagnostics": "junk"})
        told = await _told(chat, shows="W-42e")
        bench.check(
            "W-42e",
            bool(chat.of("toolCalled")) and bool(told),
            expected="a call that ends without diagnostics, and the turn goes on",
            got=told,
        )


@case("BASE-29")
async def answers_come_in_another_order(bench: Bench) -> None:
    """Two chats look at diagnostics; the second question is answered first."""
    async with bench.seat(fresh=True, initialize=CAN) as seat:
        paths = [seat.workspace / name for name in ("one.py", "two.py")]
        for path in paths:
            path.write_text("oops\n")
        first = await _calling(seat, path=str(paths[0]))
        asked = [await _question(seat)]
        second = await _calling(seat, path=str(paths[1]))
        asked.append(await _question(seat, asked[0]))
        for question, path in ((asked[1], paths[1]), (asked[0], paths[0])):
            await _answered(seat, question, _found(path.name))
        told = [await _told(first), await _told(second)]
    if not all("a fault of" in text for text in told):
        raise Stuck("a fault told to each chat's model", told)
    bench.check(
        "BASE-29",
        all(
            f"a fault of {mine.name}" in text and other.name not in text
            for text, mine, other in zip(told, paths, reversed(paths), strict=True)
        ),
        expected="each question gets the answer that has its id",
        got=told,
    )


@case("W-42a")
async def some_editors_count_from_zero(bench: Bench) -> None:
    """An editor that is known to count lines from 0 finds a fault."""
    known = {**CAN, "clientInfo": COUNTS_FROM_ZERO}
    async with bench.seat(fresh=True, initialize=known) as seat:
        path = seat.workspace / "faulty.py"
        path.write_text("oops\n")
        chat = await _calling(seat, path=str(path))
        await _answered(seat, await _question(seat), _found(str(path), LINE - 1))
        told = await _told(chat)
    bench.check(
        "W-42a", str(LINE) in told, expected=f"line {LINE} in what the model sees", got=told
    )


@case("W-42d")
async def the_editor_is_not_asked_what_it_cannot(bench: Bench) -> None:
    """The model looks at diagnostics, and the client has not said that it has any."""
    cannot = {"capabilities": {"codeAssistant": {"editor": {"diagnostics": False}}}}
    async with bench.seat(fresh=True, initialize=cannot) as seat:
        chat = seat.chat(calls((TOOL, {})), reply("Seen."))
        await chat.prompt("Look.")
        run = await chat.content("toolCallRun", expected="the call of the tool")
        if run.content.get("manualApproval"):
            await chat.approve(id_of(run.content))
        await chat.finished()
        asked = [heard.message for heard in seat.heard if heard.method == ASKS]
    bench.check("W-42d", not asked, expected=f"no request {ASKS}", got=asked)

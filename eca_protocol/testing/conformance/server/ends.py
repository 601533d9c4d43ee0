"""Cases of the ends: what is done before the process goes, with which code, and how soon."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import Any, Final

import anyio

from eca_protocol.process import spawn
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.server.asking import QUERY, bytes_of, query
from eca_protocol.testing.script import reply, wait

__all__ = ["busy", "exit_code"]

PROMPT: Final = 3.0
"""Seconds in which every end is reached (W-13)."""

_PATIENCE: Final = 4.0  # more seconds, for one that comes too late
_NEVER_ALIVE: Final = 2**22 + 1  # a number that Linux gives no process


async def exit_code(bench: Bench, seat: Seat, *, never: str | None = None) -> int | None:
    """The code of an end that is due, once all that the server wrote has been read.

    Judges W-13k, which says how soon it is due.

    Args:
        bench: where to judge.
        seat: whose server.
        never: the row that is broken if it runs on.

    Returns:
        The code as a shell shows it: 143 for what SIGTERM ended. None if it runs on.
    """
    began = seat.wire.now
    code = await seat.exit_code(PROMPT + _PATIENCE)
    took = seat.wire.now - began
    if code is None:
        if never is not None:
            late = f"it runs on after {PROMPT + _PATIENCE:g} s"
            bench.check(never, False, expected="the end of the process", got=late)
        return None
    within = f"its end within {PROMPT:g} s"
    bench.check("W-13k", took <= PROMPT, expected=within, got=f"its end after {took:.1f} s")
    with anyio.move_on_after(1.0):
        while not seat.wire.output_ended:
            await seat.wire.changed.wait()
    return 128 - code if code < 0 else code


async def busy(seat: Seat) -> ChatSeat:
    """A chat whose model has said something and will never end.

    Raises:
        Stuck: the turn does not come so far.
    """
    chat = seat.chat(reply("Hel", wait("for ever")))
    await chat.prompt("Go on.")
    await chat.content("text", text="Hel", expected="the first words of the model")
    return chat


@case("LIFE-18", "LIFE-22", "LIFE-24", "W-13d", "W-13k", since=Revision.DRAFT)
async def shutdown_and_exit(bench: Bench) -> None:
    """`shutdown`, another request, `exit`."""
    async with bench.seat(fresh=True) as seat:
        answer = await _answer_to_shutdown(bench, seat)
        bench.check(
            "LIFE-18",
            answer.get("result", "no result") is None,
            expected="the result null",
            got=answer,
        )
        await _is_refused(bench, seat)
        await seat.tell("exit")
        code = await exit_code(bench, seat, never="LIFE-24")
    if code is not None:
        bench.check("LIFE-24", True, expected="the end of the process", got="it")
        bench.check("W-13d", code == 0, expected="the exit code 0", got=code)


@case("W-13a", since=Revision.DRAFT)
async def shutdown_while_a_turn_runs(bench: Bench) -> None:
    """A turn runs: `shutdown`."""
    async with bench.seat(fresh=True) as seat:
        chat = await busy(seat)
        asked = await seat.request("shutdown")
        began = seat.wire.now
        try:
            await seat.answer(asked, seconds=6)
            said = f"the answer after {seat.wire.now - began:.1f} s"
        except Stuck:
            said = "no answer"
        on_time = said != "no answer" and seat.wire.now - began <= 2
        finished = _is_finished(chat)
    bench.check(
        "W-13a",
        on_time and finished,
        expected="the end of the turn, then the answer, within 2 s",
        got=f"{said}, the turn {'ended' if finished else 'not ended'}",
    )


async def _answer_to_shutdown(bench: Bench, seat: Seat) -> Mapping[str, Any]:
    try:
        return await seat.ask("shutdown", seconds=6)
    except Stuck as stuck:
        bench.check("LIFE-18", False, expected=stuck.expected, got=stuck.got)
        raise


def _is_finished(chat: ChatSeat) -> bool:
    last = chat.heard[-1]
    return last.content.get("state") == "finished" or last.params.get("isComplete") is True


async def _is_refused(bench: Bench, seat: Seat) -> None:
    """After `shutdown` a request gets an error."""
    try:
        got: object = await seat.ask(QUERY, {"query": "late"}, seconds=2)
        refused = isinstance(got, Mapping) and "error" in got
    except Stuck as stuck:
        got, refused = stuck.got, False
    bench.check("LIFE-22", refused, expected="an error for a request after `shutdown`", got=got)


@case("W-13e", "W-13k", "W-14c", since=Revision.DRAFT)
async def input_ends_while_a_turn_runs(bench: Bench) -> None:
    """A turn runs: the server sees the end of its input."""
    async with bench.seat(fresh=True) as seat:
        await busy(seat)
        await seat.close_input()
        code = await exit_code(bench, seat, never="W-14c")
    if code is not None:
        bench.check("W-14c", True, expected="the end of the process", got="it")
        bench.check("W-13e", code == 0, expected="the exit code 0", got=code)


@case("W-13f", "W-13k", since=Revision.DRAFT)
async def exit_comes_without_shutdown(bench: Bench) -> None:
    """A turn runs: `exit` and nothing before it."""
    async with bench.seat(fresh=True) as seat:
        await busy(seat)
        await seat.tell("exit")
        code = await exit_code(bench, seat, never="W-13k")
    if code is not None:
        bench.check("W-13f", code == 1, expected="the exit code 1", got=code)


@case("W-3a", since=Revision.DRAFT)
async def exit_has_empty_params(bench: Bench) -> None:
    """`shutdown` with null, then `exit` with an empty array, as some clients send them."""
    async with bench.seat(fresh=True) as seat:
        await seat.ask("shutdown", None)
        await seat.tell("exit", [])
        ends = await seat.exit_code(PROMPT) is not None
        if not ends:
            await seat.tell("exit")
            if await seat.exit_code(PROMPT) is None:
                raise Stuck("the end behind `exit` without params", "a server that runs on")
    got = "it" if ends else "an end behind `exit` without params"
    bench.check("W-3a", ends, expected="the end of the process", got=got)


@case("CLIENT-25", "W-13k", since=Revision.DRAFT, needs="process")
async def exit_is_followed_by_a_signal(bench: Bench) -> None:
    """`shutdown` and `exit`, and SIGTERM in the same instant."""
    async with bench.seat(fresh=True) as seat:
        await seat.ask("shutdown")
        await seat.tell("exit")
        seat.process.signal(signal.SIGTERM)
        code = await exit_code(bench, seat, never="CLIENT-25")
    if code is not None:
        bench.check("CLIENT-25", True, expected="the end of the process", got="it")


@case("W-13j", "W-13k", since=Revision.DRAFT)
async def input_ends_inside_a_body(bench: Bench) -> None:
    """Half a frame, then the end of the input."""
    async with bench.seat(fresh=True) as seat:
        await seat.write(b"Content-Length: 500\r\n\r\n" + bytes_of(query("half"))[:20])
        await seat.close_input()
        code = await exit_code(bench, seat, never="W-14c")
    if code is not None:
        bench.check("W-13j", code == 1, expected="the exit code 1", got=code)


@case("W-13g", "W-13k", since=Revision.DRAFT, needs="process")
async def nobody_reads_the_output_any_more(bench: Bench) -> None:
    """The reading end of its output is closed, then it is asked something."""
    async with bench.seat(fresh=True) as seat:
        seat.wire.close_output()
        for number in range(3):
            try:
                await seat.send(query(f"unread {number}"))
            except Stuck:
                break
        code = await exit_code(bench, seat, never="W-13g")
    if code is not None:
        bench.check("W-13g", code == 1, expected="the exit code 1", got=code)


@case("W-13h", "W-13k", since=Revision.DRAFT, needs="process")
async def signals_end_it(bench: Bench) -> None:
    """SIGTERM and SIGINT while a turn runs, and after `shutdown` was answered."""
    for number, shut_down, wanted in (
        (signal.SIGTERM, False, 143),
        (signal.SIGINT, False, 130),
        (signal.SIGTERM, True, 0),
        (signal.SIGINT, True, 0),
    ):
        async with bench.seat(fresh=True) as seat:
            if shut_down:
                await seat.ask("shutdown")
            else:
                await busy(seat)
            seat.process.signal(number)
            code = await exit_code(bench, seat, never="W-13h")
        if code is not None:
            when = "after `shutdown`" if shut_down else "while a turn runs"
            bench.check(
                "W-13h",
                code == wanted,
                expected=f"the exit code {wanted} for {number.name} {when}",
                got=code,
            )


@case("W-14a", since=Revision.DRAFT)
async def its_parent_ends(bench: Bench) -> None:
    """The process that `processId` names ends, and the input stays open."""
    parent = spawn([sys.executable, "-Ic", "import sys; sys.stdin.read()"])
    try:
        async with bench.seat(fresh=True, initialize={"processId": parent.pid}) as seat:
            await seat.settle()
            await parent.end()
            code = await seat.exit_code(5.5)
            bench.check(
                "W-14a",
                code is not None,
                expected="the end of the process within 5 s",
                got="it runs on" if code is None else f"its end with the code {code}",
            )
    finally:
        with anyio.CancelScope(shield=True):
            await parent.end()


@case("W-14b", since=Revision.DRAFT)
async def its_parent_was_never_seen(bench: Bench) -> None:
    """`processId` names a process that there never was, as in a container."""
    async with bench.seat(hello=False) as seat:
        params = {**bench.initialize_params(seat.root), "processId": _NEVER_ALIVE}
        await seat.ask("initialize", params, seconds=30)
        code = await seat.exit_code(2.5)
        bench.check(
            "W-14b",
            code is None,
            expected="a server that serves on",
            got="one that does" if code is None else f"its end with the code {code}",
        )

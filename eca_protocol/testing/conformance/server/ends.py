"""Cases of the end of a server: its work, its exit code, and its time."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Mapping
from typing import Final

import anyio

from eca_protocol.process import spawn
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.asking import QUERY, bytes_of, query
from eca_protocol.testing.conformance.verdicts import ServerExited, Unmet
from eca_protocol.testing.script import reply, wait

END_SECONDS: Final = 3.0  # seconds within which a server has to end (W-13)
_EXTRA_SECONDS: Final = 4.0  # more seconds, to measure a late end
_UNUSED_PID: Final = 2**22 + 1  # above the largest process id of Linux


async def exit_code(session: ClientSession) -> int | None:
    """Wait for the exit of a server; return the exit code once its output was read.

    Judges W-13k, which says how soon it is due.

    Returns:
        The code as a shell shows it: 143 after SIGTERM. None if the server keeps running.
    """
    began = session.wire.recorder.now
    code = await session.exit_code(END_SECONDS + _EXTRA_SECONDS)
    took = session.wire.recorder.now - began
    if code is None:
        return None
    within = f"the end of the process within {END_SECONDS:g} s"
    session.check(
        "W-13k", took <= END_SECONDS, within, f"the end of the process after {took:.1f} s"
    )
    with anyio.move_on_after(1.0):
        while not session.process.output_ended:
            await session.process.changed.wait()
    return 128 - code if code < 0 else code


async def check_exit(
    session: ClientSession, *, ends: str, codes: Mapping[str, int], when: str = ""
) -> None:
    """Judge the exit of a server: the row `ends` by its end, and each other row by its code."""
    code = await exit_code(session)
    late = f"a running process after {END_SECONDS + _EXTRA_SECONDS:g} s"
    got = late if code is None else "the end of the process"
    session.check(ends, code is not None, "the end of the process", got)
    for row, expected in codes.items() if code is not None else ():
        session.check(row, code == expected, f"the exit code {expected}{when}", code)


async def busy(session: ClientSession) -> ChatSession:
    """Start a turn whose model has begun to answer and never ends."""
    chat = session.chat(reply("Hel", wait("for ever")))
    await chat.prompt("Continue.")
    await chat.content("text", text="Hel", expected="the first text of the model")
    return chat


@case("LIFE-18", "LIFE-22", "LIFE-24", "W-13d", "W-13k", since=Revision.DRAFT, fresh=True)
async def shutdown_and_exit(session: ClientSession) -> None:
    """Send `shutdown`, another request, and `exit`."""
    answer = await session.ask("shutdown", seconds=6, shows="LIFE-18")
    session.check("LIFE-18", answer.get("result", "no result") is None, "the result null", answer)
    await _check_refusal(session)
    await session.notify("exit")
    await check_exit(session, ends="LIFE-24", codes={"W-13d": 0})


@case("W-13a", needs="model", since=Revision.DRAFT, fresh=True)
async def shutdown_while_a_turn_runs(session: ClientSession) -> None:
    """Send `shutdown` during a turn."""
    chat = await busy(session)
    request = await session.request("shutdown")
    began = session.wire.recorder.now
    try:
        await session.answer(request, seconds=6)
        answered = f"the answer after {session.wire.recorder.now - began:.1f} s"
    except Unmet:
        answered = "no answer"
    on_time = answered != "no answer" and session.wire.recorder.now - began <= 2
    finished = _is_finished(chat)
    expected = "the end of the turn, then the answer to `shutdown`, within 2 s"
    got = f"{answered}; the turn {'ended' if finished else 'did not end'}"
    session.check("W-13a", on_time and finished, expected, got)


def _is_finished(chat: ChatSession) -> bool:
    last = chat.messages[-1]
    return last.content.get("state") == "finished" or last.params.get("isComplete") is True


async def _check_refusal(session: ClientSession) -> None:
    try:
        got: object = await session.ask(QUERY, {"query": "late"}, seconds=2)
        refused = isinstance(got, Mapping) and "error" in got
    except Unmet as stuck:
        got, refused = stuck.got, False
    session.check("LIFE-22", refused, "an error for a request after `shutdown`", got)


@case("W-13e", "W-13k", "W-14c", needs="model", since=Revision.DRAFT, fresh=True)
async def input_ends_while_a_turn_runs(session: ClientSession) -> None:
    """Close the server's input during a turn."""
    await busy(session)
    await session.close_input()
    await check_exit(session, ends="W-14c", codes={"W-13e": 0})


@case("W-13f", "W-13k", needs="model", since=Revision.DRAFT, fresh=True)
async def exit_comes_without_shutdown(session: ClientSession) -> None:
    """Send `exit` without `shutdown` during a turn."""
    await busy(session)
    await session.notify("exit")
    await check_exit(session, ends="W-13k", codes={"W-13f": 1})


@case("W-3a", since=Revision.DRAFT, fresh=True)
async def exit_has_empty_params(session: ClientSession) -> None:
    """Send `shutdown` with null and `exit` with an empty array, as some clients do."""
    await session.ask("shutdown", None)
    await session.notify("exit", [])
    ends = await session.exit_code(END_SECONDS) is not None
    if not ends:
        await session.notify("exit")
        if await session.exit_code(END_SECONDS) is None:
            raise Unmet("the end of the process after `exit` without params", "a running process")
    got = "the end of the process" if ends else "an end only after `exit` without params"
    session.check("W-3a", ends, "the end of the process after `exit` with []", got)


@case("CLIENT-25", "W-13k", since=Revision.DRAFT, needs="process", fresh=True)
async def exit_is_followed_by_a_signal(session: ClientSession) -> None:
    """Send `shutdown` and `exit`, and SIGTERM at once."""
    await session.ask("shutdown")
    await session.notify("exit")
    session.process.signal(signal.SIGTERM)
    await check_exit(session, ends="CLIENT-25", codes={})


@case("W-13j", "W-13k", since=Revision.DRAFT, fresh=True)
async def input_ends_inside_a_body(session: ClientSession) -> None:
    """Send half a frame, then close the input."""
    await session.write(b"Content-Length: 500\r\n\r\n" + bytes_of(query("half"))[:20])
    await session.close_input()
    await check_exit(session, ends="W-14c", codes={"W-13j": 1})


@case("W-13g", "W-13k", since=Revision.DRAFT, needs="process", fresh=True)
async def the_reader_of_the_output_is_gone(session: ClientSession) -> None:
    """Close the reading end of the server's output, then send requests."""
    session.process.close_output()
    for number in range(3):
        try:
            await session.send(query(f"unread {number}"))
        except Unmet:
            break
    await check_exit(session, ends="W-13g", codes={"W-13g": 1})


@case("W-13h", "W-13k", since=Revision.DRAFT, needs="process")
async def signals_end_it(harness: Harness) -> None:
    """Send SIGTERM and SIGINT, during a turn and after `shutdown`."""
    for number, shut_down, expected_code in (
        (signal.SIGTERM, False, 143),
        (signal.SIGINT, False, 130),
        (signal.SIGTERM, True, 0),
        (signal.SIGINT, True, 0),
    ):
        async with harness.session(fresh=True) as session:
            if shut_down:
                await session.ask("shutdown")
            else:
                await busy(session)
            session.process.signal(number)
            when = f" for {number.name} {'after `shutdown`' if shut_down else 'while a turn runs'}"
            await check_exit(session, ends="W-13h", codes={"W-13h": expected_code}, when=when)


@case("W-14a", since=Revision.DRAFT)
async def its_parent_ends(harness: Harness) -> None:
    """End the process that `processId` names, and keep the input open."""
    parent = spawn([sys.executable, "-Ic", "import sys; sys.stdin.read()"])
    try:
        async with harness.session(fresh=True, initialize={"processId": parent.pid}) as session:
            await session.settle()
            await parent.end()
            code = await session.exit_code(5.5)
            expected = "the end of the process within 5 s"
            harness.check("W-14a", code is not None, expected, _describe_exit(code))
    finally:
        with anyio.CancelScope(shield=True):
            await parent.end()


@case("W-14b", since=Revision.DRAFT, handshake=False)
async def its_parent_was_never_seen(session: ClientSession) -> None:
    """Send a `processId` that names no process, as in a container."""
    with contextlib.suppress(ServerExited):
        await session.initialize(processId=_UNUSED_PID)
    code = await session.exit_code(2.5)
    session.check("W-14b", code is None, "a server that keeps running", _describe_exit(code))


def _describe_exit(code: int | None) -> str:
    return "a running process" if code is None else f"the exit code {code}"

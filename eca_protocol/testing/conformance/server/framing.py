"""Cases of frames: spellings of headers, fragments of any size, and errors."""

from __future__ import annotations

import contextlib
from typing import Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.server.asking import (
    Outcome,
    Trial,
    bytes_of,
    check_trials,
    frame,
    is_read,
    query,
    try_bytes,
)
from eca_protocol.testing.conformance.server.ends import exit_code
from eca_protocol.testing.conformance.verdicts import Unmet

_BODY: Final = bytes_of(query("x"))
_TYPE: Final = b"Content-Type: application/vscode-jsonrpc"
_LENGTH: Final = b"Content-Length: %d\r\n"
_UNICODE: Final = "X-Ünïcode: 1\r\n".encode()


def _headed(row: str, header: bytes, description: str, id_: str = "") -> Trial:
    """Build a trial of a query behind a header block, in which `%d` is the length."""
    body = bytes_of(query(id_ or description))
    data = header.replace(b"%d", b"%d" % len(body)) + body
    return Trial(row, data, description, ids=(None, id_ or description))


SPELLINGS: Final = (
    _headed("BASE-10", b"Content-Length: %d\r\n\r\n", "no Content-Type"),
    _headed("BASE-5", b"content-length: %d\r\n\r\n", "a name in lower case"),
    _headed("BASE-5", b"CONTENT-LENGTH: %d\r\n\r\n", "a name in upper case"),
    _headed("BASE-5", b"Content-Length:\t  %d \t\r\n\r\n", "white space around the value"),
    _headed("BASE-11", b"X-Other: 1\r\nContent-Length: %d\r\n\r\n", "another header before"),
    _headed("BASE-11", b"Content-Length: %d\r\nX-Other: a:b\r\n\r\n", "another header behind"),
    _headed("BASE-11", _TYPE + b"\r\nContent-Length: %d\r\n\r\n", "Content-Type first"),
    _headed("BASE-14", _LENGTH + _TYPE + b"; charset=utf-8\r\n\r\n", "charset=utf-8"),
    _headed("BASE-14", _LENGTH + _TYPE + b"; charset=utf8\r\n\r\n", "charset=utf8"),
    _headed("BASE-14", _LENGTH + _TYPE + b'; charset="UTF-8"\r\n\r\n', 'charset="UTF-8"'),
)


@case("BASE-5", "BASE-10", "BASE-11", "BASE-14", "W-1", since=Revision.DRAFT)
async def headers_come_in_every_spelling(harness: Harness) -> None:
    """Send queries with ten equivalent header blocks, and a plain query after each."""
    served: dict[str, Outcome] = {}

    def is_served(trial: Trial, outcome: Outcome) -> bool:
        if is_read(outcome.to(trial.ids[-1])):
            served[trial.description] = outcome
        return trial.description in served

    try:
        await check_trials(harness, SPELLINGS, "a result for a query with", is_served)
    finally:  # also when the case has no time left
        for description, outcome in served.items():
            expected = f"a result for a query without Content-Type after {description}"
            harness.check("BASE-10", outcome.still_serves, expected, outcome)
    harness.record_pass("W-1")


@case("BASE-2", "BASE-6", "CLIENT-34", since=Revision.DRAFT, fresh=True)
async def frames_come_in_any_pieces(harness: Harness) -> None:
    """Send a frame byte by byte, 60 frames at once, and bodies with multi-byte characters."""
    async with harness.session(fresh=True) as session:
        for byte in frame(query("byte by byte")):
            await session.write(bytes([byte]))
        outcome = await try_bytes(session)
        expected = "a result for a query that is written byte by byte"
        session.check("BASE-2", await _is_served(session, "byte by byte"), expected, outcome)
        ids = [f"together {number}" for number in range(60)]
        outcome = await try_bytes(session, *(frame(query(each)) for each in ids), answers_due=60)
    answered = {str(answer.get("id")) for answer in outcome.answers if is_read(answer)}
    expected = "60 results for 60 queries in one write"
    harness.check("BASE-2", answered == set(ids), expected, f"{len(answered)} results")
    await check_trials(
        harness, BODIES, "a result for a body with", lambda _, outcome: is_read(outcome.to("x"))
    )


async def _is_served(session: ClientSession, request_id: str) -> bool:
    try:
        return is_read(await session.answer(request_id))
    except Unmet:
        return False


BODIES: Final = (
    Trial(
        "BASE-6",
        frame(_BODY.replace(b"no such", "Grüße \u20ac \U0001f600".encode())),
        "characters of two, three and four bytes",
    ),
    Trial("CLIENT-34", frame(_BODY + b"\n"), "a line end inside the counted body"),
    Trial("CLIENT-34", frame(_BODY.replace(b"/", b"\\/")), "escaped slashes"),
    Trial(
        "CLIENT-34", frame(_BODY.replace(b"{", b" {\r\n\t", 1)), "white space between the tokens"
    ),
)


_ODD: Final = (
    _headed("BASE-12", _UNICODE + _LENGTH + b"\r\n", "a header outside ASCII", "odd"),
    _headed("BASE-15", _LENGTH + _TYPE + b"; charset=utf-16\r\n\r\n", "charset=utf-16", "odd"),
)


@case("BASE-12", "BASE-15", since=Revision.DRAFT)
async def headers_that_cannot_be_meant_are_errors(harness: Harness) -> None:
    """Send a query with a header outside ASCII, and one with the charset UTF-16."""

    def is_refused(trial: Trial, outcome: Outcome) -> bool:
        refused = bool(outcome.errors_to(*trial.ids))
        if trial.row == "BASE-15":
            return refused and outcome.still_serves
        return refused or not (outcome.still_serves or outcome.answers)

    await check_trials(harness, _ODD, "an error for", is_refused)


_HOPELESS: Final = (
    Trial("BASE-7", b"X-Other: 1\r\n\r\n", "a header block without Content-Length"),
    _headed("BASE-8", b"Content-Length: +%d\r\n\r\n", "a length with a sign", "lost"),
    _headed("BASE-8", b"Content-Length: %d bytes\r\n\r\n", "a length with more behind it", "lost"),
    _headed("BASE-9", b"Content-Length: %d\r\nContent-Length: 3\r\n\r\n", "two lengths", "lost"),
    _headed("BASE-9", b"Content-Length: 3\r\nContent-Length: %d\r\n\r\n", "two lengths", "lost"),
)


@case("BASE-7", "BASE-8", "BASE-9", "W-13i", "W-13k", since=Revision.DRAFT)
async def lengths_that_cannot_be_used_are_fatal(harness: Harness) -> None:
    """Send no length, an invalid one, and two, each to a new server."""
    async with anyio.create_task_group() as group:
        for trial in _HOPELESS:
            group.start_soon(_meets_a_fatal_fault, harness, trial)


async def _meets_a_fatal_fault(harness: Harness, trial: Trial) -> None:
    async with harness.session(fresh=True) as session:
        start = len(session.messages)
        with contextlib.suppress(Unmet):
            await session.write(trial.data + frame(query("behind")))
        code = await exit_code(session)
        came = [received.message for received in session.messages[start:] if not received.method]
    served = [answer for answer in came if answer.get("id") in ("lost", "behind")]
    errors = [answer for answer in came if "error" in answer]
    is_refused = not served and (bool(errors) or code is not None)
    expected = f"an error, or the end of the process, for {trial.description}"
    harness.check(trial.row, is_refused, expected, came or "no answer")
    if is_refused:
        ids = [answer.get("id", "no id") for answer in errors]
        expected = "an error with id null, then the exit code 1"
        got = f"errors with the ids {ids}, then the exit code {code}"
        harness.check("W-13i", set(ids) == {None} and code == 1, expected, got)

"""Cases of the frames: headers in every spelling, pieces of every size, and faults."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Final

import anyio
import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.asking import (
    bytes_of,
    frame,
    in_turn,
    is_read,
    query,
    tried,
)
from eca_protocol.testing.conformance.server.ends import exit_code

_TYPE: Final = b"Content-Type: application/vscode-jsonrpc"


@attrs.frozen
class Header:
    """A header block: the row that it is about, its bytes (`%d` is the length), and in words."""

    row: str
    data: bytes
    words: str

    def before(self, body: bytes) -> bytes:
        """The body with this header."""
        return self.data.replace(b"%d", b"%d" % len(body)) + body


SPELLINGS: Final = (
    Header("BASE-10", b"Content-Length: %d\r\n\r\n", "no Content-Type"),
    Header("BASE-5", b"content-length: %d\r\n\r\n", "a name in lower case"),
    Header("BASE-5", b"CONTENT-LENGTH: %d\r\n\r\n", "a name in upper case"),
    Header("BASE-5", b"Content-Length:\t  %d \t\r\n\r\n", "white space around the value"),
    Header("BASE-11", b"X-Other: 1\r\nContent-Length: %d\r\n\r\n", "another header before"),
    Header("BASE-11", b"Content-Length: %d\r\nX-Other: a:b\r\n\r\n", "another header behind"),
    Header("BASE-11", _TYPE + b"\r\nContent-Length: %d\r\n\r\n", "Content-Type first"),
    Header(
        "BASE-14", b"Content-Length: %d\r\n" + _TYPE + b"; charset=utf-8\r\n\r\n", "charset=utf-8"
    ),
    Header(
        "BASE-14", b"Content-Length: %d\r\n" + _TYPE + b"; charset=utf8\r\n\r\n", "charset=utf8"
    ),
    Header(
        "BASE-14",
        b"Content-Length: %d\r\n" + _TYPE + b'; charset="UTF-8"\r\n\r\n',
        'charset="UTF-8"',
    ),
)


@case("BASE-5", "BASE-10", "BASE-11", "BASE-14", "W-1", since=Revision.DRAFT)
async def headers_come_in_every_spelling(bench: Bench) -> None:
    """Queries behind ten header blocks that all mean the same, each with a plain one behind it."""

    async def attempt(seat: Seat, header: Header) -> bool:
        outcome = await tried(seat, header.before(bytes_of(query(header.words))))
        served = is_read(outcome.to(header.words))
        bench.check(
            header.row, served, expected=f"a query is served behind {header.words}", got=outcome
        )
        if served:
            bench.check(
                "BASE-10",
                outcome.goes_on,
                expected=f"no Content-Type is needed by a query that follows {header.words}",
                got=outcome,
            )
        return served and outcome.goes_on

    await in_turn(bench, SPELLINGS, attempt)
    bench.saw("W-1")


@case("BASE-2", "BASE-6", "CLIENT-34", since=Revision.DRAFT)
async def frames_come_in_any_pieces(bench: Bench) -> None:
    """A frame byte by byte, many frames in one write, and bodies whose bytes are no characters."""
    async with bench.seat(fresh=True) as seat:
        for byte in frame(query("byte by byte")):
            await seat.write(bytes([byte]))
        outcome = await tried(seat)
        bench.check(
            "BASE-2",
            await _is_served(seat, "byte by byte"),
            expected="a frame that comes byte by byte is a frame",
            got=outcome,
        )
        together = [f"together {number}" for number in range(60)]
        outcome = await tried(seat, *(frame(query(each)) for each in together), wants=60)
        answered = {str(answer.get("id")) for answer in outcome.answers if is_read(answer)}
        bench.check(
            "BASE-2",
            answered == set(together),
            expected="each of 60 frames in one write is served",
            got=f"{len(answered)} answers",
        )
    await in_turn(bench, BODIES, partial(_body_is_read, bench))


async def _is_served(seat: Seat, request_id: str) -> bool:
    try:
        return is_read(await seat.answer(request_id))
    except Stuck:
        return False


@attrs.frozen
class Body:
    """A body with the id `x`, the row that it is about, and in words."""

    row: str
    data: bytes
    words: str


BODIES: Final = (
    Body(
        "BASE-6",
        bytes_of(query("x")).replace(b"no such", "Grüße \u20ac \U0001f600".encode()),
        "characters of two, three and four bytes",
    ),
    Body("CLIENT-34", bytes_of(query("x")) + b"\n", "a line end inside the counted body"),
    Body("CLIENT-34", bytes_of(query("x")).replace(b"/", b"\\/"), "escaped slashes"),
    Body(
        "CLIENT-34",
        bytes_of(query("x")).replace(b"{", b" {\r\n\t", 1),
        "white space between the tokens",
    ),
)


async def _body_is_read(bench: Bench, seat: Seat, body: Body) -> bool:
    outcome = await tried(seat, frame(body.data))
    served = is_read(outcome.to("x"))
    bench.check(body.row, served, expected=f"a body with {body.words} is read", got=outcome)
    return served and outcome.goes_on


ODD: Final = (
    Header(
        "BASE-12",
        "X-Ünïcode: 1\r\nContent-Length: %d\r\n\r\n".encode(),
        "a header outside ASCII",
    ),
    Header(
        "BASE-15",
        b"Content-Length: %d\r\n" + _TYPE + b"; charset=utf-16\r\n\r\n",
        "charset=utf-16",
    ),
)


@case("BASE-12", "BASE-15", since=Revision.DRAFT)
async def headers_that_cannot_be_meant_are_faults(bench: Bench) -> None:
    """A header outside ASCII, and a charset that is not ours, each before a query."""

    async def attempt(seat: Seat, header: Header) -> bool:
        outcome = await tried(seat, header.before(bytes_of(query("odd"))))
        refused = bool(outcome.errors_to(None, "odd"))
        if header.row == "BASE-15":
            refused = refused and outcome.goes_on
        else:
            refused = refused or not (outcome.goes_on or outcome.answers)
        bench.check(
            header.row, refused, expected=f"{header.words} is answered with an error", got=outcome
        )
        return outcome.goes_on

    await in_turn(bench, ODD, attempt)


HOPELESS: Final = (
    Header("BASE-7", b"X-Other: 1\r\n\r\n", "a header block without Content-Length"),
    Header("BASE-8", b"Content-Length: +%d\r\n\r\n", "a length with a sign"),
    Header("BASE-8", b"Content-Length: %d bytes\r\n\r\n", "a length with more behind it"),
    Header("BASE-9", b"Content-Length: %d\r\nContent-Length: 3\r\n\r\n", "two lengths"),
    Header("BASE-9", b"Content-Length: 3\r\nContent-Length: %d\r\n\r\n", "two lengths"),
)


@case("BASE-7", "BASE-8", "BASE-9", "W-13i", "W-13k", since=Revision.DRAFT)
async def lengths_that_cannot_be_used_are_fatal(bench: Bench) -> None:
    """No length, no number, two lengths: each with a server of its own, which then ends."""
    async with anyio.create_task_group() as group:
        for header in HOPELESS:
            group.start_soon(_meets_a_fatal_fault, bench, header)


async def _meets_a_fatal_fault(bench: Bench, header: Header) -> None:
    async with bench.seat(fresh=True) as seat:
        start = len(seat.heard)
        with contextlib.suppress(Stuck):
            body = bytes_of(query("lost")) if b"%d" in header.data else b""
            await seat.write(header.before(body) + frame(query("behind")))
        code = await exit_code(bench, seat)
        came = [heard.message for heard in seat.heard[start:] if not heard.method]
    served = [answer for answer in came if answer.get("id") in ("lost", "behind")]
    faults = [answer for answer in came if "error" in answer]
    is_fault = not served and (bool(faults) or code is not None)
    bench.check(
        header.row, is_fault, expected=f"{header.words} is a fault", got=came or "no answer"
    )
    if is_fault:
        ids = [answer.get("id", "no id") for answer in faults]
        bench.check(
            "W-13i",
            set(ids) == {None} and code == 1,
            expected="an error with id null, then the exit code 1",
            got=f"errors with the ids {ids}, the exit code {code}",
        )

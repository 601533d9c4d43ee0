"""Cases of much at once: requests, notifications, bytes, and a client that does not read."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.asking import (
    QUERY,
    bytes_of,
    frame,
    is_read,
    message,
    query,
    tried,
)

MANY: Final = 500
UNREAD: Final = 150
"""Requests whose answers are more than a pipe holds."""
BYTES: Final = 8 * 2**20
DEAF_SECONDS: Final = 0.3


@case("BASE-17", "BASE-2", "W-2d", since=Revision.DRAFT, seconds=30)
async def hundreds_of_requests_at_once(bench: Bench) -> None:
    """Requests of every kind in one write, wrong ones among them."""
    async with bench.seat(fresh=True) as seat:
        outcome = await tried(seat, *map(frame, _mixed()), wants=MANY, seconds=20)
    ids = [answer.get("id") for answer in outcome.answers]
    bench.check(
        "BASE-17",
        len(ids) == len(set(map(str, ids))) == MANY,
        expected=f"{MANY} requests are answered once each",
        got=f"{len(ids)} answers to {len(set(map(str, ids)))} of them",
    )
    bench.saw("BASE-2", "W-2d")


def _mixed() -> list[dict[str, Any]]:
    kinds: tuple[tuple[str, Any], ...] = (
        (QUERY, {"query": "nothing"}),
        ("chat/queryCommands", {"query": "nothing"}),
        ("chat/delete", {"chatId": "nothing"}),
        ("chat/prompt", {}),
        ("no/such", {}),
    )
    return [message(*kinds[number % len(kinds)], id=f"many {number}") for number in range(MANY)]


@case("W-4c", since=Revision.DRAFT, seconds=30)
async def a_storm_of_unknown_notifications(bench: Bench) -> None:
    """Thousands of notifications that nobody knows, and a query behind them."""
    async with bench.seat(fresh=True) as seat:
        storm = frame(message("no/such", {"text": "x" * 200})) + frame(message("$/no/such"))
        outcome = await tried(seat, storm * 2000, wants=0, seconds=20)
    bench.check(
        "W-4c",
        outcome.goes_on and not outcome.answers,
        expected="silence, and the query behind them answered",
        got=outcome,
    )


@case("BASE-6", since=Revision.DRAFT, seconds=30)
async def a_large_message(bench: Bench) -> None:
    """A query of 8 MiB."""
    async with bench.seat(fresh=True) as seat:
        body = bytes_of(query("large", odd="%"))
        outcome = await tried(seat, frame(body.replace(b"%", b"x" * BYTES)), seconds=20)
    bench.check(
        "BASE-6",
        is_read(outcome.to("large")),
        expected="a body of 8 MiB is read, and what is behind it",
        got=outcome,
    )


@case("BASE-17", since=Revision.DRAFT, seconds=30)
async def a_client_that_does_not_read_for_a_while(bench: Bench) -> None:
    """More answers than a pipe holds, which nobody reads for a while."""
    async with bench.seat(fresh=True) as seat:
        ids = [f"unread {number}" for number in range(UNREAD)]
        long_name = {"chatId": "x" * 500}
        asked = (message("chat/queryCommands", long_name, id=id_) for id_ in ids)
        seat.wire.reading = False
        async with anyio.create_task_group() as group:
            group.start_soon(seat.write, b"".join(map(frame, asked)))
            await anyio.sleep(DEAF_SECONDS)
            seat.wire.reading = True
            unanswered = await _unanswered(seat, ids)
    bench.check(
        "BASE-17",
        not unanswered,
        expected=f"{UNREAD} answers once they are read",
        got=f"{len(unanswered)} requests without an answer",
    )


async def _unanswered(seat: Seat, ids: list[str]) -> list[str]:
    due = set(ids)

    def all_came(answer: Any) -> bool:
        due.discard(str(answer.get("id")))
        return not due

    with contextlib.suppress(Stuck):
        await seat.send(query("behind all"))
        await seat.until(all_came, seconds=10, expected="all answers")
    return sorted(due)

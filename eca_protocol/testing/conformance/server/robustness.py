"""Cases of load: many requests and notifications, many bytes, and a slow reader."""

from __future__ import annotations

import contextlib
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.server.asking import (
    QUERY,
    bytes_of,
    frame,
    is_read,
    message,
    query,
    try_bytes,
)
from eca_protocol.testing.conformance.verdicts import Unmet

MANY: Final = 500
UNREAD: Final = 150  # requests whose answers are more than a pipe holds
BYTES: Final = 8 * 2**20
DEAF_SECONDS: Final = 0.3


@case("BASE-17", "BASE-2", "W-2d", since=Revision.DRAFT, seconds=30, fresh=True)
async def hundreds_of_requests_at_once(session: ClientSession) -> None:
    """Send 500 requests of every kind in one write, invalid ones included."""
    outcome = await try_bytes(session, *map(frame, _mixed_requests()), answers_due=MANY, seconds=20)
    ids = [answer.get("id") for answer in outcome.answers]
    expected = f"one answer to each of {MANY} requests"
    got = f"{len(ids)} answers to {len(set(map(str, ids)))} requests"
    session.check("BASE-17", len(ids) == len(set(map(str, ids))) == MANY, expected, got)
    session.record_pass("BASE-2", "W-2d")


def _mixed_requests() -> list[dict[str, Any]]:
    kinds: tuple[tuple[str, Any], ...] = (
        (QUERY, {"query": "nothing"}),
        ("chat/queryCommands", {"query": "nothing"}),
        ("chat/delete", {"chatId": "nothing"}),
        ("chat/prompt", {}),
        ("no/such", {}),
    )
    return [message(*kinds[number % len(kinds)], id=f"many {number}") for number in range(MANY)]


@case("W-4c", since=Revision.DRAFT, seconds=30, fresh=True)
async def a_storm_of_unknown_notifications(session: ClientSession) -> None:
    """Send 4000 unknown notifications, and a query after them."""
    notifications = frame(message("no/such", {"text": "x" * 200})) + frame(message("$/no/such"))
    outcome = await try_bytes(session, notifications * 2000, answers_due=0, seconds=20)
    expected = "no answer to a notification, and a result for the query after them"
    session.check("W-4c", outcome.still_serves and not outcome.answers, expected, outcome)


@case("BASE-6", since=Revision.DRAFT, seconds=30, fresh=True)
async def a_large_message(session: ClientSession) -> None:
    """Send a query of 8 MiB."""
    body = bytes_of(query("large", odd="%"))
    outcome = await try_bytes(session, frame(body.replace(b"%", b"x" * BYTES)), seconds=20)
    session.check("BASE-6", is_read(outcome.to("large")), "a result for a query of 8 MiB", outcome)


@case("BASE-17", since=Revision.DRAFT, seconds=30, fresh=True)
async def a_client_that_does_not_read_for_a_while(session: ClientSession) -> None:
    """Request more than a pipe holds, and pause reading."""
    ids = [f"unread {number}" for number in range(UNREAD)]
    requests = (message("chat/queryCommands", {"chatId": "x" * 500}, id=id_) for id_ in ids)
    session.process.reading = False
    async with anyio.create_task_group() as group:
        group.start_soon(session.write, b"".join(map(frame, requests)))
        await anyio.sleep(DEAF_SECONDS)
        session.process.reading = True
        unanswered = await _unanswered(session, ids)
    got = f"{len(unanswered)} requests without an answer"
    session.check("BASE-17", not unanswered, f"{UNREAD} answers after the pause", got)


async def _unanswered(session: ClientSession, ids: list[str]) -> list[str]:
    remaining = set(ids)

    def all_came(received: ReceivedMessage) -> bool:
        remaining.discard(str(received.message.get("id")))
        return not remaining

    with contextlib.suppress(Unmet):
        await session.send(query("behind all"))
        await session.until(all_came, seconds=10, expected="all answers")
    return sorted(remaining)

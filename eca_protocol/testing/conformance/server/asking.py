"""How cases ask with bytes of their own, and learn what is answered to these and to nothing else.

What is tried here may cost the stream, and an answer whose id is null names no request: so the
seat is a fresh one, which no other case writes to.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import attrs

from eca_protocol.framing import encode_frame
from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck
from eca_protocol.testing.conformance.wire import id_key

__all__ = [
    "ABSENT",
    "HELLO",
    "QUERY",
    "Outcome",
    "answer_to",
    "bytes_of",
    "code_of",
    "frame",
    "in_turn",
    "is_read",
    "message",
    "query",
    "tried",
]

ABSENT: Final = object()
"""Stands for a member that is not written."""

QUERY: Final = "chat/queryContext"
"""A request that every server has, and that changes nothing."""

HELLO: Final[Mapping[str, Any]] = {"processId": None, "capabilities": {}, "workspaceFolders": []}
"""The params of the plainest `initialize`."""

_A_WHILE: Final = 2.0  # seconds for an answer that is late
_LAST: Final = itertools.count(1)

Trial = TypeVar("Trial")


@attrs.frozen(kw_only=True, repr=False)
class Outcome:
    """What came of some bytes.

    Attributes:
        answers: what they were answered with, in order.
        goes_on: whether a request behind them was answered.
    """

    answers: tuple[Mapping[str, Any], ...]
    goes_on: bool

    def to(self, request_id: object) -> Mapping[str, Any] | None:
        """The first answer that has this id; whether its JSON type is the same is not asked."""
        for answer in self.answers:
            if id_key(answer.get("id")) == id_key(request_id):
                return answer
        return None

    def errors_to(self, *ids: object) -> list[int]:
        """The codes of the errors that have one of these ids."""
        return [
            code_of(answer)
            for answer in self.answers
            if "error" in answer and answer.get("id") in ids
        ]

    def __repr__(self) -> str:
        shown = [json.dumps(answer)[:300] for answer in self.answers]
        silence = "" if self.goes_on else "no answer to a request behind it"
        return "; ".join([*shown, *([silence] if silence else [])]) or "no answer"


def message(method: object, params: Any = ABSENT, *, id: Any = ABSENT) -> dict[str, Any]:  # noqa: A002
    """A request if it is given an id, else a notification."""
    members = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return {name: value for name, value in members.items() if value is not ABSENT}


def query(id: Any = ABSENT, **params: Any) -> dict[str, Any]:  # noqa: A002
    """A query that finds nothing."""
    return message(QUERY, {"query": "no such thing", **params}, id=id)


def bytes_of(value: Any) -> bytes:
    """A body: bytes as they are, anything else as JSON."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def frame(value: Any) -> bytes:
    """A body in its frame."""
    return encode_frame(bytes_of(value))


def code_of(answer: Mapping[str, Any]) -> int:
    """The code of an error, 0 if it has none."""
    error = answer.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) else 0


def is_read(answer: Mapping[str, Any] | None) -> bool:
    """Whether a request was answered, and not as something that is none."""
    return bool(answer and code_of(answer) not in (-32700, -32600))


async def answer_to(seat: Seat, method: str, params: Any) -> Mapping[str, Any]:
    """The answer to a request, whole; an empty one if none comes."""
    try:
        return await seat.ask(method, params)
    except Stuck:
        return {}


async def tried(seat: Seat, *data: bytes, wants: int = 1, seconds: float = 5) -> Outcome:
    """Write bytes and a query behind them; what they are answered with.

    Args:
        seat: one of the case's own.
        data: whole frames, or what is meant to stand between two.
        wants: how many ids are due among the answers; they may come after that of the query.
        seconds: how long the query may take.
    """
    start = len(seat.heard)
    last = f"behind {next(_LAST)}"
    try:
        await seat.write(b"".join(data) + frame(query(last)))
        await seat.answer(last, seconds=seconds)
    except Stuck:
        return Outcome(answers=_answers(seat, start, last), goes_on=False)
    with contextlib.suppress(Stuck):
        await seat.wire.until(
            lambda: len(_answers(seat, start, last)) >= wants,
            seconds=_A_WHILE,
            expected=f"{wants} answers",
        )
    return Outcome(answers=_answers(seat, start, last), goes_on=True)


def _answers(seat: Seat, start: int, last: str) -> tuple[Mapping[str, Any], ...]:
    came = [heard.message for heard in seat.heard[start:]]
    return tuple(each for each in came if "method" not in each and each.get("id") != last)


async def in_turn(
    bench: Bench, trials: Iterable[Trial], attempt: Callable[[Seat, Trial], Awaitable[bool]]
) -> None:
    """Make one attempt after the other at one server; at a new one when the last was lost.

    Args:
        bench: where to sit.
        trials: what is tried.
        attempt: tries one, and says whether that server may be used for the next.
    """
    left = list(trials)
    while left:
        async with bench.seat(fresh=True) as seat:
            while left and await attempt(seat, left.pop(0)):
                pass

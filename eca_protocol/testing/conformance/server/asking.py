"""Helpers that send bytes of any shape, and collect the answers to them alone.

Bytes may break the stream, and an answer whose id is null names no request. Therefore the session
belongs to one case alone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from eca_protocol.framing import encode_frame
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.recorder import id_key
from eca_protocol.testing.conformance.verdicts import ServerExited, Unmet, with_stderr
from eca_protocol.testing.members import at

ABSENT: Final = object()  # the marker of a member that is left out
QUERY: Final = "chat/queryContext"
"""A request that every server implements and that changes nothing."""

INITIALIZE_PARAMS: Final[Mapping[str, Any]] = {
    "processId": None,
    "capabilities": {},
    "workspaceFolders": [],
}
"""The minimal params of `initialize`."""

_LATE_SECONDS: Final = 2.0  # seconds for an answer that is late
_QUERY_NUMBERS: Final = itertools.count(1)


@attrs.frozen(kw_only=True, repr=False)
class Outcome:
    """The answers to some bytes.

    Attributes:
        end: why a request behind them was not answered; empty if it was.
    """

    answers: tuple[Mapping[str, Any], ...]
    end: str = ""

    @property
    def still_serves(self) -> bool:
        """True if a request behind them was answered."""
        return not self.end

    def to(self, request_id: object) -> Mapping[str, Any] | None:
        """Return the first answer with this id, without comparing JSON types."""
        for answer in self.answers:
            if id_key(answer.get("id")) == id_key(request_id):
                return answer
        return None

    def errors_to(self, *ids: object) -> list[int]:
        """Return the codes of the errors that have one of these ids."""
        return [
            code_of(answer)
            for answer in self.answers
            if "error" in answer and answer.get("id") in ids
        ]

    def __repr__(self) -> str:
        shown = [json.dumps(answer)[:300] for answer in self.answers]
        return "; ".join([*shown, *([self.end] if self.end else [])]) or "no answer"


@attrs.frozen
class Trial:
    """Frames to send, and what their answers have to be.

    Attributes:
        data: the frames.
        ids: the ids that the answers may have.
        codes: the codes that their errors may have; empty: any.
    """

    row: str
    data: bytes
    description: str
    ids: tuple[object, ...] = (None, "x")
    codes: tuple[int, ...] = ()


def message(method: object, params: Any = ABSENT, *, id: Any = ABSENT) -> dict[str, Any]:  # noqa: A002
    """Build a request if `id` is given, else a notification."""
    members = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return {name: value for name, value in members.items() if value is not ABSENT}


def query(id: Any = ABSENT, **params: Any) -> dict[str, Any]:  # noqa: A002
    """Build a query without matches."""
    return message(QUERY, {"query": "no such thing", **params}, id=id)


def bytes_of(value: Any) -> bytes:
    """Return a body: bytes unchanged, anything else as JSON."""
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def frame(*values: Any) -> bytes:
    """Return bodies in their frames."""
    return b"".join(encode_frame(bytes_of(value)) for value in values)


def code_of(answer: Mapping[str, Any]) -> int:
    """Return the code of an error, or 0."""
    code = at(answer, "error", "code")
    return code if isinstance(code, int) else 0


def is_read(answer: Mapping[str, Any] | None) -> bool:
    """Return whether a request was understood: no parse error, no invalid request."""
    return bool(answer and code_of(answer) not in (-32700, -32600))


async def answer_to(session: ClientSession, method: str, params: Any) -> Mapping[str, Any]:
    """Return the whole answer to a request, or an empty object."""
    try:
        return await session.ask(method, params)
    except Unmet:
        return {}


async def try_bytes(
    session: ClientSession, *data: bytes, answers_due: int = 1, seconds: float = 5
) -> Outcome:
    """Write bytes and a query behind them; return the answers.

    Some of the answers may come after the answer to the query, which may take `seconds`.
    """
    start = len(session.messages)
    last = f"behind {next(_QUERY_NUMBERS)}"
    try:
        await session.write(b"".join(data) + frame(query(last)))
        await session.answer(last, seconds=seconds)
    except Unmet as stuck:
        end = "no answer to a request behind it"
        if isinstance(stuck, ServerExited):
            end = with_stderr(stuck.got, stuck.stderr)
        return Outcome(answers=_answers(session, start, last), end=end)
    with contextlib.suppress(Unmet):
        await session.process.until(
            lambda: len(_answers(session, start, last)) >= answers_due,
            seconds=_LATE_SECONDS,
            expected=f"{answers_due} answers",
        )
    return Outcome(answers=_answers(session, start, last))


def _answers(session: ClientSession, start: int, last: str) -> tuple[Mapping[str, Any], ...]:
    messages = [received.message for received in session.messages[start:]]
    return tuple(each for each in messages if "method" not in each and each.get("id") != last)


async def check_trials(
    harness: Harness,
    trials: Iterable[Trial],
    expected: str,
    complies: Callable[[Trial, Outcome], object],
    *,
    answers_due: int = 1,
) -> None:
    """Judge each trial's outcome; its codes and description complete the text `expected`.

    All trials are sent to one server; a new one is started when a trial loses it.
    """
    remaining = deque(trials)
    while remaining:
        async with harness.session(fresh=True) as session:
            still_serves = True
            while remaining and still_serves:
                trial = remaining.popleft()
                outcome = await try_bytes(session, trial.data, answers_due=answers_due)
                codes = " or ".join(map(str, trial.codes)) or "of any code"
                text = f"{expected.format(codes=codes)} {trial.description}"
                harness.check(trial.row, complies(trial, outcome), text, outcome)
                still_serves = outcome.still_serves

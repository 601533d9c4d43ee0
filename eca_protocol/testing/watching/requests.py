"""Messages as JSON-RPC has them, and the answers that requests get: one each, with its id."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from eca_protocol.errors import INVALID_REQUEST, PARSE_ERROR
from eca_protocol.methods import ECA
from eca_protocol.testing.watching.observation import Notes, Side, other_side

__all__ = ["PROMPTS", "Answers", "Asked"]

Key: TypeAlias = tuple[type, Any]
"""An id with its JSON type: `1` and `"1"` are two."""

PROMPTS: Final = frozenset({"chat/prompt", "chat/inlinePrompt"})
"""The requests that begin a turn."""

_VERSION: Final = "2.0"
_CONFUSING: Final = {"BASE-13", "BASE-16", "W-2b", "W-2d"}
"""Who receives what breaks these may answer it, or not."""

_OF_THE_CALL: Final = {"BASE-16", "W-2b", "W-2d", "W-15d"}
"""What breaks these is understood all the same: what else is odd about it is told, too."""


@attrs.frozen(kw_only=True)
class Asked:
    """A request that waits for its answer.

    Attributes:
        index: its entry.
        is_second: whether another with its id was waiting when it came.
        is_doubtful: whether its frame may have been refused.
    """

    side: Side
    method: str
    params: Any
    index: int
    is_second: bool = False
    is_doubtful: bool = False


@attrs.define
class _Asking:
    """What one side has asked."""

    pending: dict[Key, deque[Asked]] = attrs.field(factory=dict)
    answered: set[Key] = attrs.field(factory=set)
    odd: Counter[Key | None] = attrs.field(factory=Counter)
    """Messages of its own that may be answered or not: by their ids, None where they had none."""
    notices: list[str] = attrs.field(factory=list)
    """What it wrote since the last request that is answered, and wants no answer to: the rows."""
    mixed: set[Key] = attrs.field(factory=set)
    """Ids that several of its requests had at once: which answer is whose cannot be told."""
    strays: int = 0
    """Answers that came to it for nothing: each was some request's."""


class Answers:
    """Judges the envelopes of both sides, and pairs answers with requests."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._asking: dict[Side, _Asking] = {"client": _Asking(), "server": _Asking()}

    def spoiled(self, side: Side, message_id: Any = None) -> None:
        """What `side` wrote cannot be understood; it may get an answer."""
        self._asking[side].odd[_key(message_id)] += 1

    def was_spoiled(self, side: Side) -> bool:
        """Whether something that `side` wrote could not be understood, as far as is known."""
        return self._asking[side].odd.total() > 0

    def keeps_envelope(self, side: Side, message: Mapping[str, Any]) -> bool:
        """Judge what every message has; False: nothing else can be said of it."""
        faults = list(_faults_of(side, message))
        if not faults:
            return True
        rows = set()
        for row, expected, got in faults:
            rows.add(row)
            harms = row not in _OF_THE_CALL
            self._notes.tell(row, side=side, expected=expected, got=got, harms=harms)
        if rows & _CONFUSING:
            self.spoiled(side, message.get("id"))
        is_read = side == "server" or "id" not in message or not rows & _CONFUSING
        return is_read and "BASE-13" not in rows and isinstance(message.get("method", ""), str)

    def asked(self, side: Side, message: Mapping[str, Any], *, is_doubtful: bool = False) -> Asked:
        """A request of `side`."""
        key, asking = _key(message["id"]), self._asking[side]
        if key is None:
            return Asked(side=side, method=message["method"], params=None, index=self._notes.index)
        waiting = asking.pending.setdefault(key, deque())
        asked = Asked(
            side=side,
            method=message["method"],
            params=message.get("params"),
            index=self._notes.index,
            is_second=bool(waiting),
            is_doubtful=is_doubtful,
        )
        waiting.append(asked)
        return asked

    def told(self, side: Side, row: str) -> None:
        """Something of `side` that gets no answer, and the row that says so."""
        self._asking[side].notices.append(row)

    def answered(self, side: Side, message: Mapping[str, Any]) -> Asked | None:
        """An answer of `side`; the request it belongs to, if that can be told."""
        asking, key = self._asking[other_side(side)], _key(message.get("id"))
        if key is None or key not in asking.pending:
            return self._stray(side, asking, key, message)
        asked = _take_answered(asking, key, message)
        asking.answered.add(key)
        asking.notices.clear()
        return asked

    def _stray(
        self, side: Side, asking: _Asking, key: Key | None, message: Mapping[str, Any]
    ) -> Asked | None:
        given = message.get("id")
        self.told(side, "BASE-30")
        twin = next(
            (twin for type_ in (str, int) if (twin := _twin(type_, given)) in asking.pending), None
        )
        if _takes_odd(asking, key, is_error="error" in message):
            return None
        if twin is not None:
            self._tell(side, "W-2b", f"the id {twin[1]!r} as it came", repr(given), harms=False)
            return _take_answered(asking, twin, message)
        if key is not None and key in asking.answered:
            self._tell(side, "BASE-17", "one answer to each request", f"a second one to {given!r}")
            return None
        if key is None and _code(message) == PARSE_ERROR:
            asking.strays += bool(asking.pending)
            return None  # what it could not read, and why, is not seen from here
        if key is not None and asking.odd[None]:
            asking.odd[None] -= 1  # that may be the id of what could not be read
            return None
        if key is None and (asking.notices or not asking.pending or "result" in message):
            row = asking.notices.pop() if asking.notices else "BASE-18"
            self._tell(side, row, "no answer to what is no request", "one")
        else:
            self._tell(side, "BASE-17", "answers with the ids of requests", f"the id {given!r}")
        return self._owner(asking)

    def _owner(self, asking: _Asking) -> Asked | None:
        """The request that an answer with a wrong id is taken for: nothing is owed to it."""
        for key, waiting in asking.pending.items():
            if waiting[0].method == "initialize":
                return _take_pending(asking, key)
        asking.strays += 1
        return None

    def _tell(self, side: Side, row: str, expected: str, got: str, *, harms: bool = True) -> None:
        self._notes.tell(row, side=side, expected=expected, got=got, harms=harms)

    def open(self, side: Side) -> list[Asked]:
        """What `side` asked and got no answer to, without those whose answers had other ids."""
        asking = self._asking[side]
        waiting = [
            asked for queue in asking.pending.values() for asked in queue if not asked.is_doubtful
        ]
        return sorted(waiting, key=lambda asked: asked.index)[asking.strays :]


def _takes_odd(asking: _Asking, key: Key | None, *, is_error: bool) -> bool:
    """Whether an answer is one to what could not be understood; then it is."""
    odd = asking.odd
    if odd[key]:
        odd[key] -= 1
        return True
    if key is None and odd.total() and is_error:
        odd.subtract([next(key for key, count in odd.items() if count)])
        return True
    return False


def _take_answered(asking: _Asking, key: Key, message: Mapping[str, Any]) -> Asked | None:
    """The request with that id that an answer belongs to, if that can be told."""
    waiting = asking.pending[key]
    # Two results for one id may be right: the first was answered before the second was read.
    if len(waiting) > 1 and not _refuses(message):
        asking.mixed.add(key)
    asked = waiting.pop() if _refuses(message) and waiting[-1].is_second else waiting.popleft()
    if not waiting:
        del asking.pending[key]
    return None if key in asking.mixed else asked


def _take_pending(asking: _Asking, key: Key) -> Asked:
    asked = asking.pending[key].popleft()
    if not asking.pending[key]:
        del asking.pending[key]
    return asked


def _twin(type_: type, given: Any) -> Key:
    """The id as another JSON type would have it."""
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return (type(None), None)
    try:
        return (type_, type_(given))
    except (ValueError, OverflowError):
        return (type(None), None)


def _key(given: Any) -> Key | None:
    is_id = type(given) is int or type(given) is str
    return (type(given), given) if is_id else None


def _code(message: Mapping[str, Any]) -> Any:
    error = message.get("error")
    return error.get("code") if isinstance(error, Mapping) else None


def _refuses(message: Mapping[str, Any]) -> bool:
    return bool(_code(message) == INVALID_REQUEST)


def _faults_of(side: Side, message: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """The rows that an envelope breaks, what they ask for, and what came."""
    has_version = message.get("jsonrpc") == _VERSION
    if not has_version:
        yield "BASE-16", 'jsonrpc: "2.0"', repr(message.get("jsonrpc"))
    if message.keys() & {"method", "id", "result", "error"}:
        is_call = "method" in message
        fault = _fault_of_call(side, message) if is_call else _fault_of_answer(message)
        if fault is not None:
            yield fault
    elif has_version:
        yield "BASE-13", "a request, a notification or an answer", ", ".join(message)[:60]


def _fault_of_call(side: Side, message: Mapping[str, Any]) -> tuple[str, str, str] | None:
    method = message["method"]
    if not isinstance(method, str):
        return "BASE-13", "a text as method", repr(method)
    has_id, row = "id" in message, ECA.get(method)
    if has_id and side == "server" and message["id"] is None and row is not None:
        return "W-2d", f"{method} as a {row.kind}", "the id null"
    if has_id and _key(message["id"]) is None:
        return "W-2b", "an id that is an integer or a text", repr(message["id"])
    if not isinstance(message.get("params"), Mapping | list | None):
        return "BASE-13", "an object as params", repr(message["params"])[:60]
    if side == "client" or row is None or (row.kind == "request") is has_id:
        return None
    broken = "W-15d" if method == "$/showMessage" else "W-2d"
    return broken, f"{method} as a {row.kind}", "an id" if has_id else "no id"


def _fault_of_answer(message: Mapping[str, Any]) -> tuple[str, str, str] | None:
    has_result, has_error = "result" in message, "error" in message
    if has_result is has_error:
        got = "both" if has_result else f"neither, but {', '.join(message) or 'nothing'}"
        return "W-2a", "a result or an error", got
    if has_error and not _is_error(message["error"]):
        return "BASE-19", "an integer code and a text", repr(message["error"])[:60]
    return None


def _is_error(error: Any) -> bool:
    return (
        isinstance(error, Mapping)
        and type(error.get("code")) is int
        and isinstance(error.get("message"), str)
    )

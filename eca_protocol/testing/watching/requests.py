"""JSON-RPC envelopes, and the pairing of requests with their responses."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import attrs

from eca_protocol.errors import INVALID_REQUEST, PARSE_ERROR
from eca_protocol.methods import ECA
from eca_protocol.testing.members import at
from eca_protocol.testing.watching.observation import ObservationLog, Side, other_side

Key: TypeAlias = tuple[type, Any]
"""An id with its JSON type: `1` and `"1"` differ."""

PROMPTS: Final = frozenset({"chat/prompt", "chat/inlinePrompt"})
"""The requests that start a turn."""

_VERSION: Final = "2.0"
_MAX_FLOAT: Final = 1e300  # a larger integer may be infinite as a float
_SHOWN: Final = 40  # characters of an id
_CONFUSING: Final = {"BASE-13", "BASE-16", "W-2b", "W-2d"}
"""Rows whose violation may be answered or ignored by the receiver."""

_OF_THE_CALL: Final = {"BASE-16", "W-2b", "W-2d", "W-15d"}
"""Rows whose violation leaves the message readable: it is checked further."""


@attrs.frozen(kw_only=True)
class PendingRequest:
    """A request without a response.

    Attributes:
        is_second: whether an earlier request with its id was pending.
        is_doubtful: whether its frame may have been refused.
    """

    method: str
    params: Any
    index: int
    is_second: bool = False
    is_doubtful: bool = False


@attrs.define
class _SentRequests:
    pending: dict[Key, deque[PendingRequest]] = attrs.field(factory=dict)
    answered_ids: set[Key] = attrs.field(factory=set)
    unreadable: Counter[Key | None] = attrs.field(factory=Counter)
    """Messages that may be answered or ignored, counted by id; None: without a readable id."""
    unanswerable: list[str] = attrs.field(factory=list)
    """For each message without an answer since the last response: the row that forbids one."""
    shared_ids: set[Key] = attrs.field(factory=set)
    """Ids that several pending requests shared: their responses cannot be assigned."""
    stray_count: int = 0
    """The number of responses with wrong ids; each belonged to some request."""


class RequestTracker:
    """Checks the envelopes of both sides and pairs requests with responses."""

    def __init__(self, log: ObservationLog) -> None:
        self._log = log
        self._sent: dict[Side, _SentRequests] = {
            "client": _SentRequests(),
            "server": _SentRequests(),
        }

    def mark_unreadable(self, side: Side, message_id: Any = None) -> None:
        """Note an unreadable message of `side`; it may be answered."""
        self._sent[side].unreadable[_key(message_id)] += 1

    def has_unreadable(self, side: Side) -> bool:
        """Return whether `side` wrote an unreadable message that is not answered yet."""
        return self._sent[side].unreadable.total() > 0

    def check_envelope(self, side: Side, message: Mapping[str, Any]) -> bool:
        """Check an envelope; return False if the rest of the message cannot be checked."""
        violations = list(_violations_of(side, message))
        if not violations:
            return True
        rows = set()
        for row, expected, got in violations:
            rows.add(row)
            report = self._log.note if row in _OF_THE_CALL else self._log.report
            report(row, expected, got, side=side)
        if rows & _CONFUSING:
            self.mark_unreadable(side, message.get("id"))
        is_read = side == "server" or "id" not in message or not rows & _CONFUSING
        return is_read and "BASE-13" not in rows and isinstance(message.get("method", ""), str)

    def add_request(
        self, side: Side, message: Mapping[str, Any], *, is_doubtful: bool = False
    ) -> PendingRequest:
        """Add a request of `side`."""
        key = _key(message["id"])
        waiting = deque() if key is None else self._sent[side].pending.setdefault(key, deque())
        request = PendingRequest(
            method=message["method"],
            params=None if key is None else message.get("params"),
            index=self._log.index,
            is_second=bool(waiting),
            is_doubtful=is_doubtful,
        )
        waiting.append(request)
        return request

    def note_unanswerable(self, side: Side, row: str) -> None:
        """Note a message of `side` that must not be answered, and the row that says so."""
        self._sent[side].unanswerable.append(row)

    def take_response(self, side: Side, message: Mapping[str, Any]) -> PendingRequest | None:
        """Return the request that a response of `side` belongs to; None if that is unknown."""
        sent, key = self._sent[other_side(side)], _key(message.get("id"))
        if key is None or key not in sent.pending:
            return self._stray(side, sent, key, message)
        request = _take_answered(sent, key, message)
        sent.answered_ids.add(key)
        sent.unanswerable.clear()
        return request

    def _stray(
        self, side: Side, sent: _SentRequests, key: Key | None, message: Mapping[str, Any]
    ) -> PendingRequest | None:
        raw_id = message.get("id")
        self.note_unanswerable(side, "BASE-30")
        if _take_unreadable(sent, key, is_error="error" in message):
            return None
        if (changed := _changed_id(sent, raw_id)) is not None:
            row, original, how = changed
            text = repr(original[1])
            id_ = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
            self._log.note(row, f"the request's id {id_}, {how}", repr(raw_id), side=side)
            return _take_answered(sent, original, message)
        if key is not None and key in sent.answered_ids:
            expected = "exactly one response to each request"
            self._log.report("BASE-17", expected, f"a second one with id {raw_id!r}", side=side)
            return None
        if key is None and at(message, "error", "code") == PARSE_ERROR:
            sent.stray_count += bool(sent.pending)
            return None  # the unreadable message and the cause are unknown here
        if key is not None and sent.unreadable[None]:
            sent.unreadable[None] -= 1  # it may be the id of an unreadable message
            return None
        if key is None and (sent.unanswerable or not sent.pending or "result" in message):
            row = sent.unanswerable.pop() if sent.unanswerable else "BASE-18"
            self._log.report(
                row, "no response to a message that is not a request", "one", side=side
            )
        else:
            expected = "a response with the id of a pending request"
            self._log.report("BASE-17", expected, f"the id {raw_id!r}", side=side)
        return self._owner(sent)

    def _owner(self, sent: _SentRequests) -> PendingRequest | None:
        """Return `initialize` if it is pending: a response with a wrong id counts as its own."""
        for key, waiting in sent.pending.items():
            if waiting[0].method == "initialize":
                request = waiting.popleft()
                if not waiting:
                    del sent.pending[key]
                return request
        sent.stray_count += 1
        return None

    def unanswered(self, side: Side) -> list[PendingRequest]:
        """Return the unanswered requests of `side`, less one for each response with a wrong id."""
        sent = self._sent[side]
        waiting = [
            request
            for queue in sent.pending.values()
            for request in queue
            if not request.is_doubtful
        ]
        return sorted(waiting, key=lambda request: request.index)[sent.stray_count :]


def _take_unreadable(sent: _SentRequests, key: Key | None, *, is_error: bool) -> bool:
    """Assign a response to an unreadable message; return False if there is none."""
    unreadable = sent.unreadable
    if unreadable[key]:
        unreadable[key] -= 1
        return True
    if key is None and unreadable.total() and is_error:
        unreadable.subtract([next(key for key, count in unreadable.items() if count)])
        return True
    return False


def _take_answered(
    sent: _SentRequests, key: Key, message: Mapping[str, Any]
) -> PendingRequest | None:
    """Remove and return the request with this id; None if several requests shared it."""
    waiting = sent.pending[key]
    # Two results for one id may be correct: the first was written before the second was read.
    if len(waiting) > 1 and not _refuses(message):
        sent.shared_ids.add(key)
    request = waiting.pop() if _refuses(message) and waiting[-1].is_second else waiting.popleft()
    if not waiting:
        del sent.pending[key]
    return None if key in sent.shared_ids else request


def _changed_id(sent: _SentRequests, raw_id: Any) -> tuple[str, Key, str] | None:
    """Return the pending id that was changed into this one: the broken row, the id, and how."""
    for type_ in (str, int):
        if (twin := _twin(type_, raw_id)) in sent.pending:
            return "W-2b", twin, "with its JSON type"
    if raw_id is None or type(raw_id) in {int, float}:
        written = None if raw_id is None else _as_float(raw_id)
        for key in sent.pending:
            if key[0] is int and _as_float(key[1]) == written:
                return "W-5c", key, "unchanged, which a 64-bit float is not"
    return None


def _as_float(number: float) -> float | None:
    """Return a number as languages without integers read it; infinity is written as null."""
    return float(number) if abs(number) < _MAX_FLOAT else None


def _twin(type_: type, raw_id: Any) -> Key:
    if isinstance(raw_id, bool) or not isinstance(raw_id, str | int | float):
        return (type(None), None)
    try:
        return (type_, type_(raw_id))
    except (ValueError, OverflowError):
        return (type(None), None)


def _key(raw_id: Any) -> Key | None:
    is_id = type(raw_id) is int or type(raw_id) is str
    return (type(raw_id), raw_id) if is_id else None


def _refuses(message: Mapping[str, Any]) -> bool:
    return bool(at(message, "error", "code") == INVALID_REQUEST)


def _violations_of(side: Side, message: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    has_version = message.get("jsonrpc") == _VERSION
    if not has_version:
        yield "BASE-16", '`jsonrpc: "2.0"`', repr(message.get("jsonrpc"))
    if message.keys() & {"method", "id", "result", "error"}:
        is_call = "method" in message
        violation = (
            _violation_of_call(side, message) if is_call else _violation_of_response(message)
        )
        if violation is not None:
            yield violation
    elif has_version:
        yield "BASE-13", "a request, a notification or a response", ", ".join(message)[:60]


def _violation_of_call(side: Side, message: Mapping[str, Any]) -> tuple[str, str, str] | None:
    method = message["method"]
    if not isinstance(method, str):
        return "BASE-13", "a string as `method`", repr(method)
    has_id, row = "id" in message, ECA.get(method)
    if has_id and side == "server" and message["id"] is None and row is not None:
        return "W-2d", f"`{method}` as a {row.kind}", "the id null"
    if has_id and _key(message["id"]) is None:
        return "W-2b", "an integer or a string as `id`", repr(message["id"])
    if not isinstance(message.get("params"), Mapping | list | None):
        return "BASE-13", "an object as `params`", repr(message["params"])[:60]
    if side == "client" or row is None or (row.kind == "request") is has_id:
        return None
    broken = "W-15d" if method == "$/showMessage" else "W-2d"
    return broken, f"`{method}` as a {row.kind}", "an id" if has_id else "no id"


def _violation_of_response(message: Mapping[str, Any]) -> tuple[str, str, str] | None:
    has_result, has_error = "result" in message, "error" in message
    if has_result is has_error:
        got = "both" if has_result else f"only {', '.join(message) or 'an empty object'}"
        return "W-2a", "either `result` or `error`", got
    code, text = at(message, "error", "code"), at(message, "error", "message")
    if has_error and not (type(code) is int and isinstance(text, str)):
        expected = "an error with an integer `code` and a string `message`"
        return "BASE-19", expected, repr(message["error"])[:60]
    return None

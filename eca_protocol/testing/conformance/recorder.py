"""The record of a conversation: all bytes of both sides, split, decoded and watched."""

from __future__ import annotations

import codecs
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import anyio
import attrs

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.verdicts import Transmission
from eca_protocol.testing.members import object_at, text_at
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.testing.watching.field_rows import interface_name, rows_used
from eca_protocol.testing.watching.observation import other_side
from eca_protocol.transcript import Side
from eca_protocol.transcript.splitter import Splitter, message_in

MAX_BYTES: Final = 256 * 1024 * 1024
"""The limit of one side's bytes, all of which are recorded."""

MAX_MESSAGES: Final = 100_000
"""The limit of the messages in a record."""

MOST_OBSERVATIONS: Final = 100
"""The observations of one row that are kept of a conversation; the first ones say it all."""


def id_key(id_: object) -> str:
    """Return the key of an id; 1 and "1" share it, since another check compares types."""
    return id_ if isinstance(id_, str) else json.dumps(id_).decode()


@attrs.frozen(kw_only=True)
class ReceivedMessage:
    """A message, or other bytes, of either side.

    Attributes:
        index: its position in the record.
        at: seconds since the start of the conversation.
        side: the sender.
        data: the bytes, header included.
        message: the message; empty if the bytes are none.
        is_message: whether they are one.
    """

    index: int
    at: float
    side: Side
    data: bytes
    message: Mapping[str, Any]
    is_message: bool

    @property
    def method(self) -> str:
        """The method; empty for an answer."""
        return text_at(self.message, "method")

    @property
    def params(self) -> Mapping[str, Any]:
        """The params; empty if there are none."""
        return object_at(self.message, "params")

    @property
    def chat_id(self) -> str:
        """The chat's id; empty if it names none."""
        return text_at(self.message, "params", "chatId")

    @property
    def content(self) -> Mapping[str, Any]:
        """The content of a `chat/contentReceived`; else empty."""
        return object_at(self.message, "params", "content")

    @property
    def role(self) -> str:
        """The role of a content: `user`, `assistant`, or `system`, which all others are."""
        role = text_at(self.message, "params", "role")
        return role if role in ("user", "assistant") else "system"

    @property
    def transmission(self) -> Transmission:
        """The message as a finding shows it."""
        return Transmission.of(self.at, self.side, other_side(self.side), self.data)


class MessageWatcher(Protocol):
    """A judge of a conversation; each method returns its new observations."""

    def feed(
        self, side: Side, message: Mapping[str, Any], *, at: float | None = None
    ) -> list[Observation]:
        """Judge a message."""

    def feed_raw(self, side: Side, data: bytes, *, at: float | None = None) -> list[Observation]:
        """Judge bytes that are no correct message."""

    def feed_end(self, side: Side) -> list[Observation]:
        """Judge the end of a side's stream."""

    def finish(self) -> list[Observation]:
        """Judge missing messages, after the last one."""


class ObservedFields:
    """The rows of the fields and values that occurred in a conversation; they pass unless broken.

    A server's field counts when it occurs. A client's field counts when the server accepts it: in
    a request with its result, in a notification at once.
    """

    def __init__(self) -> None:
        self.rows: set[str] = set()
        self._pending: dict[tuple[Side, str], tuple[str, set[str]]] = {}

    def take(self, side: Side, message: Mapping[str, Any], key: str) -> None:
        """Take the next message."""
        method = message.get("method")
        if not isinstance(method, str):
            method, rows = self._pending.pop((other_side(side), key), ("", set()))
            if method and "result" in message:
                self.rows |= rows
                self.rows |= set(rows_used(interface_name(ECA[method].result), message["result"]))
        elif method in ECA:
            rows = set(rows_used(interface_name(ECA[method].params), message.get("params")))
            if "id" in message and side == "client":
                self._pending[side, key] = (method, rows)
            else:
                self.rows |= rows


class Recorder:
    """The record of one conversation, which a watcher judges as it grows.

    Args:
        watcher: the judge; None: that of ECA.
        splitter: makes a splitter of a stream.
        encode: writes a body as correct bytes.

    Attributes:
        began: the start of the conversation.
        record: the messages and other bytes of both sides, in order.
        messages: the server's messages in it.
        observations: those of the watcher that were not taken yet; of each row the first ones.
        is_out_of_step: whether a length of the server's was wrong: what follows is not recorded.
    """

    def __init__(
        self,
        revision: Revision | None = None,
        *,
        watcher: MessageWatcher | None = None,
        splitter: Callable[[], Splitter] = Splitter,
        encode: Callable[[bytes], bytes] = encode_frame,
    ) -> None:
        self.began: float = anyio.current_time()
        self.record: list[ReceivedMessage] = []
        self.messages: list[ReceivedMessage] = []
        self.observations: list[Observation] = []
        self.is_out_of_step: bool = False
        self._splitters = {"client": splitter(), "server": splitter()}
        self._encode = encode
        self._watcher = watcher or Watcher(revision=revision)
        self._fields = ObservedFields() if watcher is None else None
        self._counts: Counter[str] = Counter()
        self._byte_counts: Counter[Side] = Counter()

    def excess(self, side: Side) -> str:
        """Return the limit that a side exceeds, for people; empty: none."""
        if self._byte_counts[side] > MAX_BYTES:
            return f"{MAX_BYTES:,} bytes"
        return f"{MAX_MESSAGES:,} messages" if len(self.record) > MAX_MESSAGES else ""

    @property
    def now(self) -> float:
        """Seconds since the start of the conversation."""
        return anyio.current_time() - self.began

    @property
    def observed_rows(self) -> frozenset[str]:
        """The rows of the fields and values that occurred."""
        return frozenset(self._fields.rows if self._fields else ())

    def take_observations(self) -> list[Observation]:
        """Return the watcher's new observations."""
        observations, self.observations = self.observations, []
        return observations

    def record_bytes(self, side: Side, data: bytes) -> Iterator[ReceivedMessage]:
        """Record the next bytes of a side; yield each piece as it is recorded."""
        self._byte_counts[side] += len(data)
        for piece, body in self._splitters[side].feed(data):
            before = len(self.observations)
            yield self._add(side, piece, body)
            new = self.observations[before:] if side == "server" else ()
            if any(observation.requirement == "BASE-6" for observation in new):
                self.is_out_of_step = True
                return

    def record_rest(self, side: Side) -> None:
        """Record the bytes of a side that its end leaves incomplete."""
        for piece, body in self._splitters[side].feed_eof():
            self._add(side, piece, body)

    def record_end(self, side: Side) -> None:
        """Record the end of a side's stream."""
        self.record_rest(side)
        self._keep(self._watcher.feed_end(side))

    def finish(self) -> None:
        """Observe the missing messages, after the last one."""
        self._keep(self._watcher.finish())

    def _keep(self, observations: list[Observation]) -> None:
        for each in observations:
            self._counts[each.requirement] += 1
            if self._counts[each.requirement] <= MOST_OBSERVATIONS:
                self.observations.append(each)

    def _add(self, side: Side, data: bytes, body: bytes | None) -> ReceivedMessage:
        """Record a piece; a message behind a byte order mark is still understood."""
        if body is None and codecs.BOM_UTF8 in data:
            body = data.partition(codecs.BOM_UTF8)[2]
        message = None if body is None else message_in(body)
        received = ReceivedMessage(
            index=len(self.record),
            at=self.now,
            side=side,
            data=data,
            message=message or {},
            is_message=message is not None,
        )
        self.record.append(received)
        if message and body is not None and data == self._encode(body):
            self._keep(self._watcher.feed(side, message, at=received.at))
        else:
            self._keep(self._watcher.feed_raw(side, data, at=received.at))
        if message is not None:
            if self._fields is not None:
                self._fields.take(side, message, id_key(message.get("id")))
            if side == "server":
                self.messages.append(received)
        return received

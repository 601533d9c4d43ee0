"""The replay of one side of a recorded conversation to a live other side.

The recorded messages are written in order. Each waits for the other side's messages on which it
may depend: a client's earlier requests, answers and notifications, or a server's answers, requests,
announced calls and finished turns. Other streamed contents are ignored, since the size of a model's
pieces varies. Ids that the other side made are translated.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import anyio

from eca_protocol import json
from eca_protocol.errors import METHOD_NOT_FOUND, ConnectionClosed, DeadlineExceeded
from eca_protocol.framing import ContentLengthDecoder, encode_frame
from eca_protocol.streams import Transport
from eca_protocol.transcript.entries import DataEntry, EndEntry, Side, Transcript
from eca_protocol.transcript.splitter import message_in

_Step: TypeAlias = tuple[str, ...]
_Message: TypeAlias = Mapping[str, Any]


class Player:
    """The replay of one side, without I/O.

    Args:
        transcript: the conversation.
        side: the side to replay.
        process_id: replaces the recorded process id in `initialize`.
    """

    def __init__(
        self, transcript: Transcript, side: Side, *, process_id: int | None = None
    ) -> None:
        self._side = side
        self._process_id = process_id
        self._entries = [
            each for each in transcript.entries if isinstance(each, DataEntry | EndEntry)
        ]
        self._next = 0
        self._recorded: dict[_Step, list[_Message]] = {}
        self._received_steps: Counter[_Step] = Counter()
        self._required_steps: Counter[_Step] = Counter()
        self._ids: dict[str, str] = {}
        self._request_ids: dict[bytes, Any] = {}
        self._refusals: list[bytes] = []
        for message in self._their_messages():
            step = self._step(message)
            if step is not None:
                self._recorded.setdefault(step, []).append(message)

    @property
    def is_over(self) -> bool:
        """True if all messages were written, and all required ones received."""
        self._advance()
        return self._next == len(self._entries) and not self.missing

    @property
    def missing(self) -> list[str]:
        """Descriptions of the messages that must arrive before the replay continues."""
        self._advance()
        return [" ".join(step) for step in (self._required_steps - self._received_steps)]

    def receive(self, message: _Message) -> None:
        """Take a message of the other side."""
        step = self._step(message)
        if step is None:
            return
        recorded = self._recorded.get(step, [])
        number = self._received_steps[step]
        self._received_steps[step] += 1
        is_request = "method" in message and "id" in message
        if number < len(recorded):
            pairs = zip(_ids(recorded[number]), _ids(message), strict=True)
            self._ids.update((one, other) for one, other in pairs if one and other)
            if is_request:
                self._request_ids[json.dumps(recorded[number]["id"])] = message["id"]
        elif is_request:
            error = {"code": METHOD_NOT_FOUND, "message": "the transcript has no such request"}
            refusal = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            self._refusals.append(encode_frame(json.dumps(refusal)))

    def due_frames(self) -> Iterator[bytes | None]:
        """Yield the frames to write now; None is the end of our stream."""
        while self._refusals:
            yield self._refusals.pop(0)
        while not self.missing and self._next < len(self._entries):
            entry = self._entries[self._next]
            self._next += 1
            yield self._translate(entry) if isinstance(entry, DataEntry) else None

    def _their_messages(self) -> Iterator[_Message]:
        for entry in self._entries:
            message = entry.message if isinstance(entry, DataEntry) else None
            if message is not None and entry.side != self._side:
                yield message

    def _advance(self) -> None:
        """Advance to our next entry; the other side's messages before it become required."""
        while self._next < len(self._entries):
            entry = self._entries[self._next]
            if entry.side == self._side:
                return
            self._next += 1
            message = entry.message if isinstance(entry, DataEntry) else None
            step = None if message is None else self._step(message)
            if step is not None:
                self._required_steps[step] += 1

    def _step(self, message: _Message) -> _Step | None:
        """Return the kind of a message of the other side; None if the replay ignores it."""
        method = message.get("method")
        if method is None:
            return "the answer to", json.dumps(message.get("id")).decode()
        if "id" in message:
            return "the request", str(method)
        if self._side == "server":
            return "the notification", str(method)
        params = message.get("params")
        content = params.get("content") if isinstance(params, Mapping) else None
        if isinstance(content, Mapping):
            if content.get("state") == "finished":
                return ("the end of a turn",)
            if content.get("type") == "toolCallRun":
                return ("a tool call",)
        return None

    def _translate(self, entry: DataEntry) -> bytes:
        message = entry.message
        if message is None:
            return entry.data
        now = _replace_ids(message, self._ids)
        if "id" in message:
            is_answer = "method" not in message
            ours = message["id"]
            now["id"] = self._request_ids.get(json.dumps(ours), ours) if is_answer else ours
        if self._process_id is not None and message.get("method") == "initialize":
            params = now.get("params")
            fields = params if isinstance(params, dict) else {}
            now["params"] = {**fields, "processId": self._process_id}
        return entry.data if now == message else encode_frame(json.dumps(now))


def _ids(message: _Message) -> list[str | None]:
    """Return the ids that the writer of a message may have made, in a fixed order."""
    ids: list[Any] = []
    for part in ("params", "result"):
        value = message.get(part)
        inner = value if isinstance(value, Mapping) else {}
        content = inner.get("content")
        ids += [inner.get(name) for name in ("chatId", "contentId", "toolCallId")]
        ids.append(content.get("id") if isinstance(content, Mapping) else None)
    return [each if isinstance(each, str) else None for each in ids]


def _replace_ids(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replace_ids(item, ids) for key, item in value.items()}
    if isinstance(value, list):
        return [_replace_ids(item, ids) for item in value]
    return ids.get(value, value) if isinstance(value, str) else value


async def play(
    transcript: Transcript, transport: Transport, side: Side, *, deadline: float = 30.0
) -> list[dict[str, Any]]:
    """Replay one side of a conversation; return the messages of the other side.

    Args:
        transcript: the conversation.
        transport: the stream to the other side; it is closed at the end of the replay.
        side: the side to replay.
        deadline: the limit of the other side's silence, in seconds.

    Raises:
        DeadlineExceeded: the other side did not send a required message, which the error names, or
            did not read.
        ConnectionClosed: the other side has closed too early.
    """
    player = Player(transcript, side, process_id=os.getpid() if side == "client" else None)
    decoder = ContentLengthDecoder()
    messages: list[dict[str, Any]] = []
    try:
        while True:
            with anyio.move_on_after(deadline) as scope:
                data = await _exchange(player, transport)
            if scope.cancelled_caught:
                raise DeadlineExceeded(_describe_missing(player), deadline)
            if data is None:
                return messages
            if not data:
                raise ConnectionClosed(
                    f"the other side closed; missing: {_describe_missing(player)}"
                )
            for body in decoder.feed(data):
                message = message_in(body) if isinstance(body, bytes) else None
                if message is not None:
                    messages.append(message)
                    player.receive(message)
    finally:
        await transport.aclose()


def _describe_missing(player: Player) -> str:
    return ", ".join(player.missing) or "a reader of our messages"


async def _exchange(player: Player, transport: Transport) -> bytes | None:
    """Write the due frames, then read; return None when finished, `b""` at its end."""
    try:
        for frame in player.due_frames():
            if frame is None:
                return None
            await transport.send(frame)
        return None if player.is_over else await transport.receive()
    except OSError:
        return b""

"""A connection to the client under test: its record, and the messages that the suite writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import anyio
import anyio.abc

from eca_protocol import json
from eca_protocol.errors import ConnectionClosed
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.recorder import ReceivedMessage, Recorder


class Connection(Protocol):
    """Two streams of bytes, to and from the client."""

    async def send(self, data: bytes, /) -> None:
        """Write bytes; a closed connection is an error."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty, or an error, at the end."""


class ClientLink:
    """One connection, from the client's first byte to its last.

    Attributes:
        answers: the client's answers to the server's requests, by id as JSON.
        ended: whether the client has closed its end.
        changed: is set, and replaced, at each event.
        tasks: background tasks, until the end.
        patience: seconds to wait for an action that a client may never take.
        answer_seconds: seconds to wait for an answer; shorter once one has not come.
    """

    patience: float = 2.0
    answer_seconds: float = 8.0

    def __init__(self, connection: Connection, edition: Revision) -> None:
        self.edition = edition
        self.recorder: Recorder = Recorder(edition)
        self.answers: dict[str, list[Mapping[str, Any]]] = {}
        self.ended: bool = False
        self.changed: anyio.Event = anyio.Event()
        self.tasks: anyio.abc.TaskGroup
        self.connection = connection
        self._writing = anyio.Lock()
        self._slowest_answer = 0.0

    @property
    def record(self) -> list[ReceivedMessage]:
        """The bytes of both sides, in order."""
        return self.recorder.record

    async def run(self) -> None:
        """Serve until the client closes its end, or sends `exit`."""
        async with anyio.create_task_group() as self.tasks:
            await self._listen()
            self.ended = True
            self._wake()
            self.tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        while not self.recorder.excess("client") and (data := await self._receive()):
            for received in list(self.recorder.record_bytes("client", data)):
                await self._take(received)
                if received.method == "exit":
                    return
        self.recorder.record_rest("client")

    async def _receive(self) -> bytes:
        try:
            return await self.connection.receive()
        except (ConnectionClosed, anyio.EndOfStream, anyio.BrokenResourceError):
            return b""

    async def _take(self, received: ReceivedMessage) -> None:
        if received.method and "id" in received.message:
            await self.on_request(received.method, received.message["id"], received.params)
        elif received.method:
            await self.on_notification(received)
        elif received.is_message:
            self.answers.setdefault(_key(received.message.get("id")), []).append(received.message)
        self._wake()

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    # Methods that a case may override.

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield a message in the pieces in which it is written."""
        yield encode_frame(json.dumps(message))

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        """Handle a request; slow work runs in a task of its own."""

    async def on_notification(self, received: ReceivedMessage) -> None:
        """Handle a notification."""

    # Methods that write.

    async def answer(self, id_: Any, result: Any) -> None:
        """Answer with a result."""
        await self.send_message({"jsonrpc": "2.0", "id": id_, "result": result})

    async def refuse(self, id_: Any, code: Any, text: str) -> None:
        """Answer with an error."""
        await self.send_message(
            {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}}
        )

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        await self.send_message({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(self, id_: Any, method: str, params: Any) -> list[Mapping[str, Any]]:
        """Send a request; return the answers to it."""
        await self.send_message({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        await self.until_answered(lambda: _key(id_) in self.answers)
        return self.answers.get(_key(id_), [])

    async def until_answered(self, condition: Callable[[], bool]) -> bool:
        """Wait for an answer, which may take long; a client that owes one is silent or slow.

        The answers after a missing one get four times as long as the slowest before it.
        """
        start = anyio.current_time()
        is_answered = await self.until(condition, seconds=self.answer_seconds)
        if is_answered:
            self._slowest_answer = max(self._slowest_answer, anyio.current_time() - start)
        else:
            self.answer_seconds = min(self.answer_seconds, max(0.5, 4 * self._slowest_answer))
        return is_answered

    async def content(self, chat_id: str, role: str, content: Mapping[str, Any]) -> None:
        """Send a content of a chat."""
        params = {"chatId": chat_id, "role": role, "content": content}
        await self.notify("chat/contentReceived", params)

    async def text(self, chat_id: str, text: str) -> None:
        """Send a piece of the model's text."""
        await self.content(chat_id, "assistant", {"type": "text", "text": text})

    async def progress(self, chat_id: str, state: str, text: str) -> None:
        """Send the progress of a turn."""
        await self.content(chat_id, "system", {"type": "progress", "state": state, "text": text})

    async def send_message(self, message: Mapping[str, Any]) -> None:
        """Write a message in the pieces that `frames` yields."""
        async with self._writing:
            for piece in self.frames(message):
                await self._send(piece)

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        async with self._writing:
            await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Write bytes; a closed connection is not an error of the client."""
        for _ in self.recorder.record_bytes("server", data):
            pass
        try:
            await self.connection.send(data)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.ended = True

    async def until(self, condition: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Wait until a condition holds; return whether it does."""
        with anyio.move_on_after(self.patience if seconds is None else seconds):
            while not condition():
                await self.changed.wait()
        return condition()


def _key(id_: Any) -> str:
    return json.dumps(id_).decode()

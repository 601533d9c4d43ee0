"""The server that a client under test talks with, scripted by the suite.

`ScriptedServer` is plain: it has a chat, one model and one tool. A case is a subclass with one
deviation, so that the client, which does the same each time, must get as far as with the plain
server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

import anyio
import anyio.abc
import attrs

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.verdicts import Transmission
from eca_protocol.testing.conformance.wire import MAX_OUTPUT_BYTES
from eca_protocol.transcript import Side
from eca_protocol.transcript.splitter import Splitter, message_in

__all__ = ["DECISIONS", "MODEL", "Connection", "RecordEntry", "ScriptedServer"]

MODEL: Final = "conformance/played"
DECISIONS: Final = ("chat/toolCallApprove", "chat/toolCallReject")
_GREETING: Final = 20.0
_ECHOED_TOOL: Final = "eca_read_file"


class Connection(Protocol):
    """Two streams of bytes, to and from the client."""

    async def send(self, data: bytes) -> None:
        """Write bytes, or raise OSError."""

    async def receive(self) -> bytes:
        """Return the next bytes; empty at the end."""


@attrs.frozen(kw_only=True)
class RecordEntry:
    """A frame, or other bytes, of either side.

    Attributes:
        message: None where the bytes are no message.
    """

    at: float
    side: Side
    data: bytes
    message: Mapping[str, Any] | None

    @property
    def method(self) -> str:
        """The message's method; empty for an answer, or for no message."""
        method = (self.message or {}).get("method")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> Mapping[str, Any]:
        """The message's params; empty where they are no object."""
        params = (self.message or {}).get("params")
        return params if isinstance(params, Mapping) else {}

    @property
    def transmission(self) -> Transmission:
        """The entry as a finding shows it."""
        other: Side = "server" if self.side == "client" else "client"
        return Transmission.of(self.at, self.side, other, self.data)


class ScriptedServer:
    """A server for one connection, from the client's first byte to its last.

    Attributes:
        record: the bytes of both sides, in order.
        answers: the client's answers to the server's requests, by id as JSON.
        decisions: the client's approvals and rejections.
        is_shut_down: whether the client has sent `shutdown`.
        greeted: whether the announcements before the first prompt are done.
        ended: whether the client has closed its end.
        tasks: background tasks, until the end.
        patience: seconds to wait for an action that a client may never take.
        reason: the reason of a rejected call.
    """

    patience: float = 2.0
    reason: str = "user-choice"

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        """Prepare to talk.

        Args:
            connection: to the client.
            edition: which is spoken.
            calls: whether turns have a call that needs approval. It is off for clients that never
                decide, where each call would wait for the whole patience.
        """
        self.edition = edition
        self.calls = calls
        self.greeted = False
        self._is_initialized = False
        self.record: list[RecordEntry] = []
        self.answers: dict[str, list[Mapping[str, Any]]] = {}
        self.decisions: list[RecordEntry] = []
        self.is_shut_down = False
        self.ended = False
        self.changed = anyio.Event()
        self.tasks: anyio.abc.TaskGroup
        self._writing = anyio.Lock()
        self.connection = connection
        self._splitters: dict[Side, Splitter] = {"client": Splitter(), "server": Splitter()}
        self._began = anyio.current_time()
        self._turns: dict[str, anyio.CancelScope] = {}
        self._busy: dict[str, anyio.Lock] = {}
        self._chats = 0
        self._calls = 0

    async def run(self) -> None:
        """Serve until the client closes its end, or sends `exit`."""
        async with anyio.create_task_group() as self.tasks:
            await self._listen()
            self.ended = True
            self._wake()
            self.tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        received = 0
        while (data := await self.connection.receive()) and received <= MAX_OUTPUT_BYTES:
            received += len(data)
            for entry in self._add_entries("client", data):
                await self._take(entry)
                if entry.method == "exit":
                    return
        for piece, _ in self._splitters["client"].feed_eof():
            self.record.append(RecordEntry(at=self._now, side="client", data=piece, message=None))

    async def _take(self, entry: RecordEntry) -> None:
        message = entry.message
        if message is None:
            await self.on_invalid_bytes(entry)
        elif not entry.method:
            self.answers.setdefault(_key(message.get("id")), []).append(message)
        elif "id" in message:
            await self.on_request(entry.method, message["id"], entry.params)
        else:
            await self.on_notification(entry)
        self._wake()

    @property
    def _now(self) -> float:
        return anyio.current_time() - self._began

    def _add_entries(self, side: Side, data: bytes) -> list[RecordEntry]:
        passed = [
            RecordEntry(
                at=self._now,
                side=side,
                data=piece,
                message=None if body is None else message_in(body),
            )
            for piece, body in self._splitters[side].feed(data)
        ]
        self.record += passed
        return passed

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    # Methods that a case may override.

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield a message in the pieces in which it is written."""
        yield encode_frame(json.dumps(message))

    async def on_invalid_bytes(self, entry: RecordEntry) -> None:
        """Take bytes that are no message; the record has them."""

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        """Handle a request; slow work runs in a task of its own."""
        if method == "chat/prompt":
            self.tasks.start_soon(self.turn, id_, params)
        elif method == "shutdown":
            self.is_shut_down = True
            self.tasks.start_soon(self.on_shutdown, id_)
        elif method == "initialize":
            self.tasks.start_soon(self.on_initialize, id_, params)
        elif method in ("chat/queryContext", "chat/queryFiles", "chat/queryCommands"):
            result_name = method.removeprefix("chat/query").lower().replace("context", "contexts")
            chat = {"chatId": params["chatId"]} if isinstance(params.get("chatId"), str) else {}
            await self.answer(id_, {**chat, result_name: []})
        elif method == "chat/delete":
            await self.answer(id_, {})
        else:
            await self.refuse(id_, -32601, f"Method not found: {method}")

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Answer `initialize`."""
        await self.answer(id_, {"chatWelcomeMessage": "Welcome to the conformance suite."})

    async def on_shutdown(self, id_: Any) -> None:
        """Answer `shutdown`."""
        await self.answer(id_, None)

    async def on_notification(self, entry: RecordEntry) -> None:
        """Handle a notification."""
        chat = entry.params.get("chatId")
        if entry.method == "initialized":
            self._is_initialized = True
            self.tasks.start_soon(self._greet_then_continue)
        elif entry.method == "chat/promptStop":
            if isinstance(chat, str) and chat in self._turns:
                self._turns[chat].cancel()
        elif entry.method in DECISIONS:
            self.decisions.append(entry)

    async def _greet_then_continue(self) -> None:
        await self.greet()
        await self.after_greeting()
        self.greeted = True
        self._wake()

    async def greet(self) -> None:
        """Send a server's announcements after `initialized`."""
        await self.notify("config/updated", {"chat": self.chat_config()})
        tool = {
            "name": "read_file" if self.edition is Revision.CURRENT else _ECHOED_TOOL,
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "disabled": False,
        }
        await self.notify(
            "tool/serverUpdated",
            {"type": "native", "name": "ECA", "status": "running", "tools": [tool]},
        )

    def chat_config(self) -> dict[str, Any]:
        """Return `chat` of the first `config/updated`."""
        agent = "code" if self.edition is Revision.CURRENT else "agent"
        config = {
            "models": [MODEL],
            "selectModel": MODEL,
            "behaviors": [agent, "plan"],
            "selectBehavior": agent,
            "agents": [agent, "plan"],
            "selectAgent": agent,
            "welcomeMessage": "Welcome.",
        }
        return {**config, "variants": []} if self.edition is Revision.CURRENT else config

    async def after_greeting(self) -> None:
        """Do nothing; a case may act here before the first prompt."""

    async def turn(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Run a turn after the announcements; a stop ends it.

        A prompt to a busy chat is answered at once, and its turn waits for the one before.
        """
        if await self.until(lambda: self._is_initialized):
            await self.until(lambda: self.greeted, seconds=_GREETING)
        self._chats += 1
        requested = params.get("chatId")
        chat_id = requested if isinstance(requested, str) else f"played-{self._chats}"
        answer = {"chatId": chat_id, "model": MODEL, "status": "prompting"}
        busy = self._busy.setdefault(chat_id, anyio.Lock())
        has_to_wait = busy.locked()
        if has_to_wait:
            await self.answer(id_, answer)
        async with busy:
            with anyio.CancelScope() as scope:
                self._turns[chat_id] = scope
                await self.progress(chat_id, "running", "Thinking")
                await self.content(
                    chat_id, "user", {"type": "text", "text": str(params.get("message", ""))}
                )
                if not has_to_wait:
                    await self.answer(id_, answer)
                await self.body(chat_id, params)
            await self.progress(chat_id, "finished", "")
            await self.after_turn(chat_id)

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        """Send text, a tool call that needs approval, and usage."""
        await self.text(chat_id, "Hello, ")
        await self.text(chat_id, "client.")
        if self.calls:
            await self.call(chat_id)
        await self.content(
            chat_id,
            "system",
            {"type": "usage", "messageInputTokens": 3, "messageOutputTokens": 2,
             "sessionTokens": 5},
        )  # fmt: skip

    async def after_turn(self, chat_id: str) -> None:
        """Do nothing; a case may send more here."""

    async def call(self, chat_id: str, **details: Any) -> None:
        """Send a tool call that needs approval; reject it if the user does not decide."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        native = self.edition is Revision.CURRENT
        head = {
            "id": call_id,
            "name": "read_file" if native else _ECHOED_TOOL,
            "server": "eca",
            "origin": "native",
            "summary": "Reading a file",
        }
        arguments = {"path": "a file"}
        for piece in ('{"path": ', '"a file"}'):
            await self.content(
                chat_id, "assistant", {"type": "toolCallPrepare", **head, "argumentsText": piece}
            )
        run = {"type": "toolCallRun", **head, "arguments": arguments, "manualApproval": True}
        await self.content(chat_id, "assistant", {**run, **details})
        decision = await self._decision(call_id)
        if decision == "chat/toolCallApprove":
            running = {"type": "toolCallRunning", **head, "arguments": arguments}
            await self.content(chat_id, "assistant", running)
            outputs = [{"type": "text", "text": "what is in it"}]
            called = {"type": "toolCalled", **head, "arguments": arguments, "error": False}
            await self.content(
                chat_id, "assistant", {**called, "outputs": outputs, "totalTimeMs": 1}
            )
        else:
            rejected = {"type": "toolCallRejected", **head, "arguments": arguments}
            await self.content(chat_id, "assistant", {**rejected, "reason": self.reason})

    async def _decision(self, call_id: str) -> str:
        with anyio.move_on_after(self.patience):
            while True:
                for entry in self.decisions:
                    if entry.params.get("toolCallId") == call_id:
                        return entry.method
                await self.changed.wait()
        return ""

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

    async def ask(
        self, id_: Any, method: str, params: Any, *, seconds: float | None = None
    ) -> list[Mapping[str, Any]]:
        """Send a request; return the answers to it."""
        await self.send_message({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        await self.until(lambda: _key(id_) in self.answers, seconds=seconds)
        return self.answers.get(_key(id_), [])

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
        self._add_entries("server", data)
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

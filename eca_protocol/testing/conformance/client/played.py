"""The server that a client under test talks with, played by the suite.

`PlayedServer` is a plain one: it has a chat, one model, one tool, and does nothing odd. A case is
a subclass that does one odd thing; whatever it leaves alone stays plain, so that the client, which
does what it does every time, must get as far as it gets with the plain server.
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
from eca_protocol.testing.conformance.verdicts import Exchanged
from eca_protocol.testing.conformance.wire import MOST_SAID
from eca_protocol.transcript import Side
from eca_protocol.transcript.splitter import Splitter, message_in

__all__ = ["DECISIONS", "MODEL", "Connection", "PlayedServer", "Said"]

MODEL: Final = "conformance/played"
DECISIONS: Final = ("chat/toolCallApprove", "chat/toolCallReject")
_GREETING: Final = 20.0
_ECHOED_TOOL: Final = "eca_read_file"


class Connection(Protocol):
    """Two streams of bytes, to and from the client."""

    async def send(self, data: bytes) -> None:
        """Write, or raise OSError."""

    async def receive(self) -> bytes:
        """What comes next; empty at the end."""


@attrs.frozen(kw_only=True)
class Said:
    """One thing that passed.

    Attributes:
        message: None where the bytes are no message.
    """

    at: float
    side: Side
    data: bytes
    message: Mapping[str, Any] | None

    @property
    def method(self) -> str:
        """Its method; empty for an answer, or for no message."""
        method = (self.message or {}).get("method")
        return method if isinstance(method, str) else ""

    @property
    def params(self) -> Mapping[str, Any]:
        """Its params; empty where they are no object."""
        params = (self.message or {}).get("params")
        return params if isinstance(params, Mapping) else {}

    @property
    def exchanged(self) -> Exchanged:
        """As a finding keeps it."""
        other: Side = "server" if self.side == "client" else "client"
        return Exchanged.of(self.at, self.side, other, self.data)


class PlayedServer:
    """One connection, from the client's first byte to its last.

    Attributes:
        said: what both sides wrote, in order.
        answers: what the client answered to requests of ours, by id as JSON.
        decided: the client's approvals and rejections.
        is_shut_down: it has asked for `shutdown`.
        greeted: what a case does before the first prompt is done.
        ended: the client has closed its end.
        tasks: what goes on beside the reading, until the end.
        patience: seconds that are waited for what a client may never do.
        reason: of the user's no to a call.
    """

    patience: float = 2.0
    reason: str = "user-choice"

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        """Prepare to talk.

        Args:
            connection: to the client.
            edition: which is spoken.
            calls: whether turns have a call that waits for the user: with a client that never
                decides each would take the whole patience.
        """
        self.edition = edition
        self.calls = calls
        self.greeted = False
        self._is_to_be_greeted = False
        self.said: list[Said] = []
        self.answers: dict[str, list[Mapping[str, Any]]] = {}
        self.decided: list[Said] = []
        self.is_shut_down = False
        self.ended = False
        self.changed = anyio.Event()
        self.tasks: anyio.abc.TaskGroup
        self._writing = anyio.Lock()
        self.connection = connection
        self._cut: dict[Side, Splitter] = {"client": Splitter(), "server": Splitter()}
        self._began = anyio.current_time()
        self._turns: dict[str, anyio.CancelScope] = {}
        self._busy: dict[str, anyio.Lock] = {}
        self._chats = 0
        self._calls = 0

    async def run(self) -> None:
        """Talk until the client closes its end, or says `exit`."""
        async with anyio.create_task_group() as self.tasks:
            await self._listen()
            self.ended = True
            self._wake()
            self.tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        received = 0
        while (data := await self.connection.receive()) and received <= MOST_SAID:
            received += len(data)
            for said in self._note("client", data):
                await self._take(said)
                if said.method == "exit":
                    return
        for piece, _ in self._cut["client"].feed_eof():
            self.said.append(Said(at=self._now, side="client", data=piece, message=None))

    async def _take(self, said: Said) -> None:
        message = said.message
        if message is None:
            await self.on_noise(said)
        elif not said.method:
            self.answers.setdefault(_key(message.get("id")), []).append(message)
        elif "id" in message:
            await self.on_request(said.method, message["id"], said.params)
        else:
            await self.on_notification(said)
        self._wake()

    @property
    def _now(self) -> float:
        return anyio.current_time() - self._began

    def _note(self, side: Side, data: bytes) -> list[Said]:
        passed = [
            Said(
                at=self._now,
                side=side,
                data=piece,
                message=None if body is None else message_in(body),
            )
            for piece, body in self._cut[side].feed(data)
        ]
        self.said += passed
        return passed

    def _wake(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    # What a case may do otherwise.

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        """A message as the pieces in which it is written."""
        yield encode_frame(json.dumps(message))

    async def on_noise(self, said: Said) -> None:
        """The client wrote what is no message; the record has it."""

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        """Take a request; what takes time goes on in a task of its own."""
        if method == "chat/prompt":
            self.tasks.start_soon(self.turn, id_, params)
        elif method == "shutdown":
            self.is_shut_down = True
            self.tasks.start_soon(self.on_shutdown, id_)
        elif method == "initialize":
            self.tasks.start_soon(self.on_initialize, id_, params)
        elif method in ("chat/queryContext", "chat/queryFiles", "chat/queryCommands"):
            what = method.removeprefix("chat/query").lower().replace("context", "contexts")
            chat = {"chatId": params["chatId"]} if isinstance(params.get("chatId"), str) else {}
            await self.answer(id_, {**chat, what: []})
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

    async def on_notification(self, said: Said) -> None:
        """Take what needs no answer."""
        chat = said.params.get("chatId")
        if said.method == "initialized":
            self._is_to_be_greeted = True
            self.tasks.start_soon(self._greet_and_go_on)
        elif said.method == "chat/promptStop":
            if isinstance(chat, str) and chat in self._turns:
                self._turns[chat].cancel()
        elif said.method in DECISIONS:
            self.decided.append(said)

    async def _greet_and_go_on(self) -> None:
        await self.greet()
        await self.after_greeting()
        self.greeted = True
        self._wake()

    async def greet(self) -> None:
        """What a server tells after `initialized`."""
        await self.tell("config/updated", {"chat": self.chat_config()})
        tool = {
            "name": "read_file" if self.edition is Revision.CURRENT else _ECHOED_TOOL,
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "disabled": False,
        }
        await self.tell(
            "tool/serverUpdated",
            {"type": "native", "name": "ECA", "status": "running", "tools": [tool]},
        )

    def chat_config(self) -> dict[str, Any]:
        """What the first `config/updated` tells of chats."""
        agent = "code" if self.edition is Revision.CURRENT else "agent"
        told = {
            "models": [MODEL],
            "selectModel": MODEL,
            "behaviors": [agent, "plan"],
            "selectBehavior": agent,
            "agents": [agent, "plan"],
            "selectAgent": agent,
            "welcomeMessage": "Welcome.",
        }
        return {**told, "variants": []} if self.edition is Revision.CURRENT else told

    async def after_greeting(self) -> None:
        """The place for a case to do something before the first prompt."""

    async def turn(self, id_: Any, params: Mapping[str, Any]) -> None:
        """A whole turn, once the greeting is over; a stop ends it as a server has to.

        A prompt to a busy chat is answered at once, and its turn waits for the one before.
        """
        if await self.until(lambda: self._is_to_be_greeted):
            await self.until(lambda: self.greeted, seconds=_GREETING)
        self._chats += 1
        asked = params.get("chatId")
        chat_id = asked if isinstance(asked, str) else f"played-{self._chats}"
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
        """What the model says, a call of a tool that waits for the user, and usage."""
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
        """The place for a case to say something more."""

    async def call(self, chat_id: str, **details: Any) -> None:
        """A call of a tool that waits for the user, and does nothing when he says nothing."""
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
                for said in self.decided:
                    if said.params.get("toolCallId") == call_id:
                        return said.method
                await self.changed.wait()
        return ""

    # How things are said.

    async def answer(self, id_: Any, result: Any) -> None:
        """A success."""
        await self.say({"jsonrpc": "2.0", "id": id_, "result": result})

    async def refuse(self, id_: Any, code: Any, text: str) -> None:
        """An error."""
        await self.say({"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": text}})

    async def tell(self, method: str, params: Any) -> None:
        """A notification."""
        await self.say({"jsonrpc": "2.0", "method": method, "params": params})

    async def ask(
        self, id_: Any, method: str, params: Any, *, seconds: float | None = None
    ) -> list[Mapping[str, Any]]:
        """A request, and the answers that come to it while one is waited for."""
        await self.say({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        await self.until(lambda: _key(id_) in self.answers, seconds=seconds)
        return self.answers.get(_key(id_), [])

    async def content(self, chat_id: str, role: str, content: Mapping[str, Any]) -> None:
        """A content of a chat."""
        params = {"chatId": chat_id, "role": role, "content": content}
        await self.tell("chat/contentReceived", params)

    async def text(self, chat_id: str, text: str) -> None:
        """A piece of what the model says."""
        await self.content(chat_id, "assistant", {"type": "text", "text": text})

    async def progress(self, chat_id: str, state: str, text: str) -> None:
        """The progress of a turn."""
        await self.content(chat_id, "system", {"type": "progress", "state": state, "text": text})

    async def say(self, message: Mapping[str, Any]) -> None:
        """Write a message, in the pieces that the case makes of it."""
        async with self._writing:
            for piece in self.frames(message):
                await self._send(piece)

    async def write(self, data: bytes) -> None:
        """Write bytes that are no message, or not one as others are written."""
        async with self._writing:
            await self._send(data)

    async def _send(self, data: bytes) -> None:
        """Write; a client that is gone hears nothing, which is no fault of its own."""
        self._note("server", data)
        try:
            await self.connection.send(data)
        except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self.ended = True

    async def until(self, condition: Callable[[], bool], *, seconds: float | None = None) -> bool:
        """Wait until that is so, with patience or for that many seconds; whether it is."""
        with anyio.move_on_after(self.patience if seconds is None else seconds):
            while not condition():
                await self.changed.wait()
        return condition()


def _key(id_: Any) -> str:
    return json.dumps(id_).decode()

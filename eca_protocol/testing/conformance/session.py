"""A client session at a server: it writes any bytes, and receives the messages that concern it.

Sessions may share a server, each with its own chats and request ids. A session receives the answers
to its requests, the messages of its chats, and all messages without an owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import NotApplicable, Unmet
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.model import AnswersWith, bare_name
from eca_protocol.testing.conformance.target import merged
from eca_protocol.testing.conformance.verdicts import Party, Transmission
from eca_protocol.testing.conformance.wire import ReceivedMessage, RecordEntry, Wire, id_key

if TYPE_CHECKING:
    from eca_protocol.testing.conformance.harness import Harness

__all__ = ["UNSET", "ClientSession", "Process"]

UNSET: Final[Any] = object()
"""The marker of a missing member, as opposed to null."""

_START_SECONDS: Final = 30.0


class Process:
    """The server's process."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def pid(self) -> int | None:
        """The process id; None inside the suite."""
        return self._wire.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._wire.exit_code is None and not self._wire.gone.is_set()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._wire.exit_code

    @property
    def errors(self) -> str:
        """The end of its stderr."""
        return self._wire.errors

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._wire.send_signal(number)


class ClientSession:
    """A client's session at a server.

    Attributes:
        messages: the server's messages that concern this session, in order.
        workspace: this session's own directory in the server's workspace.
        root: the workspace of the server; the same if the session has the server alone.
        process: the server's process.
        initialized: the answer to `initialize`, whole; empty if there was none.
    """

    def __init__(self, harness: Harness, wire: Wire, *, alone: bool) -> None:
        self._harness = harness
        self.wire = wire
        self.messages: list[ReceivedMessage] = []
        self._chats: list[ChatSession] = []
        self.root: Path = wire.directories.workspace
        self.workspace = self.root if alone else self.root / f"session-{wire.next_id()}"
        self.process = Process(wire)
        self.initialized: Mapping[str, Any] = {}
        self.workspace.mkdir(exist_ok=True)
        wire.sessions.append(self)

    def exchange(self, most: int) -> tuple[Transmission, ...]:
        """Return the last messages that concern this session, the model's included."""
        mine = [each.transmission for each in self.wire.record if self._concerns(each)]
        for chat in self._chats:
            for at, party, data in chat.model.traffic:
                other: Party = "model" if party == "server" else "server"
                mine.append(Transmission.of(at - self.wire.began, party, other, data))
        return tuple(sorted(mine, key=lambda each: each.at)[-most:])

    def _concerns(self, recorded: RecordEntry) -> bool:
        owner = (
            self.wire.chat_owners.get(recorded.chat_id)
            if recorded.answered_id is None
            else self.wire.id_owners.get(recorded.answered_id)
        )
        return owner is None or owner is self

    def close(self) -> None:
        """Stop receiving messages."""
        self.wire.sessions.remove(self)

    @property
    def case(self) -> str:
        """The case of this session."""
        return self._harness.case

    @property
    def edition(self) -> Revision:
        """The edition that is spoken."""
        return self._harness.edition

    @property
    def replies(self) -> dict[str, Any]:
        """The answers to the server's requests, by method; see `Wire`."""
        return self.wire.replies

    def receive(self, received: ReceivedMessage) -> None:
        """Take a message if it concerns this session."""
        owner = self._owner(received)
        if owner is None or owner is self:
            self.messages.append(received)
        if owner is self and not received.method:
            result = received.message.get("result")
            named = result.get("chatId") if isinstance(result, Mapping) else None
            if isinstance(named, str) and named:
                self.claim(named)

    def _owner(self, received: ReceivedMessage) -> object:
        if received.method:
            return self.wire.chat_owners.get(received.chat_id)
        return self.wire.id_owners.get(id_key(received.message.get("id")))

    def claim(self, chat_id: str) -> None:
        """Claim a chat: its messages concern this session only."""
        self.wire.chat_owners[chat_id] = self
        for session in self.wire.sessions:
            if isinstance(session, ClientSession) and session is not self:
                session.messages[:] = [each for each in session.messages if each.chat_id != chat_id]

    async def write(self, data: bytes) -> None:
        """Write bytes as they are.

        Raises:
            Unmet: the server does not read.
        """
        await self.wire.write(data)

    async def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Write a message, or the bytes of a body, as one frame.

        Raises:
            Unmet: the server does not read.
        """
        if isinstance(message, Mapping) and "method" in message and "id" in message:
            self.wire.id_owners.setdefault(id_key(message["id"]), self)
        if isinstance(message, bytes):
            await self.write(encode_frame(message))
        else:
            await self.write(self._harness.target.personality.frame(message))

    async def request(self, method: str, params: Any = UNSET, *, id: Any = UNSET) -> Any:  # noqa: A002
        """Send a request; its id, which is new unless one is given.

        Raises:
            Unmet: the server does not read.
        """
        request_id = self.wire.next_id() if id is UNSET else id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        await self.send({**message, **self._params(params)})
        return request_id

    async def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification.

        Raises:
            Unmet: the server does not read.
        """
        message = {"jsonrpc": "2.0", "method": method}
        await self.send({**message, **self._params(params)})

    def _params(self, params: Any) -> Mapping[str, Any]:
        extra_params = self._harness.target.personality.extra_params
        if params is UNSET:
            return {}
        return {"params": {**extra_params, **params} if isinstance(params, Mapping) else params}

    async def answer(self, id: Any, *, seconds: float = 5) -> Mapping[str, Any]:  # noqa: A002
        """Wait for the whole answer to that request.

        Raises:
            Unmet: it does not arrive in time.
        """
        key = id_key(id)

        def is_answer(message: Mapping[str, Any]) -> bool:
            return "method" not in message and id_key(message.get("id")) == key

        expected = f"an answer to the request {key}"
        return (await self.until(is_answer, seconds=seconds, expected=expected)).message

    async def ask(
        self, method: str, params: Any = UNSET, *, seconds: float = 5
    ) -> Mapping[str, Any]:
        """Send a request; return the whole answer.

        Raises:
            Unmet: it does not arrive in time.
        """
        return await self.answer(await self.request(method, params), seconds=seconds)

    async def settle(self) -> None:
        """Wait until the server has read all messages: it answers a request behind them.

        Raises:
            Unmet: there is no answer.
        """
        await self.ask("chat/queryCommands", {"query": ""})

    async def until(
        self,
        is_wanted: Callable[[Mapping[str, Any]], object],
        *,
        seconds: float = 5,
        expected: str,
        after: ReceivedMessage | None = None,
        shows: str | None = None,
    ) -> ReceivedMessage:
        """Return the first message, received already or later, that is wanted.

        Args:
            is_wanted: called with each whole message.
            seconds: the time limit.
            expected: a description of the message.
            after: only later messages count.
            shows: the row that fails if it does not arrive.

        Raises:
            Unmet: it does not arrive in time.
        """
        matches: list[ReceivedMessage] = []
        position = 0

        def has_come() -> bool:
            nonlocal position
            while position < len(self.messages) and not matches:
                received = self.messages[position]
                position += 1
                if (after is None or received.index > after.index) and is_wanted(received.message):
                    matches.append(received)
            return bool(matches)

        try:
            await self.wire.until(has_come, seconds=seconds, expected=expected)
        except Unmet as stuck:
            if shows is not None:
                self._harness.check(shows, False, expected=stuck.expected, got=stuck.got)
            raise
        return matches[0]

    async def quiet(self, seconds: float) -> list[ReceivedMessage]:
        """Return the messages of that time; a later message as a fence (`settle`) is better."""
        before = len(self.messages)
        await anyio.sleep(seconds)
        return self.messages[before:]

    async def close_input(self) -> None:
        """Close the server's input."""
        self.wire.close_input()

    async def exit_code(self, seconds: float = 3) -> int | None:
        """Return the server's exit code, or None if it still runs."""
        return await self.wire.wait_for_exit(seconds)

    async def end(self) -> None:
        """Stop the server and wait for its end."""
        self.wire.stop()
        await self.wire.gone.wait()

    async def handshake(self, initialize: Mapping[str, Any] | None = None) -> None:
        """Send `initialize` and `initialized`, and wait a moment for the announcements.

        Raises:
            Unmet: `initialize` is not answered.
        """
        target = self._harness.target
        params = merged(target.initialize_params(self.root), initialize or {})
        self.initialized = await self.ask("initialize", params, seconds=_START_SECONDS)
        await self.notify("initialized", target.personality.initialized)
        if self.edition > Revision.DRAFT:
            with anyio.move_on_after(self._harness.introduction_seconds):
                while not self.is_introduced and self.wire.alive:
                    await self.wire.changed.wait()

    @property
    def is_introduced(self) -> bool:
        """True once the server has announced its settings and its native tools."""
        return self._has_config and self._native is not None

    @property
    def config(self) -> dict[str, Any]:
        """`chat` of all `config/updated` so far, the later over the earlier."""
        chat: dict[str, Any] = {}
        for received in self.wire.messages:
            if received.method == "config/updated":
                update = received.params.get("chat")
                chat |= update if isinstance(update, Mapping) else {}
        return chat

    @property
    def _has_config(self) -> bool:
        return any(received.method == "config/updated" for received in self.wire.messages)

    @property
    def _native(self) -> Sequence[Any] | None:
        """The native tools as announced last."""
        for received in reversed(self.wire.messages):
            params = received.params
            if received.method == "tool/serverUpdated" and (
                params.get("type") == "native" or str(params.get("name")).lower() == "eca"
            ):
                tools = params.get("tools")
                return tools if isinstance(tools, list) else ()
        return None

    @property
    def native_tools(self) -> tuple[str, ...]:
        """The names of the announced native tools."""
        named = (tool.get("name") for tool in self._native or () if isinstance(tool, Mapping))
        return tuple(name for name in named if isinstance(name, str))

    def tool(self, kind: str) -> str:
        """Return the name of a native tool ("read file", "shell command", ...).

        In the draft, whose servers announce no tools, return the name without a prefix.

        Raises:
            NotApplicable: the server has none.
        """
        is_wanted = kind.replace(" ", "_")
        if self.edition is Revision.DRAFT:
            return is_wanted
        for name in self.native_tools:
            if bare_name(name) == is_wanted:
                return name
        raise NotApplicable(f"the server has no tool {is_wanted!r}")

    def chat(self, *script: AnswersWith, id: str | None = UNSET) -> ChatSession:  # noqa: A002
        """Create a chat with its script.

        Args:
            script: the model's replies, in order; a short text follows them.
            id: the chat's id; None: the first prompt has none, the server names the chat.
        """
        model = self._harness.model.chat(script, listed=lambda: self.native_tools)
        named = f"chat-{model.marker.strip('[]')}" if id is UNSET else id
        if named is not None:
            self.claim(named)
        self._chats.append(ChatSession(self, model, named))
        return self._chats[-1]

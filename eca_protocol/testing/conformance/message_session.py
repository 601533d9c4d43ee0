"""Messages at a server: a session writes any bytes, and receives the messages that concern it.

Sessions may share a server, each with its own chats and request ids. A session receives the answers
to its requests, the messages of its chats, and all messages without an owner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import anyio

from eca_protocol import platforms
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.model import ChatModel
from eca_protocol.testing.conformance.recorder import ReceivedMessage, id_key
from eca_protocol.testing.conformance.server_process import ServerProcess
from eca_protocol.testing.conformance.verdicts import Party, Transmission, Unmet
from eca_protocol.testing.conformance.wire import Wire

__all__ = ["UNSET", "MessageSession"]

UNSET: Final[Any] = object()
"""The marker of a missing member, as opposed to null."""


class MessageSession:
    """A session at a server that sends and receives messages, and judges them.

    Attributes:
        target: the program under test.
        model: the scripted model of the whole run.
        initialized: what `initialize` has returned; empty without a handshake.
        check, record_pass, not_applicable, untestable: those of the case's `Judge`.
        messages: the server's messages that concern this session, in order.
        models: the scripted models of its chats.
        workspace: this session's own directory in the server's workspace.
        root: the workspace of the server; the same if the session has the server alone.
    """

    def __init__(self, wire: Wire, judge: Judge, edition: Revision, *, alone: bool) -> None:
        self.wire = wire
        self.target = wire.target
        self.model = wire.model
        self.initialized: Mapping[str, Any] = {}
        self.edition = edition
        self.case: str = judge.case
        self.messages: list[ReceivedMessage] = []
        self.models: list[ChatModel] = []
        self.root: Path = wire.directories.workspace
        self.workspace: Path = self.root if alone else self.root / f"session-{wire.next_id()}"
        self._methods: dict[str, str] = {}
        self.check = judge.check
        self.record_pass = judge.record_pass
        self.not_applicable = judge.not_applicable
        self.untestable = judge.untestable
        self.workspace.mkdir(exist_ok=True)
        wire.sessions.append(self)

    def exchange(self, most: int) -> tuple[Transmission, ...]:
        """Return the last messages that concern this session, the model's included."""
        recorder, owner = self.wire.recorder, self.wire.owner
        mine = [each.transmission for each in recorder.record if owner(each) in (None, self)]
        for model in self.models:
            for at, party, data in model.traffic:
                other: Party = "model" if party == "server" else "server"
                mine.append(Transmission.of(at - recorder.began, party, other, data))
        return tuple(sorted(mine, key=lambda each: each.at)[-most:])

    def close(self) -> None:
        """Stop receiving messages."""
        self.wire.sessions.remove(self)

    @property
    def is_open(self) -> bool:
        """True while messages are received."""
        return self in self.wire.sessions

    @property
    def process(self) -> ServerProcess:
        """The server's process."""
        return self.wire.process

    @property
    def replies(self) -> dict[str, Any]:
        """The answers to the server's requests, by method; see `Wire`."""
        return self.wire.replies

    def file(self, name: str, text: str) -> Path:
        """Write a file of the session's workspace; return its path."""
        path = self.workspace / name
        path.write_text(text)
        return path

    async def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        await self.wire.write(data)

    async def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Write a message, or the bytes of a body, as one frame."""
        if isinstance(message, Mapping) and "method" in message and "id" in message:
            self.wire.claim_id(message["id"], self)
        body = message if isinstance(message, bytes) else self.target.personality.body(message)
        await self.write(self.wire.encode(body))

    async def request(self, method: str, params: Any = UNSET, *, id: Any = UNSET) -> Any:  # noqa: A002
        """Send a request; its id, which is new unless one is given."""
        request_id = self.wire.next_id() if id is UNSET else id
        self._methods[id_key(request_id)] = method
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        await self.send({**message, **self._params(params)})
        return request_id

    async def notify(self, method: str, params: Any = UNSET) -> None:
        """Send a notification."""
        message = {"jsonrpc": "2.0", "method": method}
        await self.send({**message, **self._params(params)})

    async def reply(self, request: ReceivedMessage, result: Any) -> None:
        """Answer a request of the server with a result."""
        await self.send({"jsonrpc": "2.0", "id": request.message.get("id"), "result": result})

    def _params(self, params: Any) -> Mapping[str, Any]:
        extra_params = self.target.personality.extra_params
        if params is UNSET:
            return {}
        return {"params": {**extra_params, **params} if isinstance(params, Mapping) else params}

    async def answer(
        self, id_: Any, *, seconds: float = 5, shows: str | None = None
    ) -> Mapping[str, Any]:
        """Wait for the whole answer to that request."""
        key = id_key(id_)

        def is_answer(received: ReceivedMessage) -> bool:
            message = received.message
            return "method" not in message and id_key(message.get("id")) == key

        method = self._methods.get(key)
        what = f"`{method}`, the request" if method else "the request"
        expected = f"an answer to {what} {key}"
        return (
            await self.until(is_answer, seconds=seconds, expected=expected, shows=shows)
        ).message

    async def ask(
        self, method: str, params: Any = UNSET, *, seconds: float = 5, shows: str | None = None
    ) -> Mapping[str, Any]:
        """Send a request; return the whole answer."""
        return await self.answer(await self.request(method, params), seconds=seconds, shows=shows)

    async def settle(self, *, shows: str | None = None) -> None:
        """Wait until the server has read all messages: it answers a request behind them."""
        await self.ask("chat/queryCommands", {"query": ""}, shows=shows)

    async def wait_for(
        self,
        method: str,
        params: Mapping[str, Any] = MappingProxyType({}),
        *,
        text: str = "",
        **options: Any,
    ) -> ReceivedMessage:
        """Return the first message of that method that has these params, and a text anywhere.

        See `until` for the options.
        """
        return await self.until(
            lambda each: (
                each.method == method
                and params.items() <= each.params.items()
                and text in str(each.message)
            ),
            **options,
        )

    async def until(
        self,
        is_wanted: Callable[[ReceivedMessage], object],
        *,
        seconds: float = 5,
        expected: str,
        after: ReceivedMessage | None = None,
        shows: str | None = None,
    ) -> ReceivedMessage:
        """Return the first message, received already or later, that is wanted.

        Args:
            is_wanted: called with each message; must not read the other ones.
            seconds: the time limit.
            expected: a description of the message.
            after: only later messages count.
            shows: the row that fails if it does not arrive.
        """
        matches: list[ReceivedMessage] = []
        position = 0

        def has_come() -> bool:
            nonlocal position
            while position < len(self.messages) and not matches:
                received = self.messages[position]
                position += 1
                if (after is None or received.index > after.index) and is_wanted(received):
                    matches.append(received)
            return bool(matches)

        await self.until_holds(has_come, seconds=seconds, expected=expected, shows=shows)
        return matches[0]

    async def until_holds(
        self,
        condition: Callable[[], object],
        *,
        seconds: float = 5,
        expected: str,
        shows: str | None = None,
    ) -> None:
        """Wait until a condition on all messages holds; it is checked once for what came together.

        See `until` for the arguments.
        """
        try:
            await self.process.until(condition, seconds=seconds, expected=expected)
        except Unmet as stuck:
            if shows is not None:
                self.check(shows, False, stuck.expected, stuck.got)
            raise

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
        return await self.process.wait_for_exit(seconds)

    async def kill(self) -> None:
        """End the server without notice, and wait for its end."""
        if self.process.pid is None:
            self.process.stop()
        else:
            self.process.signal(platforms.KILL)
        await self.process.gone.wait()

    async def end(self) -> None:
        """Stop the server and wait for its end."""
        self.process.stop()
        await self.process.gone.wait()

"""A client's seat at a server: it writes what it likes, and hears what concerns it.

Several seats may share a server, each with chats and request ids of its own. A seat hears the
answers to its requests, what is said of its chats, and whatever concerns nobody in particular.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio

from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.model import AnswersWith, bare_name
from eca_protocol.testing.conformance.target import merged
from eca_protocol.testing.conformance.verdicts import Exchanged, Party
from eca_protocol.testing.conformance.wire import Heard, Recorded, Wire, id_key

if TYPE_CHECKING:
    from eca_protocol.testing.conformance.bench import Bench

__all__ = ["UNSET", "Process", "Seat"]

UNSET: Final[Any] = object()
"""A member that is not there at all, which null is not."""

_START_SECONDS: Final = 30.0


class Process:
    """The server's process, as far as a case may touch it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @property
    def pid(self) -> int | None:
        """Its number, None inside the suite."""
        return self._wire.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._wire.exit_code is None and not self._wire.gone.is_set()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._wire.exit_code

    @property
    def errors(self) -> str:
        """The last of what it wrote to stderr."""
        return self._wire.errors

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._wire.send_signal(number)


class Seat:
    """What a case has of a server.

    Attributes:
        heard: what concerns this seat, in order, since it was taken.
        workspace: a folder in the server's workspace that is this seat's own.
        root: the workspace as the server was told it; the same where the seat is alone.
        process: the server's process.
        initialized: the answer to `initialize`, whole; empty if there was none.
    """

    def __init__(self, bench: Bench, wire: Wire, *, alone: bool) -> None:
        self._bench = bench
        self.wire = wire
        self.heard: list[Heard] = []
        self._chats: list[ChatSeat] = []
        self.root: Path = wire.folders.workspace
        self.workspace = self.root if alone else self.root / f"seat-{wire.next_id()}"
        self.process = Process(wire)
        self.initialized: Mapping[str, Any] = {}
        self.workspace.mkdir(exist_ok=True)
        wire.seats.append(self)

    def exchange(self, most: int) -> tuple[Exchanged, ...]:
        """What passed last that concerns this seat, the model's side of its chats too."""
        mine = [each.exchanged for each in self.wire.record if self._concerns(each)]
        for chat in self._chats:
            for at, party, data in chat.model.passed:
                other: Party = "model" if party == "server" else "server"
                mine.append(Exchanged.of(at - self.wire.began, party, other, data))
        return tuple(sorted(mine, key=lambda each: each.at)[-most:])

    def _concerns(self, recorded: Recorded) -> bool:
        owner = (
            self.wire.chat_owners.get(recorded.chat_id)
            if recorded.answers is None
            else self.wire.id_owners.get(recorded.answers)
        )
        return owner is None or owner is self

    def leave(self) -> None:
        """Hear nothing more."""
        self.wire.seats.remove(self)

    @property
    def case(self) -> str:
        """The case that sits here."""
        return self._bench.case

    @property
    def edition(self) -> Revision:
        """The edition that is spoken."""
        return self._bench.edition

    @property
    def replies(self) -> dict[str, Any]:
        """What the server's own requests are answered, by method; see `Wire`."""
        return self.wire.replies

    def hear(self, heard: Heard) -> None:
        """Take a message, if it concerns this seat."""
        owner = self._owner(heard)
        if owner is None or owner is self:
            self.heard.append(heard)
        if owner is self and not heard.method:
            result = heard.message.get("result")
            named = result.get("chatId") if isinstance(result, Mapping) else None
            if isinstance(named, str) and named:
                self.claim(named)

    def _owner(self, heard: Heard) -> object:
        if heard.method:
            return self.wire.chat_owners.get(heard.chat_id)
        return self.wire.id_owners.get(id_key(heard.message.get("id")))

    def claim(self, chat_id: str) -> None:
        """Whatever is said of that chat concerns this seat alone."""
        self.wire.chat_owners[chat_id] = self
        for seat in self.wire.seats:
            if isinstance(seat, Seat) and seat is not self:
                seat.heard[:] = [each for each in seat.heard if each.chat_id != chat_id]

    async def write(self, data: bytes) -> None:
        """Write bytes as they are.

        Raises:
            Stuck: the server takes no more.
        """
        await self.wire.write(data)

    async def send(self, message: Mapping[str, Any] | Sequence[Any] | bytes) -> None:
        """Write a message, or the bytes of a body, as one frame.

        Raises:
            Stuck: the server takes no more.
        """
        if isinstance(message, Mapping) and "method" in message and "id" in message:
            self.wire.id_owners.setdefault(id_key(message["id"]), self)
        if isinstance(message, bytes):
            await self.write(encode_frame(message))
        else:
            await self.write(self._bench.target.personality.frame(message))

    async def request(self, method: str, params: Any = UNSET, *, id: Any = UNSET) -> Any:  # noqa: A002
        """Send a request; its id, which is new unless one is given.

        Raises:
            Stuck: the server takes no more.
        """
        given = self.wire.next_id() if id is UNSET else id
        message = {"jsonrpc": "2.0", "id": given, "method": method}
        await self.send({**message, **self._params(params)})
        return given

    async def tell(self, method: str, params: Any = UNSET) -> None:
        """Send a notification.

        Raises:
            Stuck: the server takes no more.
        """
        message = {"jsonrpc": "2.0", "method": method}
        await self.send({**message, **self._params(params)})

    def _params(self, params: Any) -> Mapping[str, Any]:
        adds = self._bench.target.personality.adds
        if params is UNSET:
            return {}
        return {"params": {**adds, **params} if isinstance(params, Mapping) else params}

    async def answer(self, id: Any, *, seconds: float = 5) -> Mapping[str, Any]:  # noqa: A002
        """The answer to that request, whole.

        Raises:
            Stuck: it did not come in time.
        """
        key = id_key(id)

        def is_answer(message: Mapping[str, Any]) -> bool:
            return "method" not in message and id_key(message.get("id")) == key

        expected = f"an answer to the request {key}"
        return (await self.until(is_answer, seconds=seconds, expected=expected)).message

    async def ask(
        self, method: str, params: Any = UNSET, *, seconds: float = 5
    ) -> Mapping[str, Any]:
        """Send a request and wait; the answer, whole.

        Raises:
            Stuck: it did not come in time.
        """
        return await self.answer(await self.request(method, params), seconds=seconds)

    async def settle(self) -> None:
        """Wait until all that was sent has been looked at: a request behind it has its answer.

        Raises:
            Stuck: it has not.
        """
        await self.ask("chat/queryCommands", {"query": ""})

    async def until(
        self,
        wanted: Callable[[Mapping[str, Any]], object],
        *,
        seconds: float = 5,
        expected: str,
        after: Heard | None = None,
        shows: str | None = None,
    ) -> Heard:
        """The first message that is wanted, among those that came already and those that come.

        Args:
            wanted: whether it is one; it is given the whole message.
            seconds: how long it may take.
            expected: what that is, in words.
            after: only messages behind this one count.
            shows: the row that is broken if it does not come.

        Raises:
            Stuck: it did not come.
        """
        found: list[Heard] = []
        position = 0

        def has_come() -> bool:
            nonlocal position
            while position < len(self.heard) and not found:
                heard = self.heard[position]
                position += 1
                if (after is None or heard.index > after.index) and wanted(heard.message):
                    found.append(heard)
            return bool(found)

        try:
            await self.wire.until(has_come, seconds=seconds, expected=expected)
        except Stuck as stuck:
            if shows is not None:
                self._bench.check(shows, False, expected=stuck.expected, got=stuck.got)
            raise
        return found[0]

    async def quiet(self, seconds: float) -> list[Heard]:
        """What comes in that time; a later message as the fence (`settle`) is better."""
        before = len(self.heard)
        await anyio.sleep(seconds)
        return self.heard[before:]

    async def close_input(self) -> None:
        """Let the server see the end of its input."""
        self.wire.close_input()

    async def exit_code(self, seconds: float = 3) -> int | None:
        """The server's exit code, None if it still runs by then."""
        return await self.wire.wait_for_exit(seconds)

    async def end(self) -> None:
        """End the server whatever it does, and wait until it has ended."""
        self.wire.stop()
        await self.wire.gone.wait()

    async def hello(self, initialize: Mapping[str, Any] | None = None) -> None:
        """`initialize`, `initialized`, and a moment for what the server tells of itself then.

        Raises:
            Stuck: `initialize` is not answered.
        """
        target = self._bench.target
        params = merged(target.initialize_params(self.root), initialize or {})
        self.initialized = await self.ask("initialize", params, seconds=_START_SECONDS)
        await self.tell("initialized", target.personality.initialized)
        if self.edition > Revision.DRAFT:
            with anyio.move_on_after(self._bench.introduction_seconds):
                while not self.is_introduced and self.wire.alive:
                    await self.wire.changed.wait()

    @property
    def is_introduced(self) -> bool:
        """Whether the server has told of its settings and of its native tools."""
        return self._has_config and self._native is not None

    @property
    def config(self) -> dict[str, Any]:
        """`chat` of all `config/updated` so far, the later over the earlier."""
        chat: dict[str, Any] = {}
        for heard in self.wire.heard:
            if heard.method == "config/updated":
                update = heard.params.get("chat")
                chat |= update if isinstance(update, Mapping) else {}
        return chat

    @property
    def _has_config(self) -> bool:
        return any(heard.method == "config/updated" for heard in self.wire.heard)

    @property
    def _native(self) -> Sequence[Any] | None:
        """The native tools as they were told last."""
        for heard in reversed(self.wire.heard):
            params = heard.params
            if heard.method == "tool/serverUpdated" and (
                params.get("type") == "native" or str(params.get("name")).lower() == "eca"
            ):
                tools = params.get("tools")
                return tools if isinstance(tools, list) else ()
        return None

    @property
    def native_tools(self) -> tuple[str, ...]:
        """The names of the native tools that the server has told of."""
        named = (tool.get("name") for tool in self._native or () if isinstance(tool, Mapping))
        return tuple(name for name in named if isinstance(name, str))

    def tool(self, kind: str) -> str:
        """The name of the native tool for that ("read file", "shell command", ...).

        In the draft, whose servers tell of no tools, the name without a prefix; the model calls
        what it is offered.

        Raises:
            NotApplicable: the server has none.
        """
        wanted = kind.replace(" ", "_")
        if self.edition is Revision.DRAFT:
            return wanted
        for name in self.native_tools:
            if bare_name(name) == wanted:
                return name
        raise NotApplicable(f"the server has no tool {wanted!r}")

    def chat(self, *script: AnswersWith, id: str | None = UNSET) -> ChatSeat:  # noqa: A002
        """A chat with an id of its own, and what its model will answer.

        Args:
            script: the replies of the model, in order; behind them a short text.
            id: the chat's id; None: the first prompt has none, the server names the chat.
        """
        model = self._bench.model.chat(script, listed=lambda: self.native_tools)
        named = f"chat-{model.word.strip('[]')}" if id is UNSET else id
        if named is not None:
            self.claim(named)
        self._chats.append(ChatSeat(self, model, named))
        return self._chats[-1]

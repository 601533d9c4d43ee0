"""The process of one ACP agent, from its first use to the end of the connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from eca_protocol.acp import ACP, ACP_CODEC, ACP_DIALECT, PROTOCOL_VERSION
from eca_protocol.acp import messages as acp
from eca_protocol.errors import ECAError
from eca_protocol.framing import Frames
from eca_protocol.message_transport import Reader, read_strictly
from eca_protocol.peer import Peer
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.stdio import start_stdio
from eca_server.config.mcp_settings import MCPServer
from eca_server.config.own_secrets import secrets_in_command
from eca_server.secret import mask
from eca_server.version import version

START_SECONDS: Final = 60.0
"""The time for the start; `npx` may download the agent."""

_CAPABILITIES: Final = acp.ClientCapabilities(
    fs=acp.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)
_NOT_INITIALIZED: Final = acp.InitializeResponse(protocol_version=PROTOCOL_VERSION)


def _reader(log: ServerLog) -> Reader:
    """Return a strict reader; the lines that are no JSON objects are logged: they may say why."""

    def read(frames: Frames) -> list[Any]:
        for frame in frames:
            if isinstance(frame, bytes) and not frame.lstrip().startswith(b"{"):
                log.feed_line(frame)
        return read_strictly(frames)

    return read


class AgentFailed(ECAError):
    """An agent that cannot be started, or has ended; the text is for the user."""


@attrs.define(eq=False)
class AgentProcess:
    """A running agent.

    Args:
        name: the agent's name.
        command: its program and arguments.
        environment: its environment, without our keys.
        directory: its working directory.
        handlers: the handlers of its messages.
        drained: waits until our client has read most of the output; until then it is not read.

    Attributes:
        about: its answer to `initialize`, once it has started.
        ended: set when the process has ended.
    """

    name: str
    command: tuple[str, ...]
    _environment: Mapping[str, str] = attrs.field(kw_only=True)
    _directory: Path = attrs.field(kw_only=True)
    _handlers: dict[str, Callable[[Any], Any]] = attrs.field(kw_only=True)
    _drained: Callable[[], Awaitable[None]] = attrs.field(kw_only=True)
    about: acp.InitializeResponse = attrs.field(init=False, default=_NOT_INITIALIZED)
    ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    _ready: trio.Event = attrs.field(init=False, factory=trio.Event)
    _over: trio.Event = attrs.field(init=False, factory=trio.Event)
    _error: str | None = attrs.field(init=False, default=None)
    _peer: Peer | None = attrs.field(init=False, default=None)

    @property
    def is_over(self) -> bool:
        """True if no more prompts can be sent."""
        return self._over.is_set()

    @property
    def has_started(self) -> bool:
        """True once it accepts prompts."""
        return self._ready.is_set()

    @property
    def capabilities(self) -> acp.AgentCapabilities:
        """The agent's abilities."""
        return self.about.agent_capabilities

    @property
    def peer(self) -> Peer:
        """The connection of the started agent."""
        assert self._peer is not None
        return self._peer

    async def run(self) -> None:
        """Start the agent, and serve it until it ends or `close` is called."""
        try:
            if not self.is_over:  # else closed before its first step
                await self._run()
        except MCPError as error:
            self._error = self._error or str(error)
        finally:
            self._over.set()
            self._ready.set()
            self.ended.set()

    async def _run(self) -> None:
        settings = MCPServer(command=self.command[0], args=self.command[1:])
        log = ServerLog(self.name)
        transport = start_stdio(
            settings, environment=self._environment, directory=self._directory, log=log
        )
        self._peer = Peer(
            transport.messages(_reader(log)),
            side="client",
            table=ACP,
            codec=ACP_CODEC,
            handlers=self._handlers,
            dialect=ACP_DIALECT,
            before_reading=self._drained,
        )
        async with self._peer as peer:
            peer.start_soon(transport.watch)
            peer.start_soon(self._serve)
            try:
                await self._introduce(peer)
            except ECAError as error:
                has_ended = self.is_over and self._error is None
                reason = await transport.error() if has_ended else None
                raise MCPError(str(reason or error), kind="start") from error
            self._ready.set()
            await self._over.wait()
            if self._error is None:  # the agent has ended by itself
                self._error = str(await transport.error())

    async def _serve(self) -> None:
        await self.peer.serve()
        self._over.set()

    async def _introduce(self, peer: Peer) -> None:
        request = acp.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=_CAPABILITIES,
            client_info=acp.Implementation(name="eca", title="ECA", version=version()),
        )
        self.about = await peer.call("initialize", request, deadline=START_SECONDS)
        if self.about.protocol_version != PROTOCOL_VERSION:
            raise AgentFailed(
                f"it speaks version {self.about.protocol_version} of ACP, not {PROTOCOL_VERSION}"
            )

    async def started(self) -> None:
        """Wait until the agent has started.

        Raises:
            AgentFailed: it cannot be started.
        """
        await self._ready.wait()
        if self.is_over:
            raise AgentFailed(await self.explain())

    async def explain(self) -> str:
        """Return why the agent has ended."""
        await self.ended.wait()
        error = str(self._error).removesuffix(".")
        text = f"The agent `{' '.join(self.command)}` does not run: {error}."
        return mask(text, *secrets_in_command(self.command))

    def close(self) -> None:
        """Begin to end the agent; `ended` is set when its process has ended, or was killed."""
        self._error = self._error or "it was ended"
        self._over.set()
        if self._peer is not None and not self.has_started:
            self._peer.close()  # does not wait for the answer to `initialize`

"""A run of the client under test with a scripted server; each case starts the client once."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.abc
import attrs
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.stapled import StapledByteStream

from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, GracePeriods, spawn, watch_descriptor
from eca_protocol.streams import FdTransport
from eca_protocol.testing.conformance.client.client_link import Connection
from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import shortened

__all__ = ["SERVER", "ClientRun", "run_client"]

SERVER: Final = "{{server}}"
"""The placeholder, in a client's command, of the program that it starts as its server.

Without it the client speaks over its own stdin and stdout.
"""

MakeServer: TypeAlias = Callable[[Connection], ScriptedServer]
"""Creates the scripted server for a connection to the client."""

_GRACE_PERIODS: Final = GracePeriods(after_stdin=0.5, after_term=1.0, after_kill=2.0)
_STDERR_BYTES: Final = 16_384
_NO_LINE: Final = (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError)
_CONNECT_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0


@attrs.frozen(kw_only=True)
class ClientRun:
    """The result of one start of the client.

    Attributes:
        server: the scripted server; None: the client never started it.
        exit_code: the client's; None: it did not end by itself.
        errors: the end of its stderr.
    """

    server: ScriptedServer | None
    exit_code: int | None
    errors: str

    @property
    def methods(self) -> frozenset[str]:
        """The methods of the client's requests and notifications."""
        line = self.server.record if self.server is not None else ()
        return frozenset(each.method for each in line if each.side == "client" and each.method)

    @property
    def exit_description(self) -> str:
        """The exit code and both ends of stderr, for people."""
        stderr = shortened(self.errors)
        ended = "it never ended" if self.exit_code is None else f"exit code {self.exit_code}"
        return f"{ended}{': ' if stderr else ''}{stderr}"


async def run_client(
    make_server: MakeServer, target: Target, directories: Directories, *, seconds: float
) -> ClientRun:
    """Start the client with a scripted server; wait for its end, or the end of its time.

    Raises:
        StartFailed: the command cannot be started.
    """
    servers: list[ScriptedServer] = []
    failure: StartFailed | None = None
    async with _listen_for_relay(make_server, servers) as address:
        command, env = _prepare(target, directories, address)
        try:
            child = spawn(command, cwd=target.cwd, env=env, stderr="pipe")
        except StartFailed as error:
            failure = error  # raised outside the block, else it is in a group
        else:
            stdio_server = None if SERVER in " ".join(target.command) else make_server
            exit_code, errors = await _run_to_end(child, stdio_server, servers, seconds=seconds)
    if failure is not None:
        raise failure
    return ClientRun(server=servers[0] if servers else None, exit_code=exit_code, errors=errors)


async def _run_to_end(
    child: Child, stdio_server: MakeServer | None, servers: list[ScriptedServer], *, seconds: float
) -> tuple[int | None, str]:
    """Serve the client until it ends; return its exit code and the end of its stderr.

    `stdio_server` creates the server of a client that speaks over its own streams.
    """
    errors = bytearray()
    exit_code: int | None = None
    stderr = child.take_stderr()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_stderr_tail, stderr, errors)
            if stdio_server is not None:
                group.start_soon(_serve_over_stdio, child, stdio_server, servers)
            else:
                group.start_soon(_discard_output, child)
            with anyio.move_on_after(seconds):
                await _wait_for_end(child, servers)
                exit_code = await child.wait()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(_GRACE_PERIODS)
            await stderr.aclose()
    return exit_code, bytes(errors).decode("utf-8", "replace")


async def _wait_for_end(child: Child, servers: list[ScriptedServer]) -> None:
    """Wait for the end of the process, unreaped so that the relay lives, then of the connection."""
    descriptor = watch_descriptor(child.pid)
    if descriptor is not None:
        try:
            await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
    with anyio.move_on_after(_CLOSE_SECONDS):
        for server in servers:
            while not server.ended:
                await server.changed.wait()


def _prepare(
    target: Target, directories: Directories, address: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """Write the program that the client starts; return the client's command and environment."""
    script = directories.root / "bin" / "eca-server"
    relay = Path(__file__).with_name("relay.py")
    words = [sys.executable, "-I", str(relay), *address]
    script.parent.mkdir(parents=True, exist_ok=True)
    quoted = " ".join(f"'{secret}'" for secret in words)
    script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', "utf-8")
    script.chmod(0o700)
    command, env = target.prepare(directories, "", {})
    env.pop("ECA_CONFIG", None)
    return [secret.replace(SERVER, str(script)) for secret in command], env


@asynccontextmanager
async def _listen_for_relay(
    make_server: MakeServer, servers: list[ScriptedServer]
) -> AsyncIterator[Sequence[str]]:
    """Serve the first connection that knows the secret; yield the port and the secret."""
    secret = secrets.token_hex(16)

    async def accept(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            received, line = BufferedByteReceiveStream(stream), b""
            with anyio.move_on_after(_CONNECT_SECONDS), contextlib.suppress(*_NO_LINE):
                line = await received.receive_until(b"\n", 100)
            if hmac.compare_digest(line, secret.encode()) and not servers:
                servers.append(make_server(StapledByteStream(stream, received)))
                await servers[0].run()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, accept)
            yield str(port), secret
            group.cancel_scope.cancel()


async def _serve_over_stdio(
    child: Child, make_server: MakeServer, servers: list[ScriptedServer]
) -> None:
    servers.append(make_server(child.transport))
    await servers[0].run()
    child.close_stdin()


async def _discard_output(child: Child) -> None:
    while await child.transport.receive():
        pass


async def _keep_stderr_tail(stderr: FdTransport, errors: bytearray) -> None:
    while data := await stderr.receive():
        errors += data
        del errors[:-_STDERR_BYTES]

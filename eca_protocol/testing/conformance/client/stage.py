"""A client under test, started once for each case, with a server that the suite plays for it."""

from __future__ import annotations

import hmac
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeAlias

import anyio
import anyio.abc
import attrs

from eca_protocol.errors import ConnectionClosed, StartFailed
from eca_protocol.process import Child, GracePeriods, spawn, watch_descriptor
from eca_protocol.streams import FdTransport, Transport
from eca_protocol.testing.conformance.client.played import Connection, PlayedServer
from eca_protocol.testing.conformance.target import Folders, Target

__all__ = ["SERVER", "Played", "play"]

SERVER: Final = "{{server}}"
"""Stands in a client's command for the path of the program that it has to start as its server.

Without it the client is taken to speak over its own stdin and stdout.
"""

Make: TypeAlias = Callable[[Connection], PlayedServer]
"""Makes the server that is played, from the connection to the client."""

_LADDER: Final = GracePeriods(after_stdin=0.5, after_term=1.0, after_kill=2.0)
_LAST_LINES: Final = 16_384
_CALLS_WITHIN: Final = 5.0
_LAST_WORDS: Final = 1.0


@attrs.frozen(kw_only=True)
class Played:
    """What became of one start.

    Attributes:
        server: what was played; None: the client never started it.
        exit_code: of the client's process; None: it did not end by itself.
        errors: the last of what it wrote to stderr.
    """

    server: PlayedServer | None
    exit_code: int | None
    errors: str

    @property
    def methods(self) -> frozenset[str]:
        """What the client has asked and told."""
        said = self.server.said if self.server is not None else ()
        return frozenset(each.method for each in said if each.side == "client" and each.method)

    @property
    def obituary(self) -> str:
        """How it ended, for a person."""
        lines = [line.strip() for line in self.errors.splitlines()]
        last = "; ".join([line for line in lines if line.strip("^~ ")][-2:])
        ended = "it never ended" if self.exit_code is None else f"exit code {self.exit_code}"
        return f"{ended}{': ' if last else ''}{last}"


async def play(make: Make, target: Target, folders: Folders, *, seconds: float) -> Played:
    """Start the client and play a server until it has ended, or its time is over.

    Raises:
        StartFailed: the command cannot be started.
    """
    played: list[PlayedServer] = []
    failure: StartFailed | None = None
    async with _listening(make, played) as listener:
        command, env = _prepared(target, folders, listener)
        try:
            child = spawn(command, cwd=target.cwd, env=env, stderr="pipe")
        except StartFailed as fault:
            failure = fault  # out of the block it would come in a group
        else:
            speaks = None if SERVER in " ".join(target.command) else make
            exit_code, errors = await _attend(child, speaks, played, seconds=seconds)
    if failure is not None:
        raise failure
    return Played(server=played[0] if played else None, exit_code=exit_code, errors=errors)


async def _attend(
    child: Child, speaks: Make | None, played: list[PlayedServer], *, seconds: float
) -> tuple[int | None, str]:
    """Be there until the client has ended; its exit code, and the last of its stderr.

    Args:
        child: the client.
        speaks: makes the server of a client that speaks over its own streams.
        played: the server, once it is made.
        seconds: after which the client is ended.
    """
    errors = bytearray()
    exit_code: int | None = None
    stderr = child.take_stderr()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_keep_last, stderr, errors)
            if speaks is not None:
                group.start_soon(_play_on, child, speaks, played)
            else:
                group.start_soon(_throw_away, child)
            with anyio.move_on_after(seconds):
                await _until_its_last_word(child, played)
                exit_code = await child.wait()
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await child.end(_LADDER)
            await stderr.aclose()
    return exit_code, bytes(errors).decode("utf-8", "replace")


async def _until_its_last_word(child: Child, played: list[PlayedServer]) -> None:
    """Wait for the end of the process, then of the connection: to reap it would end the relay."""
    descriptor = watch_descriptor(child.pid)
    if descriptor is not None:
        try:
            await anyio.wait_readable(descriptor)
        finally:
            os.close(descriptor)
    with anyio.move_on_after(_LAST_WORDS):
        for server in played:
            while not server.ended:
                await server.changed.wait()


def _prepared(
    target: Target, folders: Folders, listener: _Listener
) -> tuple[list[str], dict[str, str]]:
    """Write the program that the client starts; the client's command and environment."""
    script = folders.root / "bin" / "eca-server"
    relay = Path(__file__).with_name("relay.py")
    words = [sys.executable, "-I", str(relay), str(listener.port), listener.word]
    script.parent.mkdir(parents=True, exist_ok=True)
    quoted = " ".join(f"'{word}'" for word in words)
    script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', "utf-8")
    script.chmod(0o700)
    command, env = target.prepare(folders, "", {})
    env.pop("ECA_CONFIG", None)
    return [word.replace(SERVER, str(script)) for word in command], env


@attrs.frozen
class _Listener:
    """Where the relay calls."""

    port: int
    word: str


@asynccontextmanager
async def _listening(make: Make, played: list[PlayedServer]) -> AsyncIterator[_Listener]:
    """Talk with the first that knows the word; others are hung up on."""
    word = secrets.token_hex(16)

    async def accept(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            connection = _Socket(stream)
            said = b""
            with anyio.move_on_after(_CALLS_WITHIN):
                said = await connection.line()
            if hmac.compare_digest(said, word.encode()) and not played:
                played.append(make(connection))
                await played[0].run()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra_attributes[anyio.abc.SocketAttribute.local_port]()
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, accept)
            yield _Listener(port, word)
            group.cancel_scope.cancel()


class _Socket:
    """A connection of the relay; what came behind its first line is kept for the next reader."""

    def __init__(self, stream: anyio.abc.SocketStream) -> None:
        self._stream = stream
        self._kept = b""

    async def line(self) -> bytes:
        """Its first line; empty if it ends before."""
        data = bytearray()
        while b"\n" not in data and len(data) < 100:
            received = await self.receive()
            if not received:
                return b""
            data += received
        line, _, self._kept = bytes(data).partition(b"\n")
        return line

    async def send(self, data: bytes) -> None:
        """Write it, whole."""
        await self._stream.send(data)

    async def receive(self) -> bytes:
        """What comes next; empty at the end."""
        if self._kept:
            kept, self._kept = self._kept, b""
            return kept
        try:
            return await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return b""


class _Pipes:
    """The client's own pipes."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, data: bytes) -> None:
        """Write it, whole."""
        await self._transport.send(data)

    async def receive(self) -> bytes:
        """What comes next; empty at the end."""
        try:
            return await self._transport.receive()
        except ConnectionClosed:
            return b""


async def _play_on(child: Child, make: Make, played: list[PlayedServer]) -> None:
    played.append(make(_Pipes(child.transport)))
    await played[0].run()
    child.close_stdin()


async def _throw_away(child: Child) -> None:
    while await child.transport.receive():
        pass


async def _keep_last(stderr: FdTransport, errors: bytearray) -> None:
    while data := await stderr.receive():
        errors += data
        del errors[:-_LAST_LINES]

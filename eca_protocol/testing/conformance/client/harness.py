"""The runs of the client under test, each with a scripted server, and the harness of a case."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

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
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import Transmission, shortened

__all__ = ["SERVER", "ClientHarness", "ClientRun", "Scenario", "run_client", "scenarios_in"]

SERVER: Final = "{{server}}"
"""The placeholder, in a client's command, of the program that it starts as its server.

Without it the client speaks over its own stdin and stdout.
"""

_GRACE_PERIODS: Final = GracePeriods(after_stdin=0.5, after_term=1.0, after_kill=2.0)
_STDERR_BYTES: Final = 16_384
_NO_LINE: Final = (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError)
_CONNECT_SECONDS: Final = 5.0
_CLOSE_SECONDS: Final = 1.0
_SHOWN: Final = 30  # messages of an exchange


class Scenario(ScriptedServer):
    """A server with one deviation; its docstring describes it for people.

    Attributes:
        rows: the client's requirements that it judges; a subclass names them as it is declared.
        triggers: methods, one of which the client has to send before the deviation occurs.
    """

    rows: ClassVar[tuple[str, ...]] = ()
    triggers: ClassVar[tuple[str, ...]] = ("initialized",)

    def __init_subclass__(cls, *, rows: str = "", triggers: tuple[str, ...] = ()) -> None:
        cls.rows = tuple(rows.split())
        cls.triggers = triggers or cls.triggers

    def judge(self, harness: ClientHarness) -> None:
        """Judge the rows; by default the client must do all that it does with the plain server."""
        for row in self.rows:
            harness.check_undisturbed(row)


def scenarios_in(module: Mapping[str, object]) -> tuple[type[Scenario], ...]:
    """Return the scenarios among the names of a module."""
    classes = (each for each in module.values() if isinstance(each, type))
    return tuple(each for each in classes if issubclass(each, Scenario) and each.rows)


MakeServer: TypeAlias = Callable[[Connection], Scenario]
"""Creates the scripted server for a connection to the client."""


@attrs.frozen(kw_only=True)
class ClientRun:
    """The result of one start of the client.

    Attributes:
        server: the scripted server; None: the client never started it.
        exit_code: the client's; None: it did not end by itself.
        errors: the end of its stderr.
    """

    server: Scenario | None
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
    servers: list[Scenario] = []
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
    child: Child, stdio_server: MakeServer | None, servers: list[Scenario], *, seconds: float
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


async def _wait_for_end(child: Child, servers: list[Scenario]) -> None:
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
    make_server: MakeServer, servers: list[Scenario]
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


async def _serve_over_stdio(child: Child, make_server: MakeServer, servers: list[Scenario]) -> None:
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


class ClientHarness(Judge):
    """The verdicts on one run of the client.

    Attributes:
        run: the client's run with the scenario.
        baseline: its run with the plain server.
    """

    def __init__(self, case: str, run: ClientRun, baseline: ClientRun) -> None:
        super().__init__(case)
        self.run = run
        self.baseline = baseline

    def check_undisturbed(self, id: str) -> None:  # noqa: A002
        """Check that the client did the same, and ended the same, as with the plain server.

        The row is untestable if the client never triggers the deviation.
        """
        server = self.run.server
        if server is not None and not self.baseline.methods.intersection(server.triggers):
            self.untestable(id, f"the client never sends {' or '.join(server.triggers)}")
            return
        missing = sorted(self.baseline.methods - self.run.methods)
        ended = self.run.exit_code == self.baseline.exit_code
        methods = ", ".join(sorted(self.baseline.methods))
        code = f"exit code {self.baseline.exit_code}"
        got = f"no {', '.join(missing)}; " if missing else ""
        got = f"{got}{self.run.exit_description}"
        if ended and not missing:
            got = "the same methods and exit code"
        expected = f"the methods as with the plain server: {methods}; and {code}"
        self.check(id, not missing and ended, expected, got)

    def exchange(self) -> list[Transmission]:
        """Return the last messages of the run."""
        record = self.run.server.record if self.run.server is not None else []
        return [each.transmission for each in record[-_SHOWN:]]

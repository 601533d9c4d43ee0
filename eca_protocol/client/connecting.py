"""The connection of a client to a server that it starts, or to a running one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from eca_protocol import messages as m
from eca_protocol.client.client import Client, ServerTask
from eca_protocol.client.options import ConnectionOptions
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    StartFailed,
)
from eca_protocol.methods import INITIALIZED
from eca_protocol.process import Child, spawn
from eca_protocol.streams import memory_pair

SERVER_COMMAND: Final = (sys.executable, "-P", "-m", "eca_server", "server")
"""The command of the server in this Python environment, which need not be activated."""


class connect(ConnectionOptions):  # noqa: N801 - it is used as a function
    """A connection to a server; an `async with` block over it is given the client."""

    _client: Client
    _task_id: int

    async def __aenter__(self) -> Client:
        child = server = None
        stream = self.transport
        if self.command is not None:
            child = _start(self.command, self.cwd, self.env)
            stream = child.transport
        elif self.server is not None:
            stream, theirs = memory_pair()
            server = ServerTask(self.server.serve, theirs)
        assert stream is not None
        self._task_id = anyio.get_current_task().id
        self._client = client = Client(stream, self, child=child, server=server)
        await client.__aenter__()
        try:
            client.initialize_response = await client.initialize(
                self.hello(), deadline=self.start_deadline
            )
            client.notify(INITIALIZED, m.InitializedParams())
        except BaseException as error:
            await client.__aexit__()
            if isinstance(error, ConnectionClosed):
                raise StartFailed(self._reason_of_end(client)) from error
            if isinstance(error, DeadlineExceeded):
                what = f"the answer to initialize from {self._name}{_unreadable(client)}"
                raise DeadlineExceeded(what, error.seconds) from error
            raise
        return client

    @property
    def _name(self) -> str:
        return "the server" if self.command is None else f"`{shlex.join(self.command)}`"

    def _reason_of_end(self, client: Client) -> str:
        code = client.exit_code
        exit_code = "" if code is None else f" (exit code {code})"
        unreadable = _unreadable(client)
        advice = "" if unreadable or code is None else "; run the command in a terminal to see why"
        return f"{self._name} ended before it answered initialize{exit_code}{unreadable}{advice}"

    async def __aexit__(self, *exc_info: object) -> None:
        if anyio.get_current_task().id == self._task_id:
            await self._client.__aexit__(*exc_info)
            return
        await self._client._abort("connect was left in a different task")
        raise LocalProtocolError(
            "connect: the block was entered in one task and left in another; the connection is "
            "closed. Enter and leave it in the same task, which may wait for an event in between "
            "(section 'A start and a stop function' of the guide 'Building a client')"
        )


def _start(
    command: Sequence[str], cwd: str | os.PathLike[str] | None, env: Mapping[str, str] | None
) -> Child:
    """Start the server; without our command on PATH the error names the one that needs no PATH."""
    try:
        return spawn(command, cwd=cwd, env=env)
    except StartFailed as error:
        if list(command[:1]) != ["eca-server"]:
            raise
        raise StartFailed(
            f"{error}; command=eca_protocol.SERVER_COMMAND starts the server of this environment"
        ) from error


def _unreadable(client: Client) -> str:
    """Return what the server wrote in place of messages, for an error; empty: nothing."""
    output = client._unreadable_output
    if not output:
        return ""
    return f"; its standard output has something that is no message of the protocol: {output}"

"""An SDK client and a server in one process."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from eca_protocol.client import Client, connect
from eca_protocol.client.approvals import OnApproval
from eca_protocol.client.options import QuestionHandler
from eca_protocol.messages import ClientInfo, InitializationOptions, ShowMessageParams
from eca_server.connection.features.host import Options
from eca_server.connection.features.lifecycle import Connection
from eca_server.connection.server import Server
from eca_server.printable import printable_lines


class LocalPair:
    """Both ends of a connection inside this process.

    Attributes:
        connection: the server's side, for state that the protocol does not carry.
    """

    def __init__(self, client: Client, connection: Connection) -> None:
        self.client = client
        self.connection = connection

    async def show_messages(self) -> None:
        """Write the server's messages for the user to stderr, until the connection ends."""
        async for event in self.client.events():
            if isinstance(event, ShowMessageParams):
                sys.stderr.write(f"{event.type}: {printable_lines(event.message)}\n")
                sys.stderr.flush()


@asynccontextmanager
async def local_client(
    options: Options,
    *,
    workspace_folders: Sequence[Path] = (),
    initialization_options: InitializationOptions | None = None,
    on_approval: OnApproval = "manual",
    on_question: QuestionHandler | None = None,
) -> AsyncIterator[LocalPair]:
    """Run a server in this process, and yield it with a connected client.

    Args:
        options: the server's options.
        workspace_folders: the workspace roots.
        initialization_options: passed to the server.
        on_approval: decides about tool calls that need approval; `manual`: the caller answers them.
        on_question: answers the server's questions to the user; None: questions are not
            supported.
    """
    connections: list[Connection] = []
    async with connect(
        server=Server(options, on_connection=connections.append),
        workspace_folders=workspace_folders,
        client_info=ClientInfo(name="eca-server chat"),
        initialization_options=initialization_options,
        on_approval=on_approval,
        on_question=on_question,
        idle_deadline=None,
    ) as client:
        yield LocalPair(client, connections[0])

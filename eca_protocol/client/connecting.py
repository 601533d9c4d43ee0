"""The connection of a client to a server that it starts, or to a running one."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import attrs

from eca_protocol import messages as m
from eca_protocol.client.client import Client
from eca_protocol.client.request_handlers import (
    AskQuestionHandler,
    DefinitionHandler,
    DiagnosticsHandler,
    ReferencesHandler,
    RequestHandlers,
)
from eca_protocol.errors import ConnectionClosed, LocalProtocolError, StartFailed
from eca_protocol.process import spawn
from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport

__all__ = ["connect"]


def connect(
    *,
    command: Sequence[str] | None = None,
    transport: Transport | None = None,
    workspace_folders: Sequence[m.WorkspaceFolder | str | os.PathLike[str]] = (),
    client_info: m.ClientInfo | None = None,
    initialization_options: m.InitializationOptions | None = None,
    revision: Revision | None = None,
    diagnostics: DiagnosticsHandler | None = None,
    definition: DefinitionHandler | None = None,
    references: ReferencesHandler | None = None,
    ask_question: AskQuestionHandler | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    start_deadline: float = 60.0,
    deadline: float | None = 30.0,
    idle_deadline: float | None = 600.0,
) -> _ConnectionContext:
    """Connect to a server for the duration of an `async with` block.

    Args:
        command: starts the server, which is ended when the block is left.
        transport: a byte stream to a running server, in place of `command`.
        workspace_folders: the project's roots, as folders or paths.
        client_info: the client's name and version.
        initialization_options: passed to the server.
        revision: forces the protocol's edition, for the server, too; None: the first
            `config/updated` shows it, and messages that exist only in CURRENT wait for it.
        diagnostics: answers `editor/getDiagnostics`; the client announces the capabilities of the
            handlers it gets.
        definition: answers `editor/getDefinition`.
        references: answers `editor/getReferences`.
        ask_question: answers `chat/askQuestion`.
        cwd: the server's working directory.
        env: the server's environment, in place of ours.
        start_deadline: the limit for the answer to `initialize`, in seconds.
        deadline: the limit for the answer to any other request, in seconds; None: no limit.
        idle_deadline: the limit of a turn's silence, in seconds; None: no limit.

    Raises:
        StartFailed: on entering: the command cannot be started, or ended before its answer.
        DeadlineExceeded: on entering: the server did not answer in time.
        RequestFailed: on entering: the server refused `initialize`.
    """
    if (command is None) == (transport is None):
        raise LocalProtocolError("connect: pass either a command or a transport")
    request_handlers = RequestHandlers(
        diagnostics=diagnostics,
        definition=definition,
        references=references,
        ask_question=ask_question,
    )
    if revision is not None:
        initialization_options = attrs.evolve(
            initialization_options or m.InitializationOptions(), protocol_revision=revision.value
        )
    hello = m.InitializeParams(
        process_id=os.getpid(),
        client_info=client_info or m.ClientInfo(name="eca-protocol"),
        initialization_options=initialization_options,
        capabilities=request_handlers.capabilities(),
        workspace_folders=tuple(_folder(folder) for folder in workspace_folders),
    )

    def open_client() -> Client:
        child = None if command is None else spawn(command, cwd=cwd, env=env)
        stream = transport if child is None else child.transport
        assert stream is not None
        return Client(
            stream,
            child=child,
            revision=revision,
            request_handlers=request_handlers,
            deadline=deadline,
            idle_deadline=idle_deadline,
        )

    return _ConnectionContext(open_client, hello, start_deadline)


class _ConnectionContext:
    """The context manager of `connect`: entering it returns the client."""

    def __init__(
        self, open_client: Callable[[], Client], hello: m.InitializeParams, deadline: float
    ) -> None:
        self._open_client = open_client
        self._hello = hello
        self._deadline = deadline
        self._client: Client

    async def __aenter__(self) -> Client:
        self._client = client = self._open_client()
        await client.__aenter__()
        try:
            client.initialize_response = await client.initialize(
                self._hello, deadline=self._deadline
            )
            client.initialized()
        except ConnectionClosed as closed:
            await client.__aexit__(None, None, None)
            code = client.exit_code
            exit_code = "" if code is None else f" (exit code {code})"
            message = f"the server ended before it answered initialize{exit_code}"
            raise StartFailed(message) from closed
        except BaseException:
            await client.__aexit__(None, None, None)
            raise
        return client

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, error, trace)


def _folder(folder: m.WorkspaceFolder | str | os.PathLike[str]) -> m.WorkspaceFolder:
    if isinstance(folder, m.WorkspaceFolder):
        return folder
    path = Path(folder).absolute()
    return m.WorkspaceFolder(uri=path.as_uri(), name=path.name or str(path))

"""The connection of a client to a server that it starts, or to a running one."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.client.approvals import OnApproval, check_handler
from eca_protocol.client.client import Client
from eca_protocol.client.request_handlers import (
    DefinitionHandler,
    DiagnosticsHandler,
    QuestionHandler,
    ReferencesHandler,
    RequestHandlers,
)
from eca_protocol.client.server_task import ServerTask
from eca_protocol.errors import ConnectionClosed, LocalProtocolError, StartFailed
from eca_protocol.methods import INITIALIZED
from eca_protocol.process import Child, spawn
from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport, memory_pair

SERVER_COMMAND: Final = (sys.executable, "-P", "-m", "eca_server", "server")
"""The command of the server in this Python environment, which need not be activated."""


class InProcessServer(Protocol):
    """A server that `connect` runs in a task of its own, such as the `Server` of `eca_server`."""

    async def serve(self, transport: Transport) -> object:
        """Serve one client until it has left; the result is ignored."""
        ...


def connect(
    *,
    command: Sequence[str] | None = None,
    transport: Transport | None = None,
    server: InProcessServer | None = None,
    workspace_folders: Sequence[m.WorkspaceFolder | str | os.PathLike[str]] = (),
    client_info: m.ClientInfo | None = None,
    initialization_options: m.InitializationOptions | None = None,
    revision: Revision | None = None,
    diagnostics: DiagnosticsHandler | None = None,
    definition: DefinitionHandler | None = None,
    references: ReferencesHandler | None = None,
    on_approval: OnApproval = None,
    on_question: QuestionHandler | None = None,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    start_deadline: float = 60.0,
    deadline: float | None = 30.0,
    idle_deadline: float | None = 600.0,
) -> _ConnectionContext:
    """Connect to a server for the duration of an `async with` block.

    Args:
        command: starts the server, which is ended when the block is left; a list of words.
        transport: a byte stream to a running server, in place of `command`.
        server: a server to run in this process, in place of `command`; its exception is raised when
            the block is left.
        workspace_folders: the project's roots, as folders or paths.
        client_info: the client's name and version.
        initialization_options: passed to the server.
        revision: forces the protocol's edition, for the server, too; None: the first
            `config/updated` shows it, and messages that exist only in CURRENT wait for it.
        diagnostics: answers `editor/getDiagnostics`; the client announces its handlers.
        definition: answers `editor/getDefinition`.
        references: answers `editor/getReferences`.
        on_approval: decides about tool calls that need approval: a function of the call, plain or
            async, that returns "allow", "allow_session", "reject" or `Rejection(reason)`; or
            "allow" or "reject" for all calls. A call that the program answers by `chat.approve` or
            `chat.reject` before it reads the next content is left to it. None: any other call
            raises `ApprovalNeeded` from the turn. "manual": the program answers at any time.
        on_question: answers `chat/askQuestion`: a function of the question, plain or async, that
            returns the answer, or None for no answer. Without it the client does not announce that
            it answers questions, and a question raises `AnswerNeeded` from the turn.
        cwd: the server's working directory.
        env: the server's environment, in place of ours.
        start_deadline: the limit for the answer to `initialize`, in seconds.
        deadline: the limit for the answer to any other request, in seconds; None: no limit.
        idle_deadline: the limit of a turn's silence, in seconds; None: no limit.

    Raises:
        LocalProtocolError: there is not one of command, transport and server; the command is one
            text; `on_approval` is no such function or text; or, on leaving: the block was entered
            in a different task.
        StartFailed: on entering: the command cannot be started, or ended before its answer.
        DeadlineExceeded: on entering: the server did not answer in time.
        RequestFailed: on entering: the server refused `initialize`.
    """
    if [command, transport, server].count(None) != 2:
        raise LocalProtocolError("connect: pass one of command, transport and server")
    if isinstance(command, str):
        raise LocalProtocolError(
            f"connect: expected command as a list of words: {shlex.split(command)}, got {command!r}"
        )
    check_handler(on_approval)
    handlers = RequestHandlers(
        diagnostics=diagnostics,
        definition=definition,
        references=references,
        on_question=on_question,
    )
    hello = _hello(handlers, client_info, initialization_options, revision, workspace_folders)
    start = None if command is None else partial(spawn, command, cwd=cwd, env=env)
    return _ConnectionContext(
        start=start,
        transport=transport,
        server=server,
        handlers=handlers,
        on_approval=on_approval,
        revision=revision,
        hello=hello,
        start_deadline=start_deadline,
        deadline=deadline,
        idle_deadline=idle_deadline,
    )


def _hello(
    handlers: RequestHandlers,
    client_info: m.ClientInfo | None,
    options: m.InitializationOptions | None,
    revision: Revision | None,
    folders: Sequence[m.WorkspaceFolder | str | os.PathLike[str]],
) -> m.InitializeParams:
    if revision is not None:
        options = attrs.evolve(
            options or m.InitializationOptions(), protocol_revision=revision.value
        )
    return m.InitializeParams(
        process_id=os.getpid(),
        client_info=client_info or m.ClientInfo(name="eca-protocol"),
        initialization_options=options,
        capabilities=handlers.capabilities(),
        workspace_folders=tuple(map(_folder, folders)),
    )


@attrs.define(kw_only=True)
class _ConnectionContext:
    """The context manager of `connect`: entering it returns the client."""

    _start: Callable[[], Child] | None
    _transport: Transport | None
    _server: InProcessServer | None
    _handlers: RequestHandlers
    _on_approval: OnApproval
    _revision: Revision | None
    _hello: m.InitializeParams
    _start_deadline: float
    _deadline: float | None
    _idle_deadline: float | None
    _client: Client = attrs.field(init=False)
    _task_id: int = attrs.field(init=False)

    async def __aenter__(self) -> Client:
        child = None if self._start is None else self._start()
        server = None
        stream = self._transport if child is None else child.transport
        if self._server is not None:
            stream, theirs = memory_pair()
            server = ServerTask(self._server.serve, theirs)
        assert stream is not None
        self._task_id = anyio.get_current_task().id
        self._client = client = Client(
            stream,
            child=child,
            server=server,
            revision=self._revision,
            request_handlers=self._handlers,
            on_approval=self._on_approval,
            deadline=self._deadline,
            idle_deadline=self._idle_deadline,
        )
        await client.__aenter__()
        try:
            client.initialize_response = await client.initialize(
                self._hello, deadline=self._start_deadline
            )
            client.notify(INITIALIZED, m.InitializedParams())
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
        if anyio.get_current_task().id == self._task_id:
            await self._client.__aexit__(kind, error, trace)
            return
        await self._client._abort("connect was left in a different task")
        raise LocalProtocolError(
            "connect: the block was entered in one task and left in another; the connection is "
            "closed. Enter and leave it in the same task, which may wait for an event in between "
            "(section 'Notebooks' of the guide for authors of tools)"
        )


def _folder(folder: m.WorkspaceFolder | str | os.PathLike[str]) -> m.WorkspaceFolder:
    if isinstance(folder, m.WorkspaceFolder):
        return folder
    path = Path(folder).absolute()
    return m.WorkspaceFolder(uri=path.as_uri(), name=path.name or str(path))

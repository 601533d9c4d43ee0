"""The options of a client with their checks, its handlers, and what they announce to the server."""

from __future__ import annotations

import contextlib
import inspect
import os
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.client.approvals import OnApproval, check_handler
from eca_protocol.codec.codec import check_revision
from eca_protocol.errors import LocalProtocolError
from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport

_Params = TypeVar("_Params")
_Result = TypeVar("_Result")
_Handler: TypeAlias = "Callable[[_Params], _Result | Awaitable[_Result]]"

DiagnosticsHandler: TypeAlias = (
    "_Handler[m.EditorGetDiagnosticsParams, m.EditorGetDiagnosticsResponse]"
)
DefinitionHandler: TypeAlias = (
    "_Handler[m.EditorGetDefinitionParams, m.EditorGetDefinitionResponse]"
)
ReferencesHandler: TypeAlias = (
    "_Handler[m.EditorGetReferencesParams, m.EditorGetReferencesResponse]"
)
QuestionHandler: TypeAlias = "_Handler[m.ChatAskQuestionParams, str | None]"

_EDITOR_METHODS: Final = {
    "diagnostics": methods.EDITOR_GET_DIAGNOSTICS.name,
    "definition": methods.EDITOR_GET_DEFINITION.name,
    "references": methods.EDITOR_GET_REFERENCES.name,
}
"""The options that handle requests for the editor; a capability has the name of its option."""


class InProcessServer(Protocol):
    """A server that `connect` runs in a task of its own, such as the `Server` of `eca_server`.

    `eca_protocol.sync` runs it on asyncio, or on the library that its attribute `backend` names.
    """

    async def serve(self, transport: Transport) -> object:
        """Serve one client until it has left; the result is ignored."""
        ...


@attrs.define(kw_only=True, slots=False, eq=False, repr=False)
class ConnectionOptions:
    """The options of `eca_protocol.connect` and of `eca_protocol.sync.connect`.

    Attributes:
        command: starts the server, which is ended when the block is left; a list of words. It may
            be passed without its name.
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
            "allow" or "reject" for all calls, at once. A call that the program answers by
            `chat.approve` or `chat.reject` before it reads the next content is not passed to the
            function. None: any other call raises `ApprovalNeeded` from the turn. "manual": the
            program answers at any time.
        on_question: answers `chat/askQuestion`: a function of the question, plain or async, that
            returns the answer, or None for no answer. Without it the client does not announce that
            it answers questions, and a question raises `AnswerNeeded` from the turn.
        cwd: the server's working directory.
        env: the server's environment, in place of ours.
        start_deadline: the limit for the answer to `initialize`, in seconds.
        deadline: the limit for the answer to any other request, in seconds; None: no limit.
        idle_deadline: the limit of a turn's silence, in seconds, while no question and no call
            waits for the user; None: no limit.

    Raises:
        LocalProtocolError: there is not one of command, transport and server; an option has a value
            of a wrong type; or, on leaving: the block was entered in a different task.
        StartFailed: on entering: the command cannot be started, or ended before its answer.
        DeadlineExceeded: on entering: the server did not answer in time.
        RequestFailed: on entering: the server refused `initialize`.
        DecodeError: on entering: the server's answer does not fit its type.
    """

    command: Sequence[str] | None = attrs.field(default=None, kw_only=False)
    transport: Transport | None = None
    server: InProcessServer | None = None
    workspace_folders: Sequence[m.WorkspaceFolder | str | os.PathLike[str]] = ()
    client_info: m.ClientInfo | None = None
    initialization_options: m.InitializationOptions | None = None
    revision: Revision | None = None
    diagnostics: DiagnosticsHandler | None = None
    definition: DefinitionHandler | None = None
    references: ReferencesHandler | None = None
    on_approval: OnApproval = None
    on_question: QuestionHandler | None = None
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] | None = None
    start_deadline: float = 60.0
    deadline: float | None = 30.0
    idle_deadline: float | None = 600.0

    def __init_subclass__(cls) -> None:
        """Document the options in each subclass."""
        if cls.__doc__ is not None and ConnectionOptions.__doc__ is not None:
            options = inspect.cleandoc(ConnectionOptions.__doc__).partition("\n\n")[2]
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__)}\n\n{options}"

    def __attrs_post_init__(self) -> None:
        if [self.command, self.transport, self.server].count(None) != 2:
            raise LocalProtocolError("connect: pass one of command, transport and server")
        command: object = self.command
        if command is not None and (isinstance(command, str) or not isinstance(command, Sequence)):
            words = f": {shlex.split(command)}" if isinstance(command, str) else ""
            raise LocalProtocolError(
                f"connect: expected command as a list of words{words}, got {command!r}"
            )
        if isinstance(self.workspace_folders, str):
            raise LocalProtocolError(
                "connect: expected workspace_folders as a list of folders: "
                f"[{self.workspace_folders!r}], got {self.workspace_folders!r}"
            )
        server: object = self.server
        if server is not None and (isinstance(server, type) or not hasattr(server, "serve")):
            raise LocalProtocolError(f"connect: expected server as a Server object, got {server!r}")
        check_revision(self.revision)
        check_handler(self.on_approval)
        for name in (*_EDITOR_METHODS, "on_question"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise LocalProtocolError(f"{name}: expected a function, got {handler!r}")

    def handlers(
        self, begin_question: Callable[[str], Callable[[], None]]
    ) -> Iterator[tuple[str, Callable[[Any], Any]]]:
        """Yield the handlers with their methods' names; other requests are refused.

        `begin_question` is called with the chat's id of each question, and its result behind the
        answer.
        """
        for option, method in _EDITOR_METHODS.items():
            if (handler := getattr(self, option)) is not None:
                yield method, handler
        if self.on_question is not None:
            yield methods.CHAT_ASK_QUESTION.handled_by(
                partial(_answer_question, self.on_question, begin_question)
            )

    def hello(self) -> m.InitializeParams:
        """Return the params of `initialize`; an older server ignores unknown capabilities."""
        options = self.initialization_options
        if self.revision is not None:
            options = attrs.evolve(
                options or m.InitializationOptions(), protocol_revision=self.revision.value
            )
        editor = {name: True for name in _EDITOR_METHODS if getattr(self, name) is not None}
        assistant = m.CodeAssistantCapabilities(
            chat=True,
            rewrite=True,
            editor=m.EditorCapabilities(**editor) if editor else None,
            chat_capabilities=m.ChatCapabilities(ask_question=self.on_question is not None),
        )
        return m.InitializeParams(
            process_id=os.getpid(),
            client_info=self.client_info or m.ClientInfo(name="eca-protocol"),
            initialization_options=options,
            capabilities=m.ClientCapabilities(code_assistant=assistant),
            workspace_folders=tuple(map(_folder, self.workspace_folders)),
        )


def _folder(folder: m.WorkspaceFolder | str | os.PathLike[str]) -> m.WorkspaceFolder:
    if isinstance(folder, m.WorkspaceFolder):
        return folder
    path = Path(folder).absolute()
    return m.WorkspaceFolder(uri=path.as_uri(), name=path.name or str(path))


def _answer_question(
    on_question: QuestionHandler,
    begin_question: Callable[[str], Callable[[], None]],
    params: m.ChatAskQuestionParams,
) -> m.ChatAskQuestionResponse | Awaitable[m.ChatAskQuestionResponse]:
    with contextlib.ExitStack() as exits:
        exits.callback(begin_question(params.chat_id))
        answer = on_question(params)
        if isinstance(answer, Awaitable):
            return _later_response(answer, exits.pop_all())
        return _response(answer)


async def _later_response(
    answer: Awaitable[str | None], exits: contextlib.ExitStack
) -> m.ChatAskQuestionResponse:
    with exits:
        return _response(await answer)


def _response(answer: object) -> m.ChatAskQuestionResponse:
    if not isinstance(answer, str | None):
        raise LocalProtocolError(f"on_question: expected a text or None, got {answer!r}")
    return m.ChatAskQuestionResponse(answer=answer, cancelled=answer is None)

"""The ACP agent: its methods over sessions, each with an ECA server of its own.

A session has its own working directory and MCP servers, so it has its own server: in this process,
or started by a command. The server ends with the session.
"""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

from eca_protocol.acp import PROTOCOL_VERSION, RESOURCE_NOT_FOUND, open_peer
from eca_protocol.acp import messages as acp
from eca_protocol.errors import ECAError, RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.peer import End
from eca_protocol.streams import Transport
from eca_server.version import version

if TYPE_CHECKING:
    from eca_protocol.client import Client
    from eca_protocol.messages import ChatOpenResponse
    from eca_server.acp.session import Session, SessionServer

_EMPTY: Final = acp.Empty()

# The client of ECA is imported with the first session: `initialize` is answered without it.


class Agent:
    """An ACP agent for one client.

    Args:
        transport: the byte stream to the client.
        server: makes an ECA server in this process.
        answering: makes one that runs nothing unasked; None: as `server`.
        command: starts any other ECA server, in place of `server`.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        server: Callable[[], SessionServer] | None = None,
        answering: Callable[[], SessionServer] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self._server = server
        self._answering = answering or server
        self._command = command
        self._sessions: dict[str, Session] = {}
        self._opening: dict[str, Session] = {}
        self._is_initialized = False
        self._folders: dict[str, str] = {}  # of the sessions that were opened or listed
        self._client_capabilities = acp.ClientCapabilities()
        self._nursery: trio.Nursery
        self._peer = open_peer(
            transport,
            side="server",
            handlers={
                "initialize": self._initialize,
                "authenticate": self._authenticate,
                "logout": self._logout,
                "session/new": self._new,
                "session/load": self._load,
                "session/resume": self._resume,
                "session/list": self._list,
                "session/delete": self._delete,
                "session/close": self._close,
                "session/set_mode": self._set_mode,
                "session/set_config_option": self._set_option,
                "session/prompt": self._prompt,
                "session/cancel": self._cancel,
            },
        )

    async def serve(self) -> End:
        """Serve the client until its end, then end all sessions."""
        async with trio.open_nursery() as self._nursery:
            async with self._peer:
                end = await self._peer.serve()
            for session in self._sessions.values():
                session.closing.set()
        return end

    def _initialize(self, params: acp.InitializeRequest) -> acp.InitializeResponse:
        self._is_initialized = True
        self._client_capabilities = params.client_capabilities
        methods = [
            acp.AuthMethod(
                id="environment",
                name="Keys of the environment or the configuration",
                description="The server reads its keys by itself",
            ),
            acp.AuthMethod(
                id="login",
                name="Log in in the browser",
                description="The first provider that has such a login, for example OpenRouter",
            ),
        ]
        if params.client_capabilities.auth.terminal:
            methods.append(
                acp.AuthMethod(
                    id="terminal",
                    type="terminal",
                    name="Log in in a terminal",
                    description="Type /login",
                    args=("--login",),
                )
            )
        return acp.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=acp.AgentCapabilities(
                load_session=True,
                prompt_capabilities=acp.PromptCapabilities(image=True, embedded_context=True),
                mcp_capabilities=acp.McpCapabilities(http=True, sse=True),
                session_capabilities=acp.SessionCapabilities(
                    list=_EMPTY,
                    delete=_EMPTY,
                    resume=_EMPTY,
                    close=_EMPTY,
                    additional_directories=_EMPTY,
                ),
                auth=acp.AgentAuthCapabilities(logout=_EMPTY),
            ),
            auth_methods=tuple(methods),
            agent_info=acp.Implementation(name="eca", title="ECA", version=version()),
        )

    async def _authenticate(self, params: acp.AuthenticateRequest) -> acp.Empty:
        if params.method_id == "terminal":
            return _EMPTY  # done in the terminal; a new session reads it when it starts
        from eca_server.acp.logins import check_keys, log_in  # noqa: PLC0415

        act = {"environment": check_keys, "login": log_in}.get(params.method_id)
        if act is None:
            raise RPCError(ErrorCode.INVALID_PARAMS, f"no login method {params.method_id!r}")
        # Only a full server announces that a login was stored.
        server = self._server if act is log_in else self._answering
        await self._with_client(None, act, server)
        return _EMPTY

    async def _logout(self, _: acp.Empty) -> acp.Empty:
        from eca_server.acp.logins import log_out  # noqa: PLC0415

        await self._with_client(None, log_out, self._answering)
        return _EMPTY

    def _session(self, session_id: str) -> Session:
        session = self._sessions.get(session_id)
        if session is None or session.closing.is_set():
            raise RPCError(RESOURCE_NOT_FOUND, f"no session {session_id!r}: open it first")
        return session

    def _register(self, session_id: str, params: Any) -> Session:
        """Register a session that is being opened, so that a close right behind it finds it.

        Raises:
            RPCError: the session is open, its params are invalid, or `initialize` is missing.
        """
        if not self._is_initialized:
            raise RPCError(ErrorCode.INVALID_REQUEST, "expected `initialize` before a session")
        from eca_server.acp.session import Session  # noqa: PLC0415

        earlier = self._sessions.get(session_id)
        if earlier is not None and earlier.client.closed:  # its server has ended
            earlier.closing.set()
        is_open = earlier is not None and not earlier.closing.is_set()
        if is_open or session_id in self._opening:
            raise RPCError(ErrorCode.INVALID_REQUEST, f"the session {session_id!r} is open")
        _check_absolute("cwd", params.cwd)
        for index, path in enumerate(params.additional_directories):
            _check_absolute(f"additionalDirectories[{index}]", path)
        session = self._opening[session_id] = Session(session_id, params.cwd, self._peer)
        return session

    async def _open(self, session: Session, params: Any) -> None:
        """Start the ECA server of a registered session.

        Raises:
            RPCError: the server cannot be started.
        """
        from eca_server.acp.blocks import mcp_configuration  # noqa: PLC0415

        try:
            servers = mcp_configuration(params.mcp_servers)
            folders = [params.cwd, *params.additional_directories]
            earlier = self._sessions.get(session.id)
            if earlier is not None:
                await earlier.closed.wait()
            self._folders[session.id] = params.cwd
            start = partial(self._run_session, session, folders, servers)
            await self._nursery.start(_reporting, start)
        finally:
            del self._opening[session.id]

    async def _run_session(
        self, session: Session, folders: list[str], servers: Any, started: Callable[[], None]
    ) -> None:
        """Hold the connection of a session until the session or the connection ends."""
        from eca_protocol import messages as eca  # noqa: PLC0415
        from eca_protocol.client import connect  # noqa: PLC0415

        has_forms = (
            self._client_capabilities.elicitation is not None
            and self._client_capabilities.elicitation.form is not None
        )
        session.server = None if self._server is None else self._server()
        options = eca.InitializationOptions(extras={"mcpServers": servers} if servers else {})
        connection = connect(
            command=self._command,
            server=session.server,
            cwd=folders[0] if self._command else None,
            workspace_folders=folders,
            client_info=eca.ClientInfo(name="eca-server acp", version=version()),
            initialization_options=options,
            on_approval="manual",
            on_question=session.answer if has_forms else None,
            idle_deadline=None,
        )
        try:
            async with connection as client:
                client.on(eca.ShowMessageParams, session.note)
                await client.wait_for_config()
                session.attach(client)
                self._sessions[session.id] = session
                started()
                await session.closing.wait()
        finally:
            self._sessions.pop(session.id, None)
            session.closed.set()

    async def _announce_commands(self, session: Session) -> None:
        try:
            await session.announce_commands()
        except ECAError as error:
            if not (session.closing.is_set() or self._peer.closed):
                sys.stderr.write(f"eca-server acp: {error}\n")

    async def _new(self, params: acp.NewSessionRequest) -> acp.NewSessionResponse:
        session = self._register(str(uuid.uuid4()), params)
        await self._open(session, params)
        self._nursery.start_soon(self._announce_commands, session)
        return acp.NewSessionResponse(
            session_id=session.id, modes=session.modes(), config_options=session.options()
        )

    async def _reopen(self, session: Session, params: Any, *, replays: bool) -> acp.SessionState:
        from eca_protocol import messages as eca  # noqa: PLC0415
        from eca_protocol.methods import CHAT_OPEN  # noqa: PLC0415
        from eca_server.acp.session import failure  # noqa: PLC0415

        await self._open(session, params)
        try:
            opened = await session.client.request(CHAT_OPEN, eca.ChatOpenParams(chat_id=session.id))
            _check_found(opened)
            if replays:
                await session.replay()
            session.announce_usage()
        except BaseException as error:
            was_closed = session.closing.is_set()
            session.closing.set()
            if not isinstance(error, ECAError):
                raise
            if was_closed:
                text = "the session was closed before it was open"
                raise RPCError(ErrorCode.REQUEST_CANCELLED, text) from error
            raise failure(error) from error
        self._nursery.start_soon(self._announce_commands, session)
        return acp.SessionState(modes=session.modes(), config_options=session.options())

    def _load(self, params: acp.LoadSessionRequest) -> Awaitable[acp.SessionState]:
        return self._reopen(self._register(params.session_id, params), params, replays=True)

    def _resume(self, params: acp.ResumeSessionRequest) -> Awaitable[acp.SessionState]:
        return self._reopen(self._register(params.session_id, params), params, replays=False)

    async def _with_client(
        self,
        cwd: str | None,
        act: Callable[[Any], Awaitable[Any]],
        server: Callable[[], SessionServer] | None,
    ) -> Any:
        """Call a function with the connection of a session in a folder, or of one made for it."""
        from eca_protocol.client import connect  # noqa: PLC0415
        from eca_server.acp.session import failure  # noqa: PLC0415

        try:
            for session in self._sessions.values():
                if cwd in {None, session.cwd} and not session.closing.is_set():
                    return await act(session.client)
            async with connect(
                command=self._command,
                server=None if server is None else server(),
                workspace_folders=[cwd or str(Path.cwd())],
            ) as client:
                await client.wait_for_config()
                return await act(client)
        except ECAError as error:
            raise failure(error) from error

    async def _list(self, params: acp.ListSessionsRequest) -> acp.ListSessionsResponse:
        from eca_protocol.messages import ChatListParams  # noqa: PLC0415
        from eca_protocol.methods import CHAT_LIST  # noqa: PLC0415

        if params.cwd is not None:
            _check_absolute("cwd", params.cwd)
        open_in = (each.cwd for each in self._sessions.values())
        folders = [params.cwd] if params.cwd else dict.fromkeys([str(Path.cwd()), *open_in])
        sessions: dict[str, acp.SessionInfo] = {}
        for cwd in folders:
            listed = await self._with_client(
                cwd, lambda client: client.request(CHAT_LIST, ChatListParams()), self._answering
            )
            for chat in listed.chats:
                time = _time(chat.updated_at)
                sessions[chat.id] = acp.SessionInfo(
                    session_id=chat.id, cwd=cwd, title=chat.title, updated_at=time
                )
                self._folders[chat.id] = cwd
        return acp.ListSessionsResponse(sessions=tuple(sessions.values()))

    async def _delete(self, params: acp.SessionReference) -> acp.Empty:
        from eca_protocol.messages import ChatDeleteParams  # noqa: PLC0415
        from eca_protocol.methods import CHAT_DELETE  # noqa: PLC0415
        from eca_server.acp.session import failure  # noqa: PLC0415

        async def delete(client: Client) -> None:
            await client.request(CHAT_DELETE, ChatDeleteParams(chat_id=params.session_id))

        folder = self._folders.pop(params.session_id, str(Path.cwd()))
        session = self._sessions.get(params.session_id)
        if session is not None and session.closing.is_set():
            await session.closed.wait()
            session = None
        if session is None:
            await self._with_client(folder, delete, self._answering)
            return _EMPTY
        session.cancel()
        try:
            await delete(session.client)  # any other server would leave its prompt to be stored
        except ECAError as error:
            raise failure(error) from error
        session.closing.set()
        await session.closed.wait()  # its server has stored the deletion then
        return _EMPTY

    def _close(self, params: acp.SessionReference) -> acp.Empty:
        session = self._opening.get(params.session_id) or self._session(params.session_id)
        session.cancel()
        session.closing.set()
        return _EMPTY

    def _set_mode(self, params: acp.SetSessionModeRequest) -> acp.Empty:
        self._session(params.session_id).set_mode(params.mode_id)
        return _EMPTY

    async def _set_option(
        self, params: acp.SetSessionConfigOptionRequest
    ) -> acp.SetSessionConfigOptionResponse:
        session = self._session(params.session_id)
        session.set_option(params.config_id, params.value)
        await session.refresh_options()
        return acp.SetSessionConfigOptionResponse(config_options=session.options())

    def _prompt(self, params: acp.PromptRequest) -> Awaitable[acp.PromptResponse]:
        session = self._session(params.session_id)
        return session.run(session.begin(params))

    def _cancel(self, params: acp.SessionReference) -> None:
        session = self._sessions.get(params.session_id)
        if session is not None:
            session.cancel()


async def _reporting(
    run: Callable[[Callable[[], None]], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run a session; an error before its start is raised to the starter, a later one logged.

    Raises:
        RPCError: the session did not start.
    """
    has_started = False

    def started() -> None:
        nonlocal has_started
        has_started = True
        task_status.started()

    try:
        await run(started)
    except (ECAError, TimeoutError, OSError) as error:
        if not has_started:
            raise RPCError(
                ErrorCode.INTERNAL_ERROR, f"the ECA server did not start: {error}"
            ) from error
        sys.stderr.write(f"eca-server acp: {error}\n")


def _check_absolute(member: str, path: str) -> None:
    if not Path(path).is_absolute():
        raise RPCError(ErrorCode.INVALID_PARAMS, f"{member}: not an absolute path: {path!r}")


def _check_found(opened: ChatOpenResponse) -> None:
    if not opened.found:
        raise RPCError(RESOURCE_NOT_FOUND, "no such session is stored")


def _time(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat()

"""The class for servers of one's own."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar

import anyio
import anyio.abc

from eca_protocol import messages as m
from eca_protocol import platforms
from eca_protocol.codec.codec import check_revision
from eca_protocol.errors import LocalProtocolError, StartFailed
from eca_protocol.revisions import Revision
from eca_protocol.server.connection import Connection
from eca_protocol.server.declarations import Command, Declarations, PromptHandler
from eca_protocol.server.endings import leave_in_time
from eca_protocol.server.values import ContextQueryHandler, Tool, Work, check_list
from eca_protocol.streams import FdTransport, Transport, owned_stdio

__all__ = ["Server"]

_P = TypeVar("_P", bound=PromptHandler)
_C = TypeVar("_C", bound=ContextQueryHandler)
_W = TypeVar("_W", bound=Work)


class Server:
    """A server: handlers of prompts, commands, tools and queries; the rest is done for you.

        server = Server(name="my-server")

        @server.prompt
        async def answer(chat: ServerChat, prompt: Prompt) -> None:
            await chat.say("Hello")

        server.run_stdio()

    Each client gets a connection with chats of its own. Prompts to a busy chat queue, a stop
    cancels the handler, and each turn ends with one `finished`. An exception in a handler ends its
    turn with a text for the user, and is logged. All editions of the protocol are served.

    Args:
        name: the name of the server, and of the provider of its model.
        models: its models, as `provider/model`, the default one first; None: one, named after the
            server. A prompt for an unknown model gets a text that lists them.
        agents: its agents, the default one first: `agent`, `plan`, or names of your own. The
            handler learns the selected one; `plan` promises to change nothing.
        welcome: the welcome message, Markdown; empty: one with the name.
        revision: the edition to use with every client; None: each client's own (W-12).

    Raises:
        LocalProtocolError: the name, `models` or `agents` is empty; a model has no provider; or an
            option has a value of a wrong type.
    """

    def __init__(
        self,
        *,
        name: str,
        models: Sequence[str] | None = None,
        agents: Sequence[str] = ("agent", "plan"),
        welcome: str = "",
        revision: Revision | None = None,
    ) -> None:
        if models is None:
            models = [f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-') or 'server'}/default"]
        check_list("models", models)
        check_list("agents", agents)
        check_revision(revision)
        if not (name.strip() and models and agents):
            raise LocalProtocolError("Server: expected a name, models and agents, got an empty one")
        for model in models:
            if not all(model.partition("/")):
                raise LocalProtocolError(f"models: expected `provider/model`, got {model!r}")
        self.name = name
        self._declarations = Declarations(
            welcome=welcome or f"Welcome to {name}!", models=tuple(models), agents=tuple(agents)
        )
        self._connect = partial(Connection, declarations=self._declarations, revision=revision)

    def prompt(self, handler: _P) -> _P:
        """Declare the handler of prompts: an async function of the chat and the prompt."""
        _check("prompt", handler)
        _add(self._declarations.handlers, "prompt", handler)
        return handler

    def context_query(self, handler: _C) -> _C:
        """Declare the handler of queries for contexts: an async function of a `ContextQuery`.

        It returns contexts of `eca_protocol.messages`. At most 200 are sent, roots first, without
        those that the client has already; queries for files get the files and directories.
        """
        _check("context_query", handler)
        _add(self._declarations.handlers, "context_query", handler)
        return handler

    def command(
        self,
        name: str,
        description: str,
        *,
        arguments: Iterable[str | m.CommandArgument] = (),
    ) -> Callable[[_P], _P]:
        """Declare a slash command, and its handler: as that of prompts.

        `Prompt.arguments` is the text behind the name.

        Args:
            name: the name, without the slash.
            description: one line for the user.
            arguments: the arguments, or the names of required ones.

        Raises:
            LocalProtocolError: the name is empty, or has a slash at its start or white space; or
                the arguments are a text.
        """
        check_list("arguments", arguments)
        if name.startswith("/") or name.split() != [name]:
            raise LocalProtocolError(f"command: expected a word without the slash, got {name!r}")

        def declare(handler: _P) -> _P:
            _check(f"command {name}", handler)
            shown = m.ChatCommand(
                name=name,
                description=description,
                type="native",
                arguments=tuple(map(_argument, arguments)),
            )
            command = Command(shown=shown, run=handler)
            _add(self._declarations.commands, name.lower(), command, what=f"command {name}")
            return handler

        return declare

    def tool(
        self,
        name: str,
        description: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        approval: bool = True,
    ) -> Callable[[_W], _W]:
        """Declare a tool, and its work: an async function of the arguments, which returns a text.

        Clients list it; `ServerChat.tool_call` calls it.

        Args:
            name: the name.
            description: one line for the user and the model.
            parameters: the JSON Schema of the arguments; None: an object.
            approval: ask the user before the work.

        Raises:
            LocalProtocolError: the name is empty, or has white space; or the schema is not one of
                an object.
        """
        if name.split() != [name]:
            raise LocalProtocolError(f"tool: expected a word as its name, got {name!r}")
        schema = {"type": "object"} if parameters is None else dict(parameters)
        if schema.get("type") != "object":
            raise LocalProtocolError(
                f'tool {name}: expected a schema with the type "object", got {parameters!r}'
            )

        def declare(work: _W) -> _W:
            _check(f"tool {name}", work)
            shown = m.ServerTool(
                name=name, description=description, parameters=schema, disabled=False
            )
            tool = Tool(shown=shown, work=work, needs_approval=approval)
            _add(self._declarations.tools, name, tool, what=f"tool {name}")
            return work

        return declare

    async def serve(self, transport: Transport) -> int:
        """Serve one client until it has left, on trio or asyncio.

        `connect(server=...)` calls this for a client in the same process.

        Returns:
            The exit code for the process: 0 after `shutdown` or the end of the input (W-13).
        """
        return await self._connect(transport).serve()

    def run_stdio(self, *, backend: Literal["asyncio", "trio"] = "asyncio") -> NoReturn:
        """Serve the client at stdin and stdout, and exit; the last line of a server's program.

        The streams are reserved for the protocol: a `print` goes to stderr.

        Args:
            backend: the async library.

        Raises:
            SystemExit: always, with the exit code.
        """
        raise SystemExit(anyio.run(self._serve_stdio, backend=backend))

    async def _serve_stdio(self) -> int:
        """Serve the client at stdin and stdout, and return the exit code."""
        try:
            with owned_stdio(for_good=True) as (read_fd, write_fd):
                connection = self._connect(FdTransport(read_fd, write_fd), on_ending=leave_in_time)
                async with anyio.create_task_group() as tasks:
                    if os.name != "nt":
                        await tasks.start(_end_by_signals, connection)
                    code = await connection.serve()
                    tasks.cancel_scope.cancel()
                return code
        except StartFailed as error:
            os.write(2, f"{error}\n".encode())
            return 1


async def _end_by_signals(
    connection: Connection, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    """End the connection at the first signal; ignore further ones."""
    with anyio.open_signal_receiver(*platforms.ENDING_SIGNALS) as signals:
        task_status.started()
        async for number in signals:
            connection.end_by_signal(number)


def _add(registry: dict[Any, Any], name: str, value: object, *, what: str = "") -> None:
    """Add a declaration."""
    if name in registry:
        raise LocalProtocolError(f"{what or name}: it is declared already")
    registry[name] = value


def _check(what: str, handler: object) -> None:
    """Refuse what is no async function."""
    call = getattr(handler, "func", handler)  # of a partial
    if not inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(
        getattr(type(call), "__call__", None)  # noqa: B004 - its kind is asked for
    ):
        raise LocalProtocolError(
            f"{what}: expected an async function (`async def`), got {handler!r}"
        )


def _argument(argument: str | m.CommandArgument) -> m.CommandArgument:
    if isinstance(argument, m.CommandArgument):
        return argument
    return m.CommandArgument(name=argument, required=True)

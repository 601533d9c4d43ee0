"""How a connection begins and ends (chapter "Lifecycle Messages"; rulings W-10, W-12 to W-15).

The answer to `initialize` waits for nothing, so nothing is imported here that only chats need;
what a client is told after it stands in `introduction`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from eca_protocol.codec import MessageCodec
from eca_protocol.draft import codec_for
from eca_protocol.errors import INTERNAL_ERROR, RPCError
from eca_protocol.messages import (
    InitializationOptions,
    InitializeParams,
    InitializeResponse,
)
from eca_protocol.peer import Handler
from eca_protocol.process import watch_descriptor
from eca_protocol.revisions import Revision, detect, forced_revision
from eca_server.clients import profile_for
from eca_server.config import load, user_directory
from eca_server.features.connection import Connection
from eca_server.telemetry import configure
from eca_server.workspace import parse_roots

__all__ = ["Greeting", "handlers_of"]

WATCH_SECONDS = 2.0

LOAD_SECONDS = 2.0
"""How long the client's messages wait for the agents in files and the folders' configuration."""

_LATE = (
    "The configuration of the opened folder and of agents in files cannot be read yet: the disk "
    "does not answer. It counts as soon as it can be read."
)


class Greeting:
    """The codec until `initialize` was read: then that of the edition which the client speaks.

    Which edition that is, and who the client is, shows in keys that the editions' models do not
    share; both are decided on the raw params.

    Attributes:
        raw_params: what the client said in `initialize`.
        revision: the edition, as it was detected or forced.
        codec: speaks it.
        problem: why it is not the one that the client asked for.
    """

    def __init__(self, forced: Revision | None = None) -> None:
        self._forced = forced
        self.raw_params: Any = None
        self.problem: str | None = None
        self._speak(forced or detect(None))

    def _speak(self, revision: Revision) -> None:
        self.revision = revision
        self.codec = codec = codec_for(revision)
        self.incoming = codec.incoming
        self.outgoing = codec.outgoing
        self.encode_params = codec.encode_params
        self.encode_result = codec.encode_result
        self.decode_result = codec.decode_result

    def decode_params(self, method: str, raw: Any) -> Any:
        """As the codec does; `initialize` decides which that is."""
        if method == "initialize":
            self.raw_params = raw
            self._speak(self._forced or self._asked_for(raw))
        return self.codec.decode_params(method, raw)

    def _asked_for(self, raw: Any) -> Revision:
        try:
            return forced_revision(raw) or detect(raw)
        except ValueError as error:
            self.problem = f"initializationOptions: protocolRevision: {error}"
            return detect(raw)


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The lifecycle's handlers."""

    def initialize(params: InitializeParams) -> InitializeResponse:
        return _initialize(connection, params)

    async def shutdown(_: None) -> None:
        left = await connection.close()
        connection.was_shut_down = True
        if left:
            raise RPCError(INTERNAL_ERROR, f"shutdown: {'; '.join(left)}")

    def leave(_: None) -> None:
        connection.peer.close("the client said exit")

    return {
        "initialize": initialize,
        "shutdown": shutdown,
        "exit": leave,
    }


def _initialize(connection: Connection, params: InitializeParams) -> InitializeResponse:
    greeting = connection.peer.codec
    assert isinstance(greeting, Greeting)
    options = params.initialization_options or InitializationOptions()
    session = connection.session
    session.revision = greeting.revision
    connection.peer.codec = greeting.codec
    if greeting.problem is not None:
        connection.notices.append(greeting.problem)
    session.profile = profile_for(greeting.raw_params, greeting.revision)
    if session.profile.loses_large_frames:
        connection.peer.codec = _fitting(connection.peer.codec, session.profile.shape.size)
    session.client_info = params.client_info or session.client_info
    session.capabilities = params.capabilities
    session.roots, problems = parse_roots(params.workspace_folders)
    connection.notices.extend(problems)
    connection.load = partial(
        load,
        initialization_options=options.extras,
        roots=[root.path for root in session.roots],
        environ=connection.options.environ,
        config_file=connection.options.config_file,
        stored_secret=connection.kept_secret,
        trusts_workspace=connection.options.trusts_workspace,
        known_providers=known_providers,
        logins=connection.provider_logins,
    )
    has_more = any(map(os.path.exists, _slow_places(connection)))
    connection.loaded = connection.load(is_first=has_more, runs_commands=False)
    if has_more or connection.loaded.awaits_commands:
        connection.gate.close()
        connection.nursery.start_soon(_load_all, connection)
    configure(connection.config.otlp)
    connection.initial_behavior = options.chat_agent or options.chat_behavior
    _watch_client(connection, params.process_id)
    environ, own_file = connection.options.environ, connection.options.config_file
    return InitializeResponse(
        chat_welcome_message=connection.config.welcome_message,
        global_config_path=str((own_file or user_directory(environ) / "config.json").absolute()),
    )


def _slow_places(connection: Connection) -> Iterator[Path]:
    """The directories whose content the answer to `initialize` does not wait for."""
    yield user_directory(connection.options.environ) / "agents"
    for root in connection.session.roots:
        yield root.path / ".eca"


async def _load_all(connection: Connection) -> None:
    """Put the whole configuration in force, then let pass what the client has sent meanwhile.

    A disk that does not answer delays the client's messages only so long.
    """

    def let_pass() -> None:
        if connection.gate.open():
            connection.peer.release()

    def be_late() -> None:
        connection.notices.append(_LATE)
        let_pass()

    load_all = partial(connection.load, previous=connection.loaded)
    with connection.gate.opened_after(LOAD_SECONDS, be_late):
        loaded = await trio.to_thread.run_sync(load_all, abandon_on_cancel=True)
    if connection.gate.is_open:
        from eca_server.features.configuration import put_in_force  # noqa: PLC0415 - seldom needed

        put_in_force(connection, loaded)
    else:
        connection.adopt(loaded)
        let_pass()


def known_providers() -> Collection[str]:
    """The names of the providers that need no configuration."""
    from eca_server.llm.known_providers import KNOWN_PROVIDERS  # noqa: PLC0415 - as below

    return KNOWN_PROVIDERS.keys()


def _fitting(codec: MessageCodec, size: int) -> MessageCodec:
    from eca_server.fitting import FittingCodec  # noqa: PLC0415 - few clients need it

    return FittingCodec(codec, size)


def _watch_client(connection: Connection, process_id: int | None) -> None:
    """End with the client's process, if it is seen alive now (W-14)."""
    if process_id is not None and process_id > 0 and _is_alive(process_id):
        connection.nursery.start_soon(_end_with, connection, process_id)


async def _end_with(connection: Connection, process_id: int) -> None:
    descriptor = watch_descriptor(process_id)
    if descriptor is None:
        while _is_alive(process_id):  # noqa: ASYNC110 - no event tells of a foreign process
            await trio.sleep(WATCH_SECONDS)
    else:
        try:
            await trio.lowlevel.wait_readable(descriptor)
        finally:
            os.close(descriptor)
    connection.client_is_gone = True
    connection.peer.close(f"the client's process {process_id} is gone")


def _is_alive(process_id: int) -> bool:
    if os.name == "nt":
        return False
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True

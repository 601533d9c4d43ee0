"""The begin and end of a connection (chapter "Lifecycle Messages"; rulings W-10, W-12 to W-15).

The answer to `initialize` must be fast, so nothing is imported here that only chats need. The
announcements after it are in `introduction`.
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

__all__ = ["Greeting", "make_handlers"]

WATCH_SECONDS = 2.0

LOAD_SECONDS = 2.0
"""Longest wait of the client's messages for agents in files and workspace configuration."""

_LATE = (
    "The configuration of the opened folder and agents in files could not be read yet: the "
    "disk does not answer. They will be used as soon as they can be read."
)


class Greeting:
    """A codec that detects the client's revision in `initialize`, and then uses that revision.

    Detection of the revision and the client needs keys that no model of all revisions has; it
    works on the raw params.

    Attributes:
        raw_params: the raw params of `initialize`.
        revision: the detected or forced revision.
        codec: the codec of that revision.
        problem: the error in a requested revision, or None.
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
        """Decode params; those of `initialize` select the codec."""
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


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of the lifecycle."""

    def initialize(params: InitializeParams) -> InitializeResponse:
        return _initialize(connection, params)

    async def shutdown(_: None) -> None:
        problems = await connection.close()
        connection.was_shut_down = True
        if problems:
            raise RPCError(INTERNAL_ERROR, f"shutdown: {'; '.join(problems)}")

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
    """Yield the directories that are read only after the answer to `initialize`."""
    yield user_directory(connection.options.environ) / "agents"
    for root in connection.session.roots:
        yield root.path / ".eca"


async def _load_all(connection: Connection) -> None:
    """Load the whole configuration, then let the client's held messages pass.

    A disk that does not answer delays the messages for a limited time.
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
    """Return the names of the providers that need no configuration."""
    from eca_server.llm.known_providers import KNOWN_PROVIDERS  # noqa: PLC0415 - as below

    return KNOWN_PROVIDERS.keys()


def _fitting(codec: MessageCodec, size: int) -> MessageCodec:
    from eca_server.fitting import FittingCodec  # noqa: PLC0415 - few clients need it

    return FittingCodec(codec, size)


def _watch_client(connection: Connection, process_id: int | None) -> None:
    """End the server with the client's process, if that is alive now (W-14)."""
    if process_id is not None and process_id > 0 and _is_alive(process_id):
        connection.nursery.start_soon(_end_with, connection, process_id)


async def _end_with(connection: Connection, process_id: int) -> None:
    descriptor = watch_descriptor(process_id)
    if descriptor is None:
        while _is_alive(process_id):  # noqa: ASYNC110 - a foreign process has no event
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

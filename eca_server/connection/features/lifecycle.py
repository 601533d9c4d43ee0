"""The begin and end of a connection (chapter "Lifecycle Messages"; rulings W-10, W-12 to W-15).

The answer to `initialize` must be fast, so nothing is imported here that only chats need. The
announcements after it are in `introduction`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eca_protocol import methods, platforms
from eca_protocol.codec import MessageCodec
from eca_protocol.errors import INTERNAL_ERROR, RPCError
from eca_protocol.messages import InitializationOptions, InitializeParams, InitializeResponse
from eca_protocol.peer import Handler
from eca_protocol.process import wait_for_end
from eca_protocol.server.greeting import Greeting
from eca_protocol.server.roots import parse_roots
from eca_server.client.profiles import profile_for
from eca_server.client.session import Session
from eca_server.config.directories import home_directory, logins_file
from eca_server.config.loading import load
from eca_server.connection.features.gate import ConfigurationGate
from eca_server.connection.features.host import Host
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Settings
from eca_server.system.child_process import note_opened_folders
from eca_server.system.telemetry import configure
from eca_server.system.threads import run_in_thread

if TYPE_CHECKING:
    from eca_server.connection.features.composition import Composition
    from eca_server.models.credentials.logins import Logins

_LATE = (
    "The configuration of the opened folder and agents in files could not be read yet: the "
    "disk does not answer. They will be used as soon as they can be read."
)
_COMMANDS_RUN = (
    "The configuration is not complete yet: a command in it (`${cmd:...}`) still runs. Until it "
    "ends, settings that need such a command have no value, and the configuration of the opened "
    "folder and agents in files do not apply."
)


class Connection:
    """The begin and the end of a connection.

    Attributes:
        gate: holds the client's messages until the configuration is loaded.
        parts: everything that is not needed for the answer to `initialize`.
        was_shut_down: whether `shutdown` was answered, after which an exit is orderly.
    """

    def __init__(self, host: Host, gate: ConfigurationGate) -> None:
        self.gate = gate
        self.session = Session(host.peer)
        self.settings = Settings(host.options)
        self.parts = Lazy(self._make_parts)
        self.was_shut_down = False
        self.client_is_gone = False
        self._host = host
        self._logins = Lazy(self._make_logins)
        self._notices: list[str] = []
        self._initial_behavior: str | None = None

    async def close(self) -> Sequence[str]:
        """Stop all work within a deadline; return descriptions of what did not end."""
        if self.parts.made is not None:
            return await self.parts.made.close()
        await self._host.peer.cancel_requests(seconds=1.0, but="shutdown")
        return ()

    def _make_parts(self) -> Composition:
        from eca_server.connection.features.composition import Composition  # noqa: PLC0415 - as above

        parts = Composition(self._host, self.session, self.settings, self._logins)
        parts.announcer.notices = self._notices
        parts.selection.initial_behavior = self._initial_behavior
        return parts

    def _make_logins(self) -> Logins:
        from eca_server.models.credentials.logins import Logins  # noqa: PLC0415 - see the module's docstring

        return Logins(self._host.options.environ, in_keyring=lambda: self.settings.config.keyring)

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of the lifecycle."""
        return methods.handlers(
            methods.INITIALIZE.handled_by(self._initialize),
            methods.SHUTDOWN.handled_by(self._shut_down),
            methods.EXIT.handled_by(lambda _: self._host.peer.close("the client said exit")),
        )

    def _initialize(self, params: InitializeParams) -> InitializeResponse:
        options = params.initialization_options or InitializationOptions()
        self._meet_client(params)
        self.settings.load = partial(
            load,
            initialization_options=options.extras,
            roots=[root.path for root in self.session.roots],
            environ=self._host.options.environ,
            config_file=self._host.options.config_file,
            stored_secret=partial(_find_secret, self._logins),
            trusts_workspace=self._host.options.trusts_workspace,
            known_providers=known_providers,
            logins=lambda: self._logins.get().names(),
            watched=[logins_file(self._host.options.environ)],
        )
        has_more = any(map(os.path.exists, self._slow_places()))
        loaded = self.settings.load(is_first=has_more, runs_commands=False)
        self.settings.put_in_force(loaded)
        if has_more or loaded.awaits_commands:
            self.gate.close()
            self._host.nursery.start_soon(self._load_all)
        configure(loaded.config.otlp)
        self._initial_behavior = options.chat_agent or options.chat_behavior
        self._watch_client(params.process_id)
        own_file = self._host.options.config_file or self.settings.user_directory / "config.json"
        return InitializeResponse(
            chat_welcome_message=loaded.config.welcome_message,
            global_config_path=str(own_file.absolute()),
        )

    def _meet_client(self, params: InitializeParams) -> None:
        """Store what the client says of itself, and use its codec."""
        greeting, session = self._host.peer.codec, self.session
        assert isinstance(greeting, Greeting)
        session.revision = greeting.revision
        session.profile = profile_for(greeting.raw_params, greeting.revision)
        self._host.peer.codec = greeting.codec
        if session.profile.writing.loses_large_frames:
            self._host.peer.codec = _fitting(greeting.codec, session.profile.writing.shape.size)
        session.client_info = params.client_info or session.client_info
        session.capabilities = params.capabilities
        session.roots, problems = parse_roots(params.workspace_folders)
        opened = (each.real_path for each in session.roots)
        note_opened_folders(opened, home_directory(self._host.options.environ))
        if greeting.problem is not None:
            self._notices.append(greeting.problem)
        self._notices.extend(problems)

    async def _shut_down(self, _: None) -> None:
        problems = await self.close()
        self.was_shut_down = True
        if problems:
            raise RPCError(INTERNAL_ERROR, f"shutdown: {'; '.join(problems)}")

    def _slow_places(self) -> Iterator[Path]:
        """Yield the directories that are read only after the answer to `initialize`."""
        yield self.settings.user_directory / "agents"
        for root in self.session.roots:
            yield root.path / ".eca"

    async def _load_all(self) -> None:
        """Load the whole configuration, then let the client's held messages pass.

        A disk that does not answer delays the messages for a limited time.
        """

        def let_pass() -> None:
            if self.gate.open():
                self._host.peer.release()

        def be_late() -> None:
            is_waiting = self.settings.loaded.awaits_commands
            self._notices.append(_COMMANDS_RUN if is_waiting else _LATE)
            let_pass()

        load_all = partial(self.settings.load, previous=self.settings.loaded)
        with self.gate.opened_after(self._host.options.load_seconds, be_late):
            try:
                loaded = await run_in_thread(load_all, abandon_on_cancel=True)
            except OSError as error:
                self.settings.keep_in_force(error)
            else:
                self.settings.put_in_force(loaded)
        let_pass()

    def _watch_client(self, process_id: int | None) -> None:
        """End the server with the client's process, if that is alive now (W-14)."""
        if process_id is not None and process_id > 0 and platforms.is_alive(process_id):
            self._host.nursery.start_soon(self._end_with, process_id)

    async def _end_with(self, process_id: int) -> None:
        await wait_for_end(process_id)
        self.client_is_gone = True
        self._host.peer.close(f"the client's process {process_id} is gone")


def _find_secret(logins: Lazy[Logins], reference: str) -> str | None:
    """Return the secret behind a reference in the saved settings, or None."""
    from eca_server.models.credentials.server_secrets import find_secret  # noqa: PLC0415 - seldom needed

    return find_secret(logins.get(), reference)


def known_providers() -> Collection[str]:
    """Return the names of the providers that need no configuration."""
    from eca_server.models.known_providers import KNOWN_PROVIDERS  # noqa: PLC0415 - as below

    return KNOWN_PROVIDERS.keys()


def _fitting(codec: MessageCodec, size: int) -> MessageCodec:
    from eca_server.connection.fitting import FittingCodec  # noqa: PLC0415 - few clients need it

    return FittingCodec(codec, size)

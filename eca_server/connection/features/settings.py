"""The configuration in force: its loading, its changes, and the user's changes of it.

A changed file is used once it was unchanged between two checks, so that a file still being written
is not.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from pathlib import Path

import attrs
import trio

from eca_protocol import platforms
from eca_protocol.errors import describe_internal_error
from eca_server.config.directories import user_directory
from eca_server.config.loading import LoadedConfig, load
from eca_server.config.problems import Problem
from eca_server.config.settings import Config
from eca_server.connection.features.host import Options
from eca_server.system.threads import run_in_thread

_log = logging.getLogger("eca_server")

CONFIRM_SECONDS = 0.5
"""The wait before the check that follows a change."""


class Settings:
    """The configuration in force.

    Attributes:
        load: loads the configuration from the sources that `initialize` named.
        loaded: the last result of `load`; a running turn keeps its own.
        changing: serializes changes of the user's stored settings.
        on_change: called with the previous configuration when a changed or reloaded one is used.
    """

    def __init__(self, options: Options) -> None:
        self.load: Callable[..., LoadedConfig] = partial(
            load, initialization_options=None, roots=(), environ=options.environ
        )
        self.loaded = LoadedConfig(config=Config(), problems=(), sources=())
        self.changing = Turnstile()
        self.on_change: Callable[[LoadedConfig], None] = lambda _before: None
        self._options = options

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.loaded.config

    @cached_property
    def user_directory(self) -> Path:
        """The directory of the user's configuration, `~/.config/eca`."""
        return user_directory(self._options.environ)

    @property
    def follows_gitignore(self) -> bool:
        """True if trees and searches omit files that Git ignores."""
        return any(each.type == "gitignore" for each in self.config.ignore_files)

    def put_in_force(self, loaded: LoadedConfig) -> None:
        """Use a configuration for all new work."""
        before, self.loaded = self.loaded, loaded
        self.on_change(before)

    def keep_in_force(self, error: Exception) -> None:
        """Keep the configuration, with the error of a load as a problem until the next one."""
        if isinstance(error, OSError):
            source, reason = error.filename, error.strerror or str(error)
        else:
            source, reason = None, describe_internal_error(error)
        problem = Problem(
            source=str(source or "configuration"),
            message=f"could not be read: {reason} (the previous configuration stays in force)",
        )
        if problem not in self.loaded.problems:
            _log.error("the configuration could not be read", exc_info=error)
            problems = (*self.loaded.problems, problem)
            self.put_in_force(attrs.evolve(self.loaded, problems=problems))

    @property
    def is_expired(self) -> bool:
        """True if the commands of the configuration are due to run again."""
        return platforms.uptime() >= self.loaded.expires

    async def reload(self, *, abandon_on_cancel: bool = False) -> None:
        """Load the configuration again, and put it in force."""
        load_again = partial(self.load, previous=self.loaded)
        self.put_in_force(await run_in_thread(load_again, abandon_on_cancel=abandon_on_cancel))

    async def watch(self, seconds: float) -> None:
        """Check the files every so many seconds, and soon again after a change, for ever."""
        watcher = Watcher(self)
        while True:
            await self._wait_for_change(seconds)
            await watcher.look()
            while watcher.is_pending:
                await trio.sleep(CONFIRM_SECONDS)
                await watcher.look()

    async def _wait_for_change(self, seconds: float) -> None:
        """Return once a file has changed; a thread checks, so that an idle event loop sleeps."""
        ends = threading.Event()

        def check() -> None:
            while not ends.wait(seconds) and self.loaded.is_current():
                pass

        try:
            await run_in_thread(check, abandon_on_cancel=True)
        finally:
            ends.set()


class Watcher:
    """A watcher that reloads the configuration when one of its files has changed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._in_force = self._read = settings.loaded

    @property
    def is_pending(self) -> bool:
        """True if a change was read that the next check may apply."""
        return self._read is not self._in_force

    async def look(self) -> None:
        """Reload changed files; apply the result if they are unchanged at the next check."""
        settings = self._settings
        if settings.loaded is not self._in_force:  # reloaded elsewhere
            self._in_force = self._read = settings.loaded
        # In a thread: a file may be on a disk that does not answer.
        if not await run_in_thread(self._read.is_current, abandon_on_cancel=True):
            load_again = partial(settings.load, previous=settings.loaded)
            try:
                self._read = await run_in_thread(load_again, abandon_on_cancel=True)
            except Exception as error:  # noqa: BLE001 - the server continues without the change
                settings.keep_in_force(error)
                self._in_force = self._read = settings.loaded
        elif settings.loaded is self._in_force and self._read is not self._in_force:
            self._in_force = self._read
            settings.put_in_force(self._read)


class Turnstile:
    """A lock that tasks hold one at a time, in the order of their places."""

    def __init__(self) -> None:
        self._places: deque[trio.Event] = deque()

    def place(self) -> AbstractAsyncContextManager[None]:
        """Return the next place, a context manager that must be entered."""
        place = trio.Event()
        self._places.append(place)
        return self._in_place(place)

    @asynccontextmanager
    async def _in_place(self, place: trio.Event) -> AsyncIterator[None]:
        try:
            self._wake_first()
            await place.wait()
            yield
        finally:
            self._places.remove(place)
            self._wake_first()

    def _wake_first(self) -> None:
        if self._places:
            self._places[0].set()

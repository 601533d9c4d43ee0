"""The workspace folders of a connection, what is found in them, and their changes.

New requests use the new folders, a running turn keeps its own, and chats stay in their storage.
Temporary files of killed servers are removed from opened folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from os.path import join, normcase, realpath
from pathlib import Path

import trio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_protocol.server.roots import Root, parse_roots, path_of
from eca_server.agent.skills.skills import SkillFiles
from eca_server.client.session import Session
from eca_server.config.directories import (
    cache_directory,
    data_directory,
    home_directory,
    logins_file,
)
from eca_server.config.loading import LoadedConfig
from eca_server.config.tool_settings import paths_of
from eca_server.config.workspace_files import WorkspaceFile
from eca_server.connection.features.host import Host
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Settings
from eca_server.system.child_process import note_opened_folders
from eca_server.system.threads import run_in_thread
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.index import FileIndex
from eca_server.workspace.temporary_files import MIN_AGE, TemporaryFiles

_PROCESSES = Path("/proc")
"""Where the opened folder is `/`, the variables of all processes would be in the workspace."""


class Folders:
    """The workspace folders, known since `initialize`."""

    def __init__(self, session: Session, settings: Settings, host: Host) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self.temporary_files = TemporaryFiles(data_directory(host.options.environ) / "temporaries")
        self._session = session
        self._settings = settings
        self._environ = host.options.environ
        self._nursery = host.nursery
        self._workspace = Lazy(self._make_workspace)
        self._index = Lazy(self._make_index)
        self._indexing = trio.CancelScope()
        self._first_roots: tuple[Root, ...] = ()
        self._configuration: tuple[LoadedConfig | None, frozenset[Path]] = None, frozenset()

    @property
    def first_roots(self) -> tuple[Root, ...]:
        """The first roots of the connection: its chats are listed under them."""
        return self._first_roots or self._session.roots

    @property
    def workspace(self) -> Workspace:
        """The user's workspace."""
        return self._workspace.get()

    @property
    def index(self) -> FileIndex:
        """The index of the workspace's files, built at the first search and then updated."""
        return self._index.get()

    @property
    def skill_files(self) -> SkillFiles:
        """The files of skills."""
        return SkillFiles(
            workspace=self.workspace,
            user_directory=self._settings.user_directory,
            configured=paths_of(self._settings.config.skills),
        )

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handler of workspace changes."""
        return methods.handlers(
            methods.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS.handled_by(self._folders_changed)
        )

    def _folders_changed(self, params: m.WorkspaceDidChangeWorkspaceFoldersParams) -> None:
        added, problems = parse_roots(params.event.added)
        for problem in problems:
            self._session.show("warning", problem)
        removed = set(_paths(params.event.removed))
        remaining = [root for root in self._session.roots if root.path not in removed]
        before = {root.path for root in remaining}
        roots = (*remaining, *(root for root in added if root.path not in before))
        if roots != self._session.roots:
            self._change(roots)
            self._nursery.start_soon(self._reload)
            self._nursery.start_soon(self.remove_leftovers)

    async def _reload(self) -> None:
        async with self._settings.changing.place():
            await self._settings.reload()

    def _change(self, roots: tuple[Root, ...]) -> None:
        self._first_roots = self.first_roots
        self._session.roots = roots
        note_opened_folders((each.real_path for each in roots), home_directory(self._environ))
        self._settings.load = partial(self._settings.load, roots=[root.path for root in roots])
        self._indexing.cancel()
        self._indexing = trio.CancelScope()
        self._workspace.reset()
        self._index.reset()
        self.on_change()

    def follow_settings(self) -> None:
        """Apply a changed configuration to the index."""
        if self._index.made is not None:
            self._index.made.gitignore = self._settings.follows_gitignore

    async def remove_leftovers(self) -> None:
        """Remove the temporary files of killed servers; wait for those that are too young."""
        roots = [root.real_path for root in self._session.roots]
        work = partial(self.temporary_files.clean, roots)
        clean = partial(run_in_thread, work, abandon_on_cancel=True)
        if await clean():
            await trio.sleep(MIN_AGE)
            await clean()

    def _make_workspace(self) -> Workspace:
        # The answer to `initialize` needs no workspace.
        from eca_server.agent.sandbox.credentials import credential_paths  # noqa: PLC0415

        roots = self._session.roots
        opened = {path for root in roots for path in (root.path, root.real_path)}
        # Compared as text: the parents of 190 `Path` objects would take 2 ms of each start.
        prefixes = tuple(normcase(join(path, "")) for path in opened)  # noqa: PTH118 - ends with /
        paths = credential_paths(self._environ)
        keys = (path for path in paths if normcase(path).startswith(prefixes))
        own = [data_directory(self._environ), cache_directory(self._environ)]
        own.append(logins_file(self._environ))  # it may be a link into an opened folder
        private = [*own, _PROCESSES, *keys]
        return Workspace(roots, private, self.temporary_files, self.configuration_paths)

    def configuration_paths(self) -> frozenset[Path]:
        """Return the real paths of the configuration in use; the first call reads the disk.

        They are the files that were read, the scripts of the user's hooks, and the user's directory
        with what its links lead to.
        """
        loaded = self._settings.loaded
        known, paths = self._configuration
        if known is not loaded:
            directory = self._settings.user_directory
            links: list[Path] = []
            with suppress(OSError):
                links = [each for each in directory.iterdir() if each.is_symlink()]
            own = (directory, *links, *loaded.files, *_hook_files(loaded))
            paths = frozenset(Path(realpath(each)) for each in own)
            self._configuration = loaded, paths
        return paths

    def _make_index(self) -> FileIndex:
        index = FileIndex(
            self._session.roots,
            gitignore=self._settings.follows_gitignore,
            stored_in=cache_directory(self._environ) / "listings",
            on_problem=partial(self._session.show_once, "warning"),
        )
        self._nursery.start_soon(_keep_fresh, index, self._indexing)
        return index


def _hook_files(loaded: LoadedConfig) -> Iterator[Path]:
    """Yield the scripts of the user's hooks; those of a folder run as copies."""
    for hook in loaded.config.hooks.values():
        for action in hook.actions:
            if action.file is not None and not isinstance(action.file, WorkspaceFile):
                yield Path(action.file)


async def _keep_fresh(index: FileIndex, scope: trio.CancelScope) -> None:
    with scope:
        await index.run()


def _paths(folders: Iterable[m.WorkspaceFolder]) -> Iterator[Path]:
    for folder in folders:
        with suppress(ValueError):
            yield Path(path_of(folder.uri))

"""The files that an instruction file may include in a prompt.

The rule of this module: only the user's own files may include any file. Other files are limited to
their work tree, by real paths. A file there outside the opened directory needs trust, and must not
be in a hidden directory, since keys are stored in these (`~` may be a work tree).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cached_property
from pathlib import Path

import attrs

from eca_protocol.server.roots import Root
from eca_server.agent.context.block import Origin
from eca_server.config.workspace_files import WorkspaceFile
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import OutsideWorkspace
from eca_server.workspace.worktree import top_of_work_tree


@attrs.frozen(kw_only=True)
class Reach:
    """The boundary of the mentions in a file.

    Attributes:
        directory: the real path of the file's work tree; None: no boundary.
        untrusted_root: the real path of the file's root, if the root is not trusted.
    """

    directory: Path | None
    untrusted_root: Path | None = None

    def check(self, place: Place) -> None:
        """Refuse a path beyond the boundary.

        Raises:
            OutsideWorkspace: it is beyond the boundary; the message says why.
        """
        if self.directory is None:
            return
        if not place.real_path.is_relative_to(self.directory):
            raise OutsideWorkspace(f"it leads out of {str(self.directory)!r}")
        below = place.real_path.parts[len(self.directory.parts) :]
        if ".git" in map(str.casefold, below):
            raise OutsideWorkspace("it leads into Git's own files")
        root = self.untrusted_root
        if root is not None and not place.real_path.is_relative_to(root):
            raise OutsideWorkspace(f"it leads out of {str(root)!r}, which is not trusted")
        if not place.is_inside and any(name.startswith(".") for name in below):
            raise OutsideWorkspace("it leads into a hidden folder outside the opened one")


_UNACCEPTED = "a link leads out of the workspace to a file that was not accepted"

ANYWHERE = Reach(directory=None)
"""The reach of the user's own files."""


@attrs.define(kw_only=True, eq=False)
class Boundaries:
    """The reach of each file; reads the disk.

    Attributes:
        user_directory: the user's configuration directory, `~/.config/eca`.
        trusted_roots: the paths of the trusted roots, as opened or real.
    """

    workspace: Workspace
    user_directory: Path
    trusted_roots: Collection[Path] = ()

    @cached_property
    def _real_user_folder(self) -> Path:
        """The real path of the user's directory, made at its first use: in a thread."""
        return Path(os.path.realpath(self.user_directory))

    def trusts(self, root: Root) -> bool:
        """Return True if the user trusts a root."""
        return root.real_path in self.trusted_roots or root.path in self.trusted_roots

    def is_own(self, place: Place) -> bool:
        """Return True if a file is in the user's directory, or is an AGENTS.md linked there."""
        return (
            place.real_path.is_relative_to(self._real_user_folder)
            or place.path == self.user_directory / "AGENTS.md"
        )

    def origin_of(self, place: Place, reach: Reach) -> Origin:
        """Return the origin of a file that is included by a file with this reach."""
        is_users = self.is_own(place) or (reach.directory is None and not place.is_inside)
        return "user" if is_users else "workspace"

    def of_root(self, root: Root) -> Reach:
        """Return the reach of links in the standard places of a root."""
        return self._below(root, root.real_path)

    def of_file(self, place: Place) -> Reach:
        """Return the reach of a file's mentions.

        A file outside the roots was named by the user, or belongs to a trusted root.
        """
        if self.is_own(place):
            return ANYWHERE
        directory = place.real_path.parent
        if place.root is None:
            return Reach(directory=top_of_work_tree(directory) or directory)
        return self._below(place.root, directory)

    def of_entry(self, entry: str, place: Place) -> Reach:
        """Return the reach of a configuration entry: its file or directory alone.

        A path inside a root may follow a link, which belongs to the opened folder. Out of the root
        it leads only to the file that the user accepted with the folder's entry.

        Raises:
            OutsideWorkspace: it leads out of the root to another file.
        """
        if isinstance(entry, WorkspaceFile):
            root = place.root
            stays = root is not None and entry.real_path.is_relative_to(root.real_path)
            if not stays and place.real_path != entry.real_path:
                raise OutsideWorkspace(_UNACCEPTED)
        elif place.escapes:
            raise OutsideWorkspace(_UNACCEPTED)
        elif not place.is_inside:
            return ANYWHERE
        return Reach(directory=place.real_path)

    def _below(self, root: Root, directory: Path) -> Reach:
        return Reach(
            directory=top_of_work_tree(directory) or root.real_path,
            untrusted_root=None if self.trusts(root) else root.real_path,
        )

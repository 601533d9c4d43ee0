"""The files that an instruction file may bring into a prompt.

The rule it keeps: only the user's own files name what they like. Any other file stays inside its
work tree, judged on real paths; what lies there outside the opened folder needs trust, and is
never reached through a hidden directory, for that is where keys lie (`~` may be a work tree).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import attrs

from eca_server.context.provenance import Origin
from eca_server.workspace import LeadsOut, Place, Root, Workspace
from eca_server.workspace.ignore import top_of_work_tree

__all__ = ["ANYWHERE", "Boundaries", "Reach"]


@attrs.frozen(kw_only=True)
class Reach:
    """The boundary of one file's mentions.

    Attributes:
        folder: the real path of the file's work tree; None: there is no boundary.
        untrusted_root: the real path of the file's root, if that is not trusted.
    """

    folder: Path | None
    untrusted_root: Path | None = None

    def check(self, place: Place) -> None:
        """Refuse a place beyond the boundary.

        Raises:
            LeadsOut: it lies outside; the text says why.
        """
        if self.folder is None:
            return
        if not place.real_path.is_relative_to(self.folder):
            raise LeadsOut(f"it leads out of {str(self.folder)!r}")
        below = place.real_path.parts[len(self.folder.parts) :]
        if ".git" in map(str.casefold, below):
            raise LeadsOut("it leads into Git's own files")
        root = self.untrusted_root
        if root is not None and not place.real_path.is_relative_to(root):
            raise LeadsOut(f"it leads out of {str(root)!r}, which is not trusted")
        if not place.inside and any(name.startswith(".") for name in below):
            raise LeadsOut("it leads into a hidden folder outside the opened one")


ANYWHERE = Reach(folder=None)
"""The reach of the user's own files."""


@attrs.frozen(kw_only=True)
class Boundaries:
    """Finds the reach of files; asks the disk.

    Attributes:
        workspace: the opened folders.
        user_directory: the user's own configuration directory.
        trusted_roots: the paths of the roots that the user trusts, as they were opened or real.
    """

    workspace: Workspace
    user_directory: Path
    trusted_roots: Collection[Path] = ()
    _real_user_folder: Path = attrs.field(init=False)

    @_real_user_folder.default
    def _resolve_user_folder(self) -> Path:
        return Path(os.path.realpath(self.user_directory))

    def trusts(self, root: Root) -> bool:
        """Return whether the user trusts a root."""
        return root.real_path in self.trusted_roots or root.path in self.trusted_roots

    def is_own(self, place: Place) -> bool:
        """Return whether a file is in the user's own directory, or an AGENTS.md linked there."""
        return (
            place.real_path.is_relative_to(self._real_user_folder)
            or place.path == self.user_directory / "AGENTS.md"
        )

    def origin_of(self, place: Place, reach: Reach) -> Origin:
        """Return the origin of a file that was named by one with this reach."""
        is_users = self.is_own(place) or (reach.folder is None and not place.inside)
        return "user" if is_users else "workspace"

    def of_root(self, root: Root) -> Reach:
        """Return the reach of links in a root's usual places."""
        return self._below(root, root.real_path)

    def of_file(self, place: Place) -> Reach:
        """Return the reach of a file's mentions.

        A file outside the roots was named by the user, or belongs to a root that is trusted.
        """
        if self.is_own(place):
            return ANYWHERE
        folder = place.real_path.parent
        if place.root is None:
            return Reach(folder=top_of_work_tree(folder) or folder)
        return self._below(place.root, folder)

    def of_entry(self, place: Place) -> Reach:
        """Return the reach of an entry of the configuration, for the file it names.

        An entry that is written inside a root and leads out of it follows a link that the folder
        itself may hold.
        """
        roots = [root for root in self.workspace.roots if place.path.is_relative_to(root.path)]
        if not place.leads_out or any(map(self.trusts, roots)):
            return ANYWHERE
        raise LeadsOut("a link leads out of the workspace, which is not trusted")

    def _below(self, root: Root, folder: Path) -> Reach:
        return Reach(
            folder=top_of_work_tree(folder) or root.real_path,
            untrusted_root=None if self.trusts(root) else root.real_path,
        )

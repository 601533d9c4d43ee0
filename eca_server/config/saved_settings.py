"""The settings saved from the editor: the layer of the configuration that this server writes.

The server never writes to a file of the user's or of the upstream server. It writes this one, in
its data directory, and merges it last. The file has a part for all workspaces and one for each
workspace root. It is replaced atomically, by one server at a time; other servers notice the change
as with any other file. A damaged file is reported and left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from eca_server.config.data_file import DataFile
from eca_server.config.directories import data_directory
from eca_server.config.reading import deep_merge


@attrs.define(kw_only=True, repr=False)
class SettingsByScope:
    """The content of the file, to be changed in place.

    Attributes:
        everywhere: settings for all workspaces.
        workspaces: settings for one root, by the root's path; they win.
    """

    everywhere: dict[str, Any] = attrs.field(factory=dict)
    workspaces: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def of(self, root: Path | None) -> dict[str, Any]:
        """Return the part of a root, or with None the part for all workspaces."""
        if root is None:
            return self.everywhere
        return self.workspaces.setdefault(str(root), {})

    def merged(self, roots: Iterable[Path]) -> dict[str, Any]:
        """Return the settings that apply to these roots, in the form of any source."""
        merged: dict[str, Any] = dict(self.everywhere)
        for root in roots:
            merged = deep_merge(merged, self.workspaces.get(str(root), {}))
        return merged


class SavedSettings:
    """The file of saved settings. Its methods block: call them in a worker thread."""

    def __init__(self, environ: Mapping[str, str], home: Path | None = None) -> None:
        self.path = data_directory(environ, home) / "settings.json"
        self._file = DataFile(self.path, "settings")

    def read(self) -> SettingsByScope | None:
        """Return the content; None: there is no file.

        Raises:
            DataFileError: the file cannot be read, or is not a file of saved settings.
        """
        content = self._file.read()
        if content is None:
            return None
        everywhere, workspaces = content.get("everywhere", {}), content.get("workspaces", {})
        parts = [everywhere, workspaces]
        parts += workspaces.values() if isinstance(workspaces, dict) else []
        if not all(isinstance(part, dict) for part in parts):
            raise self._file.damaged("expected objects")
        return SettingsByScope(everywhere=everywhere, workspaces=workspaces)

    def change(
        self,
        change: Callable[[SettingsByScope], None],
        *,
        then: Callable[[SettingsByScope], None] = lambda _: None,
    ) -> None:
        """Change the file while no other server does.

        Args:
            change: changes the content; an exception leaves the file unchanged.
            then: called with the same content once it is in the file.

        Raises:
            DataFileError: the file cannot be read or written; nothing is changed.
        """
        with self._file.changing():
            parts = self.read() or SettingsByScope()
            change(parts)
            of_roots = {root: _without_empty(part) for root, part in parts.workspaces.items()}
            self._file.write(
                everywhere=_without_empty(parts.everywhere), workspaces=_without_empty(of_roots)
            )
            then(parts)


def _without_empty(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value != {}}

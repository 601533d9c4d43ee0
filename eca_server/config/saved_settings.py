"""The settings saved from the editor: the layer of the configuration that this server writes.

The server never writes to a file of the user's or of the upstream server. It writes this one, in
its data directory, and merges it last. The file has a part for all workspaces and one for each
workspace root. It is replaced atomically, by one server at a time; other servers notice the change
as with any other file. A damaged file is reported and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.directories import data_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.lock import changing
from eca_server.config.private_file import make_private, replace_file
from eca_server.config.reading import deep_merge

_VERSION: Final = 1


class SavedSettingsError(ECAError):
    """The error of a file that cannot be read or written; the message says why."""


def saved_settings_path(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Return the path of the file, which need not exist."""
    return data_directory(environ, home) / "settings.json"


def parse_saved_settings(text: str, roots: Iterable[Path]) -> dict[str, Any]:
    """Return the settings of a file's text that apply to these roots, in the form of any source.

    Raises:
        SavedSettingsError: the text is not a file of saved settings.
    """
    parts = _parse(text)
    merged: dict[str, Any] = dict(parts.everywhere)
    for root in roots:
        merged = deep_merge(merged, parts.workspaces.get(str(root), {}))
    return merged


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


class SavedSettings:
    """The file of saved settings. Its methods block: call them in a worker thread."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = saved_settings_path(environ)

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
            SavedSettingsError: the file cannot be read or written; nothing is changed.
        """
        try:
            with changing(self.path):
                parts = self._load()
                change(parts)
                content = {
                    "version": _VERSION,
                    "everywhere": _without_empty(parts.everywhere),
                    "workspaces": _without_empty(
                        {root: _without_empty(part) for root, part in parts.workspaces.items()}
                    ),
                }
                replace_file(self.path, json.dumps(content, indent=2).encode(), is_locked=True)
                then(parts)
        except OSError as error:
            raise SavedSettingsError(
                f"{self.path}: {error.strerror or type(error).__name__}"
            ) from None

    def _load(self) -> SettingsByScope:
        try:
            text = read_text(self.path)
        except Unreadable as error:
            if error.absent:
                return SettingsByScope()
            raise SavedSettingsError(f"{self.path}: {error.message}") from None
        make_private(self.path)
        try:
            return _parse(text)
        except SavedSettingsError as error:
            raise SavedSettingsError(f"{self.path}: {error}") from None


def _without_empty(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value != {}}


def _parse(text: str) -> SettingsByScope:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise SavedSettingsError("expected JSON, got something else") from None
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise SavedSettingsError(f"expected settings of version {_VERSION}, got something else")
    everywhere, workspaces = content.get("everywhere", {}), content.get("workspaces", {})
    parts = [everywhere, workspaces]
    parts += workspaces.values() if isinstance(workspaces, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        raise SavedSettingsError("expected objects, got something else")
    return SettingsByScope(everywhere=everywhere, workspaces=workspaces)

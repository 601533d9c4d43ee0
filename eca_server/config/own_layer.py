"""What the user decides in the editor: a layer of the configuration that this server writes.

The rules it keeps: what users and the upstream server write is never written to; this file is, in
the folder of our own data, and it is merged last. It has a part that counts everywhere and one for
each workspace root. It is replaced as a whole and by one server at a time, and the others see the
change as they see that of any other file. A damaged one is told and left alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.files import Unreadable, read_text
from eca_server.config.folders import data_folder, make_data_folder
from eca_server.config.lock import Locked, lock_in_thread
from eca_server.config.private_file import make_private, replace_file
from eca_server.config.reading import deep_merge

__all__ = ["LayerFault", "OwnLayer", "Parts", "layer_path", "parse_layer"]

_VERSION: Final = 1
_LOCK_SECONDS: Final = 2.0


class LayerFault(ECAError):
    """The file cannot be read or written, and why."""


def layer_path(environ: Mapping[str, str], home: Path | None = None) -> Path:
    """Where the file is; it need not exist."""
    return data_folder(environ, home) / "settings.json"


def parse_layer(text: str, roots: Iterable[Path]) -> dict[str, Any]:
    """What a file's text says for these roots, in the form of any other configuration.

    Raises:
        LayerFault: it is not one of ours.
    """
    parts = _parse(text)
    merged: dict[str, Any] = dict(parts.everywhere)
    for root in roots:
        merged = deep_merge(merged, parts.workspaces.get(str(root), {}))
    return merged


@attrs.define(kw_only=True)
class Parts:
    """What the file holds, to be changed in place.

    Attributes:
        everywhere: what counts in every workspace.
        workspaces: what counts in one root more, by the root's path.
    """

    everywhere: dict[str, Any] = attrs.field(factory=dict)
    workspaces: dict[str, dict[str, Any]] = attrs.field(factory=dict)

    def of(self, root: Path | None) -> dict[str, Any]:
        """The part of a root; that of everywhere, if it is None."""
        if root is None:
            return self.everywhere
        return self.workspaces.setdefault(str(root), {})


class OwnLayer:
    """The file, to be changed; everything here belongs in a worker thread.

    Attributes:
        path: the file; it need not exist.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = layer_path(environ)

    def change(
        self, change: Callable[[Parts], None], *, then: Callable[[Parts], None] = lambda _: None
    ) -> None:
        """Change what the file holds; no other server changes it meanwhile.

        Args:
            change: what it raises leaves the file as it was.
            then: called with the same parts once they are in the file.

        Raises:
            LayerFault: it cannot be read or written; nothing is changed.
        """
        try:
            make_data_folder(self.path.parent)
            lock = self.path.with_name(f"{self.path.name}.lock")
            with lock_in_thread(lock, seconds=_LOCK_SECONDS):
                parts = self._load()
                change(parts)
                content = {
                    "version": _VERSION,
                    "everywhere": _without_empty(parts.everywhere),
                    "workspaces": _without_empty(
                        {root: _without_empty(part) for root, part in parts.workspaces.items()}
                    ),
                }
                replace_file(self.path, json.dumps(content, indent=2).encode())
                then(parts)
        except Locked:
            raise LayerFault(f"{self.path}: another server is writing it") from None
        except OSError as fault:
            raise LayerFault(f"{self.path}: {fault.strerror or type(fault).__name__}") from None

    def _load(self) -> Parts:
        try:
            text = read_text(self.path)
        except Unreadable as fault:
            if fault.absent:
                return Parts()
            raise LayerFault(f"{self.path}: {fault.message}") from None
        make_private(self.path)
        try:
            return _parse(text)
        except LayerFault as fault:
            raise LayerFault(f"{self.path}: {fault}") from None


def _without_empty(content: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if value != {}}


def _parse(text: str) -> Parts:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise LayerFault("expected JSON, got something else") from None
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise LayerFault(f"expected settings of version {_VERSION}, got something else")
    everywhere, workspaces = content.get("everywhere", {}), content.get("workspaces", {})
    parts = [everywhere, workspaces]
    parts += workspaces.values() if isinstance(workspaces, dict) else []
    if not all(isinstance(part, dict) for part in parts):
        raise LayerFault("expected objects, got something else")
    return Parts(everywhere=everywhere, workspaces=workspaces)

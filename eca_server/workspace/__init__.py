"""The user's project: its files, and checked reads and writes of them.

Modules are imported at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_server.workspace.boundary import Place, Workspace, open_checked, open_place
    from eca_server.workspace.errors import (
        AlreadyExists,
        ContentChanged,
        FileError,
        InvalidPath,
        NotRegularFile,
        NotText,
        OutsideWorkspace,
        PathChanged,
        TooLarge,
    )
    from eca_server.workspace.guarded import GUARDED, GuardedPath
    from eca_server.workspace.ignore import list_files
    from eca_server.workspace.index import FileIndex, FileMatch
    from eca_server.workspace.opening import Directory
    from eca_server.workspace.reading import (
        Checkpoint,
        FileSnapshot,
        Fingerprint,
        Text,
        decode,
        open_file,
        read_file,
    )
    from eca_server.workspace.writing import move_file, remove_file, remove_temporary, replace_file

_MODULES = {
    "boundary": ("Place", "Workspace", "open_checked", "open_place"),
    "errors": (
        "AlreadyExists",
        "ContentChanged",
        "FileError",
        "InvalidPath",
        "NotRegularFile",
        "NotText",
        "OutsideWorkspace",
        "PathChanged",
        "TooLarge",
    ),
    "guarded": ("GUARDED", "GuardedPath"),
    "ignore": ("list_files",),
    "index": ("FileIndex", "FileMatch"),
    "opening": ("Directory",),
    "reading": (
        "Checkpoint",
        "FileSnapshot",
        "Fingerprint",
        "Text",
        "decode",
        "open_file",
        "read_file",
    ),
    "writing": ("move_file", "remove_file", "remove_temporary", "replace_file"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "GUARDED",
    "AlreadyExists",
    "Checkpoint",
    "ContentChanged",
    "Directory",
    "FileError",
    "FileIndex",
    "FileMatch",
    "FileSnapshot",
    "Fingerprint",
    "GuardedPath",
    "InvalidPath",
    "NotRegularFile",
    "NotText",
    "OutsideWorkspace",
    "PathChanged",
    "Place",
    "Text",
    "TooLarge",
    "Workspace",
    "decode",
    "list_files",
    "move_file",
    "open_checked",
    "open_file",
    "open_place",
    "read_file",
    "remove_file",
    "remove_temporary",
    "replace_file",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

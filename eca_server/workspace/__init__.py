"""The user's project: its roots, its files, and checked reads and writes of them."""

from __future__ import annotations

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
from eca_server.workspace.roots import Root, parse_roots, path_of, uri_of
from eca_server.workspace.writing import move_file, remove_file, remove_temporary, replace_file

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
    "Root",
    "Text",
    "TooLarge",
    "Workspace",
    "decode",
    "list_files",
    "move_file",
    "open_checked",
    "open_file",
    "open_place",
    "parse_roots",
    "path_of",
    "read_file",
    "remove_file",
    "remove_temporary",
    "replace_file",
    "uri_of",
]

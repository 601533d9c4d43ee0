"""The user's project: its roots, what lies in them, and files read and written as checked."""

from __future__ import annotations

from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.faults import (
    AlreadyThere,
    BadPath,
    Changed,
    FileFault,
    LeadsOut,
    Moved,
    NotAFile,
    NotText,
    TooLarge,
)
from eca_server.workspace.guarded import GUARDED, GuardedPath
from eca_server.workspace.ignore import list_files
from eca_server.workspace.index import FileIndex, Found
from eca_server.workspace.opening import Directory, open_checked, open_place
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
    "AlreadyThere",
    "BadPath",
    "Changed",
    "Checkpoint",
    "Directory",
    "FileFault",
    "FileIndex",
    "FileSnapshot",
    "Fingerprint",
    "Found",
    "GuardedPath",
    "LeadsOut",
    "Moved",
    "NotAFile",
    "NotText",
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

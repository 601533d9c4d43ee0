"""Workspace folders: `file` URIs by RFC 8089, and their directories (ruling W-15).

The rule of this module: a folder that cannot be used gives no root and one sentence for the user;
it never stops the others.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, unquote, unquote_to_bytes

import attrs

from eca_protocol.messages.lifecycle import WorkspaceFolder

_WINDOWS = os.name == "nt"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")  # two letters at least: `C:` is a drive
_DRIVE = re.compile(r"/?([A-Za-z])[:|](?=[\\/]|$)")
_SHOWN = 200  # characters of a URI in a sentence for the user
_UNESCAPED = "/:~!$&'()*+,;=@"


@attrs.frozen(kw_only=True)
class Root:
    """One root of the workspace.

    Attributes:
        name: the client's name, else the directory's own.
        uri: as the client wrote it.
        path: absolute, without `.` and `..`, symbolic links unresolved.
        real_path: the path with every symbolic link resolved.
    """

    name: str
    uri: str
    path: Path
    real_path: Path


def parse_roots(folders: Iterable[WorkspaceFolder]) -> tuple[tuple[Root, ...], tuple[str, ...]]:
    """Return the roots, each once, in the client's order; and a sentence for each unusable one."""
    roots: dict[Path, Root] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            root = _root(folder)
        except ValueError as error:
            shown = folder.uri if len(folder.uri) <= _SHOWN else f"{folder.uri[:_SHOWN]}..."
            problems.append(f"The workspace folder {shown!r} was left out: {error}.")
        else:
            roots.setdefault(root.path, root)
    return tuple(roots.values()), tuple(problems)


def path_of(uri: str, *, windows: bool = _WINDOWS) -> str:
    """Return the local path of a `file` URI, without `.` and `..`; it need not exist.

    `?` and `#` are parts of the path: a `file` URI has neither query nor fragment, and some
    clients escape nothing.

    Raises:
        ValueError: the scheme is not `file`, or the path is of another machine or relative.
    """
    scheme = _SCHEME.match(uri)
    if scheme is None or scheme[1].lower() != "file":
        got = f"the scheme {scheme[1]!r}" if scheme else "no scheme"
        raise ValueError(f"expected a file URI, got {got}")
    rest = uri[scheme.end() :]
    host = ""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        rest = slash + path
    if host.lower() == "localhost":
        host = ""
    return _windows_path(host, rest) if windows else _posix_path(host, rest)


def uri_of(path: Path | str) -> str:
    """Return the `file` URI of an absolute path of this machine."""
    if not _WINDOWS:
        return "file://" + quote(os.fsencode(path), safe=_UNESCAPED)
    text = str(path).replace("\\", "/")
    return ("file:" if text.startswith("//") else "file:///") + quote(text, safe=_UNESCAPED)


def _posix_path(host: str, path: str) -> str:
    if host:
        raise ValueError(f"expected a folder of this machine, got one of {host!r}")
    local = os.fsdecode(unquote_to_bytes(path))
    if not local.startswith("/"):
        raise ValueError("expected an absolute path, got a relative one")
    # POSIX distinguishes two leading slashes; in a URI they have no meaning.
    return "/" + posixpath.normpath(local).lstrip("/")


def _windows_path(host: str, path: str) -> str:
    local = unquote(host + path)
    drive = _DRIVE.match(local)  # Emacs and Neovim write it in the place of the host
    if drive:
        return ntpath.normpath(f"{drive[1].upper()}:\\{local[drive.end() :]}")
    if host or local.startswith("//"):
        return ntpath.normpath("\\\\" + local.lstrip("\\/"))
    raise ValueError("expected a path with a drive or a host, got neither")


def _root(folder: WorkspaceFolder) -> Root:
    path = Path(path_of(folder.uri))
    try:
        real_path = path.resolve(strict=True)
        is_folder = real_path.is_dir()
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "its symbolic links form a circle"
        raise ValueError(f"it cannot be opened ({reason})") from None
    if not is_folder:
        raise ValueError("it is not a folder")
    return Root(
        name=folder.name or path.name or str(path),
        uri=folder.uri,
        path=path,
        real_path=real_path,
    )

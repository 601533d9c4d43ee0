"""Atomic writes and moves of files that never overwrite an unexpected content.

The rules of this module: a file is written beside its place, made durable, and renamed over it. It
is replaced only if its content is the expected one. A name that must be free is taken by a call
that fails if it is not. A failed call leaves nothing behind, and a later server removes the
temporary files of a killed one (`temporary_files`).

Everything here accesses the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from eca_protocol import platforms
from eca_server.workspace.boundary import Place, errors_naming
from eca_server.workspace.errors import AlreadyExists, FileError, MissingRoot, OutsideWorkspace
from eca_server.workspace.opening import Directory, open_directory
from eca_server.workspace.reading import (
    PIECE,
    Checkpoint,
    Fingerprint,
    ensure_regular,
    ensure_unchanged,
    open_regular,
)

_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def replace_file(
    place: Place,
    data: bytes,
    *,
    expected: Fingerprint | None,
    mode: int | None = None,
    group: int | None = None,
    temporary: str | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> Fingerprint:
    """Replace the content of a file atomically; preserve its permissions.

    The owner, the group and the extended attributes are each preserved if that is permitted. A
    symbolic link is followed to its file in the workspace. A file with several hard links is
    separated from the others.

    Args:
        place: the file; missing parents are created, but never the workspace folder.
        data: the whole new content.
        expected: the current content; None: the file does not exist.
        mode: the permission bits of a new file; None: those of the umask.
        group: the group of a new file with a `mode`, if that is permitted; None: that of the user.
        temporary: the name of the temporary file beside the file; None: any.
        checkpoint: called between pieces; an exception of it ends the call without a change.

    Raises:
        ContentChanged: the content is not the expected one, or the file was removed.
        AlreadyExists: no file was expected, and there is one.
        OutsideWorkspace: a symbolic link leads out of the workspace.
        MissingRoot: the workspace folder does not exist.
        NotRegularFile: it is a directory, a pipe, a socket or a device.
        PathChanged: the path leads to a different file now.
        OSError: it cannot be written (read-only, disk full).
    """
    _ensure_inside(place)
    ensure_root(place)
    with (
        errors_naming(place),
        open_directory(place.real_path.parent, create=expected is None) as parent,
    ):
        entry = _Entry(directory=parent, name=place.real_path.name, place=place)
        if expected is None:
            _ensure_free(entry)
            with _temporary(
                entry, _pieces(data), checkpoint, bits=mode, group=group, name=temporary
            ) as written:
                _take_free_name(written, entry)
        else:
            ensure_unchanged(parent, entry.name, expected, place, checkpoint)
            if not os.access(entry.at, os.W_OK, dir_fd=parent.fd):
                os.close(parent.open(entry.name, os.O_WRONLY))  # its error gives the reason
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            with _temporary(entry, _pieces(data), checkpoint, like=entry, name=temporary) as new:
                ensure_unchanged(parent, entry.name, expected, place, checkpoint)
                _rename(new, entry)
        _make_durable(parent)
    return Fingerprint.of(data)


def remove_file(
    place: Place, *, expected: Fingerprint, checkpoint: Checkpoint = lambda: None
) -> None:
    """Remove a file that has the expected content.

    Raises:
        ContentChanged: the content is not the expected one, or the file was removed.
        OutsideWorkspace: a symbolic link leads out of the workspace.
        NotRegularFile: it is a directory, a pipe, a socket or a device.
        PathChanged: the path leads to a different file now.
        OSError: it cannot be removed.
    """
    _ensure_inside(place)
    with errors_naming(place), open_directory(place.real_path.parent) as parent:
        name = place.real_path.name
        ensure_unchanged(parent, name, expected, place, checkpoint)
        os.unlink(parent.at(name), dir_fd=parent.fd)
        _make_durable(parent)


def remove_empty_directory(place: Place) -> None:
    """Remove a directory; do nothing if it is not empty, or not there.

    Raises:
        OutsideWorkspace: a symbolic link leads out of the workspace.
        PathChanged: the path leads to a different directory now.
        OSError: its parent directory cannot be opened.
    """
    _ensure_inside(place)
    with errors_naming(place), open_directory(place.real_path.parent) as parent:
        with contextlib.suppress(OSError):
            os.rmdir(parent.at(place.real_path.name), dir_fd=parent.fd)
        _make_durable(parent)


def ensure_root(place: Place) -> None:
    """Raise MissingRoot if the workspace folder of a path was moved away or removed."""
    if place.root is not None and not place.root.real_path.is_dir():
        raise MissingRoot(
            f"the workspace folder {str(place.root.path)!r} does not exist now: it was moved or "
            "removed. Ask the user to restore it, or to open the folder at its new place"
        )


def missing_parents(path: Path) -> tuple[Path, ...]:
    """Return the directories above a path that do not exist, the topmost first."""
    missing = itertools.takewhile(lambda each: not os.path.lexists(each), path.parents)
    return tuple(reversed(tuple(missing)))


def remove_temporary(place: Place, temporary: str) -> None:
    """Remove the temporary file that a process killed in `replace_file` left beside a file.

    Raises:
        PathChanged: the path leads to a different file now.
        OSError: it cannot be removed.
    """
    with (
        errors_naming(place),
        contextlib.suppress(FileNotFoundError),
        open_directory(place.real_path.parent) as parent,
    ):
        os.unlink(parent.at(temporary), dir_fd=parent.fd)


def move_file(source: Place, destination: Place, *, checkpoint: Checkpoint = lambda: None) -> None:
    """Move a file or a directory to a free name; create missing parents.

    A file can move to another file system, a directory cannot.

    Raises:
        AlreadyExists: the destination exists.
        OutsideWorkspace: a symbolic link leads out of the workspace.
        MissingRoot: the workspace folder of a path does not exist.
        FileError: the source is a link, or a directory that would move into itself or to a
            different file system.
        NotRegularFile: the source is a pipe, a socket or a device.
        PathChanged: a path leads to a different file now.
        OSError: it cannot be moved.
    """
    for place in (source, destination):
        _ensure_inside(place)
        ensure_root(place)
    if source.path.is_symlink():
        raise FileError(
            f"{str(source.path)!r} is a symbolic link to {str(source.real_path)!r}: "
            "expected the path of a file or a directory"
        )
    if destination.real_path.is_relative_to(source.real_path):
        raise FileError(f"{str(source.path)!r} cannot be moved into itself")
    with errors_naming(source), open_directory(source.real_path.parent) as origin:
        old = _Entry(directory=origin, name=source.real_path.name, place=source)
        status = origin.stat(old.name)
        if status is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with (
            errors_naming(destination),
            open_directory(destination.real_path.parent, create=True) as target,
        ):
            new = _Entry(directory=target, name=destination.real_path.name, place=destination)
            _ensure_free(new)
            if stat.S_ISDIR(status.st_mode):
                _rename_directory(old, new)
            else:
                ensure_regular(status, source.path)
                _move_regular(old, new, checkpoint)
            _make_durable(target)
        _make_durable(origin)


@attrs.frozen(kw_only=True)
class _Entry:
    """A name in an open directory, and the `Place` it belongs to."""

    directory: Directory
    name: str
    place: Place

    @property
    def at(self) -> str:
        return self.directory.at(self.name)

    @property
    def fd(self) -> int | None:
        return self.directory.fd


def _move_regular(old: _Entry, new: _Entry, checkpoint: Checkpoint) -> None:
    try:
        _take_free_name(old, new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    else:
        return
    fd = open_regular(old.directory, old.name, old.place.path)
    with os.fdopen(fd, "rb", buffering=0):
        status = os.fstat(fd)
        pieces = iter(lambda: os.read(fd, PIECE), b"")
        with _temporary(new, pieces, checkpoint, like=old) as temporary:
            times = (status.st_atime_ns, status.st_mtime_ns)
            os.utime(temporary.at, ns=times, dir_fd=temporary.fd)
            _take_free_name(temporary, new)
    _unlink_old(old, new)


def _ensure_inside(place: Place) -> None:
    if place.escapes:
        raise OutsideWorkspace(
            f"{str(place.path)!r} leads out of the workspace by a symbolic link, to "
            f"{str(place.real_path)!r}: to change that file, use its own path"
        )


def _ensure_free(entry: _Entry) -> None:
    if not entry.name or entry.directory.stat(entry.name) is not None:
        raise _already_exists(entry)


def _already_exists(entry: _Entry) -> AlreadyExists:
    return AlreadyExists(f"{str(entry.place.path)!r} already exists")


def _take_free_name(old: _Entry, new: _Entry) -> None:
    """Rename a file; the call itself fails if the new name exists."""
    try:
        os.link(old.at, new.at, src_dir_fd=old.fd, dst_dir_fd=new.fd, follow_symlinks=False)
    except FileExistsError:
        raise _already_exists(new) from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        _take_with_placeholder(old, new)
    else:
        _unlink_old(old, new)


def _unlink_old(old: _Entry, new: _Entry) -> None:
    """Remove the old name of a file after the new one was made; on failure, the new name."""
    try:
        with errors_naming(old.place), contextlib.suppress(FileNotFoundError):
            os.unlink(old.at, dir_fd=old.fd)
    except OSError:
        os.unlink(new.at, dir_fd=new.fd)
        raise


def _take_with_placeholder(old: _Entry, new: _Entry) -> None:
    """Take a free name on a file system without hard links: an empty file reserves it."""
    try:
        os.close(new.directory.open(new.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise _already_exists(new) from None
    try:
        _rename(old, new)
    except BaseException:
        os.unlink(new.at, dir_fd=new.fd)
        raise


def _rename(old: _Entry, new: _Entry) -> None:
    os.replace(old.at, new.at, src_dir_fd=old.fd, dst_dir_fd=new.fd)


def _rename_directory(old: _Entry, new: _Entry) -> None:
    """Rename a directory; a race can at worst replace an empty one."""
    try:
        _rename(old, new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise FileError(
            f"{str(old.place.path)!r} cannot be moved as a whole: it is on a different file system "
            "or in the image of a container. Move its files one by one, or use shell_command"
        ) from None


def _pieces(data: bytes) -> Iterator[memoryview]:
    view = memoryview(data)
    return (view[start : start + PIECE] for start in range(0, len(view), PIECE))


@contextmanager
def _temporary(
    beside: _Entry,
    pieces: Iterable[bytes | memoryview],
    checkpoint: Checkpoint,
    *,
    name: str | None = None,
    bits: int | None = None,
    group: int | None = None,
    like: _Entry | None = None,
) -> Iterator[_Entry]:
    """Write a durable temporary file; remove it unless the block renames it.

    Args:
        beside: the entry it is made for.
        pieces: its content.
        checkpoint: called before each piece, and after the file is durable.
        name: its name; None: any.
        bits: its permission bits; None: those of the umask.
        group: its group, if that is permitted; its permissions are `bits` then.
        like: a file whose owner, extended attributes and mode it gets.
    """
    entry = attrs.evolve(beside, name=name or f".eca-{secrets.token_hex(8)}.tmp")
    with contextlib.ExitStack() as stack:
        if entry.place.temporary_files is not None:
            path = entry.directory.path / entry.name
            stack.enter_context(entry.place.temporary_files.recorded(path))
        mode = 0o666 if bits is None and like is None else 0o600
        fd = entry.directory.open(entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                for piece in pieces:
                    checkpoint()
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[file.write(rest) :]
                if like is not None:
                    bits = _copy_permissions(like, fd)
                elif bits is not None and group is not None:
                    bits = platforms.set_group(fd, group, bits)
                if bits is not None and stat.S_IMODE(bits) != stat.S_IMODE(os.fstat(fd).st_mode):
                    platforms.set_mode(fd, stat.S_IMODE(bits))  # a disk without modes refuses it
                os.fsync(fd)
            checkpoint()  # the sync may have taken long
            yield entry
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.at, dir_fd=entry.fd)


def _copy_permissions(entry: _Entry, target: int) -> int:
    """Give an open file the owner and the extended attributes of an entry; return its new mode."""
    source = open_regular(entry.directory, entry.name, entry.place.path)
    try:
        mode = platforms.set_owner(target, os.fstat(source))
        is_safe = platforms.copy_attributes(source, target)
    finally:
        os.close(source)
    return mode if is_safe else mode & ~stat.S_IRWXG


def _make_durable(directory: Directory) -> None:
    """Sync the directory itself where that is possible."""
    with contextlib.suppress(OSError):
        fd = directory.open(os.curdir, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

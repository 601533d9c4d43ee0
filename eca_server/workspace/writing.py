"""Files replaced and moved: whole or not at all, and never over what nobody looked at.

The rules it keeps: a file is written beside its place, made durable, and renamed over it; it is
replaced only while its content is the one that was looked at; a name that must be free is taken
by a call that fails if it is not. Whatever fails, nothing is left behind; what a killed server
leaves, a later one removes (`temporaries`).

Everything here touches the disk: call it in a worker thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs

from eca_server.workspace.boundary import Place
from eca_server.workspace.faults import AlreadyThere, FileFault, LeadsOut
from eca_server.workspace.opening import Directory, naming, open_directory
from eca_server.workspace.reading import (
    PIECE,
    Checkpoint,
    Fingerprint,
    must_be_regular,
    must_still_be,
    open_regular,
)

__all__ = ["move_file", "remove_file", "remove_temporary", "replace_file"]

_NO_HARD_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


def replace_file(
    place: Place,
    data: bytes,
    *,
    expected: Fingerprint | None,
    mode: int | None = None,
    temporary: str | None = None,
    checkpoint: Checkpoint = lambda: None,
) -> Fingerprint:
    """Give a file a new content, at once; its mode and, if we may, its owner are kept.

    A link is written through, to the file it leads to in the workspace. A file with several hard
    links is parted from the others.

    Args:
        place: the file; its missing parents are made.
        data: the whole new content.
        expected: the content it has now; None: there is no such file.
        mode: the permission bits of a file that is made; None: as the umask has it.
        temporary: the name, beside the file, under which it is written first; None: any.
        checkpoint: called between pieces; what it raises ends the call and changes nothing.

    Raises:
        Changed: it has another content than expected, or is gone.
        AlreadyThere: nothing was expected there, and something is.
        LeadsOut: a link of the workspace leads out of it.
        NotAFile: it is a directory, a pipe, a socket or a device.
        Moved: the path leads elsewhere now.
        OSError: it cannot be written (read-only, disk full).
    """
    _must_not_lead_out(place)
    with naming(place), open_directory(place.real_path.parent, create=expected is None) as parent:
        entry = _Entry(directory=parent, name=place.real_path.name, place=place)
        if expected is None:
            _must_be_free(entry)
            with _temporary(
                entry, _pieces(data), checkpoint, mode=0o666, bits=mode, name=temporary
            ) as written:
                _take_free_name(written, entry)
        else:
            found = must_still_be(parent, entry.name, expected, place, checkpoint)
            if not os.access(entry.at, os.W_OK, dir_fd=parent.fd):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            with _temporary(entry, _pieces(data), checkpoint, like=found, name=temporary) as new:
                must_still_be(parent, entry.name, expected, place, checkpoint)
                _rename(new, entry)
        _make_durable(parent)
    return Fingerprint.of(data)


def remove_file(
    place: Place, *, expected: Fingerprint, checkpoint: Checkpoint = lambda: None
) -> None:
    """Remove a file whose content is still the one that is expected.

    Raises:
        Changed: it has another content, or is gone.
        LeadsOut: a link of the workspace leads out of it.
        NotAFile: it is a directory, a pipe, a socket or a device.
        Moved: the path leads elsewhere now.
        OSError: it cannot be removed.
    """
    _must_not_lead_out(place)
    with naming(place), open_directory(place.real_path.parent) as parent:
        name = place.real_path.name
        must_still_be(parent, name, expected, place, checkpoint)
        os.unlink(parent.at(name), dir_fd=parent.fd)
        _make_durable(parent)


def remove_temporary(place: Place, temporary: str) -> None:
    """Remove what a process that was killed in `replace_file` has left beside a file.

    Raises:
        Moved: the path leads elsewhere now.
        OSError: it cannot be removed.
    """
    with (
        naming(place),
        contextlib.suppress(FileNotFoundError),
        open_directory(place.real_path.parent) as parent,
    ):
        os.unlink(parent.at(temporary), dir_fd=parent.fd)


def move_file(source: Place, destination: Place, *, checkpoint: Checkpoint = lambda: None) -> None:
    """Give a file or a directory another name, which must be free; missing parents are made.

    A file may move to another file system, a directory may not.

    Raises:
        AlreadyThere: something has the new name.
        LeadsOut: a link of the workspace leads out of it.
        FileFault: the source is a link, or a directory that would move into itself.
        NotAFile: the source is a pipe, a socket or a device.
        Moved: a path leads elsewhere now.
        OSError: it cannot be moved.
    """
    for place in (source, destination):
        _must_not_lead_out(place)
    if source.path.is_symlink():
        raise FileFault(
            f"{str(source.path)!r} is a symbolic link to {str(source.real_path)!r}: "
            "expected the path of a file or a directory"
        )
    if destination.real_path.is_relative_to(source.real_path):
        raise FileFault(f"{str(source.path)!r} cannot be moved into itself")
    with naming(source), open_directory(source.real_path.parent) as origin:
        old = _Entry(directory=origin, name=source.real_path.name, place=source)
        found = origin.stat(old.name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        with (
            naming(destination),
            open_directory(destination.real_path.parent, create=True) as target,
        ):
            new = _Entry(directory=target, name=destination.real_path.name, place=destination)
            _must_be_free(new)
            if stat.S_ISDIR(found.st_mode):
                _rename(old, new)  # the worst a race can do here is to replace an empty directory
            else:
                must_be_regular(found, source.path)
                _move_regular(old, new, checkpoint)
            _make_durable(target)
        _make_durable(origin)


@attrs.frozen(kw_only=True)
class _Entry:
    """A name in an open directory, and the place it was found for."""

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
    except OSError as fault:
        if fault.errno != errno.EXDEV:
            raise
    else:
        return
    fd = open_regular(old.directory, old.name, old.place.path)
    with os.fdopen(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        pieces = iter(lambda: file.read(PIECE), b"")
        with _temporary(new, pieces, checkpoint, like=found) as temporary:
            times = (found.st_atime_ns, found.st_mtime_ns)
            os.utime(temporary.at, ns=times, dir_fd=temporary.fd)
            _take_free_name(temporary, new)
    _give_up(old, new)


def _must_not_lead_out(place: Place) -> None:
    if place.leads_out:
        raise LeadsOut(
            f"{str(place.path)!r} leads out of the workspace by a symbolic link, to "
            f"{str(place.real_path)!r}: to change that, name it by its own path"
        )


def _must_be_free(entry: _Entry) -> None:
    if not entry.name or entry.directory.stat(entry.name) is not None:
        raise _already_there(entry)


def _already_there(entry: _Entry) -> AlreadyThere:
    return AlreadyThere(f"{str(entry.place.path)!r} already exists")


def _take_free_name(old: _Entry, new: _Entry) -> None:
    """Rename a file to a name that nobody has, checked by the very call that takes it."""
    try:
        os.link(old.at, new.at, src_dir_fd=old.fd, dst_dir_fd=new.fd, follow_symlinks=False)
    except FileExistsError:
        raise _already_there(new) from None
    except OSError as fault:
        if fault.errno not in _NO_HARD_LINKS:
            raise
        _take_with_placeholder(old, new)
    else:
        _give_up(old, new)


def _give_up(old: _Entry, new: _Entry) -> None:
    """Remove the old name of a file that has a new one; the new one where that cannot be."""
    try:
        with naming(old.place), contextlib.suppress(FileNotFoundError):
            os.unlink(old.at, dir_fd=old.fd)
    except OSError:
        os.unlink(new.at, dir_fd=new.fd)
        raise


def _take_with_placeholder(old: _Entry, new: _Entry) -> None:
    """The same on file systems without hard links: an empty file holds the name first."""
    try:
        os.close(new.directory.open(new.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise _already_there(new) from None
    try:
        _rename(old, new)
    except BaseException:
        os.unlink(new.at, dir_fd=new.fd)
        raise


def _rename(old: _Entry, new: _Entry) -> None:
    os.replace(old.at, new.at, src_dir_fd=old.fd, dst_dir_fd=new.fd)


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
    mode: int = 0o600,
    bits: int | None = None,
    like: os.stat_result | None = None,
) -> Iterator[_Entry]:
    """A new file with this content, on the disk for good; removed unless it is renamed.

    Args:
        beside: the entry it is made for.
        pieces: its content.
        checkpoint: called before each piece, and when all is on the disk.
        name: its name; None: any.
        mode: its permission bits, less the umask.
        bits: its permission bits, whatever the umask.
        like: the file whose owner and mode it gets.
    """
    entry = attrs.evolve(beside, name=name or f".eca-{secrets.token_hex(8)}.tmp")
    with contextlib.ExitStack() as stack:
        if entry.place.temporaries is not None:
            path = entry.directory.path / entry.name
            stack.enter_context(entry.place.temporaries.noted(path))
        fd = entry.directory.open(entry.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(fd, "wb", buffering=0) as file:
                for piece in pieces:
                    checkpoint()
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[file.write(rest) :]
                if like is not None:
                    with contextlib.suppress(PermissionError):
                        os.fchown(fd, like.st_uid, like.st_gid)
                    bits = like.st_mode
                if bits is not None:
                    os.fchmod(fd, stat.S_IMODE(bits))
                os.fsync(fd)
            checkpoint()  # that may have taken long
            yield entry
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.at, dir_fd=entry.fd)


def _make_durable(directory: Directory) -> None:
    """Sync the directory itself, where the file system can and we may read it."""
    with contextlib.suppress(OSError):
        fd = directory.open(os.curdir, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

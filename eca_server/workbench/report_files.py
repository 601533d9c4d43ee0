"""Report files: checked before the run, and each replaced atomically.

A file that cannot be written does not affect the others. A target that cannot be replaced is
written in place: a stream, a file behind a link, a file in a read-only directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal, TextIO, TypeAlias, TypeVar

import attrs

from eca_protocol import platforms

_Opener: TypeAlias = Callable[[str, int], int]
_Report = TypeVar("_Report")

_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
_NOT_REPLACED: Final = (errno.EBUSY, errno.EPERM)
"""Errors of a single mounted file, as in a container, and of another user's file in `/tmp`."""


class OutputsInvalid(Exception):
    """The error of a report that cannot be written; the message says which and why."""


@attrs.frozen
class Outputs:
    """The report files of a run by kind, in the order they are written."""

    files: Mapping[str, Path]

    def check(self) -> None:
        """Check, before the run, that each file can be written.

        Raises:
            OutputsInvalid: a file cannot be written.
        """
        kinds: dict[Path, str] = {}
        for kind, file in self.files.items():
            try:
                check_file(file)
                place = file.resolve()
            except OSError as error:
                raise OutputsInvalid(f"{file}: {error.strerror or error}") from error
            if _descriptor(file) is not None or file.is_char_device():
                continue  # a stream can take several reports
            if place in kinds:
                raise OutputsInvalid(f"{file}: given for both {kinds[place]} and {kind}")
            kinds[place] = kind

    def write(
        self, report: _Report, renderers: Mapping[str, Callable[[_Report], str]]
    ) -> list[str]:
        """Write all files, and return an error message for each that could not be written."""
        errors = []
        for kind, file in self.files.items():
            try:
                write_file(file, renderers[kind](report))
            except OSError as error:
                errors.append(f"{file}: {error.strerror or error}")
            except Exception as error:  # noqa: BLE001 - reported; the other files are still written
                errors.append(f"{file}: {type(error).__name__}: {error}")
        return errors


def check_file(file: Path) -> None:
    """Check that a report can be written to a file.

    Raises:
        OutputsInvalid: it cannot.
        OSError: it cannot.
    """
    if (number := _descriptor(file)) is not None:
        os.fstat(number)
        return
    if not file.parent.is_dir():
        raise OutputsInvalid(f"{file}: the folder {file.parent} does not exist")
    if _is_pipe_or_device(file):
        return
    with contextlib.suppress(FileNotFoundError):
        file.lstat()  # for example a name that is too long
    if not file.is_file() and os.path.lexists(file):
        raise OutputsInvalid(f"{file}: expected a regular file or none, got something else")
    if _stays(file):
        if not os.access(file, os.W_OK):
            raise OutputsInvalid(f"{file}: the file is not writable")
    elif not os.access(file.parent, os.W_OK):
        raise OutputsInvalid(f"{file}: the folder {file.parent} is not writable")


def write_file(file: Path, text: str, *, is_private: bool = False) -> None:
    """Write a report, atomically where possible.

    A replaced file keeps its mode. These are written in place: `/dev/stdout` and the like, to which
    the report is appended; a pipe or a device; a file behind a link, or in a read-only directory.

    `is_private`: the file can be read by the user alone.

    Raises:
        OSError: the file cannot be written.
    """
    opener = _private_opener if is_private else None
    number = _descriptor(file)
    if number is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        _write_in_place(number, text)
    elif _is_pipe_or_device(file) or _stays(file):
        _write_in_place(file, text, opener)
    else:
        try:
            _replace(file, text, opener)
        except OSError as error:
            if error.errno not in _NOT_REPLACED:
                raise
            _write_in_place(file, text, opener)


def _write_in_place(file: Path | int, text: str, opener: _Opener | None = None) -> None:
    with _open(file, "w", opener) as out:
        out.write(text)


def _open(file: Path | int, mode: Literal["w", "x"], opener: _Opener | None) -> TextIO:
    closes = not isinstance(file, int)
    return open(
        file, mode, encoding="utf-8", errors="replace", newline="\n", closefd=closes, opener=opener
    )


def _private_opener(path: str, flags: int) -> int:
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        with contextlib.suppress(PermissionError):  # the file of another user, writable for us
            platforms.set_mode(descriptor, 0o600)
    return descriptor


def _replace(file: Path, text: str, opener: _Opener | None) -> None:
    temporary = file.with_name(f".{file.name[:40]}.{secrets.token_hex(8)}")
    try:
        with _open(temporary, "x", opener) as out:
            with contextlib.suppress(FileNotFoundError):
                if opener is None:
                    platforms.set_mode(out.fileno(), stat.S_IMODE(file.stat().st_mode))
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _descriptor(file: Path) -> int | None:
    """Return the descriptor behind `/dev/stdout` and the like; reopening would truncate it."""
    numbered = _NUMBERED.fullmatch(file.as_posix())
    return int(numbered[1]) if numbered else _STREAMS.get(file.as_posix())


def _is_pipe_or_device(file: Path) -> bool:
    return file.is_fifo() or file.is_char_device()


def _stays(file: Path) -> bool:
    """Return whether a file is written in place: behind a link, or in a read-only directory."""
    return file.is_file() and (file.is_symlink() or not os.access(file.parent, os.W_OK))

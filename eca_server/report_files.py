"""Where reports are written: looked at before the run, each written whole or not at all.

One file that cannot be written does not keep the others from being. What cannot be replaced is
written as it stands: a stream, a file behind a link, one whose folder is closed to us.
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
from typing import Final, TypeVar

import attrs

__all__ = ["Outputs", "OutputsInvalid", "check_file", "write_file"]

_Report = TypeVar("_Report")

_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}
_NUMBERED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
_NOT_REPLACED: Final = (errno.EBUSY, errno.EPERM)
"""A file that is mounted by itself, as into a container; another's in a folder such as `/tmp`."""


class OutputsInvalid(Exception):
    """A report cannot be written where it is wanted; the text says which and why."""


@attrs.frozen
class Outputs:
    """The files a run is to write, by kind, in the order they are written."""

    files: Mapping[str, Path]

    def check(self) -> None:
        """See, before anything runs, that each could be written.

        Raises:
            OutputsInvalid: one could not.
        """
        seen: dict[Path, str] = {}
        for kind, file in self.files.items():
            try:
                check_file(file)
                place = file.resolve()
            except OSError as fault:
                raise OutputsInvalid(f"{file}: {fault.strerror or fault}") from fault
            if _descriptor(file) is not None or file.is_char_device():
                continue  # it takes one report after the other
            if place in seen:
                raise OutputsInvalid(f"{file}: wanted for {seen[place]} and for {kind}")
            seen[place] = kind

    def write(
        self, report: _Report, renderers: Mapping[str, Callable[[_Report], str]]
    ) -> list[str]:
        """Write them all; what went wrong, a line for each that could not be written."""
        faults = []
        for kind, file in self.files.items():
            try:
                write_file(file, renderers[kind](report))
            except OSError as fault:
                faults.append(f"{file}: {fault.strerror or fault}")
            except Exception as fault:  # noqa: BLE001 - told, and the others are still written
                faults.append(f"{file}: {type(fault).__name__}: {fault}")
        return faults


def check_file(file: Path) -> None:
    """See that a report could be written there.

    Raises:
        OutputsInvalid: it could not.
        OSError: likewise.
    """
    if (number := _descriptor(file)) is not None:
        os.fstat(number)
        return
    if not file.parent.is_dir():
        raise OutputsInvalid(f"{file}: the folder {file.parent} does not exist")
    if _is_pipe_or_device(file):
        return
    if not file.is_file() and os.path.lexists(file):
        raise OutputsInvalid(f"{file}: expected a regular file or none, got something else")
    if _stays(file):
        if not os.access(file, os.W_OK):
            raise OutputsInvalid(f"{file}: it cannot be written to")
    elif not os.access(file.parent, os.W_OK):
        raise OutputsInvalid(f"{file}: the folder {file.parent} cannot be written to")


def write_file(file: Path, text: str) -> None:
    """Write through a file beside it, so that nobody ever sees half a report.

    A report that is replaced passes on who may read it. Where none can be replaced it is written as
    it stands: `/dev/stdout` and its like behind what was written there before, whatever they lead
    to; a pipe, a device; a file behind a link, or in a folder that we may not write to.

    Raises:
        OSError: it cannot be written.
    """
    number = _descriptor(file)
    if number is not None:
        if sys.stdout is not None:
            sys.stdout.flush()
        _write_as_it_stands(number, text)
    elif _is_pipe_or_device(file) or _stays(file):
        _write_as_it_stands(file, text)
    else:
        try:
            _replace(file, text)
        except OSError as fault:
            if fault.errno not in _NOT_REPLACED:
                raise
            _write_as_it_stands(file, text)


def _write_as_it_stands(file: Path | int, text: str) -> None:
    closes = not isinstance(file, int)
    with open(file, "w", encoding="utf-8", errors="replace", newline="\n", closefd=closes) as out:
        out.write(text)


def _replace(file: Path, text: str) -> None:
    scratch = file.with_name(f".{file.name[:40]}.{secrets.token_hex(8)}")
    try:
        with scratch.open("x", encoding="utf-8", errors="replace", newline="\n") as out:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(out.fileno(), stat.S_IMODE(file.stat().st_mode))
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        scratch.replace(file)
    finally:
        scratch.unlink(missing_ok=True)


def _descriptor(file: Path) -> int | None:
    """The open file that `/dev/stdout` or the like stands for; opened anew it would be cleared."""
    numbered = _NUMBERED.fullmatch(file.as_posix())
    return int(numbered[1]) if numbered else _STREAMS.get(file.as_posix())


def _is_pipe_or_device(file: Path) -> bool:
    return file.is_fifo() or file.is_char_device()


def _stays(file: Path) -> bool:
    """Whether it is a file that is not replaced: behind a link, or alone open to us."""
    return file.is_file() and (file.is_symlink() or not os.access(file.parent, os.W_OK))

"""Where reports are written: looked at before the run, each written whole or not at all.

One file that cannot be written does not keep the others from being.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import attrs

__all__ = ["Outputs", "OutputsInvalid", "check_file", "write_file"]

_Report = TypeVar("_Report")


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
                place = file.parent.resolve() / file.name
            except OSError as fault:
                raise OutputsInvalid(f"{file}: {fault.strerror or fault}") from fault
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
    if not file.parent.is_dir():
        raise OutputsInvalid(f"{file}: the folder {file.parent} does not exist")
    if not _is_stream(file):
        if not os.access(file.parent, os.W_OK):
            raise OutputsInvalid(f"{file}: the folder {file.parent} cannot be written to")
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISREG(file.lstat().st_mode):
                raise OutputsInvalid(f"{file}: expected a regular file or none, got something else")


def write_file(file: Path, text: str) -> None:
    """Write through a file beside it, so that nobody ever sees half a report.

    A report that is replaced passes on who may read it. A pipe or a device, such as `/dev/stdout`,
    is written as it stands.

    Raises:
        OSError: it cannot be written.
    """
    if _is_stream(file):
        file.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        return
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


def _is_stream(file: Path) -> bool:
    try:
        mode = file.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)

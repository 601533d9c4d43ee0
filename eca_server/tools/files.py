"""What the native file tools stand on: the workspace, what the model knows of it, the caps.

The rule it keeps: the disk is touched in worker threads only, in bounded pieces, so that a stop
works at once; and whatever is wrong with a file is a sentence for the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import attrs
import trio

from eca_server.printable import LONGEST_NAME, printable_line
from eca_server.tools.ledger import Ledger
from eca_server.tools.output import Cap
from eca_server.tools.tool import ToolFault
from eca_server.workspace import (
    Directory,
    FileError,
    FileSnapshot,
    Place,
    Workspace,
    list_files,
    read_file,
)

__all__ = ["LARGEST", "Files", "checkpoint", "in_thread", "naming", "printable", "short_name"]

LARGEST = 16 * 1024 * 1024
"""Bytes of a text file that is read or changed as a whole."""

checkpoint = trio.from_thread.check_cancelled
"""Called between pieces of work in a thread; it raises if the call was stopped."""

_NO_BYTE = re.compile("[\ud800-\udc7f\udd00-\udfff]")  # surrogates that stand for nothing

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Files:
    """What the file tools of one chat work on.

    Attributes:
        workspace: where relative paths start.
        ledger: what the model knows of the files.
        cap: of one call's output, and of one diff.
        max_lines: of one call of `read_file`.
        gitignore: files that Git ignores are left out of trees and searches.
    """

    workspace: Workspace
    ledger: Ledger = attrs.field(factory=Ledger)
    cap: Cap = attrs.field(factory=Cap)
    max_lines: int = 2_000
    gitignore: bool = True

    def leaves_out_ignored(self, folder: Directory) -> bool:
        """Whether Git's rules are followed below a directory that was named. For a thread.

        They are not where they leave nothing of it: who names an ignored directory means it.
        """
        return self.gitignore and any(list_files(folder, limit=1, checkpoint=checkpoint))

    def read(self, place: Place) -> FileSnapshot | None:
        """A whole file that may be changed; None if there is none. For a thread.

        Raises:
            ToolFault: the model knows another content of it, or it lies behind a link out of the
                workspace.
            FileError: it cannot be used.
            OSError: it cannot be read.
        """
        if place.escapes:
            raise ToolFault(
                f"{str(place.path)!r} leads out of the workspace by a symbolic link, to "
                f"{str(place.real_path)!r}: to change that, name it by its own path."
            )
        known = self.ledger.last_seen(place.real_path)
        try:
            snapshot = read_file(place, limit=LARGEST, checkpoint=checkpoint)
        except FileNotFoundError:
            if known is None:
                return None
            self.ledger.forget(place.real_path)
            raise ToolFault(f"{str(place.path)!r} is gone since you read it.") from None
        if known is not None and known != snapshot.fingerprint:
            raise ToolFault(f"{str(place.path)!r} has changed since you read it: read it again.")
        return snapshot


async def in_thread(work: Callable[[], T]) -> T:
    """Do work on the disk in a thread, which a stop ends at its next checkpoint.

    Raises:
        ToolFault: a file or a path cannot be used.
    """
    return await trio.to_thread.run_sync(_told, work)


def _told(work: Callable[[], T]) -> T:
    with _for_the_model():
        return work()


@contextmanager
def _for_the_model() -> Iterator[None]:
    try:
        yield
    except FileError as fault:
        raise ToolFault(f"{_sentence(str(fault))}.") from fault
    except OSError as fault:
        where = "" if fault.filename is None else f": {str(fault.filename)!r}"
        raise ToolFault(f"{fault.strerror or fault}{where}.") from fault


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def naming(action: str, arguments: Mapping[str, Any]) -> str:
    """What a call does to which file, in a few words; its arguments may be incomplete."""
    path = arguments.get("path")
    return f"{action} {short_name(Path(path).name)}".rstrip() if isinstance(path, str) else action


def short_name(name: str) -> str:
    """Return a file's name or path as one line that is not too long for a title."""
    return printable_line(printable(name), longest=LONGEST_NAME)


def printable(path: Path | str) -> str:
    """A path as one line of text: what is no UTF-8, or no character one sees, is escaped."""
    told = _NO_BYTE.sub("\ufffd", str(path))
    text = told.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return printable_line(text)

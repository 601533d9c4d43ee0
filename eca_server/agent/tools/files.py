"""The common base of the native file tools: the workspace, the known contents, the caps.

The rules of this module: the disk is accessed only in worker threads, in limited pieces, so that a
stop works at once. An error of a file becomes a sentence for the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, TypeVarTuple

import attrs
import trio

from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.printable import LONGEST_NAME, printable_line, printable_path
from eca_server.system.threads import THREAD_SECONDS, run_in_thread, run_on_disk
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError, NotText
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import Directory
from eca_server.workspace.reading import FileSnapshot, Fingerprint, Text, decode, read_file
from eca_server.workspace.writing import ensure_root

LARGEST = 16 * 1024 * 1024
"""The maximum size of a text file that is read or changed, in bytes."""

checkpoint = trio.from_thread.check_cancelled
"""A function called between pieces of work in a thread; it raises if the call was stopped."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Ledger:
    """The contents of files that the model has read or written in a chat, by real path.

    A file is changed only if its content is the one that the model knows, or if the model never
    read it. The ledger is safe for threads.
    """

    def __init__(self) -> None:
        self._contents: dict[Path, Fingerprint] = {}

    def record(self, path: Path, content: Fingerprint) -> None:
        """Record that the model has read or written a content."""
        self._contents[path] = content

    def forget(self, path: Path) -> None:
        """Record that the model knows that a file was removed."""
        self._contents.pop(path, None)

    def known_content(self, path: Path) -> Fingerprint | None:
        """Return the content that the model knows, or None."""
        return self._contents.get(path)

    def record_move(self, source: Path, destination: Path) -> None:
        """Record that a file, or a directory with its content, was moved."""
        for path in [each for each in self._contents if each.is_relative_to(source)]:
            self._contents[destination / path.relative_to(source)] = self._contents.pop(path)


@attrs.frozen(kw_only=True)
class Files:
    """The settings and state of the file tools of one chat.

    Attributes:
        cap: the limit of one call's output, and of one diff.
        max_lines: the limit of one call of `read_file`.
        gitignore: leave out files that Git ignores in trees and searches.
    """

    workspace: Workspace
    ledger: Ledger = attrs.field(factory=Ledger)
    cap: Cap = attrs.field(factory=Cap)
    max_lines: int = 2_000
    gitignore: bool = True

    def leaves_out_ignored(self, folder: Directory) -> bool:
        """Return True if Git's rules apply below a requested directory; call it in a thread.

        They do not apply if they exclude every file: then the model requested an ignored
        directory.
        """
        return self.gitignore and any(list_files(folder, limit=1, checkpoint=checkpoint))

    def read(self, place: Place) -> FileSnapshot | None:
        """Read a file that may be changed; None if it does not exist. Call it in a thread.

        Raises:
            ToolError: the model knows a different content, or a link leads out of the workspace.
            FileError: the file cannot be used.
            OSError: the file cannot be read.
        """
        if place.escapes:
            raise ToolError(
                f"{str(place.path)!r} leads out of the workspace by a symbolic link, to "
                f"{str(place.real_path)!r}: to change that file, use its own path."
            )
        known = self.ledger.known_content(place.real_path)
        try:
            snapshot = read_file(place, limit=LARGEST, checkpoint=checkpoint)
        except FileNotFoundError:
            ensure_root(place)
            if known is None:
                return None
            self.ledger.forget(place.real_path)
            raise ToolError(f"{str(place.path)!r} was removed since you read it.") from None
        if known is not None and known != snapshot.fingerprint:
            raise ToolError(f"{str(place.path)!r} has changed since you read it: read it again.")
        return snapshot


def text_in(place: Place, snapshot: FileSnapshot, hint: str = "") -> Text:
    """Return the text of a file.

    Raises:
        ToolError: it is binary; `hint` is added.
    """
    try:
        return decode(snapshot.data)
    except NotText as error:
        raise ToolError(f"Expected a text file, {error}: {str(place.path)!r}.{hint}") from error


async def in_thread(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Read from the disk in a thread; a stop ends it at its next checkpoint, or leaves it alone.

    Raises:
        ToolError: a file or a path cannot be used.
    """
    return await _in(run_on_disk, work, *args)


async def change_in_thread(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """Change the disk in a thread; a stop waits for its end or its next checkpoint.

    Raises:
        ToolError: a file or a path cannot be used.
    """
    return await _in(run_in_thread, work, *args)


async def _in(run: Callable[..., Awaitable[T]], work: Callable[[*Ts], T], *args: *Ts) -> T:
    try:
        return await run(partial(_with_tool_errors, work, *args), seconds=THREAD_SECONDS)
    except OSError as error:
        raise ToolError(f"{error.strerror}.") from error


def _with_tool_errors(work: Callable[[*Ts], T], *args: *Ts) -> T:
    try:
        return work(*args)
    except FileError as error:
        raise ToolError(f"{sentence(str(error))}.") from error
    except OSError as error:
        where = "" if error.filename is None else f": {str(error.filename)!r}"
        raise ToolError(f"{error.strerror or error}{where}.") from error


@attrs.frozen(kw_only=True)
class ReadingTool(ABC):
    """A tool that reads the file or directory at its argument `path`.

    Attributes:
        action: the beginning of its summary.
    """

    files: Files

    effect: ClassVar[Effect] = "read"
    action: ClassVar[str]

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `ACTION NAME`."""
        return action_summary(self.action, arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the path, which is read when the call runs.

        Raises:
            ToolError: it is not a valid path.
        """
        place = await in_thread(self.files.workspace.locate, arguments["path"])
        run = partial(in_thread, self.read, place, arguments)
        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    @abstractmethod
    def read(self, place: Place, arguments: Mapping[str, Any]) -> ToolOutput:
        """Return the output of the call; called in a thread."""


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return text[:1].upper() + text[1:]


def action_summary(action: str, arguments: Mapping[str, Any]) -> str:
    """Return `ACTION NAME` for a call on a file; its arguments may be incomplete."""
    path = arguments.get("path")
    return f"{action} {short_name(Path(path).name)}".rstrip() if isinstance(path, str) else action


def short_name(name: str) -> str:
    """Return a file's name or path on one line, shortened for a title."""
    return printable_line(printable(name), longest=LONGEST_NAME)


def printable(path: Path | str) -> str:
    """Return a path on one line; invalid UTF-8 and invisible characters are escaped."""
    return printable_path(str(path))

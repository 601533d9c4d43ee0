"""The same search by ripgrep, where it is installed: many times as fast.

The rule it keeps: what it finds is what our own search finds, but in lines with a carriage return
inside; where it cannot promise that (a pattern or an option it does not know) it says so, and ours
is used. It starts in the very directory that was opened, and follows no link it sees; one that is
swapped in while it walks it may follow, so what it finds has to be confirmed (`search.confirmed`).
"""

from __future__ import annotations

import base64
import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eca_protocol import json
from eca_protocol.errors import ECAError, InvalidJSON
from eca_protocol.guard import GUARD
from eca_protocol.process import working_directory
from eca_server.child_process import find_program
from eca_server.tools.search import LARGEST_SEARCHED, MOST_FOUND, Found, Include, Pattern, shown
from eca_server.tools.tracked import top_of_work_tree
from eca_server.workspace import Checkpoint, Directory

__all__ = ["RipgrepUnusable", "find_ripgrep", "ripgrep"]

_BETWEEN_CHECKPOINTS = 50  # milliseconds
_PIECE = 1 << 16
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME")
_OPTIONS = (
    "--no-config",
    "--json",
    "--crlf",
    "--hidden",
    "--no-follow",
    "--no-messages",
    "--no-ignore-dot",
    "--max-depth=101",
    f"--max-filesize={LARGEST_SEARCHED}",
    f"--max-count={MOST_FOUND + 1}",
    *(f"--glob=!{name}" for name in (".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS")),
)


class RipgrepUnusable(ECAError):
    """It does not do what is asked of it."""


def find_ripgrep() -> str | None:
    """The program; None if there is none, or none we can wait for."""
    return find_program("rg", os.environ.get("PATH")) if hasattr(select, "poll") else None


def ripgrep(
    program: str,
    folder: Directory,
    pattern: Pattern,
    include: Include,
    *,
    gitignore: bool,
    checkpoint: Checkpoint,
) -> Iterator[Found]:
    """The lines that match in the files below a folder, in no order.

    Files that Git tracks in spite of its own rules are left out: ripgrep knows the rules only.

    Args:
        program: ripgrep.
        folder: an open directory.
        pattern: what to look for.
        include: in which files.
        gitignore: leave out what Git ignores.
        checkpoint: called while it waits; what it raises ends the program, too.

    Raises:
        RipgrepUnusable: it did not search.
    """
    command = [program, *_OPTIONS, *_rules(folder.path, gitignore), f"--regexp={pattern.text}"]
    if include.names:
        command += ["--type=wanted", *(f"--type-add=wanted:{name}" for name in include.names)]
    try:
        with (
            subprocess.Popen(
                [*command, "./"],
                **working_directory(folder.path if folder.fd is None else folder.fd),
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as process,
            GUARD.guarding(process.pid),
        ):
            try:
                assert process.stdout is not None
                yield from _found(process.stdout.fileno(), include, checkpoint)
            finally:
                process.kill()
    except OSError as fault:
        raise RipgrepUnusable(str(fault)) from fault


def _rules(folder: Path, gitignore: bool) -> tuple[str, ...]:
    if not gitignore:
        return ("--no-ignore",)
    if top_of_work_tree(folder) is not None:
        return ()
    return ("--no-require-git", "--no-ignore-parent")


def _found(descriptor: int, include: Include, checkpoint: Checkpoint) -> Iterator[Found]:
    """What its messages say: a file's beginning, its matching lines, its end; and a summary."""
    in_file: list[Found] = []
    for line in _lines(descriptor, checkpoint):
        match _message(line):
            case {"type": "begin"}:
                in_file = []
            case {"type": "match", "data": {"path": {} as path, "lines": {} as text} as data}:
                name = os.fsdecode(_bytes(path)).removeprefix("./")
                if include.wants(name):
                    in_file.append(Found(name, data["line_number"], _shown(text, data)))
            case {"type": "end", "data": {"binary_offset": binary_offset}}:
                if binary_offset is None:
                    yield from in_file
            case {"type": "summary"}:
                return
            case _:
                break
    raise RipgrepUnusable("expected ripgrep's messages and a summary, got something else")


def _message(line: bytes) -> Any:
    try:
        return json.loads(line)
    except InvalidJSON as fault:
        raise RipgrepUnusable(str(fault)) from fault


def _lines(descriptor: int, checkpoint: Checkpoint) -> Iterator[bytes]:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    pieces: list[bytes] = []
    while True:
        checkpoint()
        if not poll.poll(_BETWEEN_CHECKPOINTS):
            continue
        piece = os.read(descriptor, _PIECE)
        if not piece:
            return
        head, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield from b"".join([*pieces, head]).split(b"\n")
            pieces = []
        pieces.append(rest)


def _bytes(value: Mapping[str, str]) -> bytes:
    """A text of its messages: as text, or in base64 if it is no UTF-8."""
    text = value.get("text")
    return base64.b64decode(value["bytes"]) if text is None else text.encode()


def _shown(text: Mapping[str, str], match: Mapping[str, Any]) -> str:
    line = _bytes(text).removesuffix(b"\n").removesuffix(b"\r")
    start = match["submatches"][0]["start"] if match["submatches"] else 0
    before = line[:start].decode("utf-8", "surrogateescape")
    return shown(line.decode("utf-8", "surrogateescape"), len(before))

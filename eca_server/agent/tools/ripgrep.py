"""The search by ripgrep, if it is installed: many times as fast as our own.

The rule of this module: the results equal those of our own search, except for lines with a carriage
return inside, bytes that are not UTF-8 (they match no `.`), a repository's own `core.excludesFile`
and `core.ignoreCase`, and a `.rgignore` before ripgrep 14. If ripgrep cannot guarantee that (an
unknown pattern or option), it raises an error and our own search is used. It starts in the open
directory and follows no links. A link that is swapped in during the walk may be followed, so the
results have to be confirmed (`search.confirm`).
"""

from __future__ import annotations

import base64
import os
import select
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eca_protocol import json, platforms
from eca_protocol.errors import ECAError, InvalidJSON
from eca_protocol.guard import GUARD
from eca_protocol.process import working_directory
from eca_server.agent.tools.search import (
    LARGEST_SEARCHED,
    MOST_MATCHES,
    Include,
    LineMatch,
    Pattern,
    shorten_line,
)
from eca_server.system.child_process import find_own_program
from eca_server.workspace.opening import Directory
from eca_server.workspace.reading import Checkpoint
from eca_server.workspace.worktree import top_of_work_tree

_BETWEEN_CHECKPOINTS = 0.05  # seconds
_PIECE = 1 << 16
_INHERITED = ("PATH", "HOME", "XDG_CONFIG_HOME")
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
    f"--max-count={MOST_MATCHES + 1}",
    *(f"--glob=!{name}" for name in (".git", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS")),
)


class RipgrepUnavailable(ECAError):
    """Ripgrep cannot be used for this search."""


def find_ripgrep() -> str | None:
    """Return the path of ripgrep, or None if it is missing or the platform cannot poll."""
    return find_own_program("rg", os.environ.get("PATH")) if hasattr(select, "poll") else None


def ripgrep(
    program: str,
    directory: Directory,
    pattern: Pattern,
    include: Include,
    *,
    gitignore: bool,
    checkpoint: Checkpoint,
) -> Iterator[LineMatch]:
    """Yield the matching lines in the files below a directory, in no order.

    Ignored files that Git tracks are left out: ripgrep only knows the rules.

    Raises:
        RipgrepUnavailable: ripgrep did not search.
    """
    command = [program, *_OPTIONS, *_rules(directory.path, gitignore), f"--regexp={pattern.text}"]
    if include.names:
        command += ["--type=included", *(f"--type-add=included:{name}" for name in include.names)]
    try:
        with (
            subprocess.Popen(
                [*command, "./"],
                **working_directory(directory.path if directory.fd is None else directory.fd),
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                **platforms.START_OF_A_GROUP,
            ) as process,
            GUARD.guarding(process.pid),
        ):
            try:
                assert process.stdout is not None
                yield from _matches(process.stdout.fileno(), include, checkpoint)
            finally:
                process.kill()
    except OSError as error:
        raise RipgrepUnavailable(str(error)) from error


def _rules(directory: Path, gitignore: bool) -> tuple[str, ...]:
    if not gitignore:
        return ("--no-ignore",)
    if top_of_work_tree(directory) is not None:
        return ()
    return ("--no-require-git", "--no-ignore-parent")


def _matches(descriptor: int, include: Include, checkpoint: Checkpoint) -> Iterator[LineMatch]:
    """Yield the matches in its messages: begin, match, end, and a summary."""
    in_file: list[LineMatch] = []
    for line in _lines(descriptor, checkpoint):
        match _message(line):
            case {"type": "begin"}:
                in_file = []
            case {"type": "match", "data": {"path": {} as path, "lines": {} as text} as data}:
                name = os.fsdecode(_bytes(path)).removeprefix("./")
                if include.wants(name):
                    in_file.append(LineMatch(name, data["line_number"], _shown(text, data)))
            case {"type": "end", "data": {"binary_offset": binary_offset}}:
                if binary_offset is None:
                    yield from in_file
            case {"type": "summary"}:
                return
            case _:
                break
    raise RipgrepUnavailable("expected ripgrep's messages and a summary, got something else")


def _message(line: bytes) -> Any:
    try:
        return json.loads(line)
    except InvalidJSON as error:
        raise RipgrepUnavailable(str(error)) from error


def _lines(descriptor: int, checkpoint: Checkpoint) -> Iterator[bytes]:
    pieces: list[bytes] = []
    while True:
        checkpoint()
        if not platforms.has_input(descriptor, _BETWEEN_CHECKPOINTS):
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
    """Return the bytes of a text in a message: UTF-8, or base64 of other bytes."""
    text = value.get("text")
    return base64.b64decode(value["bytes"]) if text is None else text.encode()


def _shown(text: Mapping[str, str], match: Mapping[str, Any]) -> str:
    line = _bytes(text).removesuffix(b"\n").removesuffix(b"\r")
    start = match["submatches"][0]["start"] if match["submatches"] else 0
    before = line[:start].decode("utf-8", "surrogateescape")
    return shorten_line(line.decode("utf-8", "surrogateescape"), len(before))

"""Which agent a manifest's target means: a command as its arguments, or a URL.

No shell is in between unless it is asked for: what was started is what is ended. Of the environment
only `${env:NAME}` is put in, as text within one argument, whatever it holds.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import attrs

__all__ = ["Target", "TargetInvalid", "resolve_target", "with_environment"]

_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OPERATORS: Final = "();<>|&\n"
_STAND_IN: Final = re.compile("\ue000([0-9]+)\ue001")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


class TargetInvalid(Exception):
    """The target cannot be run; the text says what to write in its place."""


@attrs.frozen(kw_only=True)
class Target:
    """What is evaluated: a command with its arguments and its folder, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None
    cwd: str | None = None

    @property
    def shown(self) -> str:
        """As it may be printed; what came out of the environment is not told apart here."""
        return self.url or shlex.join(self.command)


def with_environment(text: str, environment: Mapping[str, str]) -> str:
    """`text` with each `${env:NAME}` replaced.

    Raises:
        TargetInvalid: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environment:
            raise TargetInvalid(f"{text!r}: the variable {name} is not set")
        return environment[name]

    return _VARIABLE.sub(value, text)


def resolve_target(
    text: str, *, environment: Mapping[str, str], cwd: Path, shell: bool = False
) -> Target:
    """What `text` means.

    Args:
        text: a manifest's `target`.
        environment: for `${env:NAME}` and PATH.
        cwd: where a command runs.
        shell: whether it is a line for `sh`.

    Raises:
        TargetInvalid: it is no command that can be started, and no URL that can be asked.
    """
    scheme = text.strip().partition("://")[0].lower()
    if scheme in {"http", "https"}:
        return Target(url=_url(with_environment(text.strip(), environment)))
    if shell:
        return Target(command=("/bin/sh", "-c", with_environment(text, environment)), cwd=str(cwd))
    values: list[str] = []

    def stand_in(match: re.Match[str]) -> str:
        values.append(with_environment(match[0], environment))
        return f"\ue000{len(values) - 1}\ue001"

    stood_for = _words(_VARIABLE.sub(stand_in, text.strip()), text)
    words = [_STAND_IN.sub(lambda match: values[int(match[1])], word) for word in stood_for]
    program = _program(words[0], environment.get("PATH", os.defpath), cwd)
    return Target(command=(program, *words[1:]), cwd=str(cwd))


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as fault:
        raise TargetInvalid(f"expected a URL, got {url!r}: {str(fault).lower()}") from None
    if not url.isprintable() or " " in url or not parts.hostname:
        raise TargetInvalid(f"expected a URL with a host, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise TargetInvalid("a URL with a user or a password in it is not asked: leave them out")
    return url


def _words(text: str, shown: str) -> list[str]:
    why = f"{shown!r} is no plain command"
    how = "write sh -c '...', or pass --shell"
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as fault:
        raise TargetInvalid(f"{why}: {str(fault).lower()}") from None
    if not words:
        raise TargetInvalid(f"{why}: it is empty")
    plain = _outside_quotes(text)
    operators = [character for character in plain if character in _OPERATORS]
    if operators:
        raise TargetInvalid(f"{why}: it has {operators[0]!r} in it; {how}")
    if _ASSIGNMENT.match(words[0]):
        raise TargetInvalid(f"{why}: it sets a variable; write env {words[0]} ..., or {how}")
    if "$" in plain or "`" in plain:
        raise TargetInvalid(f"{why}: it has a variable in it; write ${{env:NAME}}, or {how}")
    return words


def _outside_quotes(text: str) -> str:
    """The characters that a shell would look at: those of no quotes (and `$` in double ones)."""
    kept: list[str] = []
    quote = ""
    escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in "$`":
                kept.append(character)
        elif character in "'\"":
            quote = character
        else:
            kept.append(character)
    return "".join(kept)


def _program(name: str, path: str, cwd: Path) -> str:
    if os.sep in name:
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            raise TargetInvalid(f"the command {name!r}: no home directory is known") from None
        found = shutil.which(str(cwd / file))
    else:
        found = shutil.which(name, path=path)
        if found is None and name in {"python", "python3"}:
            return sys.executable
    if found is None:
        where = f"below {cwd}" if os.sep in name else "on PATH"
        raise TargetInvalid(f"the command {name!r} is not {where}")
    return found

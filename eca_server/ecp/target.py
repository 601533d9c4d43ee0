"""The target of a manifest: a command, split into its arguments, or a URL.

No shell runs unless `shell` is set, so that the started process is the agent itself. `${env:NAME}`
is replaced by the variable's value, which stays within one argument.
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

from eca_server.ecp.manifest.model import Manifest, ManifestInvalid, Unusable

_VARIABLE: Final = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OPERATORS: Final = "();<>|&\n"
_PLACEHOLDER: Final = re.compile("\ue000([0-9]+)\ue001")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_INTERPRETER: Final = re.compile(r"(python|node)[0-9.]*")
_NO_SCRIPT: Final = {"python": ("-c", "-m"), "node": ("-e", "--eval", "-p", "--print")}
_WITH_VALUE: Final = {"python": ("-W", "-X"), "node": ("-r", "--require", "--import")}


@attrs.frozen(kw_only=True)
class Target:
    """An agent to evaluate: a command with its working directory, or a URL."""

    command: tuple[str, ...] = ()
    url: str | None = None
    cwd: str | None = None

    @property
    def text(self) -> str:
        """The target as text, with the values of variables: mask it before printing."""
        return self.url or shlex.join(self.command)


def expand_variables(text: str, environment: Mapping[str, str]) -> str:
    """Return `text` with each `${env:NAME}` replaced.

    Raises:
        Unusable: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environment:
            raise Unusable(f"{text!r}: the variable {name} is not set")
        return environment[name]

    return _VARIABLE.sub(value, text)


def resolve_target(
    text: str, *, environment: Mapping[str, str], cwd: Path, shell: bool = False
) -> Target:
    """Resolve a target to its command or URL.

    Args:
        text: a manifest's `target`.
        environment: for `${env:NAME}` and PATH.
        cwd: the command's working directory.
        shell: pass a command to `sh`.

    Raises:
        Unusable: `text` is neither an executable command nor a valid URL.
    """
    scheme = text.strip().partition("://")[0].lower()
    if scheme in {"http", "https"}:
        return Target(url=_url(expand_variables(text.strip(), environment)))
    if shell:
        return Target(command=("/bin/sh", "-c", expand_variables(text, environment)), cwd=str(cwd))
    values: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        values.append(expand_variables(match[0], environment))
        return f"\ue000{len(values) - 1}\ue001"

    templates = _words(_VARIABLE.sub(placeholder, text.strip()), text)
    words = [_PLACEHOLDER.sub(lambda match: values[int(match[1])], word) for word in templates]
    program = _program(words[0], environment.get("PATH", os.defpath), cwd)
    return Target(command=(program, *words[1:]), cwd=str(cwd))


def find_target(manifest: Manifest, cwd: Path | None, *, shell: bool, finds_script: bool) -> Target:
    """Resolve the target of a manifest, for the environment of this process.

    Without `cwd` a command runs in the manifest's folder. With `finds_script` the script of an
    interpreter's command must exist.

    Raises:
        ManifestInvalid: the target cannot be used.
    """
    directory = cwd or manifest.path.resolve().parent
    try:
        target = resolve_target(manifest.target, environment=os.environ, cwd=directory, shell=shell)
        if finds_script:
            _check_script(target)
    except Unusable as fault:
        problem = manifest.problem("target", manifest.target_position, str(fault))
        raise ManifestInvalid([problem]) from fault
    return target


def _check_script(target: Target) -> None:
    """Check that the script of an interpreter's command exists."""
    match = _INTERPRETER.fullmatch(Path(target.command[0]).name) if target.command else None
    if match is None:
        return
    words = iter(target.command[1:])
    for word in words:
        if word in _NO_SCRIPT[match[1]]:
            return
        if not word.startswith("-"):
            if not (Path(target.cwd or ".") / word).exists():
                where = "" if Path(word).is_absolute() else f" in {target.cwd}"
                raise Unusable(f"the script {word!r} does not exist{where}")
            return
        if word in _WITH_VALUE[match[1]]:
            next(words, None)


def _url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_port = parts.port != 0
    except ValueError as fault:
        raise Unusable(f"expected a URL, got {url!r}: {str(fault).lower()}") from None
    if not is_port:
        raise Unusable(f"expected a URL with a port from 1 to 65535, got {url!r}")
    if not url.isprintable() or " " in url or not parts.hostname:
        raise Unusable(f"expected a URL with a host, got {url!r}")
    if parts.username is not None or parts.password is not None:
        raise Unusable("the URL contains a user or a password, which is not supported")
    return url


def _words(text: str, original: str) -> list[str]:
    why = f"{original!r} is not a simple command"
    fix = "write sh -c '...', or pass --shell"
    lexer = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as fault:
        raise Unusable(f"{why}: {str(fault).lower()}") from None
    if not words:
        raise Unusable(f"{why}: it is empty")
    plain = _outside_quotes(text)
    operators = [character for character in plain if character in _OPERATORS]
    if operators:
        raise Unusable(f"{why}: it contains {operators[0]!r}; {fix}")
    if _ASSIGNMENT.match(words[0]):
        raise Unusable(f"{why}: it sets a variable; write env {words[0]} ..., or {fix}")
    if "$" in plain or "`" in plain:
        raise Unusable(f"{why}: it contains a variable; write ${{env:NAME}}, or {fix}")
    return words


def _outside_quotes(text: str) -> str:
    """Return the characters that a shell interprets: unquoted ones, and `$` in double quotes."""
    characters: list[str] = []
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
                characters.append(character)
        elif character in "'\"":
            quote = character
        else:
            characters.append(character)
    return "".join(characters)


def _program(name: str, path: str, cwd: Path) -> str:
    if os.sep in name:
        try:
            file = Path(name).expanduser()
        except RuntimeError:
            raise Unusable(f"the command {name!r}: the home directory is unknown") from None
        program = shutil.which(str(cwd / file))
    else:
        program = shutil.which(name, path=path)
        if program is None and name in {"python", "python3"}:
            return sys.executable
    if program is None:
        where = f"below {cwd}" if os.sep in name else "on PATH"
        raise Unusable(f"the command {name!r} is not {where}")
    return program

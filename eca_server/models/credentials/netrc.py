"""Keys in a netrc file, as used by curl and Git.

Only an entry named by the configuration is used, never `default`. A problem is reported by its line
number, without the content of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from eca_protocol.errors import ECAError
from eca_server.config.directories import home_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.secret import Secret, parse_key

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)', re.DOTALL)
_WITH_VALUE = frozenset({"machine", "login", "password", "account", "port"})
_BEGINNINGS = frozenset({"machine", "default"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class NetrcError(ECAError):
    """The file, or its entry, cannot be used.

    Attributes:
        line: the line of the problem, counted from 1; None: no single line.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def netrc_file(environ: Mapping[str, str]) -> Path:
    """Return the user's netrc file: `$NETRC`, else `.netrc` in the home directory."""
    path = environ.get("NETRC", "")
    return Path(path) if path else home_directory(environ) / ".netrc"


def password_in(file: Path, entry: str) -> Secret:
    """Return the password of an entry.

    `entry`: `[LOGIN@]MACHINE[:PORT]`; the first matching entry counts.

    Raises:
        NetrcError: there is no such entry, or its password cannot be sent.
    """
    login, _, address = entry.rpartition("@")
    machine, _, port = address.partition(":")
    expected = {"machine": machine.lower(), "login": login, "port": port}
    try:
        text = read_text(file)
    except Unreadable as error:
        raise NetrcError(error.message, line=error.line) from None
    for line, fields in _entries(text):
        names = {**fields, "machine": fields.get("machine", "").lower()}
        if "password" in fields and all(names.get(k) == v for k, v in expected.items() if v):
            try:
                key = parse_key(fields["password"])
            except ValueError as error:
                raise NetrcError(str(error), line=line) from None
            if key is not None:
                return key
    raise NetrcError("expected such an entry with a password, found none")


def _entries(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each entry with its first line; the `default` entry has no machine."""
    entry: dict[str, str] | None = None
    first_line = 0
    tokens = _tokens(text)
    for line, word in tokens:
        if word in _BEGINNINGS:
            if entry is not None:
                yield first_line, entry
            entry, first_line = {}, line
            if word not in _WITH_VALUE:
                continue
        if word not in _WITH_VALUE or entry is None:
            raise NetrcError("expected machine, default, or a field of an entry", line=line)
        value = next(tokens, None)
        if value is None:
            raise NetrcError(f"expected a value after {word}", line=line)
        entry[word] = value[1]
    if entry is not None:
        yield first_line, entry


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yield each word with its line; skip comments and macros."""
    in_macro = False
    for number, line in enumerate(text.splitlines(), start=1):
        if in_macro:
            in_macro = bool(line.strip())
            continue
        for match in _TOKEN.finditer(line):
            quoted, plain = match.groups()
            if plain is not None and plain.startswith("#") and _is_comment(line, match.start()):
                break
            if plain == "macdef":
                in_macro = True
                break
            yield number, plain if quoted is None else _unescaped(quoted)


def _is_comment(line: str, start: int) -> bool:
    """Return whether a `#` starts a comment: at a line's start, or after complete pairs."""
    return len(line[:start].split()) % 2 == 0


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted)

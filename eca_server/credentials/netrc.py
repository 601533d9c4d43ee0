"""Keys in a netrc file, the one that curl and Git read, too.

The rule it keeps: only an entry that the configuration names is taken, never the one for any host;
what is wrong with the file is told by its line, without a word of what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from eca_protocol.errors import ECAError
from eca_server.config.directories import home_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.secret import Secret, parse_key

__all__ = ["NetrcFault", "netrc_file", "password_in"]

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)', re.DOTALL)
_WITH_VALUE = frozenset({"machine", "login", "password", "account", "port"})
_BEGINNINGS = frozenset({"machine", "default"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class NetrcFault(ECAError):
    """The file, or its entry, cannot be used.

    Attributes:
        line: where, counted from 1, if it is one place.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def netrc_file(environ: Mapping[str, str]) -> Path:
    """The user's netrc file: where `NETRC` leads, else in the home folder."""
    named = environ.get("NETRC", "")
    return Path(named) if named else home_directory(environ) / ".netrc"


def password_in(file: Path, entry: str) -> Secret:
    """The password of an entry.

    Args:
        file: the netrc file.
        entry: `[LOGIN@]MACHINE[:PORT]`; the first entry counts that has what is named here.

    Raises:
        NetrcFault: there is none, or none that can be sent.
    """
    login, _, place = entry.rpartition("@")
    machine, _, port = place.partition(":")
    wanted = {"machine": machine.lower(), "login": login, "port": port}
    try:
        text = read_text(file)
    except Unreadable as fault:
        raise NetrcFault(fault.message, line=fault.line) from None
    for line, found in _entries(text):
        names = {**found, "machine": found.get("machine", "").lower()}
        if "password" in found and all(names.get(k) == v for k, v in wanted.items() if v):
            try:
                key = parse_key(found["password"])
            except ValueError as fault:
                raise NetrcFault(str(fault), line=line) from None
            if key is not None:
                return key
    raise NetrcFault("expected such an entry with a password, there is none")


def _entries(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Each entry with its first line; that for any host has no machine."""
    entry: dict[str, str] | None = None
    began = 0
    tokens = _tokens(text)
    for line, word in tokens:
        if word in _BEGINNINGS:
            if entry is not None:
                yield began, entry
            entry, began = {}, line
            if word not in _WITH_VALUE:
                continue
        if word not in _WITH_VALUE or entry is None:
            raise NetrcFault("expected machine, default, or a word of an entry", line=line)
        value = next(tokens, None)
        if value is None:
            raise NetrcFault(f"expected a value behind {word}", line=line)
        entry[word] = value[1]
    if entry is not None:
        yield began, entry


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Each word with its line; comments and macros are passed over."""
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
    """Whether a `#` begins one: at a line's beginning, or behind a whole pair of words."""
    return len(line[:start].split()) % 2 == 0


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), quoted)

"""Problems of the configuration, as values: a broken source never stops the server.

Invariant: a message names what was expected and the kind of the value, never the value itself,
which may be a key. Exceptions are a number where one is expected, and a plain word where one of a
few words is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs

from eca_server.printable import printable_line

_LONGEST = 8_000

SourceState = Literal["used", "absent", "broken"]
_PLAIN_NAME = re.compile(r"[\w-]+")


@attrs.frozen(kw_only=True)
class Problem:
    """One error or warning about one source; the rest of the source applies.

    Attributes:
        source: `initializationOptions`, `ECA_CONFIG`, `environment`, or the file's path.
        line: counted from 1; None where the source has no text of its own.
        column: counted from 1, in characters.
        key: the dotted key, or the variable's name; None for the whole source.
        message: what was expected and what came.
        level: after an error, the key is ignored.
    """

    source: str
    line: int | None = None
    column: int | None = None
    key: str | None = None
    message: str
    level: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        """Return `FILE:LINE:COLUMN: KEY: MESSAGE`, without the unknown parts."""
        place = [self.source, self.line, self.column]
        where = ":".join(str(part) for part in place if part is not None)
        text = ": ".join(part for part in (where, self.key, self.message) if part)
        return printable_line(text, longest=_LONGEST)  # names may come from an untrusted folder


@attrs.frozen(kw_only=True)
class Source:
    """One source of the configuration.

    Attributes:
        name: as in `Problem.source`.
        state: `used`, `absent`, or `broken` (no key could be read).
    """

    name: str
    state: SourceState


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as users write it: `providers."my.corp".models.m.extraPayload.stop[0]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = step if _PLAIN_NAME.fullmatch(step) else f'"{step}"'
            text += f".{name}" if text else name
    return text


def kind_of(value: object) -> str:
    """Return the JSON kind of a value in words, which is all that a message may show of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "a list"

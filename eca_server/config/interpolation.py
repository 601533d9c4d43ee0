"""`${env:NAME}`, `${env:NAME:default}`, `${file:PATH}` and `${cmd:COMMAND}` in configured texts.

What this server writes itself may hold `${kept:NAME}`, too: a secret that is kept with the logins.
What is put in is not searched again, so a variable's content is never taken as a reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import attrs

from eca_server.config.files import Unreadable, expand_home, read_text

__all__ = ["AsWritten", "Resolved", "Surroundings", "Unresolved", "has_reference", "references_in"]

# The kinds upstream knows; any other `${...}` is the user's own text.
_REFERENCE = re.compile(
    r"\$\{(env|file|kept|cmd|netrc|classpath|plugin):"
    r"([^{}]*|(?<=\{cmd:)(?:[^{}]|\{[^{}]*\})*)\}"  # a command may hold braces itself
)
_REFERENCE_OR_NAME = re.compile(_REFERENCE.pattern + r"|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_OPEN = frozenset({"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Variables that are no secrets of anybody, and stand in half of all texts."""


def has_reference(value: object) -> bool:
    """Return whether a text anywhere in a JSON value holds a `${..}` reference."""
    if isinstance(value, str):
        return _REFERENCE.search(value) is not None
    if isinstance(value, Mapping):
        return any(has_reference(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(has_reference(each) for each in value)


def references_in(text: str, *, shell_like: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each reference in a text, in order: `("env", "TOKEN")`.

    Args:
        text: as configured.
        shell_like: count `$NAME` and `${NAME}`, too, but for well-known variables as `$HOME`.
    """
    for found in (_REFERENCE_OR_NAME if shell_like else _REFERENCE).finditer(text):
        kind, what, *names = found.groups()
        if kind is not None:
            yield kind, what.partition(":")[0] if kind == "env" else what
        for name in names:
            if name is not None and name not in _OPEN:
                yield "env", name


class Resolved(str):
    """A text with its references replaced, which knows what must not be shown of it.

    Attributes:
        written: the text as it was configured.
        stands_for: what its references were replaced with.
    """

    __slots__ = ("stands_for", "written")

    written: str
    stands_for: tuple[str, ...]

    def __new__(cls, text: str, *, written: str = "", stands_for: Iterable[str] = ()) -> Self:
        """The text that came out, beside what went in."""
        self = super().__new__(cls, text)
        self.written = written
        self.stands_for = tuple(stands_for)
        return self


class Unresolved(Exception):
    """A reference to something that is not there; the message names it, never its content."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Surroundings:
    """What the references of one source are resolved against.

    Attributes:
        environ: the environment variables.
        home: what a leading `~/` stands for.
        folder: where the source's file lies; None for a source that is no file.
        on_file: told of each file before it is read.
        on_value: told of what a reference of the user's is replaced with, and may be a secret.
        commands: returns the output of a command; None: no command is run for this source.
        kept: what a name stands for that is kept with the logins; None: this source has none.
    """

    environ: Mapping[str, str]
    home: Path
    folder: Path | None
    on_file: Callable[[Path], None] = lambda _: None
    on_value: Callable[[str], object] = lambda _: None
    kept: Callable[[str], str | None] | None = None
    commands: Callable[[str], str] | None = None

    def path(self, text: str) -> Path:
        """The file that `text` names: absolute, `~/..`, or relative to the source's folder.

        Raises:
            Unresolved: it is relative, and the source has no folder.
        """
        path = expand_home(text, self.home)
        if path.is_absolute():
            return path
        if self.folder is None:
            raise Unresolved(f"expected an absolute path or ~/.., got the file {text!r}")
        return self.folder / path

    def named(self, text: str) -> str:
        """Return the path that a text names, for the code that opens it. Raises as `path`."""
        return str(self.path(text))

    def read(self, path: Path) -> str:
        """Return the text of a file that a reference names.

        Raises:
            Unreadable: it cannot be read.
        """
        self.on_file(path)
        return read_text(path)

    def resolve(self, text: str, *, shell_like: bool = False) -> str:
        """`text` with every reference replaced.

        Args:
            text: as configured.
            shell_like: replace `$NAME` and `${NAME}` as well, where such a variable is set.

        Raises:
            Unresolved: a variable is not set and has no default, a file cannot be read, or the
                kind of reference is one we do not have.
        """
        if shell_like:
            return _REFERENCE_OR_NAME.sub(self._replace, text) if "$" in text else text
        return _REFERENCE.sub(self._replace, text) if "${" in text else text

    def _replace(self, reference: re.Match[str]) -> str:
        kind, what, *names = reference.groups()
        for name in names:
            if name is not None:
                return (
                    self._noted(self.environ[name], name) if name in self.environ else reference[0]
                )
        if kind == "env":
            return self._noted(self._variable(what), what.partition(":")[0])
        if kind == "file":
            return self._noted(self._file(what))
        if kind == "kept" and self.kept is not None:
            return self._kept(self.kept(what))
        if kind == "cmd" and self.commands is not None:
            return self._noted(self.commands(what))
        raise Unresolved(f"expected ${{env:..}}, ${{file:..}} or ${{cmd:..}}, got ${{{kind}:..}}")

    def _noted(self, value: str, variable: str = "") -> str:
        if variable not in _OPEN:
            self.on_value(value)
        return value

    def _variable(self, what: str) -> str:
        name, colon, default = what.partition(":")
        value = self.environ.get(name)
        if value is None and not colon:
            raise Unresolved(f"expected the environment variable {name}, it is not set")
        return value or default

    def _kept(self, found: str | None) -> str:
        if found is None:
            raise Unresolved("expected a secret that is kept with the logins, there is none")
        return found

    def _file(self, what: str) -> str:
        path = self.path(what)
        try:
            text = self.read(path)
        except Unreadable as fault:
            raise Unresolved(f"file {path}: {fault.message}") from None
        return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


class AsWritten(Surroundings):
    """Surroundings that resolve nothing: a source is read for its mistakes alone."""

    def resolve(self, text: str, *, shell_like: bool = False) -> str:
        """Return the text as it is."""
        return text

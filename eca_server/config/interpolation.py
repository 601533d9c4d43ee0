"""`${env:NAME}`, `${env:NAME:default}`, `${file:PATH}` and `${cmd:COMMAND}` in configured texts.

The settings that this server writes may also hold `${kept:NAME}`: a secret stored with the logins.
Inserted text is not searched again, so a variable's content is never taken as a reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Self

import attrs

from eca_server.config.files import Unreadable, expand_home, read_text

# The kinds that the upstream server knows; any other `${...}` is plain text.
_REFERENCE = re.compile(
    r"\$\{(env|file|kept|cmd|netrc|classpath|plugin):"
    r"([^{}]*|(?<=\{cmd:)(?:[^{}]|\{[^{}]*\})*)\}"  # a command may hold braces itself
)
_REFERENCE_OR_NAME = re.compile(_REFERENCE.pattern + r"|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)")
_HINTS = {
    "classpath": ", a text inside upstream's program: remove the key, or name a file of yours",
    "netrc": ": for a provider's key, name the entry of the file in `keyRc` instead of `key`",
}
_PUBLIC = frozenset({"HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER"})
"""Well-known variables, whose values are never secret."""


def has_reference(value: object) -> bool:
    """Return whether any string of a JSON value holds a `${..}` reference."""
    if isinstance(value, str):
        return _REFERENCE.search(value) is not None
    if isinstance(value, Mapping):
        return any(has_reference(each) for pair in value.items() for each in pair)
    return isinstance(value, list | tuple) and any(has_reference(each) for each in value)


def references_in(text: str, *, shell_like: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of each reference in a text, in order: `("env", "TOKEN")`.

    `shell_like`: include `$NAME` and `${NAME}`, except well-known variables like `$HOME`.
    """
    for match in (_REFERENCE_OR_NAME if shell_like else _REFERENCE).finditer(text):
        kind, target, *names = match.groups()
        if kind is not None:
            yield kind, target.partition(":")[0] if kind == "env" else target
        for name in names:
            if name is not None and name not in _PUBLIC:
                yield "env", name


class ResolvedText(str):
    """A text with its references replaced, and the secrets this put into it.

    Attributes:
        replacements: the values that replaced its references.
    """

    __slots__ = ("replacements", "written")

    written: str
    replacements: tuple[str, ...]

    def __new__(cls, text: str, *, written: str = "", replacements: Iterable[str] = ()) -> Self:
        """Create the resolved text."""
        self = super().__new__(cls, text)
        self.written = written
        self.replacements = tuple(replacements)
        return self


class UnresolvedReference(Exception):
    """A reference that cannot be resolved; the message names it, never its content."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReferenceResolver:
    """The resolver of the references in one source.

    Attributes:
        home: the directory that a leading `~/` stands for.
        directory: the directory of the source's file; None for a source that is not a file.
        on_file: called with each file before it is read.
        on_value: called with each replacement, which may be a secret.
        commands: returns the output of a command; None: this source runs no commands.
        stored_secret: returns the secret stored with the logins under a name, or None; None: this
            source may not read stored secrets.
    """

    environ: Mapping[str, str]
    home: Path
    directory: Path | None
    on_file: Callable[[Path], None] = lambda _: None
    on_value: Callable[[str], object] = lambda _: None
    stored_secret: Callable[[str], str | None] | None = None
    commands: Callable[[str], str] | None = None

    def path(self, text: str, written: str) -> Path:
        """Return the path in `text`: absolute, `~/..`, or relative to the source's directory.

        `written`: the text in the source, its references unresolved, for the error.

        Raises:
            UnresolvedReference: the path is relative, and the source has no directory.
        """
        path = expand_home(text, self.home)
        if path.is_absolute():
            return path
        if self.directory is None:
            raise UnresolvedReference(f"expected an absolute path or ~/.., got {written!r}")
        return self.directory / path

    def named(self, text: str, written: str) -> str:
        """Return the path that a text names, for the code that opens it. Raises as `path`."""
        return str(self.path(text, written))

    def named_script(self, text: str, written: str) -> str:
        """Return the path of a hook's script. Raises as `path`."""
        return self.named(text, written)

    def named_below_root(self, text: str) -> str:
        """Return the path that a text names, where a relative one begins at a workspace root."""
        return text

    def read(self, path: Path) -> str:
        """Return the text of a file that a reference names.

        Raises:
            Unreadable: the file cannot be read.
        """
        self.on_file(path)
        return read_text(path)

    def resolve(self, text: str, *, shell_like: bool = False) -> str:
        """Return `text` with every reference replaced.

        `shell_like`: also replace `$NAME` and `${NAME}`, where such a variable is set.

        Raises:
            UnresolvedReference: a variable is not set and has no default, a file cannot be read, or
                this kind of reference is not supported.
        """
        if shell_like:
            return _REFERENCE_OR_NAME.sub(self._replace, text) if "$" in text else text
        return _REFERENCE.sub(self._replace, text) if "${" in text else text

    def _replace(self, reference: re.Match[str]) -> str:
        kind, target, *names = reference.groups()
        for name in names:
            if name is not None:
                return (
                    self._reported(self.environ[name], name)
                    if name in self.environ
                    else reference[0]
                )
        if kind == "env":
            return self._reported(self._variable(target), target.partition(":")[0])
        if kind == "file":
            return self._reported(self._file(target))
        if kind == "kept" and self.stored_secret is not None:
            return self._checked_secret(self.stored_secret(target))
        if kind == "cmd" and self.commands is not None:
            return self._reported(self.commands(target))
        hint = _HINTS.get(kind, "")
        raise UnresolvedReference(
            f"expected ${{env:..}}, ${{file:..}} or ${{cmd:..}}, got ${{{kind}:..}}{hint}"
        )

    def _reported(self, value: str, variable: str = "") -> str:
        if variable not in _PUBLIC:
            self.on_value(value)
        return value

    def _variable(self, target: str) -> str:
        name, colon, default = target.partition(":")
        value = self.environ.get(name)
        if value is None and not colon:
            raise UnresolvedReference(f"the environment variable {name} is not set")
        return value or default

    def _checked_secret(self, secret: str | None) -> str:
        if secret is None:
            raise UnresolvedReference("expected a secret stored with the logins, found none")
        return secret

    def _file(self, target: str) -> str:
        path = self.path(target, target)
        try:
            text = self.read(path)
        except Unreadable as error:
            raise UnresolvedReference(f"file {path}: {error.message}") from None
        return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


class NullResolver(ReferenceResolver):
    """A resolver that leaves references as they are: a source is only checked for mistakes."""

    def resolve(self, text: str, *, shell_like: bool = False) -> str:
        """Return the text unchanged."""
        return text

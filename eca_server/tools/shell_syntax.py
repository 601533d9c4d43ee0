"""A command's text, cut into words and operators as the shell would cut it.

It runs nothing and expands little: what only the shell can know stands in a word as `UNKNOWN`.
The rule it keeps: no part of the text is lost. A text it cannot cut is `Unreadable`, never
guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import attrs

__all__ = ["UNKNOWN", "Operator", "Token", "Unreadable", "Word", "cut"]

UNKNOWN = "\0"  # no command's text can hold a NUL

_LONGEST = 128 * 1024  # what Linux takes as one argument, and so as a command
_ACTIVE = frozenset("*?[{}~")
_OPERATOR = re.compile(r"&>>|<<<|<<-|;;&|&&|\|\||\|&|&>|>>|>&|>\||<<|<&|<>|;;|;&|[|&;()<>\n]")
_PLAIN = re.compile(r"[^ \t\n|&;()<>\\'\"$`#*?\[{}~]+")
_PLAIN_IN_QUOTES = re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*|\d))")
_PLAIN_NAME = re.compile(r"(?<![\w${])\w+")
_ANSI_STRING = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPED_IN_QUOTES = frozenset('$`"\\')


class Unreadable(Exception):
    """A text that is no command, or one we cannot follow; the message says why."""


@attrs.frozen
class Word:
    """A word with its quotes removed.

    Attributes:
        text: what it stands for; `UNKNOWN` where only the shell can know.
        active: the characters of it that mean something to the shell, as none did quote them:
            of `$` and the backtick, of globs, braces and the tilde.
    """

    text: str
    active: frozenset[str] = frozenset()


@attrs.frozen
class Operator:
    """`;`, `&&`, `|`, `>`, a line break, `$(`, a backtick; `#` before the words of a comment."""

    text: str


Token: TypeAlias = Word | Operator


def cut(command: str, variables: Mapping[str, str] | None = None) -> list[Token]:
    """The words and operators of a command, in order.

    Args:
        command: for `sh` or `bash`.
        variables: the environment it will see; None: no variable's value is known. One that is
            not in it is empty, unless its name stands in the command: then it may be anything.

    Raises:
        Unreadable: a quote is not closed, the text is too long, or it holds a NUL.
    """
    if len(command) > _LONGEST:
        raise Unreadable(f"it is longer than {_LONGEST} characters")
    if UNKNOWN in command:
        raise Unreadable("it holds a NUL")
    cutter = _Cutter(command, variables)
    while cutter.at < len(command):
        cutter.step()
    cutter.end_word()
    return cutter.tokens


class _Cutter:
    def __init__(self, text: str, variables: Mapping[str, str] | None) -> None:
        self.text = text
        self.variables = variables
        self.at = 0
        self.tokens: list[Token] = []
        self.parts: list[str] = []
        self.active: set[str] = set()
        self.is_open = False  # a word has begun; it may be empty, as `''` is
        self.is_number = True  # so far nothing but unquoted digits

    def step(self) -> None:
        """Take what stands here."""
        char = self.text[self.at]
        if char in " \t":
            self.end_word()
            self.at += 1
        elif operator := _OPERATOR.match(self.text, self.at):
            self._take_operator(operator[0])
        elif char == "#" and not self.is_open:
            self._take_comment()
        elif char == "\\":
            self._take_escape()
        elif char == "'":
            end = self._find("'", self.at + 1)
            self._add(self.text[self.at + 1 : end], quoted=True)
            self.at = end + 1
        elif char == '"':
            self._take_quotes()
        elif char == "$":
            self._take_dollar(quoted=False)
        elif char == "`":
            self.active.add("`")
            self.end_word()
            self._operator("`", 1)
        elif char in _ACTIVE or char == "#":
            self.active |= _ACTIVE & {char}
            self._add(char)
            self.at += 1
        else:
            plain = _PLAIN.match(self.text, self.at)
            assert plain is not None
            self._add(plain[0])
            self.at = plain.end()

    def end_word(self) -> None:
        """The word that is open, if one is, ends here."""
        if self.is_open:
            self.tokens.append(Word("".join(self.parts), frozenset(self.active)))
        self.parts, self.active = [], set()
        self.is_open, self.is_number = False, True

    def _add(self, text: str, *, quoted: bool = False) -> None:
        self.is_open = True
        self.is_number = self.is_number and not quoted and text.isascii() and text.isdecimal()
        self.parts.append(text)

    def _operator(self, text: str, length: int) -> None:
        self.tokens.append(Operator(text))
        self.at += length

    def _find(self, quote: str, start: int) -> int:
        end = self.text.find(quote, start)
        if end < 0:
            raise Unreadable(f"a quote ({quote}) is not closed")
        return end

    def _take_operator(self, operator: str) -> None:
        if self.is_open and self.is_number and operator[0] in "<>":
            self.is_open = False  # the number of a file descriptor, no word
        self.end_word()
        self._operator(operator, len(operator))

    def _take_comment(self) -> None:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        self.tokens.append(Operator("#"))
        self.tokens += [Word(word) for word in self.text[self.at + 1 : end].split()]
        self.at = end

    def _take_escape(self) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped != "\n":  # a backslash before a line break joins the lines
            self._add(escaped or "\\", quoted=True)
        self.at += 2

    def _take_quotes(self) -> None:
        self._add("", quoted=True)
        self.at += 1
        while (char := self.text[self.at : self.at + 1]) != '"':
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following != "\n":
                    keep = following if following in _ESCAPED_IN_QUOTES else char + following
                    self._add(keep, quoted=True)
                self.at += 2
            elif char == "$":
                self._take_dollar(quoted=True)
            elif char == "`":
                self.active.add("`")
                self._add(UNKNOWN + char, quoted=True)
                self.at += 1
            elif plain := _PLAIN_IN_QUOTES.match(self.text, self.at):
                self._add(plain[0], quoted=True)
                self.at = plain.end()
            else:
                raise Unreadable('a quote (") is not closed')
        self.at += 1

    def _take_dollar(self, *, quoted: bool) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following in {"'", '"'} and not quoted:
            self._take_dollar_quote()
        elif variable := _NAME.match(self.text, self.at):
            self._expand(self._value(variable[1] or variable[2]))
            self.at = variable.end()
        elif following == "(" and not quoted:
            self._expand(UNKNOWN)
            self.end_word()
            self._operator("$(", 2)
        elif following and following in "({":
            self._expand(UNKNOWN)  # what is inside is kept as text: it may name a path
            self.at += 1
        elif following and following in "@*#?-$!":
            self._expand(UNKNOWN)
            self.at += 2
        else:
            self._add("$", quoted=True)
            self.at += 1

    def _take_dollar_quote(self) -> None:
        """`$'..'` has escapes of its own; `$".."` is translated, and else an ordinary string."""
        string = _ANSI_STRING.match(self.text, self.at)
        if string is None:
            self.active.add("$")
            self.is_open = True
            self.at += 1
        else:
            self._expand(UNKNOWN if "\\" in string[1] else string[1])
            self.at = string.end()

    def _expand(self, value: str) -> None:
        self.active.add("$")
        self._add(value, quoted=True)

    def _value(self, name: str) -> str:
        if self.variables is None or name in self.plain_names:
            return UNKNOWN
        return self.variables.get(name, "")

    @cached_property
    def plain_names(self) -> frozenset[str]:
        """What stands in the text without a `$`, and so may be a variable that is set."""
        return frozenset(_PLAIN_NAME.findall(self.text))

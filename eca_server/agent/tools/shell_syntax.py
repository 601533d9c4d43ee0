"""The tokenizer of shell commands: words and operators, as in the shell.

Nothing is run and little is expanded: a value that only the shell knows is `UNKNOWN` in its word.
The rule of this module: no part of the text is lost, and the code inside a word (`$(...)`,
backticks) is tokenized as well. A text that cannot be tokenized is `Unreadable`, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import attrs

UNKNOWN = "\0"  # a command cannot contain a NUL

_LONGEST = 128 * 1024  # the limit of Linux for one argument, and so for a command
_ACTIVE = frozenset("*?[{}~")
_OPERATOR = re.compile(r"&>>|<<<|<<-|;;&|&&|\|\||\|&|&>|>>|>&|>\||<<|<&|<>|;;|;&|[|&;()<>\n]")
_PLAIN = re.compile(r"[^ \t\n|&;()<>\\'\"$`#*?\[{}~]+")
_PLAIN_IN_QUOTES = re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_ANSI_STRING = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_PARAMETER = re.compile(r"""\$(\{[!#]?[\w@*?$!-]+(?:\[[\w@*]+\])?[^'"`$\\{}()<>]*\})""")
_ARITHMETIC = re.compile(  # in an atomic group: Python before 3.11.5 gets `(...)*+` wrong here
    r"\$\(\((?>(?:[\w\s+*/%<>=!&|?:,^~-]|\$\w+|\$\{\w+\}|\([\w\s+*/%<>=!&|?:,^~$-]*\))*)\)\)"
)
_PLAIN_JOINT = re.compile(r"[\w./-]", re.ASCII)
_DEEPEST = 20
_BASH_OWN = re.compile(r"BASH|BASH[_A-Z]\w*", re.ASCII)  # set by bash itself
_ESCAPED_IN_QUOTES = frozenset('$`"\\')


class Unreadable(Exception):
    """A text that is not a command, or cannot be parsed; the message says why."""


@attrs.frozen
class Word:
    """A word with its quotes removed.

    Attributes:
        text: its value; `UNKNOWN` for parts that only the shell knows.
        active: its unquoted special characters: `$`, the backtick, globs, braces, the tilde.
        nested: the tokens of each `$(...)` and backtick pair in it.
    """

    text: str
    active: frozenset[str] = frozenset()
    is_quoted: bool = attrs.field(default=False, eq=False)
    at: int = attrs.field(default=0, eq=False)
    nested: tuple[tuple[Token, ...], ...] = ()


@attrs.frozen(kw_only=True)
class Variables:
    """The known values of variables before a command runs.

    Attributes:
        values: by name; a missing variable is empty.
        changing: the names of variables that the command may change.
        is_known: False if every variable may have any value.
        loops: by name, the value in a part of the text, with the start and end of that part.
    """

    values: Mapping[str, str]
    changing: frozenset[str] = frozenset()
    is_known: bool = True
    loops: Mapping[str, tuple[str, int, int]] = attrs.field(factory=dict)

    def value(self, name: str, at: int) -> str:
        """Return the value of a variable at a position of the text, or `UNKNOWN`."""
        if name in self.loops:
            value, start, end = self.loops[name]
            return value if start <= at < end else UNKNOWN
        if not self.is_known or name in self.changing or _BASH_OWN.fullmatch(name):
            return UNKNOWN
        return self.values.get(name, "")


@attrs.frozen
class Operator:
    """`;`, `&&`, `|`, `>`, `(`, a line break; `#` before the words of a comment."""

    text: str
    at: int = attrs.field(default=0, eq=False)


Token: TypeAlias = Word | Operator


def tokenize(command: str, variables: Variables | None = None) -> list[Token]:
    """Return the words and operators of a command, in order.

    Raises:
        Unreadable: a quote is not closed, the text is too long, or it has a NUL.
    """
    if len(command) > _LONGEST:
        raise Unreadable(f"it is longer than {_LONGEST} characters")
    if UNKNOWN in command:
        raise Unreadable("it has a NUL")
    return _tokenize(command, variables or Variables(values={}, is_known=False), 0)


def opens_no_file(redirection: str, target: Word) -> bool:
    """Return True if a redirection leads to another output or to `/dev/null`."""
    if redirection == ">&":
        return target.text in {"1", "2"} and not target.active
    return redirection in {">", ">>", "&>", "&>>", "<"} and target.text == "/dev/null"


def _tokenize(text: str, variables: Variables, depth: int) -> list[Token]:
    tokenizer = _Tokenizer(text, variables, depth=depth)
    while tokenizer.at < len(text):
        tokenizer.step()
    tokenizer.end_word()
    return tokenizer.tokens


class _Tokenizer:
    def __init__(self, text: str, variables: Variables, *, at: int = 0, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise Unreadable("its code is nested too deeply")
        self.text = text
        self.variables = variables
        self.depth = depth
        self.at = at
        self.tokens: list[Token] = []
        self.parts: list[str] = []
        self.active: set[str] = set()
        self.nested: list[tuple[Token, ...]] = []
        self.start = at
        self.is_open = False  # a word has started; it may be empty, as `''` is
        self.is_empty = True  # so far only unquoted expansions to nothing, which make no word
        self.is_quoted = False
        self.is_number = True  # so far only unquoted digits
        self.open_brackets = 0
        self.has_arithmetic = False  # then `<<` may be a shift, not a here document
        self.documents: list[bool] = []  # the here documents on the next lines: `<<-` or not

    def step(self) -> None:
        """Read the next token or part of a word."""
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
            self._take_backticks()
        elif char in _ACTIVE or char == "#":
            self.has_arithmetic |= (
                char == "[" and self.text[self.at + 1 : self.at + 2] not in " \t\n["
            )
            self.active |= _ACTIVE & {char}
            self._add(char)
            self.at += 1
        else:
            plain = _PLAIN.match(self.text, self.at)
            assert plain is not None
            self._add(plain[0])
            self.at = plain.end()

    def end_word(self) -> None:
        if self.is_open and not self.is_empty:
            text, active, nested = "".join(self.parts), frozenset(self.active), tuple(self.nested)
            self.tokens.append(Word(text, active, self.is_quoted, self.start, nested))
        self.parts, self.active, self.nested = [], set(), []
        self.is_open, self.is_number, self.is_quoted = False, True, False
        self.is_empty = True

    def _add(self, text: str, *, quoted: bool = False) -> None:
        if not self.is_open:
            self.is_open, self.start = True, self.at
        self.is_empty = False
        self.is_quoted |= quoted
        self.is_number = self.is_number and not quoted and text.isascii() and text.isdecimal()
        self.parts.append(text)

    def _find(self, quote: str, start: int) -> int:
        end = self.text.find(quote, start)
        if end < 0:
            raise Unreadable(f"a quote ({quote}) is not closed")
        return end

    def _take_operator(self, operator: str) -> None:
        if self.is_open and self.is_number and operator[0] in "<>":
            self.is_open = False  # the number of a file descriptor, not a word
        self.end_word()
        if operator in {"<<", "<<-"}:
            if self.has_arithmetic:
                raise Unreadable("a shift in it may be a here document")
            self.documents.append(operator == "<<-")
        is_after_bracket = self.text[self.at - 1 : self.at] == "("
        self.has_arithmetic |= operator == "(" and self.at > 0 and is_after_bracket
        self.open_brackets += {"(": 1, ")": -1}.get(operator, 0)
        self.tokens.append(Operator(operator, self.at))
        self.at += len(operator)
        if operator == "\n" and self.documents:
            self._take_documents()
        elif operator == ")" and self.text[self.at : self.at + 1] == "#":
            raise Unreadable("what `)#` means in it is not clear")
        elif operator == ")" and self.text[self.at : self.at + 1].strip(" \t\n;|&()<>"):
            self._expand(UNKNOWN)  # `<(...)x`: the word continues behind the bracket

    def _take_documents(self) -> None:
        """Read the here documents that start on the line before."""
        delimiters = [
            self.tokens[index + 1]
            for index, token in enumerate(self.tokens[:-1])
            if isinstance(token, Operator) and token.text in {"<<", "<<-"}
        ][-len(self.documents) :]
        for with_tabs, delimiter in zip(self.documents, delimiters, strict=True):
            if not isinstance(delimiter, Word) or delimiter.active or "\n" in delimiter.text:
                raise Unreadable("the end of a here document is not clear")
            body = self._document(delimiter.text, with_tabs)
            if delimiter.is_quoted:
                self.tokens.append(Word(body, frozenset(), is_quoted=True))
            else:
                inner = _Tokenizer(
                    body, attrs.evolve(self.variables, loops={}), depth=self.depth + 1
                )
                inner.take_document()
                self.tokens += inner.tokens
            self.tokens.append(Operator("\n"))
        self.documents = []

    def _document(self, delimiter: str, with_tabs: bool) -> str:
        start = self.at
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line, before = self.text[self.at : end], self.at
            self.at = end + 1
            if (line.lstrip("\t") if with_tabs else line) == delimiter:
                return self.text[start:before]
        self.at = len(self.text)
        return self.text[start:]

    def take_document(self) -> None:
        """Read the whole text as a here document with expansions."""
        if "\\\n" in self.text:
            raise Unreadable("a here document joins lines")
        self._add("", quoted=True)
        self._take_quoted("")
        self.end_word()

    def _take_comment(self) -> None:
        end = self.text.find("\n", self.at)
        end = len(self.text) if end < 0 else end
        self.tokens.append(Operator("#", self.at))
        self.tokens += [Word(word) for word in self.text[self.at + 1 : end].split()]
        self.at = end

    def _take_escape(self) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        if escaped == "\n":
            self._check_joint()
        else:
            self._add(escaped or "\\", quoted=True)
        self.at += 2

    def _check_joint(self) -> None:
        """Refuse a backslash that may join two lines inside a variable or an operator."""
        before = self.text[self.at - 1 : self.at] if self.at else " "
        is_blank = before in " \t\n"
        if not is_blank and ("$" in self.active or not _PLAIN_JOINT.fullmatch(before)):
            raise Unreadable("it breaks a line inside a word")

    def _take_quotes(self) -> None:
        self._add("", quoted=True)
        self.at += 1
        self._take_quoted('"')
        self.at += 1

    def _take_quoted(self, end: str) -> None:
        """Read a quoted text up to `end`; to the end of the text if `end` is empty."""
        while (char := self.text[self.at : self.at + 1]) != end:
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                if following == "\n":
                    self._check_joint()
                else:
                    text = following if following in _ESCAPED_IN_QUOTES else char + following
                    self._add(text, quoted=True)
                self.at += 2
            elif char == "$":
                self._take_dollar(quoted=True)
            elif char == "`":
                self._take_backticks()
            elif char == '"':
                self._add(char, quoted=True)
                self.at += 1
            elif plain := _PLAIN_IN_QUOTES.match(self.text, self.at):
                self._add(plain[0], quoted=True)
                self.at = plain.end()
            else:
                raise Unreadable('a quote (") is not closed')

    def _take_dollar(self, *, quoted: bool) -> None:
        text, at = self.text, self.at
        following = text[at + 1 : at + 2]
        if following in {"'", '"'} and not quoted:
            self._take_dollar_quote()
        elif variable := _NAME.match(text, at):
            value = self.variables.value(variable[1] or variable[2], at)
            if not quoted:
                self.active |= set("*?[") & set(value)
                if any(char in value for char in "\\ \t\n"):
                    value = UNKNOWN
            was_empty = self.is_empty
            self._expand(value)
            self.is_empty = was_empty and not value and not quoted
            self.at = variable.end()
        elif arithmetic := _ARITHMETIC.match(text, at):
            self._expand(UNKNOWN)
            self._name(arithmetic[0])
            self.at = arithmetic.end()
        elif following == "(":
            self._take_substitution()
        elif parameter := _PARAMETER.match(text, at):
            self._expand(UNKNOWN + parameter[1])
            self.at = parameter.end()
        elif following and following in "{[":
            raise Unreadable("an expansion in it is too involved to follow")
        elif following and (following in "@*#?-$!" or following.isdecimal()):
            self._expand(UNKNOWN)
            self.at += 2
        else:
            self._add("$", quoted=True)
            self.at += 1

    def _name(self, text: str) -> None:
        """Store the names in an arithmetic expression, which may set these variables."""
        names = tuple(Word(name) for name in re.findall(r"\$\d+|\w+", text))
        self.nested.append((Operator("#"), *names))

    def _take_substitution(self) -> None:
        """Read `$(...)`: tokenize its code; its output is unknown."""
        self._expand(UNKNOWN)
        if self.text.startswith("$((", self.at) or self.documents:
            raise Unreadable("an expression in it is too involved to follow")
        inner = _Tokenizer(self.text, self.variables, at=self.at + 2, depth=self.depth + 1)
        while inner.at < len(self.text):
            if self.text[inner.at] == ")" and inner.open_brackets == 0:
                break
            inner.step()
        else:
            raise Unreadable("a bracket is not closed")
        inner.end_word()
        is_clear = not inner.documents and Word("case") not in inner.tokens
        if not is_clear:
            raise Unreadable("the end of a substitution is not clear")
        self.nested.append(tuple(inner.tokens))
        self.at = inner.at + 1

    def _take_backticks(self) -> None:
        """Read a pair of backticks, the same as `$(...)`."""
        self.active.add("`")
        self._add(UNKNOWN, quoted=True)
        code = re.compile(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL).match(self.text, self.at)
        if code is None:
            raise Unreadable("a backtick is not closed")
        if "\\" in code[1]:
            raise Unreadable("escapes between backticks are too involved to follow")
        variables = attrs.evolve(self.variables, loops={})
        self.nested.append(tuple(_tokenize(code[1], variables, self.depth + 1)))
        self.at = code.end()

    def _take_dollar_quote(self) -> None:
        """Read `$'..'`, which has its own escapes, or `$".."`, an ordinary string."""
        string = _ANSI_STRING.match(self.text, self.at)
        if string is None:
            self.active.add("$")
            self._add("", quoted=True)
            self.at += 1
        else:
            is_clear = all(escape in _ANSI for escape in _ANSI_ESCAPE.findall(string[1]))
            self._expand(
                _ANSI_ESCAPE.sub(lambda escape: _ANSI[escape[1]], string[1])
                if is_clear
                else UNKNOWN
            )
            self.at = string.end()

    def _expand(self, value: str) -> None:
        self.active.add("$")
        self._add(value, quoted=True)

"""The simple commands of a shell's text: words, redirections, the program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs

from eca_server.agent.tools.shell_expansion import with_braces
from eca_server.agent.tools.shell_syntax import UNKNOWN, Token, Word

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=", re.ASCII)
_RESERVED = frozenset(
    {"!", "do", "elif", "else", "fi", "if", "then", "time", "until", "while", "{", "}", "done"}
)
_PRINTS = frozenset(
    {":", "[", "case", "echo", "exit", "false", "for", "kill", "return", "sleep", "test", "true"}
    | {"wait"}
)
_DECLARES = frozenset({"declare", "export", "local", "readonly", "typeset"})
RUNS_CODE = frozenset({"BASH_ENV", "PROMPT_COMMAND", "PS4"})
"""Variables whose value a shell runs, or reads as the name of a file of code."""


def assigned_name(word: Word) -> str | None:
    """Return the name of the variable that a word of the form `name=value` sets, or None."""
    match = _ASSIGNMENT.match(word.text)
    return match[1] if match else None


@attrs.define(kw_only=True)
class SimpleCommand:
    """A run of words.

    Attributes:
        words: with braces expanded.
        targets: the indexes of the words that are targets of redirections.
        redirects: the operators of the redirections.
        operator: the operator after the command; empty at the end of the text.
    """

    words: list[Word] = attrs.field(factory=list)
    targets: set[int] = attrs.field(factory=set)
    redirects: list[str] = attrs.field(factory=list)
    operator: str = ""

    @cached_property
    def program(self) -> int:
        """The index of the program's word; the number of words if there is none."""
        for index, word in enumerate(self.words):
            is_prefix = assigned_name(word) or (word.text in _RESERVED and not word.is_quoted)
            if index not in self.targets and not is_prefix:
                return index
        return len(self.words)

    @property
    def name(self) -> str:
        """The text of the program's word, or an empty string."""
        return self.words[self.program].text if self.program < len(self.words) else ""

    def only_prints(self, index: int) -> bool:
        """Return True if an unknown value in a word cannot open a file: `echo $x`, `x=$(y)`."""
        if index in self.targets:
            return False
        name = assigned_name(self.words[index])
        is_plain_value = name is not None and name not in RUNS_CODE
        if index < self.program:
            return is_plain_value
        if index == self.program:
            return False
        return self._prints(is_plain_value=is_plain_value)

    def _prints(self, *, is_plain_value: bool) -> bool:
        texts = [word.text for word in self.words[self.program :]]
        if self.name == "printf":
            return UNKNOWN not in texts[1] and not texts[1].startswith("-")
        if self.name in {"test", "["}:
            return not {"-v", "-R"} & set(texts)
        if self.name in _DECLARES:
            return is_plain_value and not any(text.startswith(("-", "+")) for text in texts)
        return self.name in _PRINTS


def simple_commands(tokens: Sequence[Token]) -> Iterator[SimpleCommand]:
    """Yield the commands in order, with their redirections.

    Raises:
        Unsure: braces in a word cannot be expanded.
    """
    command = SimpleCommand()
    is_target = False
    for token in tokens:
        if isinstance(token, Word):
            for word in with_braces(token):
                if is_target:
                    command.targets.add(len(command.words))
                command.words.append(word)
            is_target = False
        elif token.text[0] in "<>" or token.text.startswith("&>"):
            command.redirects.append(token.text)
            is_target = True
        else:
            command.operator = token.text
            yield command
            command = SimpleCommand()
            is_target = False
    yield command

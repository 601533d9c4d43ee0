"""The check that the patterns of an `allow` cover all commands of a text; pure.

`git status.*` matches the text `git status; rm x`, but its author meant one command. The rule of
this module: a wildcard covers no operator of the shell. Either each command and each target of a
redirection matches a pattern by itself, or one pattern matches the text and names its operators.
The `=` of a variable before a command (`git_x=1 rm x`) is an operator, too. A redirection before a
command (`>git.log rm x`) belongs to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from eca_server.agent.tools.shell_syntax import (
    UNKNOWN,
    Operator,
    Token,
    Unreadable,
    Word,
    opens_no_file,
    tokenize,
)

_MOST_OPERATORS = 50
_BLANKS = " \t\n"  # as in the shell: a file may be named `\r`
_DESCRIPTOR = re.compile(rf"(?:^|(?<=[{_BLANKS}]))\d+\Z", re.ASCII)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*\+?)[=\[]", re.ASCII)  # a subscript may have blanks
_ASSIGNS = re.compile(r"[=\[]")
_STAND_INS = ("x", "%", ",", "\ue000")
"""Characters in place of an operator: a wildcard matches one of them, the operator itself none."""


def covers_every_command(text: str, patterns: Sequence[Callable[[str], bool]]) -> bool:
    """Return True if the patterns, one of which matches a text, cover each command in it."""
    try:
        tokens = tokenize(text)
    except Unreadable:
        return False
    operators, pieces, is_nested = _split(text, tokens)
    if not operators and not is_nested:
        return True
    if len(operators) > _MOST_OPERATORS:
        return False
    if all(any(matches(piece) for matches in patterns) for piece in pieces):
        return True
    return not is_nested and any(
        matches(text) and not any(matches(each) for each in _without(text, operators))
        for matches in patterns
    )


def commands_in(text: str) -> Sequence[str]:
    """Return the commands of a text, and the targets of redirections; none if it is unreadable."""
    try:
        return _split(text, tokenize(text))[1]
    except Unreadable:
        return ()


def _without(text: str, operators: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Yield the text with other characters in place of one operator."""
    for start, end in operators:
        for char in _STAND_INS:
            yield f"{text[:start]}{char * (end - start)}{text[end:]}"


def _split(text: str, tokens: Sequence[Token]) -> tuple[list[tuple[int, int]], list[str], bool]:
    """Return the places of the operators, the texts between them, and whether code is nested.

    Redirections to `/dev/null` and between outputs are left out.
    """
    operators: list[tuple[int, int]] = []
    if any(isinstance(each, Operator) and each.text in {"<<", "<<-"} for each in tokens):
        return operators, [*_nested_pieces(tokens)], True  # tokens of here documents have no place
    pieces: list[str] = []
    is_nested = False
    start = 0
    for token, following in zip(tokens, [*tokens, None][1:], strict=True):
        if isinstance(token, Word):
            for code in token.nested:
                is_nested = True
                pieces += _nested_pieces(code)
            is_first = not text[start : token.at].strip(_BLANKS)
            if is_first and _ASSIGNMENT.match(token.text):
                sign = _ASSIGNS.search(text, token.at)
                assert sign is not None
                operators.append(sign.span())
                end = len(text) if following is None else following.at
                pieces.append(text[start:end] if sign[0] == "=" else UNKNOWN)
                start = end
            continue
        end = token.at + len(token.text)
        before = text[start : token.at]
        if is_redirection := _is_redirection(token):
            before = _DESCRIPTOR.sub("", before)
            if _is_quiet(token, following, text):
                assert isinstance(following, Word)
                pieces.append(before)
                start = following.at + len(following.text)
                continue
        operators.append((token.at, end))
        pieces.append(before)
        start = token.at if is_redirection and not before.strip(_BLANKS) else end
    pieces.append(text[start:])
    trimmed = (piece.strip(_BLANKS) for piece in pieces)
    return operators, [piece for piece in trimmed if piece], is_nested


def _is_redirection(operator: Operator) -> bool:
    return operator.text[0] in "<>&" and ("<" in operator.text or ">" in operator.text)


def _is_quiet(operator: Operator, target: Token | None, text: str) -> bool:
    if not isinstance(target, Word) or not text.startswith(target.text, target.at):
        return False
    return opens_no_file(operator.text, target)


def _nested_pieces(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the commands in the code of a substitution, their quotes removed."""
    words: list[str] = []
    is_comment = False
    for token in (*tokens, Operator("\n")):
        if isinstance(token, Word):
            words.append(token.text.replace(UNKNOWN, "$"))
            for code in token.nested:
                yield from _nested_pieces(code)
        else:
            if words and not is_comment:
                yield from _around_assignments(words)
            words = [token.text] if _is_redirection(token) and not words else []
            is_comment = token.text == "#" or (is_comment and token.text != "\n")


def _around_assignments(words: Sequence[str]) -> Iterator[str]:
    """Yield each variable in front of a command, and the command."""
    for at, word in enumerate(words):
        if not (name := _ASSIGNMENT.match(word)):
            yield " ".join(words[at:])
            return
        yield word if name[0].endswith("=") else UNKNOWN

"""Quotes and blanks change no verdict on a command; nor does a second command.

Every text is split into words or refused; no other exception is raised.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from runner import instrumented, main

with instrumented():
    from eca_server.agent.tools.read_only_commands import why_not_read_only
    from eca_server.agent.tools.shell_syntax import Operator, Token, Unreadable, Word, tokenize
    from eca_server.agent.tools.shell_words import paths_in

FOLDER = "/home/me/project"
VARIABLES = {"HOME": "/home/me", "EMPTY": "", "UP": ".."}
JOINS = frozenset({";", "\n", "&&", "||", "|", "|&", "&"})


def check(data: bytes) -> None:
    command = data.decode("utf-8", "replace")
    try:
        tokens = tokenize(command)
    except Unreadable:
        assert why_not_read_only(command) is not None
        assert paths_in(command, folder=FOLDER, variables=VARIABLES).unknown
        return
    why = why_not_read_only(command)
    refused = why is not None
    named = set(paths_in(command, folder=FOLDER, variables=VARIABLES).paths)
    if is_plain(tokens):
        for other in respelled(tokens):
            assert tokenize(other) == tokens, other
            assert (why_not_read_only(other) is not None) == refused, other
            assert set(paths_in(other, folder=FOLDER, variables=VARIABLES).paths) == named, other
    check_company(command, refused and why != "it is not a command")


def check_company(command: str, refused: bool) -> None:
    """Check that a command is refused together with a second one if it is refused alone."""
    in_company = [[f"{other}\n{command}" for other in ("ls", "rm x", "ls /outside")]]
    if not command.endswith("\\"):
        in_company += [[f"{command}\n{other}" for other in ("ls", "rm x", "ls /outside")]]
    for beside_ls, beside_rm, beside_outside in in_company:
        assert not refused or why_not_read_only(beside_ls) is not None, beside_ls
        assert why_not_read_only(beside_rm) is not None, beside_rm
        named = paths_in(beside_outside, folder=FOLDER, variables=VARIABLES)
        assert "/outside" in named.paths or named.unknown, beside_outside


def is_plain(tokens: Sequence[Token]) -> bool:
    """Return True if quotes around each word do not change its meaning."""
    return bool(tokens) and all(
        not token.active if isinstance(token, Word) else token.text in JOINS for token in tokens
    )


def respelled(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the same command with different quotes and blanks."""
    yield " ".join(map(quoted, tokens))
    yield "\t".join(map(escaped, tokens))
    yield " \\\n ".join(map(doubled, tokens))


def quoted(token: Token) -> str:
    return shlex.quote(token.text) if isinstance(token, Word) else token.text


def escaped(token: Token) -> str:
    if isinstance(token, Operator):
        return token.text
    if "\n" in token.text or not token.text:
        return shlex.quote(token.text)
    return "".join(f"\\{character}" for character in token.text)


def doubled(token: Token) -> str:
    if isinstance(token, Operator):
        return token.text
    text = "".join(f"\\{each}" if each in '$`"\\' else each for each in token.text)
    return f'"{text}"'


if __name__ == "__main__":
    main("shell", check)

"""The check that a command only reads, for the agent `plan`.

The rule of this module: everything that is not listed here is refused. A command passes if it
consists of listed programs with harmless options, joined by `;`, `&&`, `||`, `|` and line breaks,
and writes only to `/dev/null`. A repository whose configuration makes git run programs is detected
by `workspace.repository`, from the directory of the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from eca_server.agent.tools.shell_syntax import Operator, Token, Unreadable, Word, tokenize

_JOINS = frozenset({";", "\n", "&&", "||", "|", "|&"})
_WRITES = frozenset({">", ">>", "&>", "&>>"})
_NO_OPTION_WRITES = frozenset(
    {"basename", "cat", "cd", "cut", "df", "dirname", "du", "echo", "egrep", "fgrep"}
    | {"grep", "head", "ls", "nl", "pwd", "readlink", "realpath", "stat", "tail", "tr"}
    | {"true", "wc"}
)


def why_not_read_only(command: str) -> str | None:
    """Return the reason why a command may do more than read, for the model; None: it only reads."""
    try:
        commands = _commands(tokenize(command))
        for words in commands:
            _check(words)
        _check_together(commands)
    except (Unreadable, _Refused) as error:
        return str(error)
    return None


def only_reads(words: Sequence[Word]) -> bool:
    """Return True if one command, without its redirections, only reads."""
    try:
        _check(words)
    except _Refused:
        return False
    return True


def reading_programs() -> frozenset[str]:
    """Return the names of the programs that only read, at least with some arguments."""
    return _NO_OPTION_WRITES | _CHECKS.keys()


class _Refused(Exception):
    pass


def _commands(tokens: Sequence[Token]) -> list[list[Word]]:
    commands: list[list[Word]] = [[]]
    rest = iter(tokens)
    for token in rest:
        if isinstance(token, Word):
            commands[-1].append(token)
        elif token.text in _JOINS:
            commands.append([])
        else:
            _check_redirection(token, next(rest, None))
    commands = [words for words in commands if words]
    if not commands:
        raise _Refused("it is not a command")
    return commands


def _check_redirection(operator: Operator, target: Token | None) -> None:
    text = target.text if isinstance(target, Word) and not target.active else ""
    if operator.text in _WRITES and text == "/dev/null":
        return
    if operator.text == ">&" and text in {"1", "2"}:
        return
    raise _Refused(f"it uses {operator.text}")


def _check(words: Sequence[Word]) -> None:
    for word in words:
        if word.nested:
            raise _Refused("it uses $(...) or backticks")
        meaning = word.active & set("$`{}")
        if meaning:
            raise _Refused(f"it lets the shell expand {min(meaning)}")
    program, *options = (word.text for word in words)
    if words[0].active or program not in _NO_OPTION_WRITES | _CHECKS.keys():
        raise _Refused(f"{program[:40]} is not known to only read")
    check = _CHECKS.get(program)
    if check is None:
        return
    for word in words[1:]:
        # The name of a file may look like an option.
        if word.active & set("*?[") and word.text[0] in "*?[-":
            raise _Refused(f"a glob may give {program} options")
    if not check(options):
        raise _Refused(f"{program} is not known to only read with these arguments")


def _check_together(commands: Sequence[Sequence[Word]]) -> None:
    programs = {words[0].text for words in commands}
    # The directory may be a hostile repository.
    if {"cd", "git"} <= programs:
        raise _Refused("it uses git behind a cd")


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-"


def _is_short(text: str) -> bool:
    return _is_option(text) and not text.startswith("--")


def _has_none_of(options: Sequence[str], *bad: str) -> bool:
    """Return True if no option is one of `bad`; long options may be abbreviated."""
    names = [text.partition("=")[0] for text in options if text.startswith("--") and text != "--"]
    return not any(name.startswith(each) or each.startswith(name) for name in names for each in bad)


def _reads_find(options: Sequence[str]) -> bool:
    bad = ("-exec", "-ok", "-delete", "-fprint", "-fls")
    return not any(text.startswith(bad) for text in options)


def _reads_rg(options: Sequence[str]) -> bool:
    bad = {"--pre", "--hostname-bin", "--search-zip"}
    return not any(
        text.partition("=")[0] in bad or (_is_short(text) and "z" in text) for text in options
    )


def _reads_sort(options: Sequence[str]) -> bool:
    shorts = "".join(text for text in options if _is_short(text))
    return "o" not in shorts and _has_none_of(options, "--output", "--compress-program")


def _reads_uniq(options: Sequence[str]) -> bool:
    return all(_is_option(text) for text in options)  # its second file is written


def _reads_sed(options: Sequence[str]) -> bool:
    """Return True for `sed -n 10,20p FILE..`."""
    if len(options) < 2 or options[0] != "-n" or any(map(_is_option, options[1:])):
        return False
    return re.fullmatch(r"\d+(,(\d+|\$))?p", options[1], re.ASCII) is not None


def _only(pattern: str) -> Callable[[Sequence[str]], bool]:
    return lambda options: all(re.fullmatch(pattern, text) for text in options if _is_option(text))


def _reads_git(options: Sequence[str]) -> bool:
    rest = list(options)
    while rest and rest[0] in {"--no-pager", "--no-optional-locks"}:
        del rest[0]
    if not rest:
        return False
    command, *arguments = rest
    if command in _GIT_READS:
        return _has_none_of(arguments, "--output", "--ext-diff", "--textconv", "--show-signature")
    listed = _GIT_LISTS.get(command)
    if listed is None:
        return False
    # Without `--list` a name is created.
    names = [text for text in arguments if not _is_option(text)]
    harmless = all(text in listed for text in arguments if _is_option(text))
    return harmless and (not names or "--list" in arguments)


_GIT_READS = frozenset(
    {"blame", "describe", "diff", "log", "ls-files", "ls-tree", "merge-base"}
    | {"rev-parse", "shortlog", "show", "status"}
)
_GIT_LISTS = {
    "branch": frozenset(
        {"--list", "--all", "-a", "--remotes", "-r", "-v", "-vv", "--verbose", "--show-current"}
    ),
    "remote": frozenset({"-v", "--verbose"}),
    "tag": frozenset({"--list", "-n"}),
}

_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "file": _only(r"-[bhikLNnprsv0]+|--(brief|mime|mime-type|mime-encoding|dereference)"),
    "find": _reads_find,
    "git": _reads_git,
    "rg": _reads_rg,
    "sed": _reads_sed,
    "sort": _reads_sort,
    "tree": _only(r"-[adfiLPIpsuhgDFrtcUCnNqSAl]+|--(dirsfirst|noreport|gitignore|du)"),
    "uniq": _reads_uniq,
}

"""Code that a command evaluates: `bash -c '...'`, `eval`, `trap`.

The rule of this module: code that is not in the text of the command (a shell that reads its input)
is reported as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from eca_server.agent.tools.shell_commands import RUNS_CODE, SimpleCommand, assigned_name
from eca_server.agent.tools.shell_syntax import Word

_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "rbash", "sh", "zsh"})
_SAME_SHELL = frozenset({"eval", "trap", "mapfile", "readarray", "compgen", "complete", "bind"})
_RUN_A_SHELL = frozenset({"entr", "flock", "parallel", "script", "ssh", "su", "watch"})
_WRAPPERS = frozenset(
    {"!", "-exec", "-execdir", "-ok", "chroot", "command", "doas", "env", "exec", "nice", "nohup"}
    | {"busybox", "coproc", "setsid", "stdbuf", "sudo", "time", "timeout", "unshare", "xargs"}
)
_SOURCES = frozenset({"source", "."})
_CODE_LIKE = re.compile(r"[^\w./:@%+,=-]")


@attrs.frozen(kw_only=True)
class Evaluated:
    """A text that is evaluated as code.

    Attributes:
        code: the text; None: it is not in the command.
        is_same_shell: whether it may change the working directory of the shell.
    """

    program: str
    code: str | None
    is_same_shell: bool = False


def evaluated_code(command: SimpleCommand) -> Iterator[Evaluated]:
    """Yield the texts of a command that are evaluated as code."""
    words = [word for at, word in enumerate(command.words) if at not in command.targets]
    for index, word in enumerate(words):
        if assigned_name(word) in RUNS_CODE:
            yield Evaluated(program=f"a shell with {assigned_name(word)}", code=None)
        name = word.text.rpartition("/")[2]
        behind = words[index + 1 :]
        if name in _SAME_SHELL:
            yield from _arguments(name, behind, is_same_shell=True)
        elif name in _RUN_A_SHELL:
            yield from _arguments(name, behind)
        elif name in _SHELLS:
            yield from _arguments(name, behind)
            before = {each.text for each in words[:index]}
            is_run = _is_named(command, word) or bool(before & _WRAPPERS)
            if is_run and all(each.text.startswith(("-", "+")) for each in behind):
                yield Evaluated(program=name, code=None)
        elif name in _SOURCES and _is_named(command, word):
            file = behind[0].text if behind else "/dev/stdin"
            if file.startswith(("/dev/", "/proc/")) or file == "-":
                yield Evaluated(program=name, code=None)


def _is_named(command: SimpleCommand, word: Word) -> bool:
    return command.program < len(command.words) and command.words[command.program] is word


def _arguments(name: str, words: list[Word], *, is_same_shell: bool = False) -> Iterator[Evaluated]:
    texts = [word.text for word in words]
    if name in {"eval", "ssh", "watch"} and len(texts) > 1:
        texts = [" ".join(texts)]
    for text in texts:
        if _CODE_LIKE.search(text) or name == "eval":
            yield Evaluated(program=name, code=text, is_same_shell=is_same_shell)

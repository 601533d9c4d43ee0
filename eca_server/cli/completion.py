"""`eca-server completion SHELL`: a static script, made from the parsers of both programs.

A script names every command and option, so that a shell completes without starting Python.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping

from eca_server.cli.arguments import make_parser
from eca_server.ecp.cli import make_parser as make_ecp_parser
from eca_server.workbench.conformance.cli import make_parser as make_conformance_parser
from eca_server.workbench.inspector.cli import make_parser as make_inspector_parser


def completion_script(shell: str) -> str:
    """Return the script for `bash`, `zsh` or `fish`."""
    programs = parsers()
    if shell == "fish":
        return "".join(_fish(program, commands) for program, commands in programs.items())
    text = "".join(_bash(program, commands) for program, commands in programs.items())
    return f"autoload -U +X bashcompinit && bashcompinit\n{text}" if shell == "zsh" else text


def parsers() -> dict[str, dict[str, argparse.ArgumentParser]]:
    """Return the parsers of each program by their paths, such as ` ecp run`."""
    own = {
        "conformance": make_conformance_parser(),
        "ecp": make_ecp_parser(),
        "inspect": make_inspector_parser(),
    }
    return {
        "eca-server": dict(_commands(make_parser(), own)),
        "ecp": dict(_commands(own["ecp"], {})),
    }


def _commands(
    parser: argparse.ArgumentParser, own: Mapping[str, argparse.ArgumentParser], path: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each parser by its path, such as ` ecp run`; `own` replaces commands."""
    yield path, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, each in action.choices.items():
                yield from _commands(own.get(name) or each, {}, f"{path} {name}")


def _options(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options that the help shows."""
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield action


def _words(parser: argparse.ArgumentParser) -> list[str]:
    """Return the words that can follow: commands, choices of arguments, and options."""
    options = (name for action in _options(parser) for name in action.option_strings)
    return [*_choices(parser), *options]


def _choices(parser: argparse.ArgumentParser) -> list[str]:
    """Return the commands, and the choices of arguments without a name."""
    free = (action for action in parser._actions if not action.option_strings)
    return [str(choice) for action in free for choice in action.choices or ()]


def _bash(program: str, commands: dict[str, argparse.ArgumentParser]) -> str:
    function = f"_{program.replace('-', '_')}_complete"
    paths = "|".join(f'"{path}"' for path in commands if path)
    words, values = [], []
    for path, parser in commands.items():
        words.append(f'    "{path}") words="{" ".join(_words(parser))}" ;;')
        for action in _options(parser):
            if action.nargs != 0:
                pattern = "|".join(f'"{path} {name}"' for name in action.option_strings)
                choices = " ".join(map(str, action.choices or ()))
                values.append(f'    {pattern}) words="{choices}" ;;')
    return "\n".join(
        [
            f"{function}() {{",
            '  local path="" words="" each',
            '  for each in "${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do',
            f'    case "$path $each" in {paths}) path="$path $each" ;; esac',
            "  done",
            '  case "$path" in',
            *words,
            "  esac",
            '  case "$path ${COMP_WORDS[COMP_CWORD-1]}" in',
            *values,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
            "}",
            f"complete -o default -F {function} {program}",
            "",
        ]
    )


def _fish(program: str, commands: dict[str, argparse.ArgumentParser]) -> str:
    lines = []
    for path, parser in commands.items():
        names = [p.split()[-1] for p in commands if p.rpartition(" ")[0] == path and p]
        conditions = [f"__fish_seen_subcommand_from {name}" for name in path.split()]
        here = "; and ".join(conditions) or "true"
        inside = [f"not __fish_seen_subcommand_from {' '.join(names)}"] if names else []
        where = shlex.quote("; and ".join([*conditions, *inside]) or "true")
        for name in names:
            hint = _summary(parser, name)
            lines.append(f"complete -c {program} -f -n {where} -a {name} -d {shlex.quote(hint)}")
        if not names and (choices := _choices(parser)):
            words = shlex.quote(" ".join(choices))
            lines.append(f"complete -c {program} -f -n {where} -a {words}")
        for action in _options(parser):
            flags = " ".join(
                f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                for name in action.option_strings
            )
            value = "" if action.nargs == 0 else " -r"
            if action.choices is not None:
                value += f" -f -a {shlex.quote(' '.join(map(str, action.choices)))}"
            hint = re.sub(r"\s+", " ", action.help or "")
            condition = shlex.quote(here)
            lines.append(
                f"complete -c {program} -n {condition} {flags}{value} -d {shlex.quote(hint)}"
            )
    return "".join(f"{line}\n" for line in lines)


def _summary(parser: argparse.ArgumentParser, name: str) -> str:
    """Return the line of a command in its parent's help."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or ""
    return ""

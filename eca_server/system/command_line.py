"""Functions that the command lines share: standard streams, argument types, exit codes."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TextIO

from eca_server.printable import printable_line, printable_lines

_NEAR = 0.7  # similarity of a suggestion, from 0 to 1


class Page(NamedTuple):
    """The help of a command.

    Attributes:
        summary: its line in the list of commands.
        more: examples, exit codes, variables and files, each under a heading.
    """

    summary: str
    description: str
    more: str = ""


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter that keeps the lines of a text, unless they are wider than the terminal."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        columns = width + 2  # argparse leaves a margin
        paragraphs: list[list[str]] = [[]]
        for line in text.splitlines():
            if not line.strip() or line.startswith(" "):
                paragraphs += [[line], []]
            else:
                paragraphs[-1].append(line)
        return "".join(f"{_fit(each, columns)}\n" for each in paragraphs if each)


def _fit(lines: Sequence[str], columns: int) -> str:
    """Fill the lines of a paragraph anew if one of them is too wide; a command line stays whole."""
    first = lines[0]
    if all(len(line) <= columns for line in lines) or first.lstrip().startswith("$ "):
        return "\n".join(lines)
    indent = first[: len(first) - len(first.lstrip())]
    mark = "# " if first.lstrip().startswith("# ") else ""
    text = " ".join(line.strip() for line in lines)
    return textwrap.fill(
        text,
        columns,
        initial_indent=indent,
        subsequent_indent=indent + mark,
        break_long_words=False,
        break_on_hyphens=False,
    )


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, a suggestion, and the command that prints the help.

    Lines of its texts stay as they are written where they fit, and no option can be abbreviated.

    Attributes:
        surplus_hint: what to do about an argument too many.
    """

    surplus_hint = ""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _HelpFormatter)
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)

    def error(self, message: str) -> NoReturn:
        """Write the error, and exit with code 2."""
        sys.stderr.write(f"{self.prog}: {printable_lines(message)}\nTry `{self.prog} --help`.\n")
        raise SystemExit(2)

    def parse_known_args(  # type: ignore[override]  # the overloads of typeshed
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the arguments; an unknown one is an error."""
        options, rest = super().parse_known_args(args, namespace)
        if rest:
            self.refuse(rest)
        return options, rest

    def refuse(self, rest: Sequence[str]) -> NoReturn:
        """Report the first of the arguments that cannot be parsed, and exit with code 2."""
        if not rest[0].startswith("-"):
            self.error(f"unexpected argument {rest[0]!r}{self.surplus_hint}")
        near = nearest(rest[0].partition("=")[0], self._option_string_actions)
        self.error(f"unknown option {rest[0]!r}{near}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        why = nearest(value, choices) or f" (choose from {', '.join(choices)})"
        if isinstance(action, argparse._SubParsersAction):  # argparse has no public name for it
            raise argparse.ArgumentError(None, f"unknown command {value!r}{why}")
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}{why}")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of an error about `word`: the most similar known word, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after an error

    near = get_close_matches(word, list(known), n=1, cutoff=_NEAR)
    return f"; did you mean `{near[0]}`?" if near else ""


def add_command(commands: Any, name: str, page: Page, **settings: Any) -> Parser:
    """Add a command with its help to the result of `add_subparsers`."""
    added: Parser = commands.add_parser(
        name, help=page.summary, description=page.description, epilog=page.more, **settings
    )
    return added


def option(target: Any, spelling: str, text: str, **settings: Any) -> None:
    """Add an option to a parser or a group, spelled as in the help: `-m, --manifest FILE`.

    Without a value in its spelling, and without choices, it is a flag.
    """
    words = spelling.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    if names != words:
        settings["metavar"] = words[-1]
    elif "choices" not in settings:
        settings.setdefault("action", "store_true")
    target.add_argument(*names, help=text, **settings)


def repair_streams() -> None:
    """Replace closed standard streams by empty ones, and let no locale make text fail."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if mode == "r" else "backslashreplace")


def run_to_end(program: str, command: Callable[[], int], *, is_server: bool = False) -> int:
    """Run a command, flush its output, and return the exit code.

    Raises:
        SystemExit: the arguments were wrong, or asked for help.
    """
    code: int | SystemExit
    try:
        try:
            code = command()
        except SystemExit as exiting:
            code = exiting
        if not is_server:
            sys.stdout.flush()
    except (KeyboardInterrupt, OSError, BaseExceptionGroup) as raised:
        exit_code = _exit_code_of(program, raised, is_server=is_server)
        if exit_code is None:
            raise
        return exit_code
    if isinstance(code, SystemExit):
        raise code
    return code


def _exit_code_of(program: str, raised: BaseException, *, is_server: bool) -> int | None:
    """Return the exit code after an interrupt or a stream error, or None for a bug.

    The other exceptions of a group follow from the first one, as when an interrupt takes the
    server from `chat`. A server has exit codes of its own for a broken stream.
    """
    exceptions = tuple(_each(raised))
    if any(isinstance(exception, KeyboardInterrupt) for exception in exceptions):
        return 130
    error = next((exception for exception in exceptions if isinstance(exception, OSError)), None)
    if error is None or (is_server and not isinstance(error, BrokenPipeError)):
        return None
    if not isinstance(error, BrokenPipeError):  # the reader has exited
        where = (
            f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        )
        sys.stderr.write(f"{program}: {printable_line(f'{where}{error.strerror or error}')}\n")
    silence(sys.stdout)
    return 1


def seconds(text: str) -> float:
    """Return the value of an argument that is a finite time.

    Raises:
        argparse.ArgumentTypeError: it is not a number above 0.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text[:20]!r}")
    return number


def count(text: str) -> int:
    """Return the value of an argument that is a number from 1 on.

    Raises:
        argparse.ArgumentTypeError: it is not.
    """
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text[:20]!r}")
    return int(text)


def port(text: str) -> int:
    """Return the value of an argument that is a port; 0 stands for any free port.

    Raises:
        argparse.ArgumentTypeError: it is not a port number.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) >= 2**16:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text[:20]!r}")
    return int(text)


def silence(stream: TextIO) -> None:
    """Redirect a failed stream to the null device, so that its buffer cannot fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def fail(program: str, why: object, code: int = 1) -> int:
    """Report an error of a command to the user; return the exit code."""
    write_to_user(f"{program}: {printable_lines(str(why))}\n", sys.stderr)
    return code


def write_to_user(text: str, out: TextIO) -> None:
    """Write a text for the user; after an error, silence the stream and continue."""
    try:
        out.write(text)
        out.flush()
    except OSError:
        silence(out)


def _each(raised: BaseException) -> Iterator[BaseException]:
    if isinstance(raised, BaseExceptionGroup):
        for part in raised.exceptions:
            yield from _each(part)
    else:
        yield raised

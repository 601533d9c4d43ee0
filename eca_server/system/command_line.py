"""Functions that the command lines share: standard streams, argument types, exit codes."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn, TextIO

from eca_server.printable import printable_line, printable_lines


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and the command that prints the help."""

    def error(self, message: str) -> NoReturn:
        """Write the error, and exit with code 2."""
        sys.stderr.write(f"{self.prog}: {printable_lines(message)}\nTry `{self.prog} --help`.\n")
        raise SystemExit(2)


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


def write_to_user(text: str, out: TextIO) -> None:
    """Write a text for the user; after an error, silence the stream and continue."""
    try:
        out.write(text)
        out.flush()
    except OSError:
        silence(out)


def _each(raised: BaseException) -> Iterator[BaseException]:
    """Yield an exception, or each one of a group."""
    if isinstance(raised, BaseExceptionGroup):
        for part in raised.exceptions:
            yield from _each(part)
    else:
        yield raised

"""What our command lines do alike: with the standard streams, with numbers, and at their end."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from eca_server.printable import printable_line

__all__ = ["ended", "mend_streams", "port", "seconds", "silence", "tell"]


def mend_streams() -> None:
    """A closed stream is an empty one, and no locale makes a text unreadable or unsayable."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if mode == "r" else "backslashreplace")


def ended(program: str, command: Callable[[], int], *, is_server: bool = False) -> int:
    """Run a command to its end, at which all that it has printed is written; the exit code.

    Raises:
        SystemExit: its arguments were wrong, or asked for help.
    """
    code: int | SystemExit
    try:
        try:
            code = command()
        except SystemExit as left:
            code = left
        if not is_server:
            sys.stdout.flush()
    except (KeyboardInterrupt, OSError, BaseExceptionGroup) as raised:
        found = _exit_code_of(program, raised, is_server=is_server)
        if found is None:
            raise
        return found
    if isinstance(code, SystemExit):
        raise code
    return code


def _exit_code_of(program: str, raised: BaseException, *, is_server: bool) -> int | None:
    """The exit code, where a person or a stream ended the command; None: it is a fault of ours.

    What else was raised follows from that end, as when an interrupt takes the server from `chat`.
    A server's exit code tells its client more than that a stream broke.
    """
    each = tuple(_each(raised))
    if any(isinstance(one, KeyboardInterrupt) for one in each):
        return 130
    fault = next((one for one in each if isinstance(one, OSError)), None)
    if fault is None or (is_server and not isinstance(fault, BrokenPipeError)):
        return None
    if not isinstance(fault, BrokenPipeError):  # that one says only that our reader has left
        sys.stderr.write(f"{program}: {printable_line(str(fault))}\n")
    silence(sys.stdout)
    return 1


def seconds(text: str) -> float:
    """The type of an argument: a time that ends.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text[:20]!r}")
    return number


def port(text: str) -> int:
    """The type of an argument: where to listen; 0 is any free port.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) >= 2**16:
        raise argparse.ArgumentTypeError(f"expected a port, got {text[:20]!r}")
    return int(text)


def silence(stream: TextIO) -> None:
    """Let a stream that failed lead nowhere: what still waits in it would fail once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def tell(text: str, out: TextIO) -> None:
    """Write to a person, who may have left: then in silence, for the work goes on."""
    try:
        out.write(text)
        out.flush()
    except OSError:
        silence(out)


def _each(raised: BaseException) -> Iterator[BaseException]:
    """An exception, or each one of a group."""
    if isinstance(raised, BaseExceptionGroup):
        for part in raised.exceptions:
            yield from _each(part)
    else:
        yield raised

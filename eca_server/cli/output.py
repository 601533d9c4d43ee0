"""Stdout for untrusted text that arrives in pieces."""

from __future__ import annotations

import sys

from eca_server.printable import Printer


class Output:
    """Stdout, for untrusted text that arrives in pieces.

    Attributes:
        ended_line: whether the last line is complete.
    """

    def __init__(self) -> None:
        self.ended_line = True
        self._printer = Printer()

    def write(self, text: str) -> None:
        """Print the next piece."""
        self._print(self._printer.feed(text))

    def end_line(self) -> None:
        """Begin a new line, unless the last one is complete."""
        self._print(self._printer.flush())
        if not self.ended_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        if text:
            self.ended_line = text.endswith("\n")
        sys.stdout.write(text)
        sys.stdout.flush()

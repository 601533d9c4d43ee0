"""The server's questions (`chat/askQuestion`) at a terminal: options by number, or free text."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

import attrs

from eca_protocol.messages import ChatAskQuestionParams
from eca_server.cli.screen import fitted
from eca_server.printable import printable_line

_LONGEST = 10_000  # characters of a line


@attrs.define(kw_only=True)
class Questions:
    """Questions to the user at the terminal.

    Attributes:
        read_line: writes a label and reads one line; empty at the end of input.
    """

    read_line: Callable[[str], Awaitable[str]] | None = None

    async def ask(self, params: ChatAskQuestionParams) -> str | None:
        """Show a question, and return the label or the text of the answer, or None."""
        options = params.options or ()
        self.say(params.question)
        for number, option in enumerate(options, 1):
            more = f" - {option.description}" if option.description else ""
            self.say(f"  {number}. {option.label}{more}")
        choice = f"1-{len(options)}" if options else ""
        free = "your own text" if params.allow_freeform or not options else ""
        assert self.read_line is not None
        label = f"Answer ({' or '.join(filter(None, [choice, free]))}): "
        line = (await self.read_line(label)).strip()
        for number, option in enumerate(options, 1):
            if line.casefold() in {str(number), option.label.casefold()}:
                return option.label
        return line if line and (params.allow_freeform or not options) else None

    def say(self, text: str) -> None:
        """Show a text, without characters that control the terminal."""
        for line in text.splitlines():
            if line == "```":  # Markdown for editors
                continue
            sys.stderr.write(fitted(f"{printable_line(line, longest=_LONGEST)}\n"))
        sys.stderr.flush()

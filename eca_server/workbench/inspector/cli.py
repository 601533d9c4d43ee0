"""The command line of `inspect`."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Sequence
from pathlib import Path

from eca_server.printable import printable_line
from eca_server.system.command_line import Parser, fail, port, repair_streams, run_to_end
from eca_server.workbench.inspector.command import PROGRAM, inspect, newest_transcript, write_page

_DESCRIPTION = """\
Show a conversation recorded by `tap`: every message between editor, server, model,
tools and MCP servers, its latency, and the requirements of the protocol that it
breaks. Without TRANSCRIPT the newest one is shown. A transcript that is still being
written is followed. The page is served on this machine only, needs the whole
address with its token, and masks texts that look like secrets.
"""

_EPILOG = """\
Examples:
  # Record a session without an editor
  $ eca-server tap --out talk.jsonl -- eca-server serve < /dev/null

  # Write its page to a file; without --out a browser shows it
  $ eca-server inspect talk.jsonl --out talk.html

Exit codes: 0 success, 1 the page cannot be served or written, 2 wrong usage, or there is
no transcript.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command, and return the exit code."""
    repair_streams()
    return run_to_end(PROGRAM, lambda: _run(make_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    transcript: Path | None = options.transcript or newest_transcript()
    if transcript is None:
        return fail(PROGRAM, "there is no transcript yet; record one with `eca-server tap`", 2)
    if not transcript.exists():
        return fail(PROGRAM, f"{printable_line(str(transcript))} does not exist", 2)
    if options.out is not None:
        return write_page(transcript, options.out)
    opens = not options.no_open
    try:
        return inspect(transcript, port=options.port, opens=opens, with_tap=options.beside_tap)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return fail(PROGRAM, f"--port: {options.port} is in use; try another one")


def make_parser() -> Parser:
    """Make the parser of the command."""
    parser = Parser(prog=PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)
    add, out = parser.add_argument, "write the page to one file instead of serving it"
    add("transcript", nargs="?", type=Path, metavar="TRANSCRIPT", help="default: the newest one")
    add("--out", type=Path, metavar="FILE", help=out)
    add("--port", type=port, default=0, help="the page's port (default: a free one)")
    add("--no-open", action="store_true", help="open no browser")
    add("--beside-tap", action="store_true", help=argparse.SUPPRESS)
    return parser

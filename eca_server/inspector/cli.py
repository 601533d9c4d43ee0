"""The command line of `inspect`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from eca_server.command_line import port, repair_streams, run_to_end
from eca_server.inspector.command import inspect, newest_transcript, write_page

__all__ = ["run"]

_DESCRIPTION = """\
Show a conversation that `tap` kept: every message on its way between editor, server,
model, tools and MCP servers, how long it took, and which of the protocol's
requirements it breaks. Without TRANSCRIPT it is the newest one; one that is still
being written is followed. The page is served on this machine only, to whoever has its
whole address, and never shows what looks like a secret.
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; the exit code."""
    repair_streams()
    return run_to_end("eca-server inspect", lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    transcript: Path | None = options.transcript or newest_transcript()
    if transcript is None:
        sys.stderr.write("inspect: there is no transcript yet; `eca-server tap` makes one\n")
        return 2
    if options.out is not None:
        return write_page(transcript, options.out)
    opens = not options.no_open
    return inspect(transcript, port=options.port, opens=opens, beside_tap=options.beside_tap)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="eca-server inspect",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "transcript", nargs="?", type=Path, metavar="TRANSCRIPT", help="default: the newest one"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the page as one file, and serve nothing"
    )
    parser.add_argument("--port", type=port, default=0, help="of the page (default: a free one)")
    parser.add_argument("--no-open", action="store_true", help="open no browser")
    parser.add_argument("--beside-tap", action="store_true", help=argparse.SUPPRESS)
    return parser

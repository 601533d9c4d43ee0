"""`eca-server link`: the command `eca` beside `eca-server`, for plugins that start `eca server`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from eca_protocol import platforms
from eca_server.printable import printable_line
from eca_server.system.command_line import fail

_PROGRAM = "eca-server link"


def change_link(started: Path, *, removes: bool) -> int:
    """Make or remove the command `eca`, and return the exit code."""
    program = started
    if started.stem != "eca-server" or not os.path.lexists(started):  # `python -m eca_server`
        program = Path(sys.executable).with_name(f"eca-server{platforms.PROGRAM_SUFFIX}")
    link = program.with_name(f"eca{platforms.PROGRAM_SUFFIX}")
    shown = printable_line(str(link))
    try:
        if not program.is_file():
            return fail(_PROGRAM, f"there is no command {printable_line(str(program))} to link to")
        is_ours = platforms.is_link(link, program)
        if os.path.lexists(link) and not is_ours:
            return fail(
                _PROGRAM, f"{shown} exists and is not a link to this program: remove it first"
            )
        if removes and is_ours:
            link.unlink()
        elif not removes and not is_ours:
            platforms.link(program, link)
    except OSError as error:
        return fail(_PROGRAM, f"could not write {shown}: {error.strerror or error}")
    if removes:
        sys.stdout.write(f"Removed {shown}.\n" if is_ours else f"There is no {shown}.\n")
    else:
        sys.stdout.write(f"{shown}\nPlugins find it if its folder is in PATH.\n")
    return 0

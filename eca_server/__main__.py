"""`python -m eca_server`: the entry point, which first makes the import path safe.

Editors start the server inside the user's project. A `json.py` or `trio.py` there must never run,
so the current directory leaves the import path before anything else is imported, whether `-m` or an
empty entry of PYTHONPATH put it there.
"""

import os
import sys


def main() -> None:
    """Run the console script `eca-server`, and exit with the command's code."""
    from eca_server.system.utf_8_mode import ensure_utf_8_mode  # noqa: PLC0415

    ensure_utf_8_mode()
    try:
        _leave_current_directory()
        from eca_server.cli.main import run  # noqa: PLC0415 - only after the import path is safe

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while a command imports its modules
        code = 130
    sys.exit(code)


def _leave_current_directory() -> None:
    """Remove the current directory from the import path; move it last if it has this package."""
    try:
        directory = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:
        directory = ""  # the directory was removed
    entries = [entry for entry in sys.path if entry not in {"", directory}]
    own_parent = os.path.join(directory, "")  # noqa: PTH118 - pathlib is not imported yet
    if len(entries) < len(sys.path) and directory and __file__.startswith(own_parent):
        entries.append(directory)
    sys.path[:] = entries


if __name__ == "__main__":
    main()

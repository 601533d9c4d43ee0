"""`python -m eca_server`: keeps the current folder from being imported from, then starts.

Editors start the server inside the user's project. A `json.py` or `trio.py` that lies there must
never run, so the folder leaves the import path before anything else is imported, whatever put it
there: `-m`, or an empty entry of PYTHONPATH.
"""

import os
import sys


def main() -> None:
    """The console script `eca-server`; ends the process with the command's exit code."""
    try:
        _leave_current_folder()
        from eca_server.cli import run  # noqa: PLC0415 - only after the import path is safe

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while a command imports what it needs
        code = 130
    sys.exit(code)


def _leave_current_folder() -> None:
    """Where the package itself lies in that folder, it becomes the last place to look at."""
    try:
        folder = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
    except OSError:
        folder = ""  # it was removed
    kept = [entry for entry in sys.path if entry not in {"", folder}]
    if len(kept) < len(sys.path) and folder and __file__.startswith(os.path.join(folder, "")):  # noqa: PTH118
        kept.append(folder)
    sys.path[:] = kept


if __name__ == "__main__":
    main()

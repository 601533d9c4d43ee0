"""`python -m eca_server`: the entry point, which first makes the import path safe.

Editors start the server inside the user's project. A `json.py` or `trio.py` there must never run,
so the current directory leaves the import path before anything else is imported, whether `-m` or an
entry of PYTHONPATH put it there; so do the directories that relative entries name (`src`).
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
    """Remove what the current directory adds to the import path; move it last if it has us.

    These are the directory itself, and the relative entries of PYTHONPATH, now absolute.
    """
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    try:
        directory = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet
        relative = [os.path.abspath(each) for each in named if not os.path.isabs(each)]  # noqa: PTH100, PTH117
    except OSError:  # the directory was removed
        directory, relative = "", []
    added = {"", directory, *relative}
    own = [
        entry
        for entry in sys.path
        if entry in added and entry and __file__.startswith(os.path.join(entry, ""))  # noqa: PTH118
    ]
    sys.path[:] = [*(entry for entry in sys.path if entry not in added), *own[:1]]


if __name__ == "__main__":
    main()

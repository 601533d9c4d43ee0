"""`python -m eca_server`: the entry point, which first makes the import path safe.

Editors start the server inside the user's project. A `json.py` or `trio.py` there must never run,
so the current directory leaves the import path before anything else is imported, whether `-m` or an
entry of PYTHONPATH put it there; so do the directories that relative entries name (`src`).
"""

import os
import sys


def main() -> None:
    """Run the console script `eca-server`, and exit with the command's code."""
    is_utf_8 = sys.getfilesystemencoding() == "utf-8"
    if not is_utf_8 and os.name == "posix":  # the protocol's paths are UTF-8 in any locale
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606
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

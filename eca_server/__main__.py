"""`python -m eca_server`: the entry point, which first makes the import path safe.

Editors start the server inside the user's project. A `json.py` or `trio.py` there must never run,
so the current directory leaves the import path before anything else is imported, whether `-m` or an
empty entry of PYTHONPATH put it there.
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

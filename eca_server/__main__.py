"""`python -m eca_server`: keeps the current folder from being imported from, then starts.

Editors start the server inside the user's project. A `json.py` or `trio.py` that lies there must
never run, so the folder leaves the import path before anything else is imported.
"""

import sys

if sys.path and not sys.flags.safe_path and __name__ == "__main__":
    import os

    if sys.path[0] in {"", os.getcwd()}:  # noqa: PTH109 - pathlib is not imported yet
        first = sys.path.pop(0)
        if __file__.startswith(os.path.join(os.path.abspath(first), "")):  # noqa: PTH100, PTH118
            sys.path.append(first)


def main() -> None:
    """The console script `eca-server`; ends the process with the command's exit code."""
    from eca_server.cli import run  # noqa: PLC0415 - only after the import path is safe

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()

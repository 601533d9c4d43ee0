"""The program `eca` of the single-file binary, with the command line of the upstream binary."""

from __future__ import annotations

import os
import sys

_OWN_MODULE = ["-P", "-m", "eca_server"]
_VERSION = (["--version"], ["server", "--version"])


def restore_environment() -> None:
    """Give child processes the environment that the binary was started with.

    The binary's loader points `LD_LIBRARY_PATH` at its own libraries, which `git` must not use.
    """
    original = os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
    os.environ.pop("LD_LIBRARY_PATH", None)
    if original is not None:
        os.environ["LD_LIBRARY_PATH"] = original
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]


def main() -> None:
    """Run the server, which also starts itself as `eca -P -m eca_server`."""
    restore_environment()
    if sys.argv[1:4] == _OWN_MODULE:
        del sys.argv[1:4]
    if sys.argv[1:] in _VERSION:
        from eca_server.version import version  # noqa: PLC0415 - only this answer needs it

        print(f"eca {version()}")
        return
    from eca_server.__main__ import main as serve  # noqa: PLC0415 - after the environment

    serve()


if __name__ == "__main__":
    main()

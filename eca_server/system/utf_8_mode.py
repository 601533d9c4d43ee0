"""Python's UTF-8 mode, which every command runs in: paths and texts are UTF-8 in any locale.

The import path may not be safe yet: it imports only what every interpreter has imported, so not
`__future__` either.
"""

import os
import sys


def ensure_utf_8_mode() -> None:
    """Start the program again in UTF-8 mode if the locale has a different encoding."""
    if sys.getfilesystemencoding() != "utf-8" and os.name == "posix":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *_arguments()])  # noqa: S606


def _arguments() -> list[bytes] | list[str]:
    """Return the interpreter's arguments, as bytes: not every locale converts them back."""
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123 - pathlib is not imported yet
            return file.read().split(b"\0")[1:-1]
    except OSError:
        return sys.orig_argv[1:]

"""What can be wrong with a path or a file, in words for the model and the user.

What the operating system itself refuses (missing, not permitted, disk full) stays an OSError,
with the path in it.
"""

from __future__ import annotations

from eca_protocol.errors import ECAError

__all__ = [
    "AlreadyThere",
    "BadPath",
    "Changed",
    "FileFault",
    "LeadsOut",
    "Moved",
    "NotAFile",
    "NotText",
    "TooLarge",
]


class FileFault(ECAError):
    """A path or a file that cannot be used as asked."""


class BadPath(FileFault, ValueError):
    """A text that names no path."""


class Moved(FileFault):
    """A part of the path became a symbolic link after the path had been checked."""


class LeadsOut(FileFault):
    """A symbolic link of the workspace leads out of it, to what only its own path may change."""


class NotAFile(FileFault):
    """A directory, a pipe, a device or a socket, where a regular file is needed."""


class TooLarge(FileFault):
    """More bytes than the caller reads."""


class NotText(FileFault):
    """Bytes that are no text in an encoding we know, or text that its encoding cannot hold."""


class Changed(FileFault):
    """The file is not the one that was looked at."""


class AlreadyThere(FileFault):
    """Something has the name that must be free."""

"""Errors of paths and files, with messages for the model and the user.

Errors of the operating system (missing, not permitted, disk full) stay OSError, with the path.
"""

from __future__ import annotations

from eca_protocol.errors import ECAError


class FileError(ECAError):
    """A path or a file that cannot be used as requested."""


class InvalidPath(FileError, ValueError):
    """A string that is not a usable path."""


class PathChanged(FileError):
    """A part of the path became a symbolic link after the path had been checked."""


class OutsideWorkspace(FileError):
    """A symbolic link leads out of the permitted directory."""


class MissingRoot(FileError):
    """The workspace folder of a path was moved away or removed."""


class NotRegularFile(FileError):
    """A directory, a pipe, a device or a socket where a regular file is needed."""


class TooLarge(FileError):
    """A file with more bytes than the caller reads."""


class NotText(FileError):
    """Bytes that are not text in a known encoding, or text that its encoding cannot represent."""


class ContentChanged(FileError):
    """The file's content changed since it was read, or the file was removed."""


class AlreadyExists(FileError):
    """The path exists, and must not."""


def reason_of(error: BaseException) -> str:
    """Return the text of an error, without the number and the file of one of the system."""
    return (isinstance(error, OSError) and error.strerror) or str(error)

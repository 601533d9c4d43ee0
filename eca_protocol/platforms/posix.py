"""Linux and macOS. `eca_protocol.platforms` says what this module is for."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import stat
import sys
import termios
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import subprocess

assert sys.platform != "win32"

ATOMIC_WRITE: Final = select.PIPE_BUF
"""The number of bytes that a pipe takes whole or not at all."""

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""The signals that ask a process to end."""

KILL: Final = signal.SIGKILL
"""The signal that a process cannot refuse."""

PROGRAM_SUFFIX: Final = ""
"""The end of the file names of programs."""

START_OF_A_GROUP: Final[Mapping[str, Any]] = {"start_new_session": True}
"""Arguments of `subprocess.Popen`: a session and a process group of its own."""


class ProcessGroup:
    """The process group of a child that was started with `START_OF_A_GROUP`."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def signal(self, number: int, others: Iterable[int] = ()) -> None:
        """Send a signal to the group, and to other processes that are not in it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._leader, number)
        for pid in others:
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self._leader:
                    os.kill(pid, number)

    def close(self) -> None:
        """Forget the group: the system keeps nothing for it."""


def has_ended(child: subprocess.Popen[bytes], group: ProcessGroup) -> bool:
    """Return whether a child has ended.

    Where the system can tell, the child is not reaped; elsewhere its group is killed, too.
    """
    if hasattr(os, "waitid"):
        try:
            looks = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, child.pid, looks) is not None
        except ChildProcessError:  # other code has reaped it: the number may be reused
            return child.poll() is not None
    ended = child.poll() is not None
    if ended:
        group.signal(KILL)
    return ended


def is_alive(process_id: int) -> bool:
    """Return whether a process exists, possibly one of a different user."""
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def can_wait(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor: a pipe or a socket."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def is_blocking(descriptor: int) -> bool:
    """Return whether reading and writing wait."""
    return os.get_blocking(descriptor)


def set_blocking(descriptor: int, waits: bool) -> None:
    """Let reading and writing wait, or not."""
    os.set_blocking(descriptor, waits)


def has_input(descriptor: int, seconds: float) -> bool:
    """Return whether a pipe has input or has ended, after waiting at most so long."""
    poll = select.poll()  # unlike `select`, it has no largest descriptor
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def unread_bytes(descriptor: int) -> int:
    """Return about how much the reader of a pipe or socket has not read; 0 if that is unknown."""
    if sys.platform != "linux":
        return 0
    poll = select.poll()
    poll.register(descriptor, 0)
    if poll.poll(0):  # the reader has closed, and what a pipe still holds stays in it
        return 0
    is_socket = stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    try:
        answer = fcntl.ioctl(
            descriptor, termios.TIOCOUTQ if is_socket else termios.FIONREAD, b"1234"
        )
    except OSError:
        return 0
    return int.from_bytes(answer, sys.byteorder)


def duplicate(descriptor: int) -> int:
    """Return a duplicate above 2, so that it never takes the place of a closed standard stream."""
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)


def lock(descriptor: int, *, shared: bool = False, waits: bool = False) -> None:
    """Lock a file for as long as the descriptor is open.

    Raises:
        BlockingIOError: a different descriptor holds the lock.
        OSError: the file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind | (0 if waits else fcntl.LOCK_NB))


def unlock(descriptor: int) -> None:
    """Release the lock of a file."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def set_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open file."""
    os.fchmod(descriptor, mode)


def set_owner(descriptor: int, status: os.stat_result) -> int:
    """Give an open file the group and the owner of a different one, each if that is permitted.

    Returns:
        The permissions of the other file. A group that could not be set leaves the file's own group
        no more of them than all users have.
    """
    mode = set_group(descriptor, status.st_gid, stat.S_IMODE(status.st_mode))
    try:
        if os.fstat(descriptor).st_uid != status.st_uid:
            os.fchown(descriptor, status.st_uid, -1)
    except OSError:  # or an invalid argument: an id without a mapping in a user namespace
        mode &= ~stat.S_ISUID
    return mode


def set_group(descriptor: int, group: int, mode: int) -> int:
    """Give an open file a group, if that is permitted.

    Returns:
        The permissions to set: `mode`, in which a group that could not be set leaves the file's own
        group no more than all users have.
    """
    try:
        if os.fstat(descriptor).st_gid != group:
            os.fchown(descriptor, -1, group)
    except (OSError, OverflowError):
        mode &= ~(stat.S_ISGID | stat.S_IRWXG) | (mode & stat.S_IRWXO) << 3
    return mode


_ACCESS_LIST = "system.posix_acl_access"
_OF_CONTENT = frozenset({"security.capability", "security.evm", "security.ima"})
_NO_ATTRIBUTE = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP})


def copy_attributes(source: int, target: int) -> bool:
    """Copy the extended attributes of an open file, but those that depend on its content.

    Returns:
        Whether the access control list was copied, or there is none. If not, the permissions of
        the group may be wider than those of the list's entry for it.
    """
    if sys.platform != "linux":
        return True
    is_safe = True
    try:
        names = os.listxattr(source)
    except OSError as error:
        return error.errno in _NO_ATTRIBUTE
    for name in names:
        if name not in _OF_CONTENT:
            try:
                os.setxattr(target, name, os.getxattr(source, name))
            except OSError:
                is_safe = is_safe and name != _ACCESS_LIST
    if _ACCESS_LIST not in names:  # a new file gets one from its directory
        try:
            os.removexattr(target, _ACCESS_LIST)
        except OSError as error:
            is_safe = error.errno in _NO_ATTRIBUTE
    return is_safe


def is_own(status: os.stat_result) -> bool:
    """Return whether a file belongs to this user."""
    return status.st_uid == os.geteuid()


def uptime() -> float:
    """Return a number of seconds that also grows while the machine sleeps; for differences."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def is_removed(descriptor: int) -> bool:
    """Return whether an open file has no name any more."""
    return not os.fstat(descriptor).st_nlink


def find_shell(find_program: Callable[[str], str | None]) -> str:
    """Return the program that runs shell commands: bash, else sh.

    Args:
        find_program: returns the path of a program on PATH, or None.
    """
    return find_program("bash") or find_program("sh") or "/bin/sh"


def program_files(path: str) -> Sequence[str]:
    """Return the files that the path of a program may mean: only itself."""
    return (path,)


def remove_and_close(path: Path, descriptor: int) -> None:
    """Remove a file, and close its descriptor afterwards, with its lock.

    Raises:
        OSError: the file was not removed; the descriptor is closed.
    """
    try:
        path.unlink()
    finally:
        os.close(descriptor)


def link(program: Path, other: Path) -> None:
    """Give a program a second name in its directory."""
    other.symlink_to(program.name)


def is_link(other: Path, program: Path) -> bool:
    """Return whether `link` made the second name of a program."""
    return other.is_symlink() and other.readlink() == Path(program.name)


def change_directory(descriptor: int) -> None:
    """Make an open directory the current one."""
    os.fchdir(descriptor)


def data_home(environ: Mapping[str, str], home: Path) -> Path:
    """Return the directory of programs' data in the user's home."""
    return home / ".local" / "share"


def has_screen(environ: Mapping[str, str]) -> bool:
    """Return whether a browser can open a window."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    return sys.platform == "darwin" or any(map(environ.get, names))


@contextmanager
def hidden_input(descriptor: int, *, by_key: bool = False) -> Iterator[None]:
    """Let a terminal not show what is typed during the block.

    Args:
        descriptor: the terminal.
        by_key: also let it store each key as it is typed, Ctrl-D included; Ctrl-C and Ctrl-Z
            remain signals.
    """
    before = termios.tcgetattr(descriptor)
    hidden = termios.tcgetattr(descriptor)
    hidden[3] &= ~termios.ECHO
    if by_key:
        hidden[3] &= ~termios.ICANON
        hidden[6][termios.VMIN], hidden[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSANOW, hidden)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(descriptor, termios.TCSANOW, before)


def discard_input(descriptor: int) -> None:
    """Discard what was typed at a terminal and is not read yet."""
    termios.tcflush(descriptor, termios.TCIFLUSH)

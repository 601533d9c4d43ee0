"""Windows. `eca_protocol.platforms` says what this module is for.

A process group is a job object: it ends with its last handle, so that a killed server leaves no
children. A lock is one byte far behind the end of a file, since a locked byte cannot be read.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

assert sys.platform == "win32"

import _winapi  # noqa: E402
import msvcrt  # noqa: E402

ATOMIC_WRITE: Final = 512
"""The number of bytes that a pipe takes whole or not at all."""

ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The signals that ask a process to end."""

KILL: Final = signal.SIGTERM
"""The signal that a process cannot refuse: on Windows `os.kill` ends the process with it."""

PROGRAM_SUFFIX: Final = ".exe"
"""The end of the file names of programs."""

START_OF_A_GROUP: Final[Mapping[str, Any]] = {
    "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
}
"""Arguments of `subprocess.Popen`: no Ctrl-C of ours, and no window."""

_PROGRAM_ENDINGS: Final = (".com", ".exe", ".bat", ".cmd")
"""The ends of the file names that `subprocess.Popen` can start."""

_SHELL: Final = r"C:\Program Files\Git\bin\bash.exe"  # where Git for Windows has it by default
_SYSTEM_DIRECTORIES: Final = ("system32", "sysnative", "windowsapps")

_LOCKED_BYTE: Final = 1 << 40
_PAUSE: Final = 0.01  # seconds between two looks at a pipe

_SET_QUOTA_AND_TERMINATE: Final = 0x0101  # of PROCESS_...
_SYNCHRONIZE: Final = 0x0010_0000
_EXTENDED_LIMITS: Final = 9  # JobObjectExtendedLimitInformation
_KILL_ON_CLOSE: Final = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
_WAIT_TIMEOUT: Final = 0x102
_ECHO_INPUT: Final = 0x0004  # ENABLE_ECHO_INPUT


class _Limits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION; only `flags` is set."""

    _fields_ = (
        ("times", ctypes.c_int64 * 2),
        ("flags", ctypes.c_uint32),
        ("working_set", ctypes.c_size_t * 2),
        ("active_processes", ctypes.c_uint32),
        ("affinity", ctypes.c_size_t),
        ("classes", ctypes.c_uint32 * 2),
        ("counters", ctypes.c_uint64 * 6),
        ("memory", ctypes.c_size_t * 4),
    )


def _kernel() -> ctypes.WinDLL:
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    handle = ctypes.c_void_p
    kernel.CreateJobObjectW.restype = handle
    kernel.CreateJobObjectW.argtypes = (handle, ctypes.c_wchar_p)
    kernel.OpenProcess.restype = handle
    kernel.OpenProcess.argtypes = (ctypes.c_uint32, ctypes.c_int, ctypes.c_uint32)
    kernel.AssignProcessToJobObject.argtypes = (handle, handle)
    kernel.SetInformationJobObject.argtypes = (handle, ctypes.c_int, handle, ctypes.c_uint32)
    kernel.TerminateJobObject.argtypes = (handle, ctypes.c_uint32)
    kernel.WaitForSingleObject.argtypes = (handle, ctypes.c_uint32)
    kernel.CloseHandle.argtypes = (handle,)
    kernel.FlushConsoleInputBuffer.argtypes = (handle,)
    kernel.GetConsoleMode.argtypes = (handle, handle)
    kernel.SetConsoleMode.argtypes = (handle, ctypes.c_uint32)
    return kernel


@contextmanager
def _opened(kernel: ctypes.WinDLL, process_id: int, access: int) -> Iterator[int | None]:
    process: int | None = kernel.OpenProcess(access, 0, process_id)
    try:
        yield process
    finally:
        if process:
            kernel.CloseHandle(process)


class ProcessGroup:
    """A job with a child that was started with `START_OF_A_GROUP`, and the child's descendants."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._kernel = _kernel()
        self._job: int | None = self._kernel.CreateJobObjectW(None, None)
        limits = _Limits(flags=_KILL_ON_CLOSE)
        with _opened(self._kernel, leader, _SET_QUOTA_AND_TERMINATE) as process:
            if not (
                self._job
                and process
                and self._kernel.SetInformationJobObject(
                    self._job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits)
                )
                and self._kernel.AssignProcessToJobObject(self._job, process)
            ):
                self.close()

    def signal(self, number: int, others: Iterable[int] = ()) -> None:
        """End the group, whatever the signal: a process without a console has no gentle end."""
        if self._job:
            self._kernel.TerminateJobObject(self._job, number)
        for pid in others if self._job else (self._leader, *others):
            with suppress(OSError):
                os.kill(pid, number)

    def close(self) -> None:
        """End what is left of the group."""
        job, self._job = self._job, None
        if job:
            self._kernel.CloseHandle(job)


def has_ended(child: subprocess.Popen[bytes], group: ProcessGroup) -> bool:
    """Return whether a child has ended; the rest of its group is ended then."""
    ended = child.poll() is not None
    if ended:
        group.close()
    return ended


def is_alive(process_id: int) -> bool:
    """Return whether a process exists that this user may wait for."""
    kernel = _kernel()
    with _opened(kernel, process_id, _SYNCHRONIZE) as process:
        return bool(process) and kernel.WaitForSingleObject(process, 0) == _WAIT_TIMEOUT


def can_wait(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor: it cannot, threads wait."""
    return False


def is_blocking(descriptor: int) -> bool:
    """Return whether reading and writing wait: they always do."""
    return True


def set_blocking(descriptor: int, waits: bool) -> None:
    """Do nothing: reading and writing always wait."""


def has_input(descriptor: int, seconds: float) -> bool:
    """Return whether a pipe has input or has ended, after waiting at most so long."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if _winapi.PeekNamedPipe(msvcrt.get_osfhandle(descriptor))[0]:
                return True
        except OSError:  # the other side has closed it
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE)


def unread_bytes(descriptor: int) -> int:
    """Return 0: how much the reader has not read is unknown."""
    return 0


def duplicate(descriptor: int) -> int:
    """Return a duplicate that children do not inherit."""
    return os.dup(descriptor)


@contextmanager
def _position(descriptor: int, offset: int) -> Iterator[None]:
    """Set the position of a file inside the block."""
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, offset, os.SEEK_SET)
    try:
        yield
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)


def lock(descriptor: int, *, shared: bool = False, waits: bool = False) -> None:
    """Lock a file for as long as the descriptor is open.

    A shared lock is none here: a request for one gives an exclusive lock up, and is refused while
    a different descriptor holds one.

    Raises:
        BlockingIOError: a different descriptor holds the lock.
    """
    if shared:
        unlock(descriptor)
    try:
        with _position(descriptor, _LOCKED_BYTE):
            msvcrt.locking(descriptor, msvcrt.LK_LOCK if waits else msvcrt.LK_NBLCK, 1)
    except OSError as error:
        raise BlockingIOError(*error.args) from error
    if shared:
        unlock(descriptor)


def unlock(descriptor: int) -> None:
    """Release the lock of a file, if it has one."""
    with suppress(OSError), _position(descriptor, _LOCKED_BYTE):
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)


def set_mode(descriptor: int, mode: int) -> None:
    """Do nothing: a file has the permissions of its directory."""


def set_owner(descriptor: int, status: os.stat_result) -> int:
    """Return the permissions of the other file: a file has the owner of its directory."""
    return stat.S_IMODE(status.st_mode)


def set_group(descriptor: int, group: int, mode: int) -> int:
    """Return the permissions: a file has no group."""
    return mode


def copy_attributes(source: int, target: int) -> bool:
    """Return True: a file has no attributes but those of its directory."""
    return True


def is_own(status: os.stat_result) -> bool:
    """Return True: a file's status has no owner."""
    return True


def uptime() -> float:
    """Return a number of seconds that also grows while the machine sleeps; for differences."""
    return time.monotonic()


def is_removed(descriptor: int) -> bool:
    """Return False: an open file cannot be removed."""
    return False


def find_shell(find_program: Callable[[str], str | None]) -> str:
    """Return the program that runs shell commands: the bash of Git, else one on PATH.

    The bash of the system itself does not count: it runs commands in a Linux machine, without the
    variables in which tools pass their arguments.

    Args:
        find_program: returns the path of a program on PATH, or None.
    """
    git, bash = find_program("git"), find_program("bash")
    for directory in Path(git).parents[1:3] if git is not None else ():
        if (directory / "bin" / "bash.exe").is_file():
            return str(directory / "bin" / "bash.exe")
    is_of_system = bash is not None and Path(bash).parent.name.lower() in _SYSTEM_DIRECTORIES
    return _SHELL if bash is None or is_of_system else bash


def program_files(path: str) -> Sequence[str]:
    """Return the files that the path of a program may mean: with an ending, if it has none."""
    has_ending = path.lower().endswith(_PROGRAM_ENDINGS)
    return (path,) if has_ending else [path + ending for ending in _PROGRAM_ENDINGS]


def remove_and_close(path: Path, descriptor: int) -> None:
    """Close a file's descriptor and remove the file, which is impossible while it is open.

    Raises:
        OSError: the file was not removed; the descriptor is closed.
    """
    os.close(descriptor)
    path.unlink()


def link(program: Path, other: Path) -> None:
    """Give a program a second name: a copy, since a link needs a privilege."""
    shutil.copyfile(program, other)


def is_link(other: Path, program: Path) -> bool:
    """Return whether `link` made the second name of a program."""
    return other.is_file() and other.read_bytes() == program.read_bytes()


def change_directory(descriptor: int) -> None:
    """Refuse: a directory has no descriptor on Windows.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{descriptor}: a directory has no descriptor on Windows")


def data_home(environ: Mapping[str, str], home: Path) -> Path:
    """Return the directory of programs' data: %LOCALAPPDATA%."""
    local = environ.get("LOCALAPPDATA", "")
    return Path(local) if local else home / "AppData" / "Local"


def has_screen(environ: Mapping[str, str]) -> bool:
    """Return whether a browser can open a window: it always can."""
    return True


@contextmanager
def hidden_input(descriptor: int, *, by_key: bool = False) -> Iterator[None]:
    """Let a console not show what is typed during the block; it stores keys in any case."""
    kernel, console = _kernel(), msvcrt.get_osfhandle(descriptor)
    before = ctypes.c_uint32()
    is_console = bool(kernel.GetConsoleMode(console, ctypes.byref(before)))
    if is_console:
        kernel.SetConsoleMode(console, before.value & ~_ECHO_INPUT)
    try:
        yield
    finally:
        if is_console:
            kernel.SetConsoleMode(console, before.value)


def discard_input(descriptor: int) -> None:
    """Discard what was typed at a console and is not read yet."""
    _kernel().FlushConsoleInputBuffer(msvcrt.get_osfhandle(descriptor))

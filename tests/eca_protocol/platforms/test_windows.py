"""The Windows half of `platforms`, on any system: a pretended kernel, `msvcrt` and `_winapi`."""

import ast
import ctypes
import errno
import inspect
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from eca_protocol import platforms
from tests.lazy import module_of

posix: Any = pytest.importorskip("eca_protocol.platforms.posix")  # compared with the other half

SOURCE = Path(platforms.__file__).with_name("windows.py")
JOB, PROCESS = 7000, 8000
NO_WINDOW, OWN_GROUP = 0x0800_0000, 0x0200


RESULTS = {
    "CreateJobObjectW": JOB,
    "OpenProcess": PROCESS,
    "SetInformationJobObject": 1,
    "AssignProcessToJobObject": 1,
    "TerminateJobObject": 1,
    "WaitForSingleObject": 0x102,
    "CloseHandle": 1,
    "FlushConsoleInputBuffer": 1,
    "GetConsoleMode": 0,
    "SetConsoleMode": 1,
}


def calls(function: Mock) -> list[tuple[Any, ...]]:
    return [call.args for call in function.call_args_list]


class Locks(ModuleType):
    """A `msvcrt` with exclusive locks of single bytes, one holder a descriptor."""

    LK_UNLCK, LK_LOCK, LK_NBLCK = 0, 1, 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.holders: dict[tuple[int, int], int] = {}

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert size == 1
        place = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        if mode == self.LK_UNLCK:
            if self.holders.get(place) != descriptor:
                raise PermissionError(errno.EACCES, "not locked")
            del self.holders[place]
        elif place in self.holders:
            raise PermissionError(errno.EACCES, "locked")
        else:
            self.holders[place] = descriptor

    def get_osfhandle(self, descriptor: int) -> int:
        return descriptor + 1000


@pytest.fixture
def kernel() -> Any:
    """Return a `kernel32` in which everything succeeds unless a test says otherwise."""
    return SimpleNamespace(**{name: Mock(return_value=each) for name, each in RESULTS.items()})


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch, kernel: Any) -> Any:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", Locks())
    monkeypatch.setitem(sys.modules, "_winapi", ModuleType("_winapi"))
    monkeypatch.setattr(ctypes, "WinDLL", lambda *_, **__: kernel, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NO_WINDOW", NO_WINDOW, raising=False)
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", OWN_GROUP, raising=False)
    return module_of(SOURCE)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    kills: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: kills.append(arguments))
    return kills


def own_names(module: ModuleType) -> set[str]:
    """Return the public names that a module defines, and does not import."""
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    defined = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    values = {each.target.id for each in tree.body if isinstance(each, ast.AnnAssign)}
    return {name for name in defined | values if not name.startswith("_")}


def test_both_halves_have_the_same_names_and_parameters(windows):
    names = own_names(posix)
    assert own_names(windows) == names <= set(dir(platforms))
    assert windows.START_OF_A_GROUP == {"creationflags": NO_WINDOW | OWN_GROUP}
    for name in names:
        ours, theirs = getattr(posix, name), getattr(windows, name)
        assert callable(ours) == callable(theirs), name
        if inspect.isfunction(ours):
            assert inspect.signature(ours) == inspect.signature(theirs), name
        elif inspect.isclass(ours):
            methods = {key for key in vars(ours) if not key.startswith("_")}
            assert methods == {key for key in vars(theirs) if not key.startswith("_")}


def test_a_group_is_a_job_that_ends_with_its_last_handle(windows, kernel):
    windows.ProcessGroup(42)
    assert ctypes.sizeof(windows._Limits) == 144  # as the system's header has it, on 64 bits
    ((job, kind, limits, size),) = calls(kernel.SetInformationJobObject)
    assert (job, kind, size) == (JOB, 9, 144)
    assert limits._obj.flags == 0x2000
    assert windows._Limits.flags.offset == 16
    assert calls(kernel.AssignProcessToJobObject) == [(JOB, PROCESS)]
    assert calls(kernel.CloseHandle) == [(PROCESS,)]


def test_a_signal_ends_the_job_and_the_others(windows, kernel, killed):
    windows.ProcessGroup(42).signal(windows.KILL, [43])
    assert calls(kernel.TerminateJobObject) == [(JOB, signal.SIGTERM)]
    assert killed == [(43, signal.SIGTERM)]


@pytest.mark.parametrize(
    ("failing", "opened"),
    [
        ("CreateJobObjectW", [PROCESS]),
        ("OpenProcess", [JOB]),
        ("SetInformationJobObject", [JOB, PROCESS]),
        ("AssignProcessToJobObject", [JOB, PROCESS]),
    ],
)
def test_without_a_job_the_child_itself_is_ended(windows, kernel, killed, failing, opened):
    getattr(kernel, failing).return_value = None
    group = windows.ProcessGroup(42)
    group.signal(windows.KILL)
    group.close()
    assert killed == [(42, signal.SIGTERM)]
    assert not kernel.TerminateJobObject.called
    assert sorted(handle for (handle,) in calls(kernel.CloseHandle)) == opened


def test_the_end_of_a_child_ends_the_rest_of_its_group(windows, kernel):
    child, group = Mock(pid=42), windows.ProcessGroup(42)
    for code in (None, 0):
        child.poll.return_value = code
        assert windows.has_ended(child, group) is (code == 0)
        assert ((JOB,) in calls(kernel.CloseHandle)) is (code == 0)


@pytest.mark.parametrize(
    ("process", "waited", "alive"), [(PROCESS, 0x102, True), (PROCESS, 0, False), (None, 0, False)]
)
def test_a_process_is_alive_while_its_handle_is_not_signalled(
    windows, kernel, process, waited, alive
):
    kernel.OpenProcess.return_value = process
    kernel.WaitForSingleObject.return_value = waited
    assert windows.is_alive(42) is alive


def test_a_lock_excludes_others_and_leaves_the_position_and_the_size(windows, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"text")
    with path.open("r+b", buffering=0) as first, path.open("r+b", buffering=0) as second:
        first.seek(2)
        windows.lock(first.fileno())
        assert first.read() == b"xt"
        for how in ("waits", "shared"):
            with pytest.raises(BlockingIOError):
                windows.lock(second.fileno(), **{how: True})
        windows.lock(first.fileno(), shared=True)
        windows.lock(first.fileno(), shared=True)
        windows.lock(second.fileno())
        for _ in range(2):
            windows.unlock(second.fileno())
        assert second.read() == b"text"
    assert path.stat().st_size == 4


@pytest.mark.parametrize(
    ("looks", "seconds", "has_input"),
    [
        ([5], 60, True),
        ([0, 0, 5], 60, True),
        ([OSError()], 60, True),
        ([0, OSError()], 60, True),
        ([0], 0, False),
    ],
)
def test_a_wait_for_a_pipe_ends_with_input_or_its_end_or_limit(
    windows, monkeypatch, looks, seconds, has_input
):
    results = [look if isinstance(look, OSError) else (look, 0) for look in looks]
    peek = Mock(side_effect=results)
    monkeypatch.setattr(sys.modules["_winapi"], "PeekNamedPipe", peek, raising=False)
    assert windows.has_input(5, seconds) is has_input
    assert calls(peek) == [(1005,)] * len(looks)


def test_descriptors_block_and_have_neither_mode_nor_owner(windows, tmp_path):
    assert windows.is_blocking(5)
    assert not windows.can_wait(5)
    windows.set_blocking(5, False)
    windows.set_mode(5, 0o600)
    assert windows.set_owner(5, tmp_path.stat()) == stat.S_IMODE(tmp_path.stat().st_mode)
    assert windows.copy_attributes(5, 6)
    with pytest.raises(NotImplementedError):
        windows.change_directory(5)


def test_a_second_name_of_a_program_is_a_copy(windows, tmp_path):
    program, other = tmp_path / "eca-server.exe", tmp_path / f"eca{windows.PROGRAM_SUFFIX}"
    program.write_bytes(b"MZ")
    assert not windows.is_link(other, program)
    windows.link(program, other)
    assert windows.is_link(other, program)
    assert not other.is_symlink()
    other.write_bytes(b"MZ of another program")
    assert not windows.is_link(other, program)


def test_data_is_local_and_a_file_has_no_owner_and_keeps_its_name_while_open(windows, tmp_path):
    home = Path("home")
    assert windows.data_home({"LOCALAPPDATA": "local"}, home) == Path("local")
    assert windows.data_home({}, home) == Path("home/AppData/Local")
    assert windows.is_own(tmp_path.stat())
    assert not windows.is_removed(5)
    assert windows.has_screen({})


def test_a_program_without_an_ending_has_one_of_those_that_the_system_starts(windows):
    assert windows.program_files(r"C:\x\npx") == [
        *(rf"C:\x\npx{ending}" for ending in (".com", ".exe", ".bat", ".cmd"))
    ]
    assert windows.program_files(r"C:\x\Git.EXE") == (r"C:\x\Git.EXE",)
    assert r"C:\x\hook.sh" not in windows.program_files(r"C:\x\hook.sh")


def test_commands_run_in_the_bash_of_git_and_never_in_that_of_the_system(windows, tmp_path):
    on_path = {"git": str(tmp_path / "Git" / "cmd" / "git.exe"), "bash": "/Windows/System32/bash"}
    assert windows.find_shell(on_path.get) == windows.find_shell({}.get) == windows._SHELL
    assert windows.find_shell({"bash": "/msys/bin/bash"}.get) == "/msys/bin/bash"
    bash = tmp_path / "Git" / "bin" / "bash.exe"
    bash.parent.mkdir(parents=True)
    bash.touch()
    assert windows.find_shell(on_path.get) == str(bash)


def test_an_open_file_is_closed_before_it_is_removed(windows, tmp_path, monkeypatch):
    path, order = tmp_path / "file", []
    for name in ("close", "unlink"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os,
            name,
            lambda *arguments, name=name, real=real: (order.append(name), real(*arguments)),
        )
    windows.remove_and_close(path, os.open(path, os.O_CREAT))
    assert (order, path.exists()) == (["close", "unlink"], False)


def test_a_console_does_not_show_hidden_input_and_discards_waiting_input(windows, kernel):
    def get_mode(console: int, mode: Any) -> int:
        assert console == 1005
        mode._obj.value = 0x1F7
        return 1

    with windows.hidden_input(5):
        pass
    assert not kernel.SetConsoleMode.called, "a pipe"
    kernel.GetConsoleMode = get_mode
    with windows.hidden_input(5):
        assert calls(kernel.SetConsoleMode) == [(1005, 0x1F3)]
    assert calls(kernel.SetConsoleMode)[1:] == [(1005, 0x1F7)]
    windows.discard_input(5)
    assert calls(kernel.FlushConsoleInputBuffer) == [(1005,)]

"""The POSIX half of `platforms`, with the branches of macOS."""

import errno
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eca_protocol import platforms

pytest.importorskip("fcntl")  # Windows has a half of its own

FOREVER = ["sleep", "600"]


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(FOREVER, **platforms.START_OF_A_GROUP) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("has_waitid", [True, False], ids=["waitid", "older macOS"])
def test_the_end_of_a_child_is_seen(monkeypatch, child, has_waitid):
    if not has_waitid:
        monkeypatch.delattr(os, "waitid", raising=False)
    group = platforms.ProcessGroup(child.pid)
    assert not platforms.has_ended(child, group)
    child.kill()
    while not platforms.has_ended(child, group):
        pass
    assert (child.returncode is None) is has_waitid
    assert child.wait(10) == -signal.SIGKILL


def test_this_process_is_alive_and_an_ended_one_is_not():
    with subprocess.Popen(["true"]) as ended:
        pass
    assert platforms.is_alive(os.getpid())
    assert not platforms.is_alive(ended.pid)
    assert not platforms.is_alive(1 << 70)


def test_a_pipe_has_input_when_written_to_and_at_its_end():
    read_fd, write_fd = os.pipe()
    try:
        assert platforms.can_wait(read_fd)
        assert not platforms.has_input(read_fd, 0)
        os.write(write_fd, b"x")
        assert platforms.has_input(read_fd, 60)
        assert os.read(read_fd, 2) == b"x"
    finally:
        os.close(write_fd)
    assert platforms.has_input(read_fd, 60)
    os.close(read_fd)


def test_a_lock_is_exclusive_or_shared(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as first, path.open("rb") as second:
        platforms.lock(first.fileno())
        with pytest.raises(BlockingIOError):
            platforms.lock(second.fileno(), shared=True)
        platforms.unlock(first.fileno())
        platforms.lock(second.fileno(), shared=True)
        platforms.lock(first.fileno(), shared=True)
        with pytest.raises(BlockingIOError):
            platforms.lock(first.fileno())


@pytest.mark.parametrize(
    ("refused", "mode", "expected"),
    [
        ((), 0o6664, 0o6664),
        (("owner",), 0o6664, 0o2664),
        (("owner", "group"), 0o6664, 0o0644),
        (("group",), 0o660, 0o600),
        (("group",), 0o640, 0o600),
        (("group",), 0o604, 0o604),
    ],
)
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL], ids=errno.errorcode.get)
def test_a_group_that_cannot_be_set_gives_no_other_group_its_permissions(
    monkeypatch, tmp_path, refused, mode, expected, number
):
    changes = []

    def change(descriptor, owner, group):
        changes.append((owner, group))
        if ("owner" if group == -1 else "group") in refused:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fchown", change)
    with (tmp_path / "file").open("wb") as file:
        own = os.fstat(file.fileno())
        fields = [mode, *own[1:4], own.st_uid + 1, own.st_gid + 1, *own[6:]]
        assert platforms.set_owner(file.fileno(), os.stat_result(fields)) == expected
        assert changes == [(-1, own.st_gid + 1), (own.st_uid + 1, -1)]
        changes.clear()
        assert platforms.set_owner(file.fileno(), own) == stat.S_IMODE(own.st_mode)
    assert not changes  # a file system without owners may refuse any change


def test_a_duplicate_is_above_the_standard_streams_and_not_inherited(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        copy = platforms.duplicate(file.fileno())
    assert copy > 2
    assert not os.get_inheritable(copy)
    os.close(copy)


def test_data_is_below_the_home_and_a_screen_is_named_or_belongs_to_the_system(monkeypatch):
    assert platforms.data_home({}, Path("home")) == Path("home/.local/share")
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        assert platforms.has_screen({name: "x"})
        assert not platforms.has_screen({name: ""})
    monkeypatch.setattr(sys, "platform", "darwin")
    assert platforms.has_screen({})


def test_an_open_file_has_an_owner_and_may_lose_its_name(tmp_path):
    path = tmp_path / "file"
    with path.open("w") as file:
        assert platforms.is_own(path.stat())
        assert not platforms.is_removed(file.fileno())
        path.unlink()
        assert platforms.is_removed(file.fileno())


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own figure is read")
def test_the_uptime_counts_the_time_in_which_the_machine_slept():
    before = platforms.uptime()
    booted = float(Path("/proc/uptime").read_text().split()[0])
    assert before - 0.1 <= booted <= platforms.uptime() + 0.1

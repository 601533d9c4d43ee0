"""Temporary files of a killed server: only these are removed, and only from the roots."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eca_protocol import platforms
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.host import Options
from eca_server.connection.features.settings import Settings
from eca_server.workspace import temporary_files
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.reading import Fingerprint
from eca_server.workspace.temporary_files import MIN_AGE, TemporaryFiles
from eca_server.workspace.writing import replace_file
from tests.eca_server.workspace.conftest import root_of

NAME = ".eca-0123456789abcdef.tmp"
RECORD = "0123456789abcdef"

KILLED = """
import os, signal, sys
from pathlib import Path
from eca_protocol.server.roots import Root
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.temporary_files import TemporaryFiles
from eca_server.workspace.writing import replace_file

folder, root, name = map(Path, sys.argv[1:])
roots = [Root(name="r", uri=root.as_uri(), path=root, real_path=root)]
place = Workspace(roots, (), TemporaryFiles(folder)).locate(str(name))

def stop():
    if list(root.rglob(".eca-*.tmp")):
        os.kill(os.getpid(), signal.SIGKILL)

replace_file(place, b"new", expected=None, checkpoint=stop, temporary=".eca-0123456789abcdef.tmp")
"""


@pytest.fixture
def root(project: Path) -> Path:
    return project


@pytest.fixture
def records(tmp_path: Path) -> TemporaryFiles:
    return TemporaryFiles(tmp_path / "data" / "temporaries")


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*"))


def make_old(*paths: Path) -> None:
    for path in paths:
        past = time.time() - MIN_AGE - 1
        os.utime(path, (past, past), follow_symlinks=False)


def killed(records: TemporaryFiles, root: Path, name: str = "file") -> tuple[Path, Path]:
    """Kill a server while it writes a file; return its temporary file and its record."""
    command = [sys.executable, "-c", KILLED, str(records.directory), str(root), name]
    assert subprocess.run(command, check=False, timeout=30).returncode == -signal.SIGKILL
    leftover, record = (root / name).with_name(NAME), records.directory / RECORD
    assert leftover.is_file()
    assert record.is_file()
    return leftover, record


def leave_file(records: TemporaryFiles, root: Path, name: str = "file") -> tuple[Path, Path]:
    """Return a temporary file and its record as a killed server leaves them, old enough."""
    leftover, record = (root / name).with_name(NAME), records.directory / RECORD
    leftover.parent.mkdir(exist_ok=True)
    record.parent.mkdir(parents=True)
    leftover.touch()
    record.write_text(str(leftover))
    make_old(leftover, record)
    return leftover, record


def file_of(records: TemporaryFiles, root: Path) -> Place:
    return Workspace([root_of(root)], (), records).locate("file")


def test_what_a_killed_server_left_is_removed_after_a_minute(records, root, tmp_path):
    leftover, record = killed(records, root)
    make_old(record)
    assert records.clean([root])
    assert leftover.exists()
    make_old(leftover, record)
    assert not records.clean([tmp_path / "other", tmp_path / "ro"])  # its root is not open
    assert (leftover.exists(), record.exists()) == (True, True)
    assert not records.clean([root])
    assert names(root) == names(records.directory) == []


def test_a_file_that_is_being_written_is_left_however_old(records, root):
    def clean() -> None:
        paths = [*root.glob(".eca-*.tmp"), *records.directory.iterdir()]
        make_old(*paths)
        TemporaryFiles(records.directory).clean([root])
        assert [*root.glob(".eca-*.tmp"), *records.directory.iterdir()] == paths
        assert len(paths) == 2

    replace_file(file_of(records, root), b"new", expected=None, checkpoint=clean)
    assert names(root) == ["file"]
    assert names(records.directory) == []


def into_link(leftover: Path) -> None:
    leftover.rename(leftover.with_name("target"))
    leftover.symlink_to("target")


def into_folder(leftover: Path) -> None:
    leftover.unlink()
    leftover.mkdir()


def under_link(leftover: Path) -> None:
    leftover.parent.rename(leftover.parent.with_name("moved"))
    leftover.parent.symlink_to("moved")


@pytest.mark.parametrize("change", [into_link, into_folder, under_link, None])
def test_what_has_its_name_and_is_not_ours_is_left(records, root, monkeypatch, change):
    leftover, _ = leave_file(records, root, "below/file")
    if change is None:  # it is a file of another user
        monkeypatch.setattr(os, "geteuid", lambda: leftover.stat().st_uid + 1)
    else:
        change(leftover)
        make_old(leftover)
    before = names(root)
    records.clean([root])
    assert names(root) == before


@pytest.mark.parametrize("text", ["", "file", "/", "\0", "{root}/file", "{root}/.eca-0.tmp"])
def test_a_note_that_names_anything_else_removes_nothing(records, root, text):
    _, record = leave_file(records, root)
    (root / "file").touch()
    (root / ".eca-0.tmp").touch()
    record.write_text(text.format(root=root))
    record.with_name("unrelated").mkdir()
    make_old(*root.iterdir(), *records.directory.iterdir())
    records.clean([root])
    assert set(names(root)) == {NAME, ".eca-0.tmp", "file"}
    assert names(records.directory) == ["unrelated"]


def test_a_file_is_written_where_no_note_can_be(records, root):
    records.directory.parent.mkdir()
    records.directory.touch()
    replace_file(file_of(records, root), b"new", expected=None)
    assert names(root) == ["file"]


def test_a_name_that_is_used_again_is_noted_again(records, root):
    leftover, _ = leave_file(records, root)
    leftover.unlink()
    existed: list[bool] = []

    def look() -> None:
        make_old(leftover)
        records.clean([root])
        existed.append(leftover.exists())

    place = file_of(records, root)
    replace_file(place, b"new", expected=None, temporary=NAME, checkpoint=look)
    assert set(existed) == {True}
    assert names(root) == ["file"]
    assert names(records.directory) == []
    replace_file(place, b"newer", expected=Fingerprint.of(b"new"))


def test_a_record_that_another_server_removes_is_written_again(records, root, monkeypatch):
    record = records.directory / RECORD
    locked = platforms.lock
    removals = [record]

    def remove_once(descriptor: int) -> None:
        for each in removals:
            each.unlink()
        removals.clear()
        locked(descriptor)

    monkeypatch.setattr(platforms, "lock", remove_once)
    with records.recorded(root / NAME):
        assert record.read_text() == str(root / NAME)
    assert not record.exists()


def test_a_note_that_another_server_looks_at_is_waited_for(records, root):
    record = records.directory / RECORD
    record.parent.mkdir(parents=True)
    descriptor = os.open(record, os.O_RDWR | os.O_CREAT)
    platforms.lock(descriptor)
    other = threading.Timer(0.05, lambda: (record.unlink(), os.close(descriptor)))
    other.start()
    with records.recorded(root / NAME):
        assert record.read_text() == str(root / NAME)
    other.join()


async def test_what_is_too_young_is_removed_later(records, root, monkeypatch, autojump_clock):
    leftover, _ = leave_file(records, root)
    leftover.touch()
    begun, started = time.time(), autojump_clock.current_time()
    clock = SimpleNamespace(
        time=lambda: begun + 1 + autojump_clock.current_time() - started,
        monotonic=time.monotonic,
        sleep=time.sleep,
    )
    monkeypatch.setattr(temporary_files, "time", clock)
    session = SimpleNamespace(roots=[SimpleNamespace(real_path=root)])
    host = SimpleNamespace(options=Options(environ={}), nursery=None)
    folders = Folders(cast("Any", session), Settings(host.options), cast("Any", host))
    folders.temporary_files = records
    await folders.remove_leftovers()
    assert not leftover.exists()
    assert autojump_clock.current_time() - started >= MIN_AGE

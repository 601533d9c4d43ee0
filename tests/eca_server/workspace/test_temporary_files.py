"""Temporary files of a killed server: only these are removed, and only from the roots."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio.testing

from eca_protocol import platforms
from eca_protocol.server.roots import Root
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.host import Options
from eca_server.connection.features.settings import Settings
from eca_server.workspace import temporary_files
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.reading import Fingerprint
from eca_server.workspace.temporary_files import MIN_AGE, TemporaryFiles
from eca_server.workspace.writing import replace_file

NAME = ".eca-0123456789abcdef.tmp"
RECORD = "0123456789abcdef"

KILLED = """
import os, signal, sys
from pathlib import Path
from eca_server.workspace.boundary import Workspace
from eca_server.workspace.writing import replace_file
from eca_protocol.server.roots import Root
from eca_server.workspace.temporary_files import TemporaryFiles

folder, root, name = map(Path, sys.argv[1:])
roots = [Root(name="r", uri=root.as_uri(), path=root, real_path=root)]
place = Workspace(roots, (), TemporaryFiles(folder)).locate(str(name))

def stop():
    if list(root.rglob(".eca-*.tmp")):
        os.kill(os.getpid(), signal.SIGKILL)

replace_file(place, b"new", expected=None, checkpoint=stop, temporary=".eca-0123456789abcdef.tmp")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "root"
    directory.mkdir()
    return directory


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


def test_what_a_killed_server_left_is_removed_after_a_minute(
    records: TemporaryFiles, root: Path
) -> None:
    leftover, record = killed(records, root)
    make_old(record)
    assert records.clean([root])
    assert leftover.exists()
    make_old(leftover, record)
    assert not records.clean([root])
    assert names(root) == []
    assert names(records.directory) == []


def test_a_file_that_is_being_written_is_left_however_old(
    records: TemporaryFiles, root: Path
) -> None:
    place = workspace_with(records, root).locate("file")

    def clean() -> None:
        found = [*root.glob(".eca-*.tmp"), *records.directory.iterdir()]
        make_old(*found)
        TemporaryFiles(records.directory).clean([root])
        assert [*root.glob(".eca-*.tmp"), *records.directory.iterdir()] == found
        assert len(found) == 2

    replace_file(place, b"new", expected=None, checkpoint=clean)
    assert names(root) == ["file"]
    assert names(records.directory) == []


def workspace_with(records: TemporaryFiles, root: Path) -> Workspace:
    return Workspace([Root(name="r", uri=root.as_uri(), path=root, real_path=root)], (), records)


def test_another_root_s_file_waits_until_that_root_is_opened(
    records: TemporaryFiles, root: Path, tmp_path: Path
) -> None:
    leftover, record = killed(records, root)
    make_old(leftover, record)
    assert not records.clean([tmp_path / "other", tmp_path / "ro"])
    assert (leftover.exists(), record.exists()) == (True, True)
    records.clean([root])
    assert (leftover.exists(), record.exists()) == (False, False)


def into_link(leftover: Path) -> None:
    leftover.rename(leftover.with_name("target"))
    leftover.symlink_to("target")


def into_folder(leftover: Path) -> None:
    leftover.unlink()
    leftover.mkdir()


def under_link(leftover: Path) -> None:
    leftover.parent.rename(leftover.parent.with_name("moved"))
    leftover.parent.symlink_to("moved")


@pytest.mark.parametrize("change", [into_link, into_folder, under_link])
def test_what_has_its_name_and_is_not_ours_is_left(
    records: TemporaryFiles, root: Path, change: Callable[[Path], None]
) -> None:
    leftover, record = killed(records, root, "below/file")
    make_old(record, leftover)
    change(leftover)
    make_old(record, leftover)
    before = names(root)
    records.clean([root])
    assert names(root) == before


def test_a_file_of_another_user_is_left(
    records: TemporaryFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leftover, record = killed(records, root)
    make_old(leftover, record)
    monkeypatch.setattr(os, "geteuid", lambda: leftover.stat().st_uid + 1)
    records.clean([root])
    assert leftover.exists()


@pytest.mark.parametrize("text", ["", "file", "/", "\0", "{root}/file", "{root}/.eca-0.tmp"])
def test_a_note_that_names_anything_else_removes_nothing(
    records: TemporaryFiles, root: Path, text: str
) -> None:
    records.directory.mkdir(parents=True)
    (root / "file").touch()
    (root / ".eca-0.tmp").touch()
    (root / NAME).touch()
    (records.directory / RECORD).write_text(text.format(root=root))
    (records.directory / "unrelated").mkdir()
    make_old(*root.iterdir(), *records.directory.iterdir())
    records.clean([root])
    assert set(names(root)) == {NAME, ".eca-0.tmp", "file"}
    assert names(records.directory) == ["unrelated"]


def test_a_file_is_written_where_no_note_can_be(records: TemporaryFiles, root: Path) -> None:
    records.directory.parent.mkdir()
    records.directory.touch()
    replace_file(workspace_with(records, root).locate("file"), b"new", expected=None)
    assert names(root) == ["file"]


def test_a_name_that_is_used_again_is_noted_again(records: TemporaryFiles, root: Path) -> None:
    leftover, record = killed(records, root)
    leftover.unlink()
    make_old(record)
    place = workspace_with(records, root).locate("file")
    existed: list[bool] = []

    def look() -> None:
        make_old(leftover)
        records.clean([root])
        existed.append(leftover.exists())

    replace_file(place, b"new", expected=None, temporary=NAME, checkpoint=look)
    assert set(existed) == {True}
    assert names(root) == ["file"]
    assert names(records.directory) == []
    replace_file(place, b"newer", expected=Fingerprint.of(b"new"))


def test_a_record_that_another_server_removes_is_written_again(
    records: TemporaryFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@contextmanager
def another_server_cleans(record: Path) -> Iterator[threading.Thread]:
    record.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(record, os.O_RDWR | os.O_CREAT)
    platforms.lock(descriptor)
    letting_go = threading.Timer(0.05, lambda: (record.unlink(), os.close(descriptor)))
    letting_go.start()
    yield letting_go
    letting_go.join()


def test_a_note_that_another_server_looks_at_is_waited_for(
    records: TemporaryFiles, root: Path
) -> None:
    record = records.directory / RECORD
    with another_server_cleans(record), records.recorded(root / NAME):
        assert record.read_text() == str(root / NAME)


@pytest.mark.trio
async def test_what_is_too_young_is_removed_a_little_later(
    records: TemporaryFiles,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    leftover, _ = killed(records, root)
    begun = time.time()
    clock = SimpleNamespace(
        time=lambda: begun + 1 + autojump_clock.current_time() - autojump_clock_start,
        monotonic=time.monotonic,
        sleep=time.sleep,
    )
    autojump_clock_start = autojump_clock.current_time()
    monkeypatch.setattr(temporary_files, "time", clock)
    session = SimpleNamespace(roots=[SimpleNamespace(real_path=root)])
    host = SimpleNamespace(options=Options(environ={}), nursery=None)
    folders = Folders(cast("Any", session), Settings(host.options), cast("Any", host))
    folders.temporary_files = records
    await folders.remove_leftovers()
    assert not leftover.exists()
    assert autojump_clock.current_time() - autojump_clock_start >= MIN_AGE

"""Temporary files of a server that was killed: only those are removed, and only from the roots."""

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

from eca_server.features import workspace as workspace_feature
from eca_server.workspace import Fingerprint, Workspace, replace_file, temporaries
from eca_server.workspace.roots import Root
from eca_server.workspace.temporaries import AGE, Temporaries

NAME = ".eca-0123456789abcdef.tmp"
NOTE = "0123456789abcdef"

KILLED = """
import os, signal, sys
from pathlib import Path
from eca_server.workspace import Workspace, replace_file
from eca_server.workspace.roots import Root
from eca_server.workspace.temporaries import Temporaries

folder, root, name = map(Path, sys.argv[1:])
roots = [Root(name="r", uri=root.as_uri(), path=root, real_path=root)]
place = Workspace(roots, (), Temporaries(folder)).locate(str(name))

def stop():
    if list(root.rglob(".eca-*.tmp")):
        os.kill(os.getpid(), signal.SIGKILL)

replace_file(place, b"new", expected=None, checkpoint=stop, temporary=".eca-0123456789abcdef.tmp")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def notes(tmp_path: Path) -> Temporaries:
    return Temporaries(tmp_path / "data" / "temporaries")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def make_old(*paths: Path) -> None:
    for path in paths:
        past = time.time() - AGE - 1
        os.utime(path, (past, past), follow_symlinks=False)


def killed(notes: Temporaries, root: Path, name: str = "file") -> tuple[Path, Path]:
    """Kill a server while it writes a file; its temporary file and its note."""
    command = [sys.executable, "-c", KILLED, str(notes.folder), str(root), name]
    assert subprocess.run(command, check=False, timeout=30).returncode == -signal.SIGKILL
    left, note = (root / name).with_name(NAME), notes.folder / NOTE
    assert left.is_file()
    assert note.is_file()
    return left, note


def test_what_a_killed_server_left_is_removed_after_a_minute(
    notes: Temporaries, root: Path
) -> None:
    left, note = killed(notes, root)
    make_old(note)
    assert notes.clean([root])
    assert left.exists()
    make_old(left, note)
    assert not notes.clean([root])
    assert names(root) == []
    assert names(notes.folder) == []


def test_a_file_that_is_being_written_is_left_however_old(notes: Temporaries, root: Path) -> None:
    place = workspace_with(notes, root).locate("file")

    def clean() -> None:
        found = [*root.glob(".eca-*.tmp"), *notes.folder.iterdir()]
        make_old(*found)
        Temporaries(notes.folder).clean([root])
        assert [*root.glob(".eca-*.tmp"), *notes.folder.iterdir()] == found
        assert len(found) == 2

    replace_file(place, b"new", expected=None, checkpoint=clean)
    assert names(root) == ["file"]
    assert names(notes.folder) == []


def workspace_with(notes: Temporaries, root: Path) -> Workspace:
    return Workspace([Root(name="r", uri=root.as_uri(), path=root, real_path=root)], (), notes)


def test_another_root_s_file_waits_until_that_root_is_opened(
    notes: Temporaries, root: Path, tmp_path: Path
) -> None:
    left, note = killed(notes, root)
    make_old(left, note)
    assert not notes.clean([tmp_path / "other", tmp_path / "ro"])
    assert (left.exists(), note.exists()) == (True, True)
    notes.clean([root])
    assert (left.exists(), note.exists()) == (False, False)


def into_link(left: Path) -> None:
    left.rename(left.with_name("target"))
    left.symlink_to("target")


def into_folder(left: Path) -> None:
    left.unlink()
    left.mkdir()


def under_link(left: Path) -> None:
    left.parent.rename(left.parent.with_name("moved"))
    left.parent.symlink_to("moved")


@pytest.mark.parametrize("change", [into_link, into_folder, under_link])
def test_what_has_its_name_and_is_not_ours_is_left(
    notes: Temporaries, root: Path, change: Callable[[Path], None]
) -> None:
    left, note = killed(notes, root, "below/file")
    make_old(note, left)
    change(left)
    make_old(note, left)
    before = names(root)
    notes.clean([root])
    assert names(root) == before


def test_a_file_of_another_user_is_left(
    notes: Temporaries, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, note = killed(notes, root)
    make_old(left, note)
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    notes.clean([root])
    assert left.exists()


@pytest.mark.parametrize("text", ["", "file", "/", "\0", "{root}/file", "{root}/.eca-0.tmp"])
def test_a_note_that_names_anything_else_removes_nothing(
    notes: Temporaries, root: Path, text: str
) -> None:
    notes.folder.mkdir(parents=True)
    (root / "file").touch()
    (root / ".eca-0.tmp").touch()
    (root / NAME).touch()
    (notes.folder / NOTE).write_text(text.format(root=root))
    (notes.folder / "unrelated").mkdir()
    make_old(*root.iterdir(), *notes.folder.iterdir())
    notes.clean([root])
    assert set(names(root)) == {NAME, ".eca-0.tmp", "file"}
    assert names(notes.folder) == ["unrelated"]


def test_a_file_is_written_where_no_note_can_be(notes: Temporaries, root: Path) -> None:
    notes.folder.parent.mkdir()
    notes.folder.touch()
    replace_file(workspace_with(notes, root).locate("file"), b"new", expected=None)
    assert names(root) == ["file"]


def test_a_name_that_is_used_again_is_noted_again(notes: Temporaries, root: Path) -> None:
    left, note = killed(notes, root)
    left.unlink()
    make_old(note)
    place = workspace_with(notes, root).locate("file")
    seen: list[bool] = []

    def look() -> None:
        make_old(left)
        notes.clean([root])
        seen.append(left.exists())

    replace_file(place, b"new", expected=None, temporary=NAME, checkpoint=look)
    assert set(seen) == {True}
    assert names(root) == ["file"]
    assert names(notes.folder) == []
    replace_file(place, b"newer", expected=Fingerprint.of(b"new"))


def test_a_note_that_is_removed_under_the_hand_is_written_again(
    notes: Temporaries, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = notes.folder / NOTE
    locked = temporaries._lock
    removals = [note]

    def lose_it_once(descriptor: int) -> None:
        for each in removals:
            each.unlink()
        removals.clear()
        locked(descriptor)

    monkeypatch.setattr(temporaries, "_lock", lose_it_once)
    with notes.noted(root / NAME):
        assert note.read_text() == str(root / NAME)
    assert not note.exists()


@contextmanager
def another_server_cleans(note: Path) -> Iterator[threading.Thread]:
    note.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(note, os.O_RDWR | os.O_CREAT)
    temporaries._lock(descriptor)
    letting_go = threading.Timer(0.05, lambda: (note.unlink(), os.close(descriptor)))
    letting_go.start()
    yield letting_go
    letting_go.join()


def test_a_note_that_another_server_looks_at_is_waited_for(notes: Temporaries, root: Path) -> None:
    note = notes.folder / NOTE
    with another_server_cleans(note), notes.noted(root / NAME):
        assert note.read_text() == str(root / NAME)


@pytest.mark.trio
async def test_what_is_too_young_is_removed_a_little_later(
    notes: Temporaries,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: trio.testing.MockClock,
) -> None:
    left, _ = killed(notes, root)
    begun = time.time()
    clock = SimpleNamespace(
        time=lambda: begun + 1 + autojump_clock.current_time() - autojump_clock_start,
        monotonic=time.monotonic,
        sleep=time.sleep,
    )
    autojump_clock_start = autojump_clock.current_time()
    monkeypatch.setattr(temporaries, "time", clock)
    connection = SimpleNamespace(
        temporaries=notes, session=SimpleNamespace(roots=[SimpleNamespace(real_path=root)])
    )
    await workspace_feature.remove_leftovers(cast("Any", connection))
    assert not left.exists()
    assert autojump_clock.current_time() - autojump_clock_start >= AGE

from __future__ import annotations

import errno
import os
import shutil
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from eca_server.workspace import opening
from eca_server.workspace.errors import (
    AlreadyExists,
    ContentChanged,
    FileError,
    NotRegularFile,
    OutsideWorkspace,
    PathChanged,
)
from eca_server.workspace.reading import Fingerprint, read_file
from eca_server.workspace.writing import move_file, replace_file
from tests.eca_server.workspace.conftest import swapped_all_the_time

OLD = Fingerprint.of(b"old")


@pytest.fixture
def file(project: Path) -> Path:
    path = project / "file"
    path.write_bytes(b"old")
    return path


@pytest.fixture(params=["walked", "by path"], autouse=True)
def platform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run each test also as on a platform that cannot open relative to a directory."""
    if request.param == "by path":
        monkeypatch.setattr(opening, "_STEPS", False)
    return str(request.param)


def entries(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_gets_a_new_content_at_once(workspace, file):
    with file.open("rb") as reader:
        written = replace_file(workspace.locate("file"), b"new content", expected=OLD)
        assert reader.read() == b"old"
    assert file.read_bytes() == b"new content"
    assert written == Fingerprint.of(b"new content")
    assert entries(file.parent) == ["file"]


def test_the_mode_of_a_file_is_preserved(workspace, file):
    file.chmod(0o751)
    replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


ACCESS = "system.posix_acl_access"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such calls")


def access_list(group: int, mask: int) -> bytes:
    """Return an access control list with an entry for the user 65534."""
    anyone = 0xFFFFFFFF
    entries = [
        (1, 6, anyone),
        (2, 6, 65534),
        (4, group, anyone),
        (16, mask, anyone),
        (32, 0, anyone),
    ]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"the file system has no {name}: {error}")


@on_linux
@pytest.mark.parametrize("change", [replace_file, move_file])
def test_extended_attributes_and_access_lists_are_preserved(
    workspace, file, project, monkeypatch, change
):
    set_attribute(file, "user.note", b"x")
    set_attribute(file, ACCESS, access_list(group=0, mask=6))
    mode = file.stat().st_mode
    if change is replace_file:
        replace_file(workspace.locate("file"), b"new", expected=OLD)
    else:
        on_another_file_system(monkeypatch)
        move_file(workspace.locate("file"), workspace.locate("moved"))
        file = project / "moved"
    assert os.getxattr(file, "user.note") == b"x"
    assert os.getxattr(file, ACCESS) == access_list(group=0, mask=6)
    assert file.stat().st_mode == mode


@on_linux
def test_without_its_access_list_a_file_is_closed_to_its_group(workspace, file, monkeypatch):
    set_attribute(file, ACCESS, access_list(group=0, mask=6))
    monkeypatch.setattr(os, "setxattr", fails_with(errno.EPERM))
    replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@on_linux
def test_a_file_gets_no_access_list_from_its_folder(workspace, file, project, monkeypatch):
    file.chmod(0o640)
    set_attribute(project, "system.posix_acl_default", access_list(group=4, mask=6))
    replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert ACCESS not in os.listxattr(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    monkeypatch.setattr(os, "removexattr", fails_with(errno.EPERM))
    replace_file(workspace.locate("file"), b"old", expected=Fingerprint.of(b"new"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@on_linux
def test_on_a_file_system_without_attributes_the_mode_is_preserved(workspace, file, monkeypatch):
    file.chmod(0o640)
    monkeypatch.setattr(os, "listxattr", fails_with(errno.ENOTSUP))
    replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


def test_a_new_file_gets_its_mode_by_the_umask(workspace, project):
    before = os.umask(0o027)
    try:
        replace_file(workspace.locate("new"), b"new", expected=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((project / "new").stat().st_mode) == 0o640


def test_missing_parents_are_made(workspace, project):
    replace_file(workspace.locate("a/b/new"), b"new", expected=None)
    assert (project / "a" / "b" / "new").read_bytes() == b"new"


def test_a_large_content_is_written_in_pieces(workspace, file):
    pieces: list[None] = []
    data = os.urandom(3 << 20)
    place = workspace.locate("file")
    replace_file(place, data, expected=OLD, checkpoint=lambda: pieces.append(None))
    assert file.read_bytes() == data
    assert len(pieces) >= 3


def test_a_file_that_has_changed_is_left_alone(workspace, file):
    file.write_bytes(b"mine")
    with pytest.raises(ContentChanged, match=r"project/file' has changed since it was read"):
        replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert file.read_bytes() == b"mine"
    assert entries(file.parent) == ["file"]


def test_a_file_that_has_grown_is_not_read_to_its_end(workspace, file):
    with file.open("ab") as growing:
        growing.truncate(1 << 40)
    with pytest.raises(ContentChanged):
        replace_file(workspace.locate("file"), b"new", expected=OLD)


def test_a_file_touched_and_not_changed_is_written(workspace, file):
    os.utime(file, (1, 1))
    replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert file.read_bytes() == b"new"


def test_a_file_that_is_gone_does_not_come_back(workspace, file):
    place = workspace.locate("file")
    file.unlink()
    with pytest.raises(ContentChanged, match="was removed"):
        replace_file(place, b"new", expected=OLD)
    assert not file.exists()


def test_an_unexpected_file_is_left_alone(workspace, file):
    with pytest.raises(AlreadyExists, match="already exists"):
        replace_file(workspace.locate("file"), b"new", expected=None)
    assert file.read_bytes() == b"old"


def test_a_file_changed_while_its_successor_is_written_is_left_alone(workspace, file, monkeypatch):
    interfere(monkeypatch, lambda: file.write_bytes(b"mine"))
    with pytest.raises(ContentChanged):
        replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert file.read_bytes() == b"mine"
    assert entries(file.parent) == ["file"]


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_while_a_new_one_is_written_is_left_alone(
    workspace, project, monkeypatch, hard_links
):
    if not hard_links:
        without_hard_links(monkeypatch)
    interfere(monkeypatch, lambda: (project / "new").write_bytes(b"mine"))
    with pytest.raises(AlreadyExists):
        replace_file(workspace.locate("new"), b"new", expected=None)
    assert (project / "new").read_bytes() == b"mine"
    assert entries(project) == ["new"]


def test_without_hard_links_a_new_file_is_made_all_the_same(workspace, project, monkeypatch):
    without_hard_links(monkeypatch)
    replace_file(workspace.locate("a/new"), b"new", expected=None)
    assert (project / "a" / "new").read_bytes() == b"new"
    assert entries(project) == ["a", "a/new"]


def test_without_hard_links_a_failure_leaves_no_empty_file(workspace, project, monkeypatch):
    without_hard_links(monkeypatch)
    monkeypatch.setattr(os, "replace", fails_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        replace_file(workspace.locate("new"), b"new", expected=None)
    assert entries(project) == []


def interfere(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Run an action when the temporary file has been synced to the disk."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            action()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def without_hard_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", fails_with(errno.EPERM))


def on_another_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put every name but `file` on another file system."""
    real = os.link

    def link(old: str, new: str, **kwargs: int) -> None:
        if Path(old).name == "file":
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(old, new, **kwargs)

    monkeypatch.setattr(os, "link", link)


def unlink_fails(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Make only the removal of `file` fail."""
    real = os.unlink

    def unlink(name: str, **kwargs: int) -> None:
        if Path(name).name == "file":
            raise OSError(number, os.strerror(number))
        real(name, **kwargs)

    monkeypatch.setattr(os, "unlink", unlink)


def fails_with(number: int) -> Callable[..., None]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_whatever_fails_nothing_is_left_behind(workspace, file, monkeypatch, call):
    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(OSError, match=r"No space left on device: '.*project/file'"):
        replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_the_parents_of_a_file_that_could_not_be_made_go_away(
    workspace, project, monkeypatch, call, platform
):
    (project / "a").mkdir()
    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        replace_file(workspace.locate("a/b/c/new"), b"new", expected=None)
    assert entries(project) == ["a"] if platform == "walked" else ["a", "a/b", "a/b/c"]


def test_a_cancelled_write_leaves_nothing_behind(workspace, file):
    calls: list[None] = []

    def stop() -> None:
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(workspace.locate("file"), bytes(8 << 20), expected=OLD, checkpoint=stop)
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == ["file"]


def test_a_write_that_is_cancelled_while_it_is_made_durable_leaves_nothing_behind(
    workspace, project, monkeypatch
):
    synced: list[int] = []

    def stop() -> None:
        if synced:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", synced.append)
    with pytest.raises(KeyboardInterrupt):
        replace_file(workspace.locate("new"), b"new", expected=None, checkpoint=stop)
    assert entries(project) == []


def test_a_link_is_written_through(workspace, file, project):
    (project / "link").symlink_to("file")
    replace_file(workspace.locate("link"), b"new", expected=OLD)
    assert (project / "link").is_symlink()
    assert file.read_bytes() == b"new"


def test_a_link_is_not_written_through_to_the_outside(workspace, project, outside):
    (project / "link").symlink_to(outside)
    with pytest.raises(OutsideWorkspace, match=r"leads out of the workspace .*outside/secret"):
        replace_file(workspace.locate("link/secret"), b"new", expected=Fingerprint.of(b"secret\n"))
    with pytest.raises(OutsideWorkspace):
        replace_file(workspace.locate("link/new"), b"new", expected=None)
    assert entries(outside) == ["secret"]


def test_a_file_outside_is_written_under_its_own_name(workspace, outside):
    place = workspace.locate(str(outside / "secret"))
    replace_file(place, b"new", expected=read_file(place, limit=100).fingerprint)
    assert (outside / "secret").read_bytes() == b"new"


def test_a_link_swapped_in_is_not_written_through(workspace, project, outside):
    (project / "a").mkdir()
    (project / "a" / "secret").write_bytes(b"old")
    existing, new = workspace.locate("a/secret"), workspace.locate("a/new")
    shutil.rmtree(project / "a")
    (project / "a").symlink_to(outside)
    with pytest.raises(PathChanged):
        replace_file(existing, b"new", expected=OLD)
    with pytest.raises(PathChanged):
        replace_file(new, b"new", expected=None)
    assert entries(outside) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret\n"


def test_what_is_no_file_is_not_replaced(workspace, project):
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(NotRegularFile):
            replace_file(workspace.locate(name), b"new", expected=OLD)
        with pytest.raises(AlreadyExists):
            replace_file(workspace.locate(name), b"new", expected=None)


def test_a_file_that_may_not_be_written_is_left_alone(workspace, file, monkeypatch):
    file.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: False)  # as for any user but root
    with pytest.raises(PermissionError, match="project/file"):
        replace_file(workspace.locate("file"), b"new", expected=OLD)
    assert file.read_bytes() == b"old"


def test_a_file_moves_with_its_content_and_mode(workspace, file, project):
    file.chmod(0o751)
    move_file(workspace.locate("file"), workspace.locate("a/b/moved"))
    assert entries(project) == ["a", "a/b", "a/b/moved"]
    assert (project / "a" / "b" / "moved").read_bytes() == b"old"
    assert stat.S_IMODE((project / "a" / "b" / "moved").stat().st_mode) == 0o751


def test_a_directory_moves_whole(workspace, project):
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "file").touch()
    move_file(workspace.locate("a"), workspace.locate("c/d"))
    assert entries(project) == ["c", "c/d", "c/d/b", "c/d/b/file"]


@pytest.mark.parametrize("taken", ["file", "folder", "link"])
def test_nothing_is_moved_over_what_exists(workspace, file, project, taken):
    destination = project / "taken"
    match taken:
        case "file":
            destination.write_bytes(b"mine")
        case "folder":
            destination.mkdir()
        case "link":
            (project / "other").touch()
            destination.symlink_to("other")
    (project / "tree").mkdir()
    before = entries(project)
    for source in ("file", "tree"):
        with pytest.raises(AlreadyExists):
            move_file(workspace.locate(source), workspace.locate("taken"))
    assert entries(project) == before


def test_a_file_that_takes_the_name_at_the_last_moment_is_left_alone(
    workspace, file, project, monkeypatch
):
    real = os.link

    def link(*args: str, **kwargs: int) -> None:
        (project / "taken").write_bytes(b"mine")
        real(*args, **kwargs)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(AlreadyExists):
        move_file(workspace.locate("file"), workspace.locate("taken"))
    assert (project / "taken").read_bytes() == b"mine"
    assert file.read_bytes() == b"old"


def test_a_file_moves_to_another_file_system(workspace, file, project, monkeypatch):
    file.chmod(0o640)
    os.utime(file, ns=(10**9, 2 * 10**9))
    on_another_file_system(monkeypatch)
    move_file(workspace.locate("file"), workspace.locate("a/moved"))
    moved = (project / "a" / "moved").stat()
    assert (stat.S_IMODE(moved.st_mode), moved.st_mtime_ns) == (0o640, 2 * 10**9)
    assert entries(project) == ["a", "a/moved"]


def test_a_failed_move_leaves_everything_as_it_was(workspace, file, project, monkeypatch, platform):
    monkeypatch.setattr(os, "link", fails_with(errno.EXDEV))
    with pytest.raises(OSError, match="a/moved"):
        move_file(workspace.locate("file"), workspace.locate("a/moved"))
    assert file.read_bytes() == b"old"
    assert entries(project) == (["file"] if platform == "walked" else ["a", "file"])


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_file_whose_old_name_stays_does_not_get_the_new_one(
    workspace, file, monkeypatch, is_elsewhere
):
    if is_elsewhere:
        on_another_file_system(monkeypatch)
    unlink_fails(monkeypatch, errno.EROFS)
    with pytest.raises(OSError, match=r"Read-only file system: '.*project/file'"):
        move_file(workspace.locate("file"), workspace.locate("moved"))
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == ["file"]


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_file_whose_old_name_is_gone_meanwhile_is_moved(
    workspace, file, monkeypatch, is_elsewhere
):
    if is_elsewhere:
        on_another_file_system(monkeypatch)
    unlink_fails(monkeypatch, errno.ENOENT)
    move_file(workspace.locate("file"), workspace.locate("moved"))
    assert (file.parent / "moved").read_bytes() == b"old"


def test_a_directory_does_not_move_into_itself(workspace, project):
    (project / "a").mkdir()
    for destination in ("a", "a/b", "a/b/c"):
        with pytest.raises(FileError, match="into itself"):
            move_file(workspace.locate("a"), workspace.locate(destination))
    assert entries(project) == ["a"]


def test_a_link_is_not_moved(workspace, file, project):
    (project / "link").symlink_to("file")
    with pytest.raises(FileError, match=r"is a symbolic link to '.*project/file'"):
        move_file(workspace.locate("link"), workspace.locate("moved"))
    assert entries(project) == ["file", "link"]


def test_nothing_moves_through_a_link_to_the_outside(workspace, file, project, outside):
    (project / "link").symlink_to(outside)
    with pytest.raises(OutsideWorkspace):
        move_file(workspace.locate("file"), workspace.locate("link/moved"))
    with pytest.raises(OutsideWorkspace):
        move_file(workspace.locate("link/secret"), workspace.locate("taken"))
    assert entries(outside) == ["secret"]


def test_a_missing_file_does_not_move(workspace, project):
    with pytest.raises(FileNotFoundError, match="project/missing"):
        move_file(workspace.locate("missing"), workspace.locate("a/b"))
    assert entries(project) == []


def test_a_pipe_is_not_moved(workspace, project):
    os.mkfifo(project / "pipe")
    with pytest.raises(NotRegularFile):
        move_file(workspace.locate("pipe"), workspace.locate("b"))


def test_readers_see_the_old_content_or_the_new_one(workspace, file):
    contents = [bytes([65 + n]) * (1 << 16) for n in range(8)]
    file.write_bytes(contents[0])
    contents_read: set[bytes] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            contents_read.add(file.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        place = workspace.locate("file")
        before = Fingerprint.of(contents[0])
        for data in contents[1:]:
            before = replace_file(place, data, expected=before)
    finally:
        done.set()
        reader.join()
    assert contents_read <= set(contents)


def test_while_a_folder_is_swapped_for_a_link_nothing_outside_is_written(
    workspace, project, outside, monkeypatch
):
    monkeypatch.undo()  # only where a platform can walk is there no gap at all
    (project / "a").mkdir()
    for folder in (project / "a", outside):
        (folder / "secret").write_bytes(b"old")
    inode = (outside / "secret").stat().st_ino
    tried = written = 0
    patience = time.monotonic() + 20
    with swapped_all_the_time(project / "a", outside):
        while tried < 200 or (not written and time.monotonic() < patience):
            tried += 1
            try:
                replace_file(workspace.locate("a/secret"), b"old", expected=OLD)
            except (PathChanged, OutsideWorkspace, FileNotFoundError, ContentChanged):
                continue
            written += 1
    assert written
    assert (outside / "secret").stat().st_ino == inode
    assert entries(outside) == ["secret"]

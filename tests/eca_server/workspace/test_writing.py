import errno
import os
import shutil
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
SECRET = Fingerprint.of(b"top secret\n")


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


Write = Callable[..., Fingerprint]


@pytest.fixture
def write(workspace) -> Write:
    """Replace or create a file of the workspace."""

    def write(path: str, data: bytes = b"new", expected: Fingerprint | None = OLD, **more: Any):
        return replace_file(workspace.locate(path), data, expected=expected, **more)

    return write


@pytest.fixture
def move(workspace) -> Callable[[str, str], None]:
    return lambda old, new: move_file(workspace.locate(old), workspace.locate(new))


def entries(folder: Path) -> str:
    return " ".join(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*")))


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def fails_with(number: int) -> Callable[..., None]:
    def fail(*args: object, **kwargs: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def fail_for_file(monkeypatch: pytest.MonkeyPatch, function: str, number: int) -> None:
    """Make a function of `os` fail for the name `file` alone."""
    real = getattr(os, function)

    def refuse(name: str, *args: Any, **kwargs: Any) -> None:
        if Path(name).name == "file":
            raise OSError(number, os.strerror(number))
        real(name, *args, **kwargs)

    monkeypatch.setattr(os, function, refuse)


def on_another_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put every name but `file` on another file system."""
    fail_for_file(monkeypatch, "link", errno.EXDEV)


def interfere(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    """Run an action when the temporary file has been synced to the disk."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            action()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


def test_a_file_gets_a_new_content_at_once_and_its_mode_is_preserved(write, file, project):
    file.chmod(0o751)
    os.utime(file, (1, 1))  # touched, and not changed
    (project / "link").symlink_to("file")
    with file.open("rb") as reader:
        assert write("link", b"new content") == Fingerprint.of(b"new content")
        assert reader.read() == b"old"
    assert (project / "link").is_symlink()
    assert file.read_bytes() == b"new content"
    assert mode(file) == 0o751
    assert entries(project) == "file link"


def test_a_new_file_gets_its_mode_by_the_umask_and_missing_parents_are_made(write, project):
    before = os.umask(0o027)
    try:
        write("a/b/new", expected=None)
    finally:
        os.umask(before)
    assert (project / "a/b/new").read_bytes() == b"new"
    assert mode(project / "a/b/new") == 0o640


def test_a_large_content_is_written_in_pieces(write, file):
    pieces: list[None] = []
    data = os.urandom(3 << 20)
    write("file", data, checkpoint=lambda: pieces.append(None))
    assert file.read_bytes() == data
    assert len(pieces) >= 3


ACCESS = "system.posix_acl_access"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such calls")


def access_list(group: int, mask: int) -> bytes:
    """Return an access control list with an entry for the user 65534."""
    anyone = 0xFFFFFFFF
    rows = [(1, 6, anyone), (2, 6, 65534), (4, group, anyone), (16, mask, anyone), (32, 0, anyone)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def set_attribute(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        pytest.skip(f"the file system has no {name}: {error}")


@on_linux
@pytest.mark.parametrize("is_moved", [False, True])
def test_attributes_and_lists_are_preserved(write, move, file, project, monkeypatch, is_moved):
    set_attribute(file, "user.note", b"x")
    set_attribute(file, ACCESS, access_list(group=0, mask=6))
    before = mode(file)
    if is_moved:
        on_another_file_system(monkeypatch)
        move("file", "moved")
        file = project / "moved"
    else:
        write("file")
    assert os.getxattr(file, "user.note") == b"x"
    assert os.getxattr(file, ACCESS) == access_list(group=0, mask=6)
    assert mode(file) == before


@on_linux
def test_a_file_gets_no_access_list_from_its_folder(write, file, project, monkeypatch):
    file.chmod(0o640)
    set_attribute(project, "system.posix_acl_default", access_list(group=4, mask=6))
    write("file")
    assert ACCESS not in os.listxattr(file)
    assert mode(file) == 0o640
    monkeypatch.setattr(os, "removexattr", fails_with(errno.EPERM))
    write("file", b"old", Fingerprint.of(b"new"))
    assert mode(file) == 0o600


@on_linux
def test_without_its_access_list_a_file_is_closed_to_its_group(write, file, monkeypatch):
    with monkeypatch.context() as patch:  # a file system without attributes
        file.chmod(0o640)
        patch.setattr(os, "listxattr", fails_with(errno.ENOTSUP))
        write("file")
        assert mode(file) == 0o640
    set_attribute(file, ACCESS, access_list(group=0, mask=6))
    monkeypatch.setattr(os, "setxattr", fails_with(errno.EPERM))
    write("file", b"old", Fingerprint.of(b"new"))
    assert mode(file) == 0o600


@pytest.mark.parametrize(
    ("change", "expected", "error", "words"),
    [
        (lambda file: file.write_bytes(b"mine"), OLD, ContentChanged, "has changed since it was"),
        (lambda file: os.truncate(file, 1 << 40), OLD, ContentChanged, "has changed"),  # unread
        (Path.unlink, OLD, ContentChanged, "was removed"),
        (lambda file: None, None, AlreadyExists, "already exists"),
    ],
    ids=["changed", "grown", "gone", "unexpected"],
)
def test_a_file_that_is_not_as_expected_is_left_alone(write, file, change, expected, error, words):
    change(file)
    before = file.stat().st_ino if file.exists() else None
    with pytest.raises(error, match=f"project/file' {words}"):
        write("file", expected=expected)
    assert (file.stat().st_ino if file.exists() else None) == before
    assert entries(file.parent) == ("file" if before else "")


def test_a_file_changed_while_its_successor_is_written_is_left_alone(write, file, monkeypatch):
    interfere(monkeypatch, lambda: file.write_bytes(b"mine"))
    with pytest.raises(ContentChanged):
        write("file")
    assert file.read_bytes() == b"mine"
    assert entries(file.parent) == "file"


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_file_that_appears_meanwhile_is_left_alone(write, project, monkeypatch, hard_links):
    if not hard_links:
        monkeypatch.setattr(os, "link", fails_with(errno.EPERM))
        write("first", expected=None)
        assert (project / "first").read_bytes() == b"new"
    interfere(monkeypatch, lambda: (project / "new").write_bytes(b"mine"))
    with pytest.raises(AlreadyExists):
        write("new", expected=None)
    assert (project / "new").read_bytes() == b"mine"
    assert entries(project) == ("new" if hard_links else "first new")


def test_without_hard_links_a_failure_leaves_no_empty_file(write, project, monkeypatch):
    monkeypatch.setattr(os, "link", fails_with(errno.EPERM))
    monkeypatch.setattr(os, "replace", fails_with(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        write("new", expected=None)
    assert entries(project) == ""


def test_a_file_on_a_disk_that_fixes_all_modes_is_replaced(write, file, monkeypatch):
    file.chmod(0o600)  # as a new file has
    monkeypatch.setattr(os, "fchmod", fails_with(errno.EPERM))
    write("file", b"new")
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("call", ["fsync", "fchmod", "replace"])
def test_whatever_fails_nothing_is_left_behind(write, file, monkeypatch, call):
    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(OSError, match=r"No space left on device: '.*project/file'"):
        write("file")
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == "file"


@pytest.mark.parametrize("call", ["fsync", "link"])
def test_parents_of_a_failed_file_go_away(write, project, monkeypatch, call, platform):
    (project / "a").mkdir()
    monkeypatch.setattr(os, call, fails_with(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        write("a/b/c/new", expected=None)
    assert entries(project) == ("a" if platform == "walked" else "a a/b a/b/c")


def test_a_cancelled_write_leaves_nothing_behind(write, file, monkeypatch):
    calls: list[None] = []
    synced: list[int] = []

    def stop() -> None:
        calls.append(None)
        if len(calls) == 4 or synced:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write("file", bytes(8 << 20), checkpoint=stop)
    monkeypatch.setattr(os, "fsync", synced.append)  # cancelled while it is made durable
    with pytest.raises(KeyboardInterrupt):
        write("new", expected=None, checkpoint=stop)
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == "file"


def test_a_file_outside_is_written_under_its_own_name_alone(write, workspace, project, outside):
    (project / "link").symlink_to(outside)
    with pytest.raises(OutsideWorkspace, match=r"leads out of the workspace .*outside/secret"):
        write("link/secret", expected=SECRET)
    with pytest.raises(OutsideWorkspace):
        write("link/new", expected=None)
    assert entries(outside) == "secret"
    assert read_file(workspace.locate(str(outside / "secret")), limit=100).fingerprint == SECRET
    write(str(outside / "secret"), expected=SECRET)
    assert (outside / "secret").read_bytes() == b"new"


def test_a_link_swapped_in_is_not_written_through(workspace, project, outside):
    (project / "a").mkdir()
    (project / "a" / "secret").write_bytes(b"old")
    existing, new = workspace.locate("a/secret"), workspace.locate("a/new")
    shutil.rmtree(project / "a")
    (project / "a").symlink_to(outside)
    for place, expected in ((existing, OLD), (new, None)):
        with pytest.raises(PathChanged):
            replace_file(place, b"new", expected=expected)
    assert entries(outside) == "secret"
    assert (outside / "secret").read_bytes() == b"top secret\n"


def test_what_is_no_file_or_may_not_be_written_is_left_alone(write, move, file, monkeypatch):
    project = file.parent
    os.mkfifo(project / "pipe")
    (project / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(NotRegularFile):
            write(name)
        with pytest.raises(AlreadyExists):
            write(name, expected=None)
    with pytest.raises(NotRegularFile):
        move("pipe", "b")
    file.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: False)  # as for any user but root
    with pytest.raises(PermissionError, match="project/file"):
        write("file")
    real = os.open

    def open_read_only(name: str, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_WRONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(name, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_read_only)
    with pytest.raises(OSError, match=r"Read-only file system.*project/file"):
        write("file")
    assert file.read_bytes() == b"old"


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_file_moves_with_its_content_and_mode(move, file, project, monkeypatch, is_elsewhere):
    file.chmod(0o751)
    os.utime(file, ns=(10**9, 2 * 10**9))
    if is_elsewhere:
        on_another_file_system(monkeypatch)
    move("file", "a/b/moved")
    assert entries(project) == "a a/b a/b/moved"
    assert (project / "a/b/moved").read_bytes() == b"old"
    assert mode(project / "a/b/moved") == 0o751
    assert (project / "a/b/moved").stat().st_mtime_ns == 2 * 10**9


def test_a_directory_moves_whole_but_not_into_itself(move, project):
    (project / "a" / "b").mkdir(parents=True)
    (project / "a" / "b" / "file").touch()
    for destination in ("a", "a/b", "a/b/c"):
        with pytest.raises(FileError, match="into itself"):
            move("a", destination)
    assert entries(project) == "a a/b a/b/file"
    move("a", "c/d")
    assert entries(project) == "c c/d c/d/b c/d/b/file"


@pytest.mark.parametrize("taken", ["file", "folder", "link", "at the last moment"])
def test_nothing_is_moved_over_what_exists(move, file, project, monkeypatch, taken):
    destination = project / "taken"
    (project / "tree").mkdir()
    (project / "other").touch()
    real = os.link

    def link(*args: str, **kwargs: int) -> None:
        destination.write_bytes(b"mine")
        real(*args, **kwargs)

    match taken:
        case "file":
            destination.write_bytes(b"mine")
        case "folder":
            destination.mkdir()
        case "link":
            destination.symlink_to("other")
        case _:
            monkeypatch.setattr(os, "link", link)
    for source in ("file", "tree"):
        with pytest.raises(AlreadyExists):
            move(source, "taken")
    assert entries(project) == "file other taken tree"
    assert destination.is_dir() or destination.read_bytes() in (b"mine", b"")
    assert file.read_bytes() == b"old"


def test_a_failed_move_leaves_everything_as_it_was(move, file, project, monkeypatch, platform):
    with pytest.raises(FileNotFoundError, match="project/missing"):
        move("missing", "a/b")
    assert entries(project) == "file"
    (project / "link").symlink_to("file")
    with pytest.raises(FileError, match=r"is a symbolic link to '.*project/file'"):
        move("link", "moved")
    monkeypatch.setattr(os, "link", fails_with(errno.EXDEV))
    with pytest.raises(OSError, match="a/moved"):
        move("file", "a/moved")
    assert file.read_bytes() == b"old"
    assert entries(project) == ("file link" if platform == "walked" else "a file link")
    (project / "b").mkdir()
    monkeypatch.setattr(os, "replace", fails_with(errno.EXDEV))
    with pytest.raises(FileError, match=r"project/b' cannot be moved as a whole: .*one by one"):
        move("b", "c")
    monkeypatch.setattr(os, "replace", fails_with(errno.EROFS))
    with pytest.raises(OSError, match="Read-only"):
        move("b", "c")


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOENT])
def test_a_file_has_one_name_after_a_failed_move(move, file, monkeypatch, is_elsewhere, number):
    if is_elsewhere:
        on_another_file_system(monkeypatch)
    fail_for_file(monkeypatch, "unlink", number)
    if number == errno.ENOENT:  # the old name is gone meanwhile
        move("file", "moved")
        assert (file.parent / "moved").read_bytes() == b"old"
        return
    with pytest.raises(OSError, match=r"Read-only file system: '.*project/file'"):
        move("file", "moved")
    assert file.read_bytes() == b"old"
    assert entries(file.parent) == "file"


def test_a_file_that_gives_no_bytes_and_no_end_keeps_its_name(move, file, monkeypatch):
    real = os.read

    def read(descriptor: int, size: int) -> bytes:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # as /proc/kmsg
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return real(descriptor, size)

    on_another_file_system(monkeypatch)
    monkeypatch.setattr(os, "read", read)
    with pytest.raises(BlockingIOError, match="temporarily unavailable"):
        move("file", "moved")
    assert entries(file.parent) == "file"


def test_nothing_moves_through_a_link_to_the_outside(move, file, project, outside):
    (project / "link").symlink_to(outside)
    for old, new in (("file", "link/moved"), ("link/secret", "taken")):
        with pytest.raises(OutsideWorkspace):
            move(old, new)
    assert entries(outside) == "secret"


def test_nothing_outside_is_written_during_swaps(write, project, outside, monkeypatch):
    monkeypatch.undo()  # only where a platform can walk is there no gap at all
    (project / "a").mkdir()
    for folder in (project / "a", outside):
        (folder / "secret").write_bytes(b"old")
    inode = (outside / "secret").stat().st_ino
    tried = written = 0
    patience = time.monotonic() + 20
    with swapped_all_the_time(project / "a", outside):
        while tried < 100 or (not written and time.monotonic() < patience):
            tried += 1
            try:
                write("a/secret", b"old")
            except (PathChanged, OutsideWorkspace, FileNotFoundError, ContentChanged):
                continue
            written += 1
    assert written
    assert (outside / "secret").stat().st_ino == inode
    assert entries(outside) == "secret"

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.workspace import git
from eca_server.workspace.errors import PathChanged
from eca_server.workspace.ignore import list_files
from eca_server.workspace.opening import open_directory
from tests.eca_server.processes import assert_gone, children
from tests.eca_server.workspace.conftest import run_git
from tests.promises import within


@pytest.fixture(autouse=True)
def empty_git_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def write(folder: Path, files: Mapping[str, str] | Iterable[str]) -> None:
    """Write files, with contents or empty."""
    contents = files if isinstance(files, Mapping) else dict.fromkeys(files, "")
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def listed(folder: Path, **options: bool) -> list[str]:
    return list(list_files(folder, limit=10_000, **options))


@pytest.fixture(params=["with git", "without git"])
def tool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with Git, and on a machine without it."""
    if request.param == "without git":
        without_git(monkeypatch)
    return str(request.param)


def without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


def replace_git(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a shell script in the place of Git."""
    program = folder / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> Iterator[str]:
        raise AssertionError("Git should have been enough")

    monkeypatch.setattr("eca_server.workspace.ignore._rules_above", fail)


@pytest.fixture
def repository(project: Path) -> Path:
    run_git(project, "init", "-q")
    return project


def test_ignored_files_are_left_out(repository, tool):
    write(repository, {".gitignore": "*.log\n/build/\n/b/c/x\n", "b/.gitignore": "d_log\ny\n"})
    write(repository, ["a", "b/d_log", "build/a/b", "x.log", "b/c/w", "b/c/x", "b/c/y", "b/c/z"])
    (repository / ".git" / "info" / "exclude").write_text("/b/c/w\n")
    assert sorted(listed(repository)) == [".gitignore", "a", "b/.gitignore", "b/c/z"]
    assert listed(repository / "b" / "c") == ["z"]
    assert listed(repository / "build" / "a") == []
    some = list_files(repository, limit=10, without=["b/c", "a"])
    assert sorted(some) == [".gitignore", "b/.gitignore"]


def test_rules_hold_without_a_repository_and_what_version_control_keeps_is_never_listed(project):
    write(project, {".gitignore": "a\n", "a": "", "b/a": "", "b/c": ""})
    write(project, {".hg/a": "", ".svn/b": "", ".git/c": "", "d": "", "e/.git": "gitdir: x"})
    assert listed(project) == [".gitignore", "d", "b/c"]
    assert listed(project, gitignore=False) == [".gitignore", "a", "d", "b/a", "b/c"]


def test_a_name_whose_case_has_changed_is_listed_as_the_disk_has_it(repository):
    write(repository, ["Src/a", "Src/Deep/b", "Readme.md"])
    run_git(repository, "add", ".")
    run_git(repository, "config", "core.ignorecase", "true")
    (repository / "Src" / "Deep").rename(repository / "Src" / "deep")
    (repository / "Src").rename(repository / "src")
    (repository / "Readme.md").rename(repository / "README.md")
    assert sorted(listed(repository)) == ["README.md", "src/a", "src/deep/b"]


def test_a_file_in_conflict_is_listed_once(repository):
    write(repository, {"a": "0"})
    hashing = ["git", "hash-object", "-w", "a"]
    blob = subprocess.check_output(hashing, cwd=repository, text=True).strip()
    stages = "".join(f"100644 {blob} {stage}\ta\n" for stage in (1, 2, 3))
    update = ["git", "update-index", "--index-info"]
    subprocess.run(update, cwd=repository, input=stages, text=True, check=True)
    assert listed(repository) == ["a"]


def test_a_decomposed_name_is_listed_though_git_composes_it(repository, tmp_path, monkeypatch):
    write(repository, ["cafe\u0301/e\u0301", "a"])
    replace_git(tmp_path, "printf 'caf\\303\\251/\\303\\251\\0a\\0'", monkeypatch)
    assert listed(repository) == ["cafe\u0301/e\u0301", "a"]


def test_a_submodule_is_listed(repository, tmp_path):
    library = tmp_path / "library"
    write(library, ["b"])
    run_git(library, "init", "-q")
    run_git(library, "add", ".")
    run_git(library, "commit", "-qm", "b")
    run_git(repository, "submodule", "--quiet", "add", str(library), "library")
    assert sorted(listed(repository)) == [".gitmodules", "library/b"]


NESTED = [".gitignore", "a", "dist/lib.js"]


def make_nested(folder: Path) -> None:
    """Make a repository with a tracked file that its own rules ignore."""
    write(folder, {".gitignore": "dist\n", "dist/lib.js": "", "dist/new.js": "", "a": ""})
    run_git(folder, "init", "-q")
    run_git(folder, "add", "-f", "dist/lib.js")
    (folder / ".git" / "info" / "exclude").write_text("b\n")
    (folder / "b").touch()


@pytest.mark.parametrize("is_repository", [True, False])
def test_a_nested_repository_is_listed_by_git(project, monkeypatch, is_repository):
    if is_repository:
        run_git(project, "init", "-q")
    make_nested(project / "x" / "lib")
    shutil.copytree(project / "x" / "lib", project / "x" / "lib" / "deeper")
    expected = [f"x/lib/{path}" for path in NESTED] + [f"x/lib/deeper/{path}" for path in NESTED]
    assert sorted(listed(project)) == sorted(expected)


def test_nested_repositories_share_a_limit_of_number_and_time(project, tmp_path, monkeypatch):
    make_nested(project / "0")
    for number in range(1, 20):
        shutil.copytree(project / "0", project / f"{number}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eca_server.workspace.ignore._MOST_REPOSITORIES", 1)
        by_git = [path for path in listed(project) if path.endswith("/dist/lib.js")]
        assert len(by_git) == 1
    replace_git(tmp_path, "exec sleep 1000", monkeypatch)
    monkeypatch.setattr(git, "_SECONDS", 0.3)
    with within(5):
        assert len(listed(project)) == 60


def test_links_are_listed_if_they_lead_to_a_file(repository, outside, tool):
    write(repository, ["a", "b/c"])
    for name, target in {
        "file": "a", "folder": "b", "loop": "loop", "gone": "missing", "up": "..", "b/self": ".",
        "out": str(outside / "secret"), "zero": "/dev/zero",
    }.items():  # fmt: skip
        (repository / name).symlink_to(target)
    assert sorted(listed(repository)) == ["a", "b/c", "file", "out"]
    assert sorted(listed(repository, links=False)) == ["a", "b/c"]


def test_a_tracked_file_is_listed_though_it_is_ignored_unless_it_is_gone(repository, outside):
    write(repository, {".gitignore": "a\n", "a": "", "b": "", "c/d": "", "e/f": "", "g/secret": ""})
    run_git(repository, "add", "-f", ".")
    for folder in ("c", "g"):
        shutil.rmtree(repository / folder)
    (repository / "b").unlink()
    (repository / "e" / "f").unlink()
    os.mkfifo(repository / "e" / "f")
    (repository / "g").symlink_to(outside)
    assert sorted(listed(repository)) == [".gitignore", "a"]


def test_pipes_are_not_listed_and_not_waited_for(repository, tool, monkeypatch):
    monkeypatch.setattr(git, "_SECONDS", 0.3)  # Git itself would wait for ever
    os.mkfifo(repository / "pipe")
    os.mkfifo(repository / ".gitignore")
    (repository / "a").touch()
    assert listed(repository) == ["a"]


def test_odd_names_survive(repository, tool):
    names = [b"new\nline", b"\xff\xfe", "ü€".encode(), b" ", b'"', b"-x", b"a\tb", b"\\"]
    for name in names:
        (repository / os.fsdecode(name)).touch()
    assert sorted(map(os.fsencode, listed(repository))) == sorted(names)


def test_a_tree_without_a_bottom_is_left_in_time(project, tool):
    here = os.open(project, os.O_RDONLY)
    for _ in range(110):
        os.mkdir("deep-enough", dir_fd=here)
        below = os.open("deep-enough", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert 0 < len(listed(project)) <= 100


def test_a_listing_ends_at_its_limit_or_at_a_checkpoint_that_raises(repository, tool):
    write(repository, ["a", "b", "c"])
    assert list(list_files(repository, limit=2)) == ["a", "b"]
    assert list(list_files(repository, limit=0)) == []
    with pytest.raises(KeyError):
        list(list_files(repository, limit=10, checkpoint={}.popitem))
    write(repository, {".gitignore": "*", **{f"{number}": "" for number in range(40)}})
    shutil.rmtree(repository / ".git")
    calls = dict.fromkeys(range(20))  # so that it ends between the ignored names of a directory
    with pytest.raises(KeyError):
        list(list_files(repository, limit=10, checkpoint=calls.popitem))


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_hostile_configuration_runs_nothing(repository, tmp_path, monkeypatch, is_nested):
    top = repository
    if is_nested:
        repository = top / "inner"
        repository.mkdir()
        run_git(repository, "init", "-q")
    ran = tmp_path / "ran"
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\necho $0 >> '{ran}'\n")
    hook.chmod(0o755)
    write(repository, ["a", "b"])
    run_git(repository, "add", "a")
    with (repository / ".git" / "config").open("a") as config:
        keys = ("fsmonitor", "sshCommand", "pager", "editor", "gitProxy")
        config.write("[core]\n" + "".join(f"{key} = {hook}\n" for key in keys))
        config.write(f"hooksPath = {tmp_path}\n")
    subprocess.run(["git", "status", "-s"], cwd=repository, check=True, capture_output=True)
    assert ran.exists(), "without care Git does run the hook"
    ran.unlink()
    no_walk(monkeypatch)
    expected = ["inner/a", "inner/b"] if is_nested else ["a", "b"]
    assert sorted(listed(top)) == expected
    assert not ran.exists()


@pytest.mark.parametrize("by", ["configuration", "variables"])
def test_a_work_tree_configured_elsewhere_is_not_listed(repository, outside, monkeypatch, by):
    write(repository, ["a"])
    if by == "configuration":
        run_git(repository, "config", "core.worktree", str(outside))
    else:
        run_git(outside, "init", "-q")
        monkeypatch.setenv("GIT_DIR", str(outside / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(outside))
    no_walk(monkeypatch)
    assert listed(repository) == ["a"]


def test_a_program_of_that_name_in_the_project_is_not_run(repository, monkeypatch, tmp_path):
    write(repository, {"git": f"#!/bin/sh\necho >> '{tmp_path}/ran'\n"})
    (repository / "git").chmod(0o755)
    monkeypatch.chdir(repository)
    monkeypatch.setenv("PATH", ".")
    assert listed(repository) == ["git"]
    assert not (tmp_path / "ran").exists()


def test_a_damaged_submodule_or_repository_is_walked(repository):
    """The repository above tracks a file of the same name, and must not be used."""
    write(repository, {"a": "", "inner/.gitignore": "a\n", "inner/a": "", "inner/b": ""})
    run_git(repository, "add", "a")
    commit = "1" * 40
    run_git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},inner")
    (repository / "inner" / ".git").mkdir()
    assert sorted(listed(repository)) == ["a", "inner/.gitignore", "inner/b"]
    (repository / ".gitignore").write_text("a\n")
    (repository / ".git" / "index").write_bytes(b"nonsense")
    assert sorted(listed(repository)) == [".gitignore", "inner/.gitignore", "inner/b"]


@pytest.mark.parametrize("end", ["exit 1", "exec sleep 1000"])
def test_a_listing_that_git_breaks_off_is_completed(repository, tmp_path, monkeypatch, end):
    write(repository, {".gitignore": "x\n", "a": "", "b/c": "", "d": "", "x": ""})
    script = f"echo $$ >> '{tmp_path}/pids'; printf 'b/c\\0d\\0'; {end}"
    replace_git(tmp_path, script, monkeypatch)
    for seconds in (0.5, 5.0, 20.0):  # Git itself may start late
        monkeypatch.setattr(git, "_SECONDS", seconds)
        files = listed(repository)
        if files[0] == "b/c":
            break
    assert files == ["b/c", "d", ".gitignore", "a"]
    assert list(list_files(repository, limit=1)) == ["b/c"]  # an abandoned listing ends Git, too
    assert_gone(set(map(int, (tmp_path / "pids").read_text().split())))


def test_the_time_of_the_consumer_is_not_counted_as_git_s(repository, monkeypatch):
    write(repository, ["a", "b", "c"])
    run_git(repository, "add", "a")
    no_walk(monkeypatch)
    monkeypatch.setattr(git, "_SECONDS", 9.0)
    clock = Mock(offset=0)
    clock.monotonic = lambda: time.monotonic() + clock.offset
    monkeypatch.setattr(git, "time", clock)

    def slow() -> None:
        clock.offset += 10

    assert list(list_files(repository, limit=10, checkpoint=slow)) == ["a", "b", "c"]


names = st.sampled_from(["a", "b", "c.x", "é", "]", "-"])
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
# `**` only as a whole name: elsewhere Git does not do what its documentation says.
atoms = st.sampled_from(["a", "b", "*", ".x", "é", "?", "[!a]", "[a-b]", "[]-]", "\\a", "\\*"])
parts = st.lists(atoms, min_size=1, max_size=3).map("".join).filter(lambda part: "**" not in part)
globs = st.lists(parts | st.just("**"), min_size=1, max_size=3).map("/".join)
patterns = st.tuples(st.sampled_from(["", "!", "/"]), globs, st.sampled_from(["", "/"]))
ignore_files = st.dictionaries(
    st.sampled_from(["", "a/", "b/", "a/b/"]),
    st.lists(patterns.map("".join), max_size=4),
    max_size=3,
)


@given(
    files=st.sets(paths, max_size=10), rules=ignore_files, inside=st.sampled_from(["", "a", "a/b"])
)
def test_without_git_the_same_files_are_listed(files, rules, inside):
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        write(top, {".git/HEAD": "ref: refs/heads/main\n", ".git/refs/x": "", ".git/objects/x": ""})
        contents = {f"{folder}.gitignore": "\n".join(lines) for folder, lines in rules.items()}
        for path, content in (dict.fromkeys(files, "") | contents).items():
            try:
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text(content)
            except OSError:
                continue
        folder = top / inside
        if not folder.is_dir():
            return
        with pytest.MonkeyPatch.context() as patch:
            no_walk(patch)
            expected = set(listed(folder))
        with pytest.MonkeyPatch.context() as patch:
            without_git(patch)
            assert set(listed(folder)) == expected


def test_a_folder_swapped_for_a_link_is_not_listed(project, outside):
    (project / "a").symlink_to(outside)
    with pytest.raises(PathChanged, match="a' changed after it was checked"):
        listed(project / "a")
    assert listed(project / "missing") == []


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_what_was_opened_is_listed_wherever_its_path_leads(repository, outside, tool, kind):
    write(repository, {"a/b/c": "", "a/d": "", "a/.gitignore": "e\n", "a/e": ""})
    with open_directory(repository / "a") as opened:
        (repository / "a").rename(repository / "away")
        if kind == "link":
            (repository / "a").symlink_to(outside)
        else:
            write(repository, {"a/secret": ""})
        assert sorted(list_files(opened, limit=10)) == [".gitignore", "b/c", "d"]


def test_rules_that_cannot_be_read_are_logged(tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("PATH", "")  # Git is not there to read them
    folder = tmp_path / "project"
    write(folder, [".git/HEAD", ".gitignore", "a.txt"])
    os_open = os.open

    def refusing(path: str, *arguments: int, **options: int | None) -> int:
        if str(path).endswith(".gitignore"):
            raise PermissionError(13, "Permission denied")
        return os_open(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refusing)
    assert "a.txt" in listed(folder)
    [message] = [each.getMessage() for each in caplog.records]
    assert "could not read .gitignore (Permission denied)" in message


LISTING = """
import sys
from pathlib import Path
from eca_server.workspace.git import list_paths
from eca_server.workspace.opening import Directory

top = Path(sys.argv[1])
start = Directory(text=str(top), fd=None)
for path in list_paths(start, "--others", top=top, checkpoint=lambda: None):
    print(path, flush=True)
"""


def test_git_ends_with_a_killed_server(tmp_path, monkeypatch):
    replace_git(tmp_path, "printf '%s\\0' $$\nexec sleep 60", monkeypatch)
    command = [sys.executable, "-c", LISTING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        git_process = int(server.stdout.readline())
        assert git_process in children(server.pid)
        server.kill()
    assert_gone({git_process})


def test_a_pattern_that_a_limit_cuts_does_not_count(tmp_path, monkeypatch):
    without_git(monkeypatch)
    rest = "*.log\n".rjust(256 * 1024 + 5, "\n")
    write(tmp_path, {".gitignore": f"*.tmp{rest[5:]}", "a": "", "b.log": "", "c.tmp": ""})
    assert listed(tmp_path) == [".gitignore", "a", "b.log"]

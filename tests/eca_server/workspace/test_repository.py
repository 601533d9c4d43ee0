"""Git repositories: programs that Git would run in them, and their worktrees."""

import os
import shutil
from pathlib import Path

import pytest

from eca_server.agent.chat.store.place import workspace_key
from eca_server.workspace.repository import (
    is_bare_repository,
    makes_bare_repository,
    unsafe_git_reason,
)
from eca_server.workspace.worktree import in_main_worktree
from tests.eca_server.agent.chat.editor import ECHO, editor
from tests.eca_server.workspace.conftest import run_git

HARMLESS = [
    "", "[core]\nbare = false\nfilemode = true", "[core]\nfsmonitor = true", "[core]\nfsmonitor",
    '[remote "origin"]\nurl = git@example.org:x/y.git\nfetch = +refs/heads/*:refs/remotes/origin/*',
    '[remote "o"]\nurl = https://example.org/x', '[branch "main"]\nremote = origin',
    '[filter "lfs"]\nclean = git-lfs clean -- %f\nprocess = git-lfs filter-process',
    "[credential]\nhelper = store\n[credential \"x\"]\nhelper = cache --timeout=60",
    "[core]\nsshCommand = ssh -i ~/.ssh/work -o IdentitiesOnly=yes", "[alias]\nst = status",
    "# [core] fsmonitor = x", "[user]\nname = \"a; b\" # c",
    '[submodule "x"]\nurl = ../x\nactive = true',
    '[hook "lint"]\nevent = pre-commit\ncommand = ./lint',
]  # fmt: skip
PROGRAMS = [
    "[core]\nfsmonitor = ./x", "[CORE] FSMonitor=x", "[core]\n\tfsmonitor = \"./x\"",
    "[diff]external=x",
    '[diff "a b"]\ncommand = x', '[diff "a"]\ntextconv = x', "[diff.a]\ntextconv = x",
    '[filter "a"]\nclean = x', '[filter "lfs"]\nclean = x; git-lfs clean -- %f',
    '[merge "a"]\ndriver = x', "[alias]\nst = !x", "[credential]\nhelper = ./x",
    '[credential "https://x"]\nhelper = !x', "[gpg]\nprogram = x", '[gpg "ssh"]\nprogram = x',
    "[include]\npath = x", '[includeIf "gitdir:x"]\npath = x',
    "[core]\nsshCommand = ssh -o ProxyCommand=x",
    '[remote "o"]\nuploadpack = x', '[remote "o"]\nurl = ext::x', '[submodule "x"]\nupdate = !x',
    '[url "ext::x"]\ninsteadOf = a', "[core]\nfsmonitor = \\\n./x",
    "# a \\\n[core]\nfsmonitor = ./x",
    "[a]\nb = c # d \\\n[core]\nfsmonitor = ./x", "[core]\nworktree = /", "[pager]\nstatus = x",
    "[core]\nfsmonitor = \x0bx", "[core] editor = x", "[core]\nfsmonitor\xa0= x", "a b c",
    '[trailer "a"]\ncmd = x', "[interactive]\ndiffFilter = x", "[sequence]\neditor = x",
    "[gc]\nrecentObjectsHook = x", '[hook "x"]\nevent = post-index-change\ncommand = x',
    '[branch "main"]\nremote = ext::x', '[branch "main"]\npushRemote = ext::x',
    "[remote]\npushDefault = ext::x", '[lfs "extension.x"]\nclean = x',
    "[core]\nhooksPath = ~nobody-of-this-name/x", "[core]\nhooksPath = a\0b",
]  # fmt: skip


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Create a work tree as `git init` does."""
    a_repository(tmp_path / "top" / ".git")
    return tmp_path / "top"


def a_repository(directory: Path, config: str = "[core]\nbare = false\n") -> Path:
    for name in ("objects", "refs", "hooks"):
        (directory / name).mkdir(parents=True)
    (directory / "HEAD").write_text("ref: refs/heads/main\n")
    (directory / "config").write_text(config)
    return directory


def test_a_configuration_that_names_a_program_is_known_and_no_other(top):
    config = top / ".git" / "config"
    (top / "sub").mkdir()

    def reason(text: str) -> str | None:
        config.write_bytes(text.encode())
        return unsafe_git_reason(top / "sub")

    assert [text for text in HARMLESS if reason(text) is not None] == []
    assert [text for text in PROGRAMS if str(top) not in (reason(text) or "")] == []


def test_a_bare_repository_is_never_harmless_even_in_two_halves(top):
    bare = a_repository(top / "docs" / "store")
    for directory in (bare, bare / "refs", bare / "hooks"):
        assert "bare" in (unsafe_git_reason(directory) or "")
    assert unsafe_git_reason(top / "docs") is None
    shutil.rmtree(bare / "refs")
    assert not is_bare_repository(bare)
    (bare / "commondir").write_text("../../.git\n")
    assert is_bare_repository(bare)
    (bare / "HEAD").unlink()
    assert unsafe_git_reason(bare) is None


def test_a_directory_that_git_skips_does_not_hide_the_repository_above(top):
    with (top / ".git" / "config").open("a") as config:
        config.write("fsmonitor = ./x\n")
    (top / "link").mkdir()
    (top / "link" / ".git").symlink_to("missing")
    assert "fsmonitor" in (unsafe_git_reason(top / "link") or "")
    for name, head in (("empty", None), ("damaged", "x\n"), ("long", f"ref: {' ' * 300}refs/x\n")):
        git_directory = top / name / ".git"
        git_directory.mkdir(parents=True)
        if head is not None:
            a_repository(git_directory)
            (git_directory / "HEAD").write_text(head)
        assert "fsmonitor" in (unsafe_git_reason(top / name) or ""), name


def test_a_repository_whose_parts_are_no_directories_is_a_bare_one(top):
    for name in ("HEAD", "objects", "refs"):
        (top / "docs").mkdir(exist_ok=True)
        (top / "docs" / name).touch(mode=0o755)
    assert "bare" in (unsafe_git_reason(top / "docs") or "")


@pytest.mark.parametrize("pointer", [f"../shared{chr(10) * 300_000}", "a\0b"])
def test_a_common_directory_that_is_not_known_is_not_harmless(top, pointer):
    (top / ".git" / "commondir").write_text(pointer)
    assert unsafe_git_reason(top) is not None


def test_a_change_that_completes_a_bare_repository_is_known(top):
    store = top / "store"
    store.mkdir()
    assert not makes_bare_repository(top, store / "config")
    assert not makes_bare_repository(top, store / "HEAD")
    (store / "HEAD").touch()
    (store / "objects").mkdir()
    assert makes_bare_repository(top, store / "refs" / "x")
    assert makes_bare_repository(top, store / "Refs")
    assert makes_bare_repository(top, store / "commondir")
    assert not makes_bare_repository(top, store / "objects" / "x")
    (store / "refs").mkdir()
    assert makes_bare_repository(top, store / "config")
    assert not makes_bare_repository(top, top / "config")
    assert not makes_bare_repository(top, top)


def test_a_hook_that_reading_commands_run_is_a_program(top):
    hook = top / ".git" / "hooks" / "post-index-change"
    hook.write_text("#!/bin/sh\n")
    assert unsafe_git_reason(top) is None
    hook.chmod(0o755)
    assert str(hook) in (unsafe_git_reason(top) or "")
    hook.rename(top / "post-index-change")
    assert unsafe_git_reason(top) is None
    (top / ".git" / "config").write_text("[core]\nhooksPath = .\n")
    assert unsafe_git_reason(top)


def test_what_a_git_file_points_to_counts(top, tmp_path):
    store = top / ".git" / "worktrees" / "w"
    store.mkdir(parents=True)
    (store / "commondir").write_text("../..\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {store}\n")
    assert unsafe_git_reason(work) is None
    (store / "config.worktree").write_text("[core]\nfsmonitor = x\n")
    assert unsafe_git_reason(work)
    (store / "config.worktree").unlink()
    (top / ".git" / "config").write_text("[core]\nfsmonitor = x\n")
    assert unsafe_git_reason(work)


def test_the_repositories_of_submodules_count(top):
    module = a_repository(top / ".git" / "modules" / "a", "[core]\nworktree = ../../../a\n")
    assert unsafe_git_reason(top) is None
    (top / "a").mkdir()
    (top / "a" / ".git").write_text("gitdir: ../.git/modules/a\n")
    assert unsafe_git_reason(top / "a") is None
    (module / "config").write_text("[core]\nfsmonitor = x\n")
    assert unsafe_git_reason(top)
    shutil.rmtree(module)
    (top / ".gitmodules").write_text('[submodule "b"]\n\tpath = b\n\turl = x\n')
    a_repository(top / "b" / ".git", "[core]\nfsmonitor = x\n")
    assert unsafe_git_reason(top)


EVIL = "[core]\nfsmonitor = x\n"
INDEXES = {
    "version 2": [],
    "version 3": ["add -N later"],
    "version 4": ["update-index --index-version 4"],
    "many names": ["add .", "update-index --index-version 4"],
    "with extensions": ["update-index --untracked-cache --fsmonitor", "write-tree"],
}
GITLINK = "1" * 64


def git(top: Path, *commands: str) -> None:
    for command in commands:
        run_git(top, *command.split())


def a_work_tree(top: Path, *commands: str, hashes: str = "sha1", files: int = 1) -> Path:
    """Create a repository with a gitlink `sub`, which no `.gitmodules` names."""
    (top / "sub").mkdir(parents=True)
    (top / "later").touch()
    for name in range(files):
        (top / f"{'directory' * (name % 25)}{name}").touch()
    blob = GITLINK[: 40 if hashes == "sha1" else 64]
    init = f"init -q --template= --object-format={hashes}"
    link = f"update-index --add --cacheinfo 160000,{blob},sub"
    git(top, init, link, *commands)
    return top


@pytest.mark.parametrize("hashes", ["sha1", "sha256"])
@pytest.mark.parametrize("kind", INDEXES)
def test_a_submodule_in_the_index_counts(tmp_path, kind, hashes):
    files = 60 if kind == "many names" else 1
    top = a_work_tree(tmp_path.resolve() / "top", *INDEXES[kind], hashes=hashes, files=files)
    assert unsafe_git_reason(top) is None
    a_repository(top / "sub" / ".git")
    assert unsafe_git_reason(top) is None
    (top / "sub" / ".git" / "config").write_text(EVIL)
    assert "core.fsmonitor" in (unsafe_git_reason(top) or "")


@pytest.mark.parametrize(
    "pointer", ["gitdir: ../store", "gitdir: {}\n", "gitdir: link/../store\r\n"]
)
def test_a_submodule_is_where_its_git_file_points(tmp_path, pointer):
    top = a_work_tree(tmp_path.resolve() / "top")
    store = a_repository(top / ("store" if "link" not in pointer else "deep/store"), EVIL)
    (top / "deep" / "er").mkdir(parents=True)
    (top / "sub" / "link").symlink_to("../deep/er")
    (top / "sub" / ".git").write_text(pointer.format(store))
    assert str(store) in (unsafe_git_reason(top) or "")
    (store / "config").write_text("[core]\nworktree = ../../elsewhere\n")
    assert "different folder" in (unsafe_git_reason(top) or "")


def test_a_submodule_of_a_submodule_counts(tmp_path):
    top = a_work_tree(tmp_path.resolve() / "top")
    inner = a_work_tree(top / "sub")
    assert unsafe_git_reason(top) is None
    a_repository(inner / "sub" / ".git", EVIL)
    assert "sub/sub/.git/config" in (unsafe_git_reason(top) or "")


def test_a_real_submodule_is_harmless(tmp_path):
    source = a_work_tree(tmp_path.resolve() / "source", "add later")
    top = a_work_tree(tmp_path.resolve() / "top")
    run_git(source, "commit", "-qm", "x")
    run_git(top, "submodule", "add", "-q", str(source), "module")
    assert (top / "module" / ".git").is_file()
    assert unsafe_git_reason(top) is None
    with (top / ".git" / "modules" / "module" / "config").open("a") as file:
        file.write(EVIL)
    assert unsafe_git_reason(top)


def damaged(data: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "cut": data[: len(data) // 2],
        "cut at its end": data[:-8],
        "another version": data[:7] + b"\5" + data[8:],
        "more entries": data[:8] + b"\xff" + data[9:],
        "another length": data.replace(b"\0\3sub\0", b"\0\2sub\0"),
        "split": data[:-20] + b"link\0\0\0\4abcd" + data[-20:],
    }


def test_an_index_that_cannot_be_read_is_not_harmless(tmp_path):
    top = a_work_tree(tmp_path.resolve() / "top")
    index = top / ".git" / "index"
    for kind, data in damaged(index.read_bytes()).items():
        index.write_bytes(data)
        assert unsafe_git_reason(top) == f"{index} cannot be read", kind
    index.unlink()
    assert unsafe_git_reason(top) is None
    os.mkfifo(index)
    assert unsafe_git_reason(top) == f"{index} cannot be read"
    index.unlink()
    git(top, "add later", "update-index --split-index")
    assert unsafe_git_reason(top) == f"{index} cannot be read"


def test_what_cannot_be_read_is_not_harmless(top):
    config = top / ".git" / "config"
    config.write_text(" " * (300 * 1024))
    assert "cannot be read" in (unsafe_git_reason(top) or "")
    config.unlink()
    os.mkfifo(config)
    assert "cannot be read" in (unsafe_git_reason(top) or "")
    shutil.rmtree(top / ".git")
    assert unsafe_git_reason(top) is None
    (top / ".git").write_text("gitdir: store" + "\n" * (300 * 1024))
    assert "cannot be read" in (unsafe_git_reason(top) or "")


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """Create a main worktree, and beside it the linked one `linked`, both with `sub`."""
    folder = tmp_path / "main"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("a")
    run_git(folder, "init")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-m", "one")
    run_git(folder, "worktree", "add", "../linked")
    return folder


def test_linked_worktrees_stand_for_the_main_one(main: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    assert in_main_worktree(main) == in_main_worktree(linked) == main
    assert in_main_worktree(linked / "sub") == main / "sub" == in_main_worktree(main / "sub")
    assert workspace_key([linked]) == workspace_key([main])
    assert workspace_key([linked / "sub"]) != workspace_key([linked])
    run_git(tmp_path, "clone", "--bare", str(main), "bare.git")
    for name in ("one", "two"):
        run_git(tmp_path / "bare.git", "worktree", "add", "-b", name, str(tmp_path / name))
    assert workspace_key([tmp_path / "one"]) == workspace_key([tmp_path / "two"])
    assert workspace_key([tmp_path / "one"]) != workspace_key([main])


def test_a_folder_that_only_says_so_is_no_worktree(main: Path, tmp_path: Path) -> None:
    liar, own = tmp_path / "liar", tmp_path / "own"
    liar.mkdir()
    own.mkdir()
    (own / "gitdir").write_text(f"{liar / '.git'}\n")
    (own / "commondir").write_text(f"{main / '.git'}\n")
    for text in ((tmp_path / "linked" / ".git").read_text(), f"gitdir: {own}\n"):
        (liar / ".git").write_text(text)
        assert in_main_worktree(liar) == liar
    (liar / ".git").unlink()
    (liar / ".git").symlink_to(tmp_path / "linked" / ".git")
    assert in_main_worktree(liar) == liar
    none = tmp_path / "none"
    assert in_main_worktree(none) == none  # nor is a folder without a repository
    (tmp_path / ".git").write_text("gitdir: nowhere")
    assert in_main_worktree(none) == none


async def test_a_chat_is_listed_in_every_worktree(main: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with editor(folder=main, data=data) as ours:
        await ours.turn("hello", model=ECHO)
    for folder, listed in ((tmp_path / "linked", 1), (tmp_path, 0)):
        async with editor(folder=folder, data=data) as ours:
            assert len((await ours.ask("chat/list", {}))["chats"]) == listed

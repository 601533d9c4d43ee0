"""Worktrees of one repository are identified by Git's own files, in both directions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from eca_server.agent.chat.store.place import workspace_key
from eca_server.workspace.worktree import in_main_worktree
from tests.eca_server.agent.chat.editor import ECHO, editor


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-c", "init.defaultBranch=main", *who, *arguments]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """Create a main worktree, and beside it the linked one `linked`, both with `sub`."""
    folder = tmp_path / "main"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a").write_text("a")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    git(folder, "worktree", "add", "../linked")
    return folder


def test_linked_worktrees_stand_for_the_main_one(main: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    assert in_main_worktree(main) == in_main_worktree(linked) == main
    assert in_main_worktree(linked / "sub") == main / "sub" == in_main_worktree(main / "sub")
    assert workspace_key([linked]) == workspace_key([main])
    assert workspace_key([linked / "sub"]) != workspace_key([linked])
    git(tmp_path, "clone", "--bare", str(main), "bare.git")
    for name in ("one", "two"):
        git(tmp_path / "bare.git", "worktree", "add", "-b", name, str(tmp_path / name))
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
    data = {"XDG_DATA_HOME": str(tmp_path / "data")}
    async with editor(started=False, keeps_chats=True, **data) as ours:
        await ours.start(workspaceFolders=[{"name": "w", "uri": main.as_uri()}])
        await ours.turn("hello", model=ECHO)
    for folder, listed in ((tmp_path / "linked", 1), (tmp_path, 0)):
        async with editor(started=False, keeps_chats=True, **data) as ours:
            await ours.start(workspaceFolders=[{"name": "w", "uri": folder.as_uri()}])
            assert len((await ours.ask("chat/list", {}))["chats"]) == listed

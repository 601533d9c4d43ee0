"""Directories swapped for links after the approval: the path that was judged is opened.

The swap is made at the critical moment, or continuously by a thread.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.tools import directory_tree, grep
from eca_server.agent.tools.approval import Decision, Policy
from eca_server.agent.tools.directory_tree import DirectoryTree
from eca_server.agent.tools.edit_file import EditFile, PreviewFileChange
from eca_server.agent.tools.files import Files
from eca_server.agent.tools.grep import Grep
from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.native import NATIVE_NAMES
from eca_server.agent.tools.read_file import ReadFile, ViewImage
from eca_server.agent.tools.search import Pattern, search
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolError
from eca_server.agent.tools.write_file import WriteFile
from eca_server.config.tool_settings import Approval
from eca_server.workspace import opening
from eca_server.workspace.opening import open_directory
from tests.eca_server.agent.tools.file_tools import files_in, permissions_in, prepare, run, text_of
from tests.eca_server.agent.tools.test_grep import RIPGREP, fake
from tests.eca_server.workspace.conftest import swapped_all_the_time

LIES = "changed after it was checked"


def shell(*, files: Files) -> ShellCommand:
    return ShellCommand(workspace=files.workspace, environment={"PATH": os.environ["PATH"]})


EDIT = {"path": "src/in/f", "original_content": "same", "new_content": "new"}
CALLS: dict[str, tuple[Callable[..., Tool], dict[str, Any]]] = {
    "directory_tree": (DirectoryTree, {"path": "src/in"}),
    "grep, a folder": (Grep, {"path": "src/in", "pattern": "."}),
    "grep, a file": (Grep, {"path": "src/in/f", "pattern": "."}),
    "our own grep, a folder": (Grep, {"path": "src/in", "pattern": "."}),
    "our own grep, a file": (Grep, {"path": "src/in/f", "pattern": "."}),
    "read_file": (ReadFile, {"path": "src/in/f"}),
    "view_image": (ViewImage, {"path": "src/in/f"}),
    "write_file": (WriteFile, {"path": "src/in/f", "content": "new"}),
    "write_file, a new one": (WriteFile, {"path": "src/in/new", "content": "new"}),
    "edit_file": (EditFile, EDIT),
    "move_file, from": (MoveFile, {"source": "src/in/f", "destination": "g"}),
    "move_file, to": (MoveFile, {"source": "other", "destination": "src/in/g"}),
    "shell_command": (shell, {"command": "cat f", "working_directory": "src/in"}),
}
OPEN_NO_PATH = {
    *("ask_user", "bg_job", "call_tool", "editor_definition", "editor_diagnostics"),
    *("editor_references", "preview_file_change", "search_tools", "task"),
}


def test_the_calls_have_every_native_tool_that_opens_a_path() -> None:
    names = {name.removeprefix("our own ").partition(",")[0] for name in CALLS}
    assert names | OPEN_NO_PATH == NATIVE_NAMES, "add a call to CALLS, or a name to OPEN_NO_PATH"


class Calling:
    """A workspace, and calls of one tool in it."""

    def __init__(self, project: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        program = None if name.startswith("our own") else RIPGREP
        monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
        make, self.arguments = CALLS[name]
        self.files = files_in(project)
        self.tool = make(files=self.files)

    async def prepare(self) -> PreparedCall:
        return await prepare(self.tool, **self.arguments)

    async def decide(self, call: PreparedCall) -> Decision:
        policy = Policy(own=Approval(by_default="allow"))
        permissions = permissions_in(self.files.workspace, policy)
        return await permissions.decide(self.tool, call, self.arguments)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a workspace with a file `src/in/f`, and an equal file outside of it."""
    root = tmp_path / "project"
    for folder in (root / "src" / "in", tmp_path / "outside" / "in"):
        folder.mkdir(parents=True)
        (folder / "f").write_text("same\n")
    (tmp_path / "outside" / "in" / "secret").write_text("same secret\n")
    (root / "other").write_text("other\n")
    return root


def swap(path: Path) -> None:
    """Replace a path of the workspace by a link to its like outside."""
    project = next(each for each in path.parents if each.name == "project")
    path.rename(path.with_name("away"))
    path.symlink_to(project.with_name("outside") / path.relative_to(project / "src"))


def swap_once(folder: Path) -> None:
    if not folder.is_symlink():
        swap(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("name", "swapped"),
    [
        *((name, swapped) for name in CALLS for swapped in ("src/in", "src")),
        *((name, "src/in/f") for name in ("read_file", "view_image", "write_file", "edit_file")),
    ],
)
async def test_a_path_swapped_after_the_decision_is_refused(project, monkeypatch, name, swapped):
    calling = Calling(project, name, monkeypatch)
    call = await calling.prepare()
    assert (await calling.decide(call)).verdict == "allow"
    before = contents(project.parent / "outside")
    swap(project / swapped)
    with pytest.raises(ToolError, match=f"{swapped}' {LIES}: it is a symbolic link to '.*outside"):
        await call.run()
    assert contents(project.parent / "outside") == before
    assert (project / "other").exists()


async def test_a_preview_is_judged_where_it_was_made(project):
    files = files_in(project)
    (project / "link").symlink_to(project.parent / "outside")
    arguments = {"path": "link/new", "original_content": "", "new_content": "x"}
    tool = PreviewFileChange(files=files)
    with pytest.raises(ToolError, match="leads out of the workspace"):
        await prepare(tool, **arguments)
    (project / "link").unlink()
    (project / "link").symlink_to("src")
    call = await prepare(tool, **arguments)
    assert [place.real_path for place in call.places] == [project / "src" / "new"]


@pytest.mark.parametrize(
    ("module", "make", "arguments"),
    [(directory_tree, DirectoryTree, {"path": "."}), (grep, Grep, {"path": ".", "pattern": "."})],
    ids=["directory_tree", "grep"],
)
async def test_a_walk_follows_no_swapped_link(project, monkeypatch, module, make, arguments):
    monkeypatch.setattr(grep, "find_ripgrep", lambda: None)
    looks = 0

    def checkpoint() -> None:
        """Count the calls: for the top, for `src`, and for `src/in` before it is opened."""
        nonlocal looks
        looks += 1
        if looks == 3:
            swap(project / "src" / "in")

    monkeypatch.setattr(module, "checkpoint", checkpoint)
    files = files_in(project, gitignore=False)
    text = text_of(await run(make(files=files), **arguments))
    assert looks >= 3
    assert "other" in text
    assert "secret" not in text


async def test_what_ripgrep_found_behind_links_is_hidden(project, tmp_path_factory, monkeypatch):
    """Simulate that `src` was a link to the outside only while ripgrep walked."""
    there = tmp_path_factory.mktemp("bin")
    (there / "src").symlink_to(project.parent / "outside")
    program = fake(there, f"cd {there}; {RIPGREP} --follow \"$@\" | sed 's/no-follow/follow/'")
    (there / "rg").write_text((there / "rg").read_text().replace('"$@"', '"$@" --follow'))
    monkeypatch.setattr(grep, "find_ripgrep", lambda: program)
    (project / "src" / "in" / "secret").write_text("harmless\n")
    text = text_of(await run(Grep(files=files_in(project)), path=".", pattern="same"))
    assert text == ("src/in/f:1:same\nSome files changed during the search: search again.")


async def test_lines_are_confirmed_however_they_are_encoded_and_ended(project, monkeypatch):
    files = {
        "bom": b"\xef\xbb\xbfsame 1\r\nsame 2\r\n",
        "carriage": b"a\rsame 3\r\r\nb\n",
        "latin": b"same \xe9\n",
        "long": b"x" * 5_000 + b"same" + b"y" * 5_000 + b"\nsame 4",
        "utf-16": "same 5\nsame ü\n".encode("utf-16"),
    }
    for name, data in files.items():
        (project / name).write_bytes(data)
    monkeypatch.setattr(grep, "find_ripgrep", lambda: RIPGREP)
    text = text_of(await run(Grep(files=files_in(project)), path=".", pattern="same"))
    for name in files:
        assert f"{name}:1:" in text or name == "carriage"
    assert "carriage:1:a\rsame 3" in text
    assert "long:2:same 4" in text
    assert "utf-16:2:same ü" in text
    assert "changed" not in text


FLIPPING = ["directory_tree", "read_file", *(each for each in CALLS if "grep" in each)]


@pytest.mark.long(but=2)
@pytest.mark.parametrize("name", [*FLIPPING, "shell_command"])
async def test_a_link_that_flips_all_the_time_never_wins(project, monkeypatch, name):
    calling = Calling(project, name, monkeypatch)
    outcomes: set[str] = set()
    (project.parent / "outside" / "in" / "f").write_text("secret\n")
    with swapped_all_the_time(project / "src", project.parent / "outside"):
        for _ in range(10 if name == "shell_command" else 25):
            try:
                call = await calling.prepare()
                if (await calling.decide(call)).verdict == "allow":
                    outcomes.add(text_of(await call.run()))
            except ToolError:
                continue
    assert not any("secret" in text for text in outcomes)


async def test_a_command_without_a_directory_starts_in_the_root_that_was_opened(project):
    call = await prepare(shell(files=files_in(project)), command="pwd")
    with trio.fail_after(10):
        assert text_of(await call.run()).strip() == str(project)
    project.rename(project.with_name("away"))
    project.symlink_to(project.with_name("outside"))
    with pytest.raises(ToolError, match=LIES):
        await call.run()


@pytest.mark.parametrize("name", ["directory_tree", "grep, a folder", "shell_command"])
async def test_a_platform_without_descriptors_looks_twice(project, monkeypatch, name):
    monkeypatch.setattr(opening, "_STEPS", False)
    call = await Calling(project, name, monkeypatch).prepare()
    with trio.fail_after(10):
        assert not (await call.run()).is_error
    if name == "directory_tree":  # the swap happens during the walk
        monkeypatch.setattr(directory_tree, "checkpoint", lambda: swap_once(project / "src"))
        with pytest.raises(ToolError, match=f"{LIES}: it leads to '.*outside/in' now"):
            await call.run()
    swap_once(project / "src")
    with pytest.raises(ToolError, match=LIES):
        await call.run()


async def test_a_name_that_leads_up_has_no_lines(project):
    """A manipulated index may make Git print any name."""
    with open_directory(project) as folder:
        names = ["../outside/in/secret", "src/../../outside/in/secret", "src/in/f"]
        matches = list(search(folder, names, Pattern("same")))
    assert [(each.path, each.text) for each in matches] == [("src/in/f", "same")]

"""`move_file`: a new path, never one that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from eca_server.agent.tools.move_file import MoveFile
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import FileChange, ToolError
from eca_server.agent.tools.write_file import WriteFile
from tests.eca_server.agent.tools.file_tools import files_in, output_text, prepare, run


@pytest.fixture
def tool(tmp_path: Path) -> MoveFile:
    (tmp_path / "f").write_text("text")
    return MoveFile(files=files_in(tmp_path))


async def test_a_file_moves_and_directories_it_needs_are_made(tool, tmp_path):
    call = await prepare(tool, source="f", destination="a/b/g")
    assert call.paths == ("f", "a/b/g")
    assert call.summary == "Moving f to a/b/g"
    assert tool.summary({"source": "a/old.py", "destination": "a/new.py"}) == (
        "Moving old.py to new.py"
    )
    assert tool.summary({"source": "a/old.py"}) == "Moving file"
    assert call.changes == (FileChange(path=tmp_path / "a/b/g", moved_from=tmp_path / "f"),)
    await call.run()
    assert not (tmp_path / "f").exists()
    assert (tmp_path / "a/b/g").read_text() == "text"


async def test_what_was_done_is_reported(tool, tmp_path):
    text = await output_text(tool, source="f", destination="g")
    assert text == f"Moved {tmp_path / 'f'} to {tmp_path / 'g'}."


@pytest.mark.parametrize(
    ("source", "destination", "words"),
    [
        ("missing", "g", "'.*missing' does not exist"),
        ("f", "there", "'.*there' already exists"),
        ("f", "folder", "'.*folder' already exists"),
        ("folder", "folder/inside", "cannot be moved into itself"),
        ("f", "", "empty"),
    ],
)
async def test_a_move_that_cannot_be_done_is_refused_with_a_reason(
    tool, tmp_path, source, destination, words
):
    (tmp_path / "there").write_text("precious")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolError, match=words):
        await run(tool, source=source, destination=destination)
    assert (tmp_path / "f").read_text() == "text"
    assert (tmp_path / "there").read_text() == "precious"


async def test_a_name_taken_while_approval_waited_is_not_replaced(tool, tmp_path):
    call = await prepare(tool, source="f", destination="g")
    (tmp_path / "g").write_text("by the user")
    with pytest.raises(ToolError, match="already exists"):
        await call.run()
    assert (tmp_path / "g").read_text() == "by the user"


async def test_what_the_model_knows_moves_along(tool, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/f").write_text("old")
    await run(ReadFile(files=tool.files), path="folder/f")
    await run(tool, source="folder", destination="moved")
    (tmp_path / "moved/f").write_text("by the user")
    with pytest.raises(ToolError, match="has changed since you read it"):
        await prepare(WriteFile(files=tool.files), path="moved/f", content="new")
    await run(WriteFile(files=tool.files), path="folder/f", content="new")

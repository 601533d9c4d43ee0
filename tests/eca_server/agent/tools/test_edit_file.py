"""`edit_file` and `preview_file_change`: one passage; the rest unchanged, byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools import edit_file
from eca_server.agent.tools.edit_file import EditFile
from eca_server.agent.tools.preview import PreviewFileChange
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.reading import Fingerprint, decode
from tests.eca_server.agent.tools.file_tools import (
    change_of,
    files_in,
    output_text,
    prepare,
    run,
    stop_at_checkpoints,
)

TEXT = "one\ntwo\nthree\n"


@pytest.fixture
def tool(tmp_path: Path) -> EditFile:
    (tmp_path / "f").write_text(TEXT)
    return EditFile(files=files_in(tmp_path))


def edit_arguments(original: str, new: str, **more: object) -> dict[str, object]:
    return {"path": "f", "original_content": original, "new_content": new, **more}


async def test_a_passage_is_replaced_and_its_change_shown_before_and_after(tool, tmp_path):
    call = await prepare(tool, **edit_arguments("two", "2"))
    assert (tmp_path / "f").read_text() == TEXT
    assert call.summary == "Editing file f"
    assert call.paths == ("f",)
    output = await call.run()
    assert (tmp_path / "f").read_text() == "one\n2\nthree\n"
    assert change_of(call).diff == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert change_of(output) == change_of(call)


async def test_what_was_done_is_reported(tool):
    text = await output_text(tool, **edit_arguments("e", "E", all_occurrences=True))
    assert text.endswith("/f: 2 lines added, 2 removed. 3 occurrences were replaced.")
    assert "differs from original_content in whitespace" in await output_text(
        tool, **edit_arguments("two \n", "2\n")
    )


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str]:
    """Draw a file in one of the encodings, with a passage that is in it once."""
    encoding, bom, letters = draw(
        st.sampled_from(
            [
                ("utf-8", b"", "aé€"),
                ("utf-8", b"\xef\xbb\xbf", "aé€"),
                ("utf-16-le", b"\xff\xfe", "aé€"),
                ("utf-16-be", b"\xfe\xff", "aé€"),
                ("latin-1", b"", "aé"),
            ]
        )
    )
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    pieces = st.lists(st.text(letters, max_size=4), max_size=4).map(newline.join)
    # Enough ASCII for any of them to be taken for text where the bytes are Latin-1.
    text = f"{'aaaa ' * 24}é{draw(pieces)}{newline}[here]{draw(pieces)}"
    return bom + text.encode(encoding), newline


@given(files(), st.sampled_from(["", "é", "a\nb\n"]))
async def test_encoding_mark_line_ends_and_final_line_end_are_preserved(file, new):
    data, newline = file
    text = decode(data)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "f"
        path.write_bytes(data)
        path.chmod(0o640)
        tool = EditFile(files=files_in(Path(name)))
        await run(tool, **edit_arguments("[here]", f"<{new}>"))
        there = f"<{new}>".replace("\n", newline)
        assert path.read_bytes() == text.encode(text.text.replace("[here]", there))
        assert path.stat().st_mode & 0o777 == 0o640
        await run(tool, **edit_arguments(f"<{new}>", "[here]"))
        assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (edit_arguments("four", "4"), "not found"),
        (edit_arguments("o", "0"), "2 times"),
        (edit_arguments("", "0"), "empty"),
        (edit_arguments("one", "1", path="missing"), "does not exist. Create it with write_file"),
        (edit_arguments("one", "1", path="."), "a directory"),
        (edit_arguments("one", "1", path="binary"), "binary"),
        (edit_arguments("caf\xe9", "€", path="latin"), "latin-1, which has no '€'"),
    ],
)
async def test_an_edit_that_cannot_be_done_is_refused_with_a_reason(
    tool, tmp_path, arguments, words
):
    (tmp_path / "binary").write_bytes(b"one\0")
    (tmp_path / "latin").write_bytes(b"one caf\xe9\n")
    with pytest.raises(ToolError, match=words):
        await prepare(tool, **arguments)
    assert (tmp_path / "f").read_text() == TEXT


async def test_of_a_file_outside_nothing_is_sent_before_the_user_was_asked(
    tmp_path, tmp_path_factory
):
    outside = tmp_path_factory.mktemp("outside") / "f"
    outside.write_text("the secret is 1234\n")
    wrong = edit_arguments("the secret is 1\n", "x", path=str(outside))
    files = files_in(tmp_path)
    for kind in (EditFile, PreviewFileChange):
        with pytest.raises(ToolError) as caught:
            await prepare(kind(files=files), **wrong)
        assert "1234" not in str(caught.value)
    await run(ReadFile(files=files), path=str(outside))
    with pytest.raises(ToolError, match="1234"):
        await prepare(EditFile(files=files), **wrong)


async def test_it_refuses_if_the_file_changed_since_the_model_read_it(tool, tmp_path):
    await run(ReadFile(files=tool.files), path="f", limit=1)
    (tmp_path / "f").write_text(TEXT + "more\n")
    with pytest.raises(ToolError, match="read it again"):
        await prepare(tool, **edit_arguments("two", "2"))


async def test_it_refuses_if_the_file_changed_while_approval_waited(tool, tmp_path):
    call = await prepare(tool, **edit_arguments("two", "2"))
    (tmp_path / "f").write_text(TEXT + "more\n")
    with pytest.raises(ToolError, match="has changed"):
        await call.run()
    assert (tmp_path / "f").read_text() == TEXT + "more\n"


async def test_it_refuses_if_another_edit_was_done_since_it_was_looked_at(tool, tmp_path):
    calls = [await prepare(tool, **edit_arguments(each, each.upper())) for each in ("one", "two")]
    await calls[0].run()
    with pytest.raises(ToolError, match="has changed"):
        await calls[1].run()
    assert (tmp_path / "f").read_text() == "ONE\ntwo\nthree\n"


async def test_it_returns_what_is_needed_to_undo_it(tool, tmp_path):
    (tmp_path / "f").chmod(0o640)
    (tmp_path / "link").symlink_to("f")
    call = await prepare(tool, **edit_arguments("two", "2", path="link"))
    (change,) = call.changes
    assert change.before is not None
    assert (change.path, change.moved_from) == (tmp_path / "f", None)
    assert (change.before.data, change.before.mode) == (TEXT.encode(), 0o640)
    await call.run()
    assert change.after == Fingerprint.of((tmp_path / "f").read_bytes())


async def test_a_file_behind_a_link_in_the_workspace_is_edited_and_the_link_stays(tool, tmp_path):
    (tmp_path / "link").symlink_to("f")
    await run(tool, **edit_arguments("two", "2", path="link"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_text() == "one\n2\nthree\n"


async def test_a_stop_leaves_the_file_as_it_was(tool, tmp_path, monkeypatch):
    call = await prepare(tool, **edit_arguments("two", "2"))
    with trio.CancelScope() as scope:
        stop_at_checkpoints(monkeypatch, edit_file, scope)
        await call.run()
    assert scope.cancelled_caught
    assert (tmp_path / "f").read_text() == TEXT


async def test_a_preview_shows_the_change_and_writes_nothing(tool, tmp_path):
    preview = PreviewFileChange(files=tool.files)
    call = await prepare(preview, **edit_arguments("two", "2"))
    output = await call.run()
    assert (
        change_of(call)
        == change_of(output)
        == change_of(await prepare(tool, **edit_arguments("two", "2")))
    )
    assert preview.effect == "read"
    assert (tmp_path / "f").read_text() == TEXT


async def test_a_preview_of_a_new_file_has_no_original(tool, tmp_path):
    preview = PreviewFileChange(files=tool.files)
    text = await output_text(preview, **edit_arguments("", "a\nb\n", path="new"))
    assert text.endswith("2 lines would be added, 0 removed:\n@@ -0,0 +1,2 @@\n+a\n+b")
    assert not (tmp_path / "new").exists()
    with pytest.raises(ToolError, match="leave original_content empty"):
        await run(preview, **edit_arguments("x", "a", path="new"))
    with pytest.raises(ToolError, match="empty"):
        await run(preview, **edit_arguments("", "a"))

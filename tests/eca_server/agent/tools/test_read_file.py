"""`read_file`: unchanged texts and pictures, and clear errors for other files."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest
import trio

from eca_server.agent.tools import read_file
from eca_server.agent.tools.files import LARGEST
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import ToolError
from eca_server.models.history import FilePart, ImagePart, TextPart
from eca_server.workspace.reading import Fingerprint
from tests.eca_server.agent.tools.file_tools import (
    files_in,
    output_text,
    prepare,
    run,
    stop_at_checkpoints,
)

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def tool(tmp_path: Path) -> ReadFile:
    return ReadFile(files=files_in(tmp_path))


def written(folder: Path, data: bytes | str, name: str = "file.txt") -> str:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


async def refusal(tool: ReadFile, path: str, **arguments: int) -> str:
    with pytest.raises(ToolError) as fault:
        await run(tool, path=path, **arguments)
    return str(fault.value)


async def test_a_text_comes_as_it_is(tool, tmp_path):
    written(tmp_path, "one\n\ttwo\n\nfour")
    assert await output_text(tool, path="file.txt") == "one\n\ttwo\n\nfour"


@pytest.mark.parametrize(
    "data",
    [
        b"gr\xc3\xbc\xc3\x9fe\nok",
        b"\xef\xbb\xbfgr\xc3\xbc\xc3\x9fe\r\nok",
        "\ufeffgrüße\nok".encode("utf-16-le"),
        b"gr\xfc\xdfe\rok",
    ],
    ids=["utf-8", "with a mark", "utf-16", "latin-1"],
)
async def test_every_encoding_we_know_is_read(tool, tmp_path, data):
    assert await output_text(tool, path=written(tmp_path, data)) == "grüße\nok"


async def test_a_part_says_what_was_left_out_and_how_to_continue(tool, tmp_path):
    path = written(tmp_path, "".join(f"{n}\n" for n in range(1, 6)))
    assert await output_text(tool, path=path, line_offset=1, limit=2) == (
        "2\n3\n... cut, 4 bytes left out ... "
        "(lines 2 to 3 of 5 are shown; continue with line_offset=3)"
    )
    assert await output_text(tool, path=path, line_offset=3, limit=2) == "4\n5"


async def test_pieces_read_one_after_another_are_the_whole_file(tmp_path):
    lines = [f"line {n} of it, {'x' * (n % 50)}" for n in range(3_000)]
    path = written(tmp_path, "\n".join(lines))
    tool = ReadFile(files=files_in(tmp_path, cap=Cap(lines=400, size=4_000)))
    got: list[str] = []
    offset = 0
    while offset is not None:
        *piece, last = (await output_text(tool, path=path, line_offset=offset)).split("\n")
        further = re.search(r"line_offset=(\d+)\)$", last)
        got += piece if further else [*piece, last]
        if further is None:
            break
        offset = int(further[1])
        assert offset == len(got)
    assert got == lines


@pytest.mark.requirement("W-6b")
async def test_an_output_stays_within_lines_and_bytes(tmp_path):
    path = written(tmp_path, "a line\n" * 10_000)
    for options in (
        {"cap": Cap(lines=50, size=10_000)},
        {"cap": Cap(lines=10_000, size=350)},
        {"max_lines": 50},
    ):
        text = await output_text(ReadFile(files=files_in(tmp_path, **options)), path=path)
        assert text.count("\n") == 50
        assert "lines 1 to 50 of 10000" in text


async def test_a_line_longer_than_the_cap_is_cut_inside(tmp_path):
    path = written(tmp_path, "ü" * 1_000 + "\nnext\n")
    tool = ReadFile(files=files_in(tmp_path, cap=Cap(lines=10, size=101)))
    text = await output_text(tool, path=path)
    assert text.startswith("ü" * 50 + "\n... cut, 1906 bytes left out ...")
    assert text.endswith("line_offset=1)")
    assert await output_text(tool, path=path, line_offset=1) == "next"


async def test_an_empty_file_is_reported_as_empty(tool, tmp_path):
    assert await output_text(tool, path=written(tmp_path, "")) == "(the file is empty)"


async def test_an_offset_behind_the_end_is_refused(tool, tmp_path):
    assert "got 2" in await refusal(tool, written(tmp_path, "1\n2\n"), line_offset=2)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_a_picture_is_reported_by_its_content(tool, tmp_path, data, media_type):
    words, picture = (await run(tool, path=written(tmp_path, data, "no-name"))).parts
    assert isinstance(words, TextPart)
    assert media_type in words.text
    assert picture == ImagePart(media_type=media_type, data=data)


async def test_a_document_is_given_to_the_model_as_it_is(tool, tmp_path):
    data = b"%PDF-1.7\n\x00\xff"
    words, document = (await run(tool, path=written(tmp_path, data, "a.pdf"))).parts
    assert isinstance(words, TextPart)
    assert "application/pdf, 11 bytes" in words.text
    assert document == FilePart(name="a.pdf", media_type="application/pdf", data=data)


async def test_a_picture_too_large_for_a_model_is_refused(tool, tmp_path):
    path = written(tmp_path, PNG + b"\0" * 6_000_000)
    assert "type image/png of at most 3,700,000 bytes" in await refusal(tool, path)


async def test_what_is_no_text_file_is_named(tool, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    written(tmp_path, b"a\0b", "binary")
    written(tmp_path, b"\xff\xfe\x00", "odd")
    for name, words in {
        "folder": "got a directory: .* directory_tree",
        "pipe": "got a named pipe",
        "socket": "got a socket",
        "device": "got a device",
        "loop": "circle",
        "binary": "it is binary",
        "odd": "is not valid utf-16",
        "missing": "No such file or directory: '.*missing'",
        "": "got an empty string",
        "a\0b": "a NUL",
    }.items():
        assert re.search(words, await refusal(tool, name)), name


async def test_a_huge_file_is_refused_unread(tool, tmp_path):
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    message = await refusal(tool, "huge")
    assert f"at most {LARGEST:,} bytes, got 1,073,741,824" in message
    assert "grep" in message


async def test_a_file_we_may_not_read_is_named(tool, tmp_path, monkeypatch):
    path = written(tmp_path, "secret")
    real = os.open

    def refuse(name: str, *args: int, **kwargs: int | None) -> int:
        if name == "file.txt":
            raise PermissionError(13, "Permission denied", name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(os, "open", refuse)
    assert await refusal(tool, path) == f"Permission denied: {path!r}."


async def test_a_file_outside_is_read_and_named_for_approval(tmp_path):
    (tmp_path / "root").mkdir()
    tool = ReadFile(files=files_in(tmp_path / "root"))
    written(tmp_path, "outside")
    call = await prepare(tool, path="../file.txt")
    assert call.paths == ("../file.txt",)
    assert (await call.run()).parts == (TextPart("outside"),)


async def test_the_model_knows_what_it_read_and_that_a_file_is_gone(tool, tmp_path):
    path = Path(written(tmp_path, "text")).resolve()
    await run(tool, path=str(path), limit=1)
    assert tool.files.ledger.known_content(path) == Fingerprint.of(b"text")
    path.unlink()
    await refusal(tool, str(path))
    assert tool.files.ledger.known_content(path) is None


async def test_a_stop_ends_it_at_the_next_piece(tool, tmp_path, monkeypatch):
    call = await prepare(tool, path=written(tmp_path, "x" * 5_000_000))
    with trio.CancelScope() as scope:
        stop_at_checkpoints(monkeypatch, read_file, scope)
        await call.run()
    assert scope.cancelled_caught


async def test_the_summary_names_the_file_once_there_is_a_name(tool):
    assert tool.summary({}) == "Reading file"
    assert tool.summary({"path": "src/a\nb.py"}) == "Reading file a\\nb.py"
    assert tool.summary({"path": "x" * 1_000_000}) == f"Reading file {'x' * 80}..."

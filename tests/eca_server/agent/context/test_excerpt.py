import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages import LinesRange
from eca_server.agent.context.excerpt import Excerpt, read_excerpt
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError, NotRegularFile, NotText, TooLarge


def excerpt_of(path: Path, **options: object) -> Excerpt:
    place = Workspace([]).locate(str(path))
    return read_excerpt(place, **{"size": 1_000_000, **options})


def lines(start: int, end: int) -> LinesRange:
    return LinesRange(start=start, end=end)


BORDER = "x" * ((1 << 16) - 1) + "é" * 10
"""A text with a character at the border of the inspected bytes."""


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.requirement("W-41d", "CTX-2")
@pytest.mark.parametrize(
    ("requested", "text"),
    [((1, 1), "1\n"), ((2, 3), "2\n3\n"), ((3, 99), "3\n4"), ((0, 1), "1\n"), ((3, 2), "3\n")],
)
def test_lines_count_from_1_include_the_end_and_end_with_the_file(write, requested, text):
    assert excerpt_of(write(b"1\n2\n3\n4"), lines=lines(*requested)).text == text


@pytest.mark.parametrize(
    ("data", "options", "text", "left_out"),
    [
        (b"a\r\nb\n", {}, "a\nb\n", 0),
        (b"12345678\n" * 10, {"size": 20}, "12345678\n" * 2, 72),
        ("é".encode() * 50, {"size": 21}, "é" * 10, 80),
        (b"12345678\n" * 10, {"size": 20, "lines": lines(2, 9)}, "12345678\n" * 2, 54),
        ("zwölf\n".encode("utf-8-sig"), {}, "zwölf\n", 0),
        ("zwölf\n".encode("utf-16"), {}, "zwölf\n", 0),
        ("zwölf\n".encode("latin-1"), {}, "zwölf\n", 0),
        (BORDER.encode(), {}, BORDER, 0),
    ],
    ids=["text", "cut", "long line", "lines", "utf-8-sig", "utf-16", "latin-1", "border"],
)
def test_a_file_is_its_text_cut_at_the_end_of_a_line_or_of_a_character(
    write, data, options, text, left_out
):
    excerpt = excerpt_of(write(data), **options)
    assert excerpt == Excerpt(text=text, left_out=left_out)
    assert excerpt.marked.endswith("\n... cut, 72 bytes left out ...") is (left_out == 72)


def test_a_huge_file_costs_what_is_asked_of_it(tmp_path):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(b"first\nsecond\n" + b"x" * 1_000_000)
        file.truncate(1 << 30)
    assert excerpt_of(path, lines=lines(2, 2)).text == "second\n"
    excerpt = excerpt_of(path, size=10)
    assert (excerpt.text, excerpt.left_out) == ("first\n", (1 << 30) - 6)


TOO_LATE = "expected a line up to {}, the last one, got 3"


@pytest.mark.parametrize(
    ("data", "requested", "error", "why"),
    [
        (b"1\n2", (3, 5), FileError, TOO_LATE.format(2)),
        (b"1\n2\n", (3, 5), FileError, TOO_LATE.format(2)),
        (b"", (3, 5), FileError, TOO_LATE.format(0)),
        (b"x" * (1 << 20), (9, 9), TooLarge, "line 9 is more than"),
        (b"a\0b", None, NotText, "binary"),
        (b"x" * (1 << 17) + b"\0", None, NotText, "binary"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", None, NotText, "binary"),
        (None, None, NotRegularFile, "a named pipe"),
    ],
    ids=range(8),
)
def test_what_cannot_be_read_is_refused(write, tmp_path, monkeypatch, data, requested, error, why):
    monkeypatch.setattr("eca_server.agent.context.excerpt._FARTHEST", 1 << 18)
    if data is None:
        os.mkfifo(tmp_path / "file")
    else:
        write(data)
    with pytest.raises(error, match=why):
        excerpt_of(tmp_path / "file", lines=requested and lines(*requested))


def test_a_file_that_has_nothing_to_read_at_present_is_empty(write, monkeypatch):
    class Waiting(io.FileIO):  # as /proc/kmsg, which only the administrator can open
        def read(self, size: int | None = -1) -> Any:
            return None

    @contextmanager
    def waiting(place: Place) -> Iterator[io.FileIO]:
        with Waiting(place.real_path) as file:
            yield file

    monkeypatch.setattr("eca_server.agent.context.excerpt.open_file", waiting)
    assert excerpt_of(write(b"")) == Excerpt(text="", left_out=0)


def test_reading_ends_where_the_checkpoint_says(write):
    with pytest.raises(KeyError):
        excerpt_of(write(b"text"), checkpoint={}.popitem)


@given(
    text=st.text(st.sampled_from("ab\né€😀 "), min_size=1, max_size=60),
    first=st.integers(0, 12),
    length=st.integers(0, 12),
    size=st.integers(1, 80),
    piece=st.integers(1, 9),
)
def test_an_excerpt_is_a_beginning_and_what_is_missing_is_counted(
    text, first, length, size, piece, tmp_path_factory
):
    path = tmp_path_factory.getbasetemp() / "excerpt"
    path.write_bytes(text.encode())
    requested = text.splitlines(keepends=True)[max(first, 1) - 1 : max(first + length, 1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("eca_server.agent.context.excerpt._PIECE", piece)
        must_begin(excerpt_of(path, size=size), text, size)
        try:
            excerpt = excerpt_of(path, size=size, lines=lines(first, first + length))
        except FileError:
            assert not requested
        else:
            must_begin(excerpt, "".join(requested), size)


def must_begin(excerpt: Excerpt, text: str, size: int) -> None:
    size_of_text = len(excerpt.text.encode())
    assert text.startswith(excerpt.text)
    assert size_of_text <= size
    assert size_of_text + excerpt.left_out == len(text.encode())

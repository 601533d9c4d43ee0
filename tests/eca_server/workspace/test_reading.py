import codecs
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.workspace.errors import NotRegularFile, NotText, TooLarge
from eca_server.workspace.reading import Fingerprint, decode, read_file


def test_a_file_is_read_whole_with_its_mode_and_a_fingerprint_of_its_content(workspace, project):
    file = project / "a"
    file.write_bytes(b"one\n")
    file.chmod(0o640)
    place = workspace.locate("a")
    snapshot = read_file(place, limit=4)
    assert (snapshot.data, snapshot.mode) == (b"one\n", 0o640)
    assert snapshot.fingerprint == Fingerprint.of(b"one\n")
    os.utime(file, (1, 1))
    assert read_file(place, limit=4).fingerprint == snapshot.fingerprint
    times = file.stat()
    file.write_bytes(b"two\n")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read_file(place, limit=4).fingerprint != snapshot.fingerprint


def test_a_file_larger_than_the_limit_is_refused_unread(workspace, project):
    with (project / "huge").open("wb") as file:
        file.truncate(1 << 30)
    pieces: list[None] = []
    with pytest.raises(TooLarge, match="1,073,741,824 bytes"):
        read_file(
            workspace.locate("huge"), limit=(1 << 30) - 1, checkpoint=lambda: pieces.append(None)
        )
    assert not pieces
    with pytest.raises(TooLarge):  # it says that it is empty, and is not
        read_file(workspace.locate("/proc/self/smaps"), limit=100)


def test_reading_ends_at_a_checkpoint_that_raises(workspace, project):
    (project / "a").write_bytes(bytes(3 << 20))

    def stop() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        read_file(workspace.locate("a"), limit=4 << 20, checkpoint=stop)


def test_a_link_to_a_device_is_refused_unopened(workspace, project, monkeypatch):
    (project / "zero").symlink_to("/dev/zero")
    place = workspace.locate("zero")
    opened: list[str] = []
    real = os.open

    def spy(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        opened.append(path)
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", spy)
    with pytest.raises(NotRegularFile, match="got a device"):
        read_file(place, limit=5)
    assert "zero" not in opened


@pytest.mark.parametrize(
    ("data", "text", "encoding", "newline"),
    [
        (b"", "", "utf-8", "\n"),
        (b"a\nb\n", "a\nb\n", "utf-8", "\n"),
        (b"a\r\nb", "a\r\nb", "utf-8", "\r\n"),
        (b"a\rb\r", "a\rb\r", "utf-8", "\r"),
        (b"a\r\nb\r\nc\n", "a\r\nb\r\nc\n", "utf-8", "\r\n"),
        ("ü€\n".encode(), "ü€\n", "utf-8", "\n"),
        (codecs.BOM_UTF8 + b"a\n", "a\n", "utf-8", "\n"),
        (codecs.BOM_UTF16_LE + "aü\r\n".encode("utf-16-le"), "aü\r\n", "utf-16-le", "\r\n"),
        (codecs.BOM_UTF16_BE + "aü".encode("utf-16-be"), "aü", "utf-16-be", "\n"),
        (b"na\xefve caf\xe9\n", "naïve café\n", "latin-1", "\n"),
    ],
)
def test_bytes_are_read_as_text(data, text, encoding, newline):
    text_file = decode(data)
    assert (text_file.text, text_file.encoding, text_file.newline) == (text, encoding, newline)
    assert text_file.encode() == data


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a\0b", "character 1 is a NUL"),
        (b"\x89PNG\r\n\x1a\n", r"it is binary, or not in UTF-8, UTF-16 or Latin-1 \(byte 0\)"),
        ("日本語のテキスト".encode("shift-jis"), "not in UTF-8"),
        (b"\xe9\xe8\xea", "not in UTF-8"),
        (codecs.BOM_UTF16_LE + b"a", "is not valid utf-16-le, at byte 2"),
        (codecs.BOM_UTF8 + b"\xff", "is not valid utf-8, at byte 3"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "NUL"),
    ],
)
def test_what_is_no_text_is_refused(data, words):
    with pytest.raises(NotText, match=words):
        decode(data)


def test_another_text_is_written_as_the_first_one_was():
    text_file = decode(codecs.BOM_UTF16_BE + "a\r\n".encode("utf-16-be"))
    assert text_file.encode("é") == codecs.BOM_UTF16_BE + "é".encode("utf-16-be")
    with pytest.raises(NotText, match="the file is latin-1, which has no '€'"):
        decode(b"a caf\xe9").encode("5 €")


@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode))
def test_what_is_decoded_is_encoded_back_unchanged(data):
    try:
        text_file = decode(data)
    except NotText:
        return
    assert text_file.encode() == data
    assert "\0" not in text_file.text

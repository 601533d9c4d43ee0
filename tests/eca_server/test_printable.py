"""Untrusted texts on a terminal, which can only draw text."""

import json
import re
import sys
import unicodedata
from functools import partial
from typing import Any

import pyte
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol import messages as m
from eca_server import printable
from eca_server.cli.approval_view import call_rows, question_of
from eca_server.ecp.cli import run as ecp
from eca_server.printable import (
    Printer,
    printable_json,
    printable_line,
    printable_lines,
    rows,
    visible,
)
from eca_server.workbench.tap import replay

HOSTILE = [
    *(
        "\x1b]0;title\x07",
        "\x1b]52;c;ZXZpbA==\x1b\\",
        "\x1b[2J\x1b[H",
        "\x1b[1A\x1b[2K",
        "\x1b[?1049h",
    ),
    *("\x1bPq\x1b\\", "\x1b_apc\x1b\\", "\x1bc", "\x9b31m", "\x9d0;title\x9c", "\x0e\x0f\x05\x07"),
    *(
        "\b\b\b",
        "\rfake",
        "\x7f",
        "\u202e",
        "\u2066",
        "\u2069",
        "\u200e",
        "\u200f",
        "\u061c",
        "\u2028",
    ),
    *("\ufeff", "\u200b", "\xad", "\U000e0041\U000e007f", "\U000e0100", "\ud800"),
]
VISIBLE = ["plain", "zwölf", "日本語", "👩‍👩‍👧", "❤️", "नमस्ते", "می‌خواهم", "\t", "\n", "\xa0", " "]
texts = st.lists(
    st.sampled_from([*HOSTILE, *VISIBLE, "\x1b", "[", "31m", "\r\n", "\u200d", "\ufe0f"])
    | st.text(st.characters(codec=None), max_size=4),
    max_size=12,
).map("".join)


class Acts:
    """A terminal that records the actions other than drawing."""

    def __init__(self) -> None:
        self.actions: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None if name == "draw" else self.actions.add(name)


def acts_of(printed: str) -> set[str]:
    """Print to a terminal, and return its actions other than drawing."""
    acts = Acts()
    stream = pyte.Stream()
    stream.attach(acts)  # type: ignore[arg-type] - which is all that the stream calls
    stream.feed(printed.encode(errors="backslashreplace").decode())
    return acts.actions


@given(texts)
@example("".join(HOSTILE))
def test_a_terminal_only_draws_lines(text: str) -> None:
    assert acts_of(printable_lines(text)) <= {"linefeed", "tab"}
    assert acts_of(printable_line(text)) == set()
    assert printable_line(text).splitlines() in ([], [printable_line(text)])


@given(texts, st.data())
@example("a\r\nb\rc\r", None)
@example("\x1b]0;x\x07\x9b2J", None)
def test_however_a_text_is_cut_the_same_is_printed(text: str, data: st.DataObject | None) -> None:
    printer = Printer()
    printed = printer.feed(text) + printer.flush()
    assert acts_of(printed) <= {"linefeed", "tab"}
    size = 1 if data is None else data.draw(st.integers(1, 4))
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert "".join(map(printer.feed, pieces)) + printer.flush() == printed


def test_nothing_is_hidden_and_nothing_else_is_changed() -> None:
    for text in HOSTILE:
        shown = printable_line(f"a{text}b")
        assert shown.startswith("a\\")
        assert shown.isascii()
        assert visible(f"a{text}b").isprintable()
    for text in VISIBLE:
        word = f"<{text}>"
        assert printable_lines(word) == visible(word) == Printer().feed(word) == word
    for text in (
        "a\u200d",
        "\u200cb",
        "a \u200d b",
        "a\u200d\u200db",
        "x\ufe0f\ufe00\ufe01",
        "\u3164",
    ):
        assert "\\u" in printable_line(text)
        assert len(visible(text)) < len(text)
    for text in ("\x1b[2J", "\x1b[1A", "\b", "\x07", "\x9b31m", "\r", "\x1bc"):
        assert acts_of(text) - {"linefeed", "tab"}, text  # the judge sees what is not filtered
    assert printable_line("a\r\n\tb\\n") == "a\\r\\n\\tb\\n"
    assert printable_line("x" * 9, longest=5) == "xxxxx..."


@given(st.characters(codec=None))
def test_each_character_that_is_not_seen_is_escaped(character: str) -> None:
    is_unseen = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    has_shape = "\U00013430" <= character < "\U00013460" or character in "\U000110bd\U000110cd"
    has_shape |= character in "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
    if is_unseen and not has_shape and character not in "\n\t":
        assert character not in printable_line(f" {character} ")
        assert character not in printable_lines(f" {character} ")
        assert character not in visible(f" {character} ")


def test_the_quick_search_finds_every_character_that_may_be_unseen() -> None:
    apart = " ".join(map(chr, range(sys.maxunicode + 1)))
    repeated = "".join(chr(each) * 2 for each in range(0xFE00, 0xFE10))
    unseen = set(re.findall(printable._INVISIBLE, apart + repeated))
    assert unseen
    assert unseen <= set(re.findall(printable._SUSPECT, apart))


@given(st.lists(texts, max_size=2) | st.dictionaries(texts, texts, max_size=2))
def test_printed_json_is_the_same_value_without_unseen_characters(value: Any) -> None:
    written = printable_json(json.dumps(value, indent=2, ensure_ascii=False))
    assert json.loads(written) == value
    assert acts_of(written) <= {"linefeed"}


@given(texts, st.integers(8, 40))
def test_a_terminal_wraps_no_row(text: str, width: int) -> None:
    screen = pyte.Screen(columns=width, lines=500)
    printed = [*rows(printable_lines(text), width - 1)]
    pyte.Stream(screen).feed("\r\n".join(printed).encode(errors="backslashreplace").decode())
    assert screen.cursor.y == len(printed) - 1


change = st.builds(
    partial(m.FileChangeDetails, lines_added=1, lines_removed=0), path=texts, diff=texts
)
calls = st.builds(
    partial(m.ChatToolCallRunContent, id="1", manual_approval=True),
    name=texts,
    server=texts,
    origin=st.sampled_from(["native", "mcp"]),
    summary=st.none() | texts,
    arguments=st.dictionaries(texts, texts | st.integers() | st.lists(texts), max_size=4),
    details=st.none() | change,
)


@given(calls, st.integers(30, 100))
def test_no_row_of_a_call_begins_where_our_questions_begin(
    call: m.ChatToolCallRunContent, width: int
) -> None:
    parts = call_rows(call, directory=None, width=width, remembered="calls of `write_file`")
    shown = "".join(f"{row}\n" for row, _ in parts)
    screen = pyte.Screen(columns=width, lines=shown.count("\n") + 9)
    pyte.Stream(screen).feed(shown.encode(errors="backslashreplace").decode().replace("\n", "\r\n"))
    assert all(row.startswith("  ") for row in screen.display)  # those behind the last, too
    assert screen.cursor.y == shown.count("\n")
    assert acts_of(question_of(call)) == set()


EVIL = "evil\x1b[2J\x9b1A\u202e\U000e0041"
SHOWN = "evil\\x1b[2J\\x9b1A\\u202e\\U000e0041"
GRADER = {"type": "text_match", "condition": "equals", "value": "x"}
SCENARIO = {"name": EVIL, "steps": [{"input": "x", "graders": [GRADER]}]}
HEAD = {"manifest_version": "v1", "name": EVIL, "target": "true"}
MANIFEST: dict[str, Any] = {**HEAD, "scenarios": [SCENARIO]}


def test_a_manifest_an_agent_and_a_transcript_do_nothing_to_a_terminal(tmp_path, capsys):
    file = tmp_path / "m.yaml"
    for content in (MANIFEST, {**MANIFEST, EVIL: 1}, {**MANIFEST, "manifest_version": EVIL}):
        file.write_text(json.dumps(content))
        ecp(["validate", str(file)])
        printed = "".join(capsys.readouterr())
        assert SHOWN in printed
        assert acts_of(printed) <= {"linefeed"}
    (tmp_path / EVIL).write_text("no transcript\n")
    assert replay(tmp_path / EVIL, [], deadline=1) == 2
    printed = capsys.readouterr().err
    assert SHOWN in printed
    assert acts_of(printed) <= {"linefeed"}

"""`chat` as people use it: an editor of lines, Markdown, JSON, stored chats, a pipe at stdin."""

import contextlib
import io
import json
import os
import select
import shlex
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from eca_protocol.messages import FileContext
from eca_server.cli import screen, terminal
from eca_server.cli.markdown import MarkdownOutput
from eca_server.cli.output import Output
from eca_server.cli.reading import piped_context
from tests.eca_server import fork_server
from tests.eca_server.cli.running import Terminal, eca
from tests.eca_server.stranger import environment

PROMPT = b"\x1b[0m>"  # of the editor
SCRIPT = ("--model", "simulator/script")
CAPABLE = {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "COLUMNS": "80"}
ASKING_SUBAGENT = (
    'call eca_spawn_agent {"agent": "general", "activity": "trying", '
    '"task": "call shell_command {\\"command\\": \\"touch made\\"}"}\nsay done'
)
ANSWER = """\
# A title

Some **bold** text, a List<String> and [a link](http://example.com).

- one
- two

```python
x = 1

y = 2
```
The end.
"""


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Terminal]:
    """A conversation in a terminal that can move the cursor."""
    opened = Terminal(tmp_path, "chat", *SCRIPT, **CAPABLE)
    yield opened
    opened.close()


def test_a_terminal_edits_lines_and_shows_markdown(editor: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    editor.until(b"Alt-Enter", PROMPT)
    editor.type(b"say it is **bolt\x7fd**\r", b"it is \x1b[1mbold", PROMPT)
    editor.type(b"wrong\x03say first\x1b\rsay second\r", b"firstsecond", PROMPT)
    editor.type(b"repeat 99999999 word \r", b"word word word")
    editor.type(b"\x03", b"Stopped.", PROMPT)
    editor.type(b"say not\r\x03say next\r", b"Stopped before the prompt", b"> say next", PROMPT)
    editor.type(b"/comp", b"Summarize this chat")
    editor.type("\x03say は@not".encode(), b"notes.txt")
    editor.type(b"\t\r", b"@notes.txt", PROMPT)
    call = b'call write_file {"path": "a", "content": "new\\n"}'
    editor.type(b"\x1b[200~" + call + b"\nsay\twritten\x1b[201~")
    editor.type(b"\r", b"\x1b[32m    +new", b"Write `a`? [y/N/a]")
    editor.type(b"y\r", b"written", PROMPT)
    assert (tmp_path / "a").read_text() == "new\n"
    assert b"^I" not in editor.all_shown
    editor.type(b'call shell_command {"command": "touch made"}\r', b"Run `touch made`? [y/N/a]")
    editor.type(b"\x03", b"Stopped.", PROMPT)
    assert not (tmp_path / "made").exists()
    editor.type(b"say **bye**\r", b"\x1b[1mbye", PROMPT)
    editor.type(b"\x04")
    assert editor.exit_code() == 0
    history = tmp_path / ".local/share/eca-python/chat-history"
    assert "+say first\n+say second\n" in history.read_text()
    assert "wrong" not in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_a_conversation_begins_with_its_model_in_the_columns_of_the_terminal(
    tmp_path: Path,
) -> None:
    narrow = {**CAPABLE, "COLUMNS": "40"}
    with contextlib.closing(Terminal(tmp_path, "chat", *SCRIPT, **narrow)) as editor:
        editor.until(
            b"Model: simulator/script. Ctrl-C stops\r\nan answer, Ctrl-D exits.\r\n", PROMPT
        )


def test_long_notes_are_broken_between_words_and_addresses_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "- a note of many words\n\nhttps://example.com/a/long-path/of/one-word\n"
    monkeypatch.setenv("COLUMNS", "21")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    assert screen.fitted(text) == text
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = screen.fitted(text)
    assert shown.startswith("- a note of many\n  words\n\nhttps://example.com/a/long-path/of/one-w")
    assert shown.endswith("one-word\n")


def test_without_the_extra_a_terminal_says_what_the_extra_adds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "eca_server.cli.line_editor", None)
    monkeypatch.setattr(terminal, "is_capable", lambda *_: True)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    nothing: Any = None
    terminal._make_reader(nothing, nothing, nothing, terminal.ChatCommand(), "local/m")
    shown = capsys.readouterr().err
    assert shown.startswith("Model: local/m. Ctrl-C stops an answer, Ctrl-D exits.\n")
    assert "pip install 'eca-protocol[terminal]'" in shown


@pytest.mark.long
def test_keys_typed_during_an_answer_wait_for_the_next_prompt_and_answer_no_question(
    editor: Terminal, tmp_path: Path
) -> None:
    editor.until(PROMPT)
    editor.type(b"say a\x1b\rwait 1\r", b"?2004h", b"?25la\x1b")
    editor.type(b"\x1b[200~say p\rsay q\x1b[201~\x1b\rsay **r**\r", b"pq\x1b[1mr", PROMPT)
    editor.type(
        b'say b\x1b\rwait 1\x1b\rcall shell_command {"command": "touch made"}\r', b"?25lb\x1b"
    )
    editor.type(b"y\r", b"Run `touch made`? [y/N/a]")
    editor.type(b"\r", PROMPT)
    assert not (tmp_path / "made").exists()
    editor.type(b"say c\x1b\rwait 1\r", b"?25lc\x1b")
    editor.type(b"\x04")
    assert editor.exit_code() == 0


@pytest.mark.long
def test_ctrl_z_returns_to_the_shell_and_the_prompt_continues(tmp_path: Path) -> None:
    command = shlex.join([*fork_server.ECA, "chat", *SCRIPT])  # in a process group of its own
    line = f"set -m; {command}; stty -a; fg"
    with contextlib.closing(Terminal(tmp_path, line=line, **CAPABLE)) as editor:
        editor.until(PROMPT)
        editor.type(b"say **here**\x1a", b" icanon", b" echo ", b"say **here**")
        editor.type(b"\r", b"\x1b[1mhere", PROMPT)
        editor.type(b"\x04")
        assert editor.exit_code() == 0


def test_no_key_is_in_the_stored_history_and_one_that_cannot_be_stored_shows_nothing(
    editor, tmp_path
):
    editor.until(PROMPT)
    editor.type(b"/login openai planted-0123456789-key\r", b"Stored the key", PROMPT)
    editor.type(b"/login openai key\r", b"Paste", PROMPT)
    editor.type(b"cancel\r", PROMPT)
    history = (tmp_path / ".local/share/eca-python/chat-history").read_text()
    assert "+/login openai key\n" in history
    assert "planted" not in history
    shutil.rmtree(tmp_path / ".local/share/eca-python")
    editor.type(b"say **sent**\r", b"\x1b[1msent", PROMPT)
    editor.type(b"\x04")
    assert editor.exit_code() == 0
    assert b"exception" not in editor.all_shown


def test_the_calls_of_a_subagent_are_the_users_decision(editor: Terminal, tmp_path: Path) -> None:
    for answer, is_made in ((b"n\r", False), (b"y\r", True)):
        editor.until(PROMPT)
        editor.type(b"\x1b[200~" + ASKING_SUBAGENT.encode() + b"\x1b[201~\r")
        editor.until(b"Run `touch made`? [y/N/a]")
        editor.type(answer, b"done")
        assert (tmp_path / "made").exists() is is_made
    done = eca(tmp_path, "chat", *SCRIPT, ASKING_SUBAGENT)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "rejected; it needs your approval" in done.stderr


def test_without_a_terminal_the_model_reads_that_no_one_was_asked(tmp_path) -> None:
    call = json.dumps({"command": "touch made"})
    eca(tmp_path, "chat", *SCRIPT, stdin=f"call eca_shell_command {call}\n/export out.json\n")
    exported = (tmp_path / "out.json").read_text()
    assert "and there is no terminal to ask the user, so it did not run." in exported
    assert "The user rejected" not in exported


def painted(pieces: list[str]) -> str:
    """Return what a terminal gets of an answer that arrives in pieces."""
    file = io.StringIO()
    out = MarkdownOutput()
    out._console = Console(file=file, force_terminal=True, width=70, height=20, _environ={})
    for piece in pieces:
        out.write(piece)
    out.end_line()
    return file.getvalue()


def rendered(pieces: list[str]) -> str:
    display = pyte.Screen(70, 60)
    pyte.Stream(display).feed(painted(pieces).replace("\n", "\r\n"))
    return "\n".join(line.rstrip() for line in display.display).rstrip()


@settings(max_examples=10)
@given(st.lists(st.integers(0, len(ANSWER)), max_size=12).map(sorted))
def test_markdown_looks_the_same_however_it_arrives(cuts: list[int]) -> None:
    pieces = [ANSWER[a:b] for a, b in zip([0, *cuts], [*cuts, len(ANSWER)], strict=True)]
    shown = rendered(pieces)
    assert shown == rendered([ANSWER])
    assert "Some bold text, a List<String> and a link (http://example.com)." in shown
    assert "\n\n • one\n • two\n\n" in shown


def test_many_pieces_of_a_block_are_painted_together_and_the_cursor_stays_visible():
    text = painted(["```\n", *["word " * 10 + "\n"] * 500])
    assert len(text) < 10 * 60 * 500
    assert text.index("\x1b[?25h") < text.index("word")


def test_a_terminal_whose_width_is_stated_as_0_shows_an_answer(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "0")
    out = MarkdownOutput()
    out.write("# A title\n\nA text.\n")
    out.end_line()
    assert capsys.readouterr().out.split() == ["A", "title", "A", "text."]


def test_without_the_extra_a_terminal_gets_the_text_as_it_is(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert isinstance(screen.make_output(), MarkdownOutput)
    monkeypatch.setitem(sys.modules, "eca_server.cli.markdown", None)
    assert type(screen.make_output()) is Output
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.undo()
    assert type(screen.make_output()) is Output


def test_json_has_one_content_a_line(tmp_path: Path) -> None:
    done = eca(tmp_path, "chat", "--json", *SCRIPT, 'say hi\ncall read_file {"path": "none"}')
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {frozenset(line) for line in lines} == {frozenset({"chatId", "role", "content"})}
    types = [line["content"]["type"] for line in lines]
    assert {"text", "toolCallRun", "toolCalled", "usage"} <= {*types}
    assert lines[-1]["content"] == {"type": "progress", "state": "finished", "text": ""}
    failed = eca(tmp_path, "chat", "--json", *SCRIPT, "fail auth No such key")
    assert failed.returncode == 1
    assert "No such key" in failed.stderr
    assert all(json.loads(line) for line in failed.stdout.splitlines())


def test_a_chat_is_continued_by_another_process(tmp_path: Path) -> None:
    first = eca(tmp_path, "chat", "--json", *SCRIPT, "say one")
    eca(tmp_path, "chat", *SCRIPT, "say two")
    chat_id = json.loads(first.stdout.splitlines()[0])["chatId"]
    latest = eca(tmp_path, "chat", "say three", "--resume")
    assert latest.stdout == "three\n"  # with the model of the chat
    assert "say two" in latest.stderr
    by_id = eca(tmp_path, "chat", "say four", f"--resume={chat_id[:8]}", "--json", *SCRIPT)
    assert {json.loads(line)["chatId"] for line in by_id.stdout.splitlines()} == {chat_id}
    unknown = eca(tmp_path, "chat", "--resume", "nonsense", "hi")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert chat_id in unknown.stderr
    assert "A message goes before" not in unknown.stderr
    swapped = eca(tmp_path, "chat", "--resume", "say five")
    assert "A message goes before the option: `eca-server chat MESSAGE --resume`." in swapped.stderr
    assert eca(tmp_path, "chat", "--model", "simulator/none", "hi").returncode == 1
    resumed = eca(tmp_path, "chat", "--resume", stdin="hi\n/model simulator/echo\nsay five")
    assert "simulator/none cannot be used" in resumed.stderr
    assert resumed.stdout.endswith("from the next prompt on.\nsay five\n")
    (tmp_path / "other").mkdir()
    command = (*fork_server.ECA, "chat", "--resume")
    done = fork_server.run(command, cwd=tmp_path / "other", env=environment(tmp_path))
    assert (done.returncode, "no stored chat" in done.stderr) == (1, True)


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_the_context_at_stdin_comes_from_a_pipe_a_socket_or_a_file(tmp_path, monkeypatch, kind):
    path = tmp_path / "context"
    if kind == "socket":
        near, far = (each.detach() for each in socket.socketpair())
    elif kind == "pipe":
        far, near = os.pipe()
    else:
        near = os.open(path, os.O_WRONLY | os.O_CREAT)
        far = os.open(path, os.O_RDONLY)
    with os.fdopen(near, "w") as writer:
        writer.write("+a line")
    with os.fdopen(far) as stdin, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        with piped_context(is_wanted=True) as contexts:
            (context,) = contexts
            assert isinstance(context, FileContext)
            assert Path(context.path).read_text() == "+a line"


def test_a_pipe_without_an_end_is_named_on_a_terminal(tmp_path: Path) -> None:
    near, far = os.openpty()
    with subprocess.Popen(
        [*fork_server.command(), "chat", "--model", "simulator/echo", "hi"],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=far,
    ) as process:
        os.close(far)
        assert select.select([near], [], [], 30)[0]
        assert b"from stdin until its end" in os.read(near, 4096)
        process.stdin.close()
        assert process.stdout.read() == b"hi\n"
        assert process.wait(30) == 0
    os.close(near)

"""`eca-server chat` in a pipe and on a terminal."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio

from eca_protocol import messages as m
from eca_protocol.testing.provider import Reply, provider_in_thread, reply
from eca_server.cli import terminal
from eca_server.cli.turns import WaitNotice
from tests.eca_server import fork_server
from tests.eca_server.cli.running import Terminal, eca
from tests.eca_server.stranger import environment


def test_a_wait_is_explained_and_the_debug_log_shows_requests_and_nothing_secret(tmp_path):
    busy = Reply(status=503, body={"error": {"message": "busy"}})
    with provider_in_thread([busy, reply("Hi"), busy, reply("Hi")]) as provider:
        settings = {
            "url": f"{provider.url}?sig=planted-query",
            "key": "planted-key-1",
            "fetchModels": False,
        }
        config = json.dumps({"providers": {"p": settings}, "retry": {"baseDelayMs": 1}})
        arguments = ("chat", "--model", "p/m", "planted prompt")
        plain = eca(tmp_path, *arguments, ECA_CONFIG=config)
        debug = eca(tmp_path, *arguments, "--log-level", "debug", ECA_CONFIG=config)
    assert (plain.stdout, debug.stdout) == ("Hi\n", "Hi\n")
    assert plain.stderr == "[overloaded: trying again in 0 s (2 of 5)]\n"
    for words in ("1: POST http://", "?sig=*** for p/m", "try 2 of 5", "first event", "2: fin"):
        assert words in debug.stderr
    assert "planted" not in debug.stderr


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--model", "no/such", "hi"], "no/such"),
        (["--model", "simulator/script", "say half\nfail quota You are out of money."], "money"),
        (["--model", "simulator/script", "cut"], ""),
    ],
    ids=["unknown-model", "provider-fault", "no-end"],
)
def test_a_chat_that_fails_exits_1_with_the_reason(tmp_path, arguments, reason):
    done = eca(tmp_path, "chat", *arguments)
    assert done.returncode == 1
    assert reason in done.stderr
    assert done.stderr.strip()
    assert reason == "" or reason not in done.stdout


def test_notes_before_and_behind_an_answer_go_to_stderr(tmp_path: Path) -> None:
    script = ("chat", "--model", "simulator/script", "say half\nfinish length")
    done = eca(tmp_path, *script, stdin="context\n" * 100_000)
    assert (done.returncode, done.stdout) == (0, "half\n")
    first, last = done.stderr.splitlines()
    assert "stdin.txt was cut" in first
    assert "The answer was cut" in last


def test_chat_takes_its_prompts_from_a_pipe_and_names_a_picture_beside_the_answer(tmp_path):
    done = eca(tmp_path, "chat", "--model", "simulator/script", "say Look:\ndraw\nsay done")
    picture = "[a picture: image/png]\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "Look:\ndone\n", picture)
    done = eca(tmp_path, "chat", stdin="one\r\n\n   \ntwo\n/no-such-command\nthree")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("one", "two", "three")
    assert "no-such-command" in done.stderr
    assert ">" not in done.stderr
    done = eca(tmp_path, "chat", stdin="one\n/btw why?\n/export e.edn\n/import e.edn")
    assert "cannot show chats" in done.stdout
    assert "Added 2 messages to this chat." in done.stdout


@pytest.mark.parametrize("end", ["a closed pipe", "an interrupt"])
def test_the_answer_streams_until_the_chat_is_ended(tmp_path: Path, end: str) -> None:
    script = "repeat 9 many\\n\nwait forever" if end == "an interrupt" else "repeat 999999 many\\n"
    with subprocess.Popen(
        [*fork_server.command(), "chat", "--model", "simulator/script", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path),
    ) as chat:
        assert chat.stdout.readline() == b"many\n"
        if end == "an interrupt":
            chat.send_signal(signal.SIGINT)
        else:
            chat.stdout.close()
        assert chat.wait(5) == (130 if end == "an interrupt" else 1)
        assert b"Traceback" not in chat.stderr.read()


async def test_a_second_interrupt_leaves_a_turn_that_does_not_end_or_has_not_begun() -> None:
    stopped, exiting = trio.Event(), trio.Event()
    turn = Mock(stop=stopped.set)
    type(turn).stopped = property(lambda _: stopped.is_set())
    reader = Mock(state="hidden")

    async def interrupt() -> bool:
        signal.raise_signal(signal.SIGINT)
        await trio.testing.wait_all_tasks_blocked()
        return exiting.is_set()

    for is_running, state in ((True, "entered"), (False, "entered"), (False, "shown")):
        talk = terminal._Conversation(Mock(), Mock(), Mock(), reader, prints_json=False)
        reader.state, exiting = "hidden", trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(talk.take_interrupts, exiting.set)
            assert not await interrupt()  # between a turn and the next prompt
            talk._turn, reader.state = (turn if is_running else None), state
            assert await interrupt() is (state == "shown")
            assert stopped.is_set()
            assert await interrupt()
            nursery.cancel_scope.cancel()


def test_a_message_is_answered_by_a_model_that_a_provider_lists(tmp_path):
    with provider_in_thread(models=["m"], otherwise=reply("Hi")) as provider:
        config = json.dumps({"providers": {"p": {"url": provider.url, "key": "k"}}})
        done = eca(tmp_path, "chat", "planted prompt", ECA_CONFIG=config)
    assert (done.stdout, done.stderr) == ("Hi\n", "")
    unlisted = eca(tmp_path, "chat", "planted prompt", ECA_CONFIG=config)  # its server has ended
    assert (unlisted.returncode, unlisted.stdout) == (1, "")
    assert "error: no model can be used: `p` has listed no models\n" in unlisted.stderr
    assert eca(tmp_path, "chat", "/doctor", ECA_CONFIG=config).returncode == 0


@pytest.fixture
def tty(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


async def test_a_long_wait_is_announced_once(autojump_clock, nursery, capsys) -> None:
    def take(content: m.ChatContent) -> None:
        notice.take(m.ChatContentReceivedParams(chat_id="c", role="assistant", content=content))

    notice = WaitNotice()
    prepared = m.ChatToolCallPrepareContent(id="t", name="grep", server="eca", origin="native")
    nursery.start_soon(notice.run)
    for waits, seconds, text in (
        (m.ChatProgressContent(state="running", text="Waiting model"), 2.9, ""),
        (
            m.ChatProgressContent(state="running", text="Generating"),
            60,
            "[Waiting for the model]\n",
        ),
        (m.ChatTextContent(text="a"), 60, ""),
        (m.ChatReasonTextContent(id="r", text="b"), 60, "[The model is thinking]\n"),
        (m.ChatReasonTextContent(id="r", text="c"), 60, ""),
        (prepared, 60, "[The model is writing a call of grep]\n"),
    ):
        take(waits)
        await trio.sleep(seconds)
        assert capsys.readouterr().err == text


@pytest.mark.long
def test_a_long_wait_is_announced_once_in_a_terminal(tty: Terminal, tmp_path: Path) -> None:
    tty.until(b"> ")
    tty.type(b"wait 4\n", b"\n[Waiting for the model]\r\n", b"> ")
    assert tty.all_shown.count(b"[Waiting for the model]") == 1
    tty.type(b"say short\n", b"\nshort\r\n", b"> ")
    done = eca(tmp_path, "chat", "--model", "simulator/script", "wait 4\nsay done")
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_doctor_says_in_a_terminal_that_it_asks_the_providers(tmp_path: Path) -> None:
    doctor = Terminal(tmp_path, "doctor", "--online")
    try:
        doctor.until(
            b"Built-in test model: works", b"\r\n[Checking the providers]\r\n", b"Provider check"
        )
    finally:
        doctor.close()


TOUCH = b'call eca_shell_command {"command": "touch made"}\n'


def test_a_conversation_in_a_terminal(tty: Terminal, tmp_path: Path) -> None:
    made = tmp_path / "made"
    tty.until(b"Model: simulator/script. Ctrl-C stops an answer, Ctrl-D exits.\r\n> ")
    tty.type(b"say first answer\n", b"\nfirst answer\r\n", b"> ")
    tty.type(b"repeat 99999999 word\n", b"wordword")
    tty.type(b"\x03", b"\nStopped.\r\n> ")
    tty.type(b"say after the stop\n", b"\nafter the stop\r\n", b"> ")
    tty.type(
        TOUCH,
        b"answer a to allow in this session: `touch`\r\n",
        b"any other answer rejects the call, and is sent to the model\r\n",
        b"Run `touch made`? [y/N/a] ",
    )
    tty.type(b"\n", b"> ")
    tty.type(TOUCH, b": `touch`\r\nRun `touch made`? [y/N/a] ")
    tty.type(b"say Use a different NAME.\n", b"\nUse a different NAME.\r\n", b"> ")
    tty.type(TOUCH, b"? [y/N/a]")
    tty.type(b"\x04", b" \r\n", b"> ")
    tty.type(TOUCH, b"? [y/N/a] ")
    tty.type(b"\x03", b"\n> ")
    assert not made.exists()
    tty.type(TOUCH, b"? [y/N/a] ")
    tty.type(b"y\n", b"[Running 'touch made']", b"> ")
    tty.type(TOUCH, b"? [y/N/a] ")
    tty.type(b"a\n", b"[Running 'touch made']", b"> ")
    made.unlink()
    tty.type(TOUCH, b"\n[Running 'touch made']", b"> ")  # without a question
    assert made.exists()
    tty.type(b'call eca_write_file {"path": "a.txt", "content": "new"}\n', b"+new", b"? [y/N/a] ")
    tty.type(b"yes\n", b"> ")
    assert (tmp_path / "a.txt").read_text() == "new"
    outside = b'call eca_write_file {"path": "../a.txt", "content": "new"}\n'
    tty.type(outside, b"+new\r\n", b"newline at end of file\r\nWrite `../a.txt`? [y/N] ")
    tty.type(b"n\n", b"> ")
    tty.type(
        b'call eca_move_file {"source": "a.txt", "destination": "b\\u001b[2K.txt"}\n',
        b"  tool: move_file\r\n",
        b"  directory: %b\r\n" % os.fsencode(tmp_path),
        b"  source: a.txt\r\n",
        b"  destination: b\\x1b[2K.txt\r\n",
        b"Move `a.txt` to `b\\x1b[2K.txt`? [y/N/a] ",
    )
    tty.type(b"n\n", b"\n> ")
    tty.type(b"\x03", b"^C\r\nContinue this chat with `eca-server chat --resume ")
    assert tty.exit_code() == 130, tty.all_shown
    assert not [word for word in (b"Traceback", b"Fatal") if word in tty.all_shown]


def test_a_terminal_does_not_show_a_key_while_it_is_typed(tty: Terminal, tmp_path: Path) -> None:
    tty.until(b"> ")
    tty.type(b"/login openai\n", b"Paste the key of openai", b"\n> ")
    tty.type(b"planted-0123456789-key\n", b"Stored the key of", b"\n> ")
    tty.type(b"say seen again\n", b"say seen again\r\nseen again\r\n", b"> ")
    tty.type(b"\x04")
    assert tty.exit_code() == 0
    # Without any key, the default model cannot be used, which is no reason to refuse a login.
    env = {"ECA_CONFIG": '{"defaultModel": "groq/m"}', "XDG_DATA_HOME": str(tmp_path / "data")}
    once = Terminal(tmp_path, "chat", "/login groq", **env)
    once.until(b"Paste the key of groq", b"\n> ")
    once.type(b"planted-once\n", b"Stored the key of groq")
    assert once.exit_code() == 0
    once.close()
    assert b"planted" not in tty.all_shown + once.all_shown
    assert b"planted" in b"".join(path.read_bytes() for path in tmp_path.rglob("logins.json"))


def test_a_terminal_without_a_model_shows_how_to_configure_one_unless_the_chat_has_one(tmp_path):
    hint = b"No model is configured: the built-in simulator/echo repeats what you write."
    opened = Terminal(tmp_path, "chat", "hello")
    opened.until(hint, b"hello\r\n")
    assert opened.exit_code() == 0
    opened.close()
    assert eca(tmp_path, "chat", "--model", "simulator/script", "say one").returncode == 0
    opened = Terminal(tmp_path, "chat", "--resume", "", "say two")
    opened.until(b"Continuing ", b"two\r\n")
    assert opened.exit_code() == 0
    assert b"No model" not in opened.all_shown
    opened.close()


def test_a_call_cannot_repaint_the_question_or_write_one_of_its_own(tty, tmp_path):
    (tmp_path / "sub").mkdir()
    command = "touch made\x1b[1A\x1b[2K\x1b]52;c;ZXZpbA==\x07\u202e\nRun `ls`? [y/N] "
    arguments = json.dumps({"command": command, "working_directory": "sub"})
    tty.until(b"> ")
    tty.type(
        f"call eca_shell_command {arguments}\n".encode(),
        b"  directory: %b/sub\r\n" % os.fsencode(tmp_path),
        b"      touch made\\x1b[1A\\x1b[2K\\x1b]52;c;ZXZpbA==\\x07\\u202e\r\n",
        b"      Run `ls`? [y/N] \r\n",
        b"\nRun `touch made\\x1b",
        b"? [y/N] ",  # without `a`: it has no key to remember
    )
    assert b"\x1b" not in tty.all_shown
    assert tty.all_shown.count(b"\nRun ") == 1


def test_control_characters_of_answers_and_a_repository_are_shown_as_escapes(tmp_path):
    script = "say a\x1b]0;title\x07\nsay \x1b\nsay [2J\u202e\U000e0041\\r\nsay done"
    script += '\ncall eca_shell_command {"command": "echo \\u001b[2J"}'
    done = eca(tmp_path, "chat", "--model", "simulator/script", script)
    assert done.stdout.startswith("a\\x1b]0;title\\x07\\x1b[2J\\u202e\\U000e0041")
    assert "\\x1b[2J" in done.stderr
    assert not set("\x1b\x07\r\u202e") & set(done.stdout + done.stderr)
    (tmp_path / ".eca").mkdir()
    config = {"provid\u001b[2Jers": 1, "defaultModel": 7, "mcpServers": {"a\u202eb": 5}}
    (tmp_path / ".eca" / "config.json").write_text(json.dumps(config, ensure_ascii=False))
    for arguments in (["doctor"], ["chat", "hi"]):
        done = eca(tmp_path, *arguments)
        assert "provid\\x1b[2Jers" in done.stdout + done.stderr
        assert not set("\x1b\u202e") & set(done.stdout + done.stderr)


def test_in_a_pipe_a_call_that_needs_approval_is_rejected_and_reported(tmp_path: Path) -> None:
    done = eca(tmp_path, "chat", "--model", "simulator/script", TOUCH.decode() + "say went on")
    assert done.returncode == 0
    assert done.stdout == "went on\n"
    assert "rejected" in done.stderr
    assert "touch made" in done.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("call", "note"),
    [
        ('call grep {"path": ".", "pattern": "("}', "[Searching for '(' failed: pattern: exp"),
        ("call nosuch {}", "[nosuch failed: There is no tool 'nosuch'"),
        ('call edit_file {"path": "x"', "[Editing file failed: The arguments are unreadable"),
        ('call shell_command {"command": "pwd"}', "denied by the agent or the configuration]"),
        ('call read_file {"path": "x"}', "[Reading file x: denied by a hook]"),
    ],
)
def test_a_call_that_does_nothing_is_reported_with_the_reason(tmp_path, call, note):
    denied = {"toolCall": {"approval": {"deny": {"eca_shell_command": {}}}}}
    hook = {"matcher": "eca__read_file", "actions": [{"type": "shell", "shell": "exit 2"}]}
    hooks = {"guard": {"type": "preToolCall", **hook}}
    script = f"say Let me see\n{call}\nsay went on"
    config = json.dumps({**denied, "hooks": hooks})
    done = eca(tmp_path, "chat", "--model", "simulator/script", script, ECA_CONFIG=config)
    assert (done.returncode, done.stdout) == (0, "Let me see\nwent on\n")
    assert note in done.stderr

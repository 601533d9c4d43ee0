"""The command line, for a user in a shell and for an editor."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema, typescript
from eca_protocol.testing.provider import Reply, provider_in_thread, reply
from eca_server.cli import terminal
from eca_server.cli.main import _COMMANDS, _WITH_PARSERS, run
from tests.eca_server import fork_server
from tests.eca_server.conftest import Start
from tests.eca_server.fork_server import ECA
from tests.eca_server.stranger import environment


def eca(
    home: Path, *arguments: str, said: str = "", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, on a machine where only `env` is set."""
    done = fork_server.run((*ECA, *arguments), cwd=home, env=environment(home, **env), said=said)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_help_and_version_answer_without_loading_what_serves(tmp_path: Path) -> None:
    code = (
        "import contextlib, sys\n"
        "from eca_server.cli.main import run\n"
        "assert run(['--version']) == 0\n"
        "for arguments in (['--help'], ['serve', '--help'], ['chat', '--help']):\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        run(arguments)\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=30,
        check=True,
    )
    said, loaded = done.stdout.split("LOADED")
    tops = {name.partition(".")[0] for name in loaded.split()}
    assert not tops & {"trio", "anyio", "asyncio", "attrs", "attr", "cattrs", "httpx", "ssl"}
    assert said.startswith("eca_server ")
    for word in ("serve", "server", "chat", "doctor", "Configuration", "Exit codes", "--model"):
        assert word in said


def test_the_help_names_each_command_and_each_edition(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = {}
    for command in ((), ("serve",), ("schema",)):
        with pytest.raises(SystemExit, match="0"):
            run([*command, "--help"])
        outputs[command] = " ".join(capsys.readouterr().out.split())
    for command in (*_COMMANDS, *_WITH_PARSERS):
        assert re.search(rf"\b{command} ", outputs[()].partition("COMMAND")[2]), command
    for edition in Revision:
        assert edition.value in outputs["serve",]
        assert edition.value in outputs["schema",]


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        *((option, f"unknown option '{option}'") for option in ("--nonsense", "--vers")),
        ("--verison", "unknown option '--verison'; did you mean `--version`?"),
        ("serve --nonsense", "--nonsense"),
        ("serve --verb", "--verb"),
        ("serve extra", "extra"),
        ("server --log-level loud", "--log-level"),
        ("server --log-level", "--log-level"),
        ("serve --protocol-revision tomorrow", "--protocol-revision"),
        ("chat --protocol-revision 2025-10 hi", "--protocol-revision"),
        ("chat two messages", "messages"),
        ("chat hi --config-file missing.json", "missing.json"),
        ("chat hi --config-file .", "."),
        ("doctor who", "who"),
        ("schema --revision tomorrow", "tomorrow"),
        *((f"tap --replay x --deadline {odd}", odd) for odd in ("nan", "inf", "-1", "0", "soon")),
        *((f"tap --inspect --port {odd}", odd) for odd in ("70000", "-1", "x", "9" * 20)),
    ],
)
def test_what_is_unknown_is_refused_on_stderr(arguments, near, capsys):
    try:
        code = run(arguments.split())
    except SystemExit as left:
        code = left.code  # type: ignore[assignment] - argparse leaves with a number
    assert code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert near in printed.err


@pytest.mark.parametrize(
    ("arguments", "command", "near"),
    [
        (["nonsense"], "nonsense", ""),
        (["--verbose", "serv"], "serv", "; did you mean `serve`?"),
        (["caht"], "caht", "; did you mean `chat`?"),
        (["--log-level", "info", "write-chat", "-x"], "write-chat", "; did you mean `read-chat`?"),
    ],
)
def test_an_unknown_command_gets_a_suggestion_and_fails_as_upstream_s_does(
    arguments: list[str], command: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"eca-server: unknown command {command!r}{near}\nTry `eca-server --help`.\n"


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "arguments",
    [[], ["serve"], ["--log-level", "info"], ["--verbose", "--log-level", "warn", "server"]],
)
def test_without_a_command_it_serves(start_server: Start, arguments: list[str]) -> None:
    server = start_server(command=(*ECA, *arguments))
    assert "chatWelcomeMessage" in server.initialize()
    server.close_input()
    assert server.exit_code() == 0


def test_without_a_command_a_terminal_shows_what_to_do(capsys, monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert run([]) == 2
    shown = capsys.readouterr().err
    for command in ("eca-server chat", "eca-server doctor", "eca-server config init", "--help"):
        assert command in shown


def test_doctor_shows_where_keys_are_and_never_what_they_are(tmp_path: Path) -> None:
    planted = [f"sk-planted-{n}-Zq8" for n in range(4)]
    (tmp_path / "key.txt").write_text(planted[3] + "\n")
    config = tmp_path / ".config" / "eca" / "config.json"
    config.parent.mkdir(parents=True)
    providers = {
        "written": {"key": planted[0], "models": {"m": {}}},
        "named": {"keyEnv": "MY_SPECIAL_KEY", "models": {"m": {}}},
        "filed": {"key": "${file:~/key.txt}", "models": {"m": {}}},
    }
    for provider in providers.values():
        provider |= {"api": "openai-chat", "url": "http://127.0.0.1:1/v1"}
    config.write_text(json.dumps({"providers": providers}))
    done = eca(
        tmp_path, "doctor", "--verbose", MY_SPECIAL_KEY=planted[1], OPENAI_API_KEY=planted[2]
    )
    assert done.returncode == 0
    for name in ("written", "named", "filed", "MY_SPECIAL_KEY", "OPENAI_API_KEY"):
        assert name in done.stdout
    for key in planted:
        assert key not in done.stdout + done.stderr


CHTA = {"api": "openai-chta", "url": "http://127.0.0.1:1/v1", "models": {"m": {}}}


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("config", "error"),
    [
        (json.dumps({"providers": {"x": CHTA}}), "x.api: there is no API 'openai-chta'; did you"),
        ("{oops", "ECA_CONFIG:1:2: expected JSON"),
        ('{"defaultModel": "no/such"}', "configuration: defaultModel: 'no/such' cannot be used"),
    ],
)
def test_a_configuration_that_cannot_work_fails_doctor_and_chat(tmp_path, config, error):
    done = eca(tmp_path, "doctor", "--json", ECA_CONFIG=config)
    values = json.loads(done.stdout)
    assert (done.returncode, values["works"], error in values["errors"][0]) == (1, False, True)
    done = eca(tmp_path, "chat", "hi", ECA_CONFIG=config)
    assert (done.returncode, done.stdout) == (1, "")
    assert error in done.stderr
    assert "eca-server doctor" in done.stderr


LONG = f"/{'x' * 300}"
"""The path of a file that cannot be looked at."""

IGNORED: dict[str, Any] = {
    "defaultAgent": "agnt",
    "customTools": {"read_file": {"command": "x", "description": "x"}},
    "hooks": {
        "h": {
            "type": "preToolCall",
            "actions": [{"file": "/no/such"}, {"shell": "x"}, {}, {"file": LONG}],
        }
    },
    "mcpServers": {"broken": {"command": "no-such-program"}},
}


def test_doctor_warns_of_settings_without_effect_and_is_well(tmp_path: Path) -> None:
    done = eca(tmp_path, "doctor", "--json", ECA_CONFIG=json.dumps(IGNORED))
    values = json.loads(done.stdout)
    assert (done.returncode, values["works"], values["errors"]) == (0, True, [])
    expected = [
        "defaultAgent: there is no agent 'agnt' that can be selected; did you mean `agent`?",
        "customTools: The custom tool 'read_file' was left out",
        "hooks.h.actions[0]: there is no file '/no/such'",
        "hooks.h.actions[2]: expected either `shell` or `file`",
        f"hooks.h.actions[3]: there is no file '{LONG}'",
        "mcpServers: broken: failed: the command 'no-such-program' cannot be started",
    ]
    for warning, text in zip(values["warnings"], expected, strict=True):
        assert warning.startswith(f"configuration: {text}")
    done = eca(tmp_path, "doctor", ECA_CONFIG=json.dumps(IGNORED))
    assert (done.returncode, done.stderr) == (0, "")
    assert all(text in done.stdout for text in (*expected[:5], expected[5].partition(": ")[2]))


def test_a_starter_configuration_is_written_once_and_is_valid(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert run(["config", "init"]) == 0
    file = Path(capsys.readouterr().out.splitlines()[0])
    assert file.is_relative_to(tmp_path)
    text = file.read_text("utf-8")
    live = [re.sub(r'^  // (?=["} ])', "  ", line) for line in text.splitlines()]
    for content in (text, "\n".join(live)):
        shown = eca(tmp_path, "doctor", "--json", ECA_CONFIG=content)
        assert json.loads(shown.stdout)["sources"]["ECA_CONFIG"] == "used", content
    file.write_text("mine", "utf-8")
    assert run(["config", "init"]) == 1
    assert "exists and stays as it is" in capsys.readouterr().err
    assert file.read_text("utf-8") == "mine"


def test_a_starter_configuration_that_finds_no_space_leaves_no_file(tmp_path: Path) -> None:
    command = 'ulimit -f 0; exec "$0" -P -m eca_server config init'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "could not write" in done.stderr) == (1, True)
    assert list((tmp_path / ".config/eca").iterdir()) == []


def test_the_text_of_a_pipe_is_the_context_of_the_message(tmp_path: Path) -> None:
    with provider_in_thread([reply("Fine")]) as provider:
        providers = {"p": {"url": provider.url, "key": "planted-key-1", "models": {"m": {}}}}
        config = json.dumps({"providers": providers, "defaultModel": "p/m"})
        done = eca(tmp_path, "chat", "Review this", said="+a line\n@b.txt", ECA_CONFIG=config)
        (request,) = provider.requests
    assert (done.returncode, done.stdout, done.stderr) == (0, "Fine\n", "")
    assert "+a line" in str(request.body)
    assert "Review this" in str(request.body)


def test_the_output_of_an_approved_command_is_shown_as_lines(tmp_path: Path) -> None:
    command = "seq 100 110; printf 'out\\033[2J\\n'; seq 121 130 >&2; exit 3"
    script = f"call eca_shell_command {json.dumps({'command': command})}\nsay done"
    done = eca(tmp_path, "chat", "--approve", "--model", "simulator/script", script)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert " failed]\n  Exit code 3\n" in done.stderr
    assert "\n  109\n  110\n  out\n" in done.stderr
    assert "\n  129\n  130\n" in done.stderr
    assert "\x1b" not in done.stderr


def test_doctor_asks_each_provider_when_online(tmp_path: Path) -> None:
    with provider_in_thread(models=["m"]) as provider:
        providers = {"good": {"url": provider.url, "key": "planted-good-key-1"}}
        well = eca(tmp_path, "doctor", "--online", ECA_CONFIG=json.dumps({"providers": providers}))
        providers["bad"] = {"url": "http://127.0.0.1:1/v1", "key": "planted-bad-key-2"}
        ill = eca(tmp_path, "doctor", "--online", ECA_CONFIG=json.dumps({"providers": providers}))
    assert (well.returncode, ill.returncode) == (0, 1)
    for done in (well, ill):
        assert "- good: works: lists 1 model after" in done.stdout
        assert "planted" not in done.stdout + done.stderr
    assert "- bad: the provider cannot be reached" in ill.stdout


def test_a_wait_is_explained_and_the_debug_log_shows_requests_and_nothing_secret(tmp_path):
    busy = Reply(status=503, body={"error": {"message": "busy"}})
    with provider_in_thread([busy, reply("Hi"), busy, reply("Hi")]) as provider:
        settings = {"url": f"{provider.url}?sig=planted-query", "key": "planted-key-1"}
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


def test_chat_takes_its_prompts_from_a_pipe_and_names_a_picture_beside_the_answer(tmp_path):
    done = eca(tmp_path, "chat", "--model", "simulator/script", "say Look:\ndraw\nsay done")
    picture = "[a picture: image/png]\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "Look:\ndone\n", picture)
    done = eca(tmp_path, "chat", said="one\n\n   \ntwo\n/no-such-command\nthree")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("one", "two", "three")
    assert "no-such-command" in done.stderr
    assert ">" not in done.stderr


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
        assert chat.stdout is not None
        assert chat.stderr is not None
        assert chat.stdout.readline() == b"many\n"
        if end == "an interrupt":
            chat.send_signal(signal.SIGINT)
        else:
            chat.stdout.close()
        assert chat.wait(5) == (130 if end == "an interrupt" else 1)
        assert b"Traceback" not in chat.stderr.read()


class FakeTurn:
    """A fake turn that records when it was stopped, and never ends."""

    def __init__(self) -> None:
        self.stops = trio.Event()

    @property
    def stopped(self) -> bool:
        return self.stops.is_set()

    def stop(self) -> None:
        self.stops.set()


async def test_a_second_interrupt_leaves_a_turn_that_does_not_end() -> None:
    turn = FakeTurn()
    with trio.fail_after(5), trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(terminal._stop_on_interrupt, turn, scope)
            await trio.testing.wait_all_tasks_blocked()
            signal.raise_signal(signal.SIGINT)
            await turn.stops.wait()
            assert not scope.cancel_called
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()
    assert scope.cancelled_caught


class Terminal:
    """A pseudo-terminal that runs `chat`, or another command."""

    def __init__(self, home: Path, *command_line: str, **env: str) -> None:
        self._near, far = os.openpty()
        self.shown = b""
        self.all_shown = b""
        line = (
            'exec "$@" <"$TTY" >"$TTY" 2>&1'  # it becomes the controlling terminal of the session
        )
        arguments = command_line or ("chat", "--model", "simulator/script")
        command = ["sh", "-c", line, "sh", *fork_server.command(), *arguments]
        self.process = subprocess.Popen(
            command,
            start_new_session=True,
            cwd=home,
            env=environment(home, **{"TTY": os.ttyname(far), "COLUMNS": "300", **env}),
            stdin=subprocess.DEVNULL,
            pass_fds=[far],
            # Undo an inherited ignored SIGINT, as in a background job.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        os.close(far)

    def type(self, keys: bytes, *expected: bytes) -> None:
        os.write(self._near, keys)
        self.until(*expected)

    def until(self, *expected: bytes) -> None:
        """Read until one text after the other is shown, and forget the output up to the last."""
        deadline = time.monotonic() + 20
        for text in expected:
            while text not in self.shown:
                remaining = max(0.0, deadline - time.monotonic())
                assert select.select([self._near], [], [], remaining)[0], self.shown[-500:]
                self._read()
            self.shown = self.shown.partition(text)[2]

    def _read(self) -> None:
        data = os.read(self._near, 65_536)
        self.shown += data
        self.all_shown += data

    def exit_code(self) -> int:
        """Read to the end."""
        deadline = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.shown[-500:]
            if select.select([self._near], [], [], 0.02)[0]:
                try:
                    self._read()
                except OSError:  # Linux: the other end is closed
                    self.process.wait(5)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait(5)
        os.close(self._near)


@pytest.fixture
def tty(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


TOUCH = b'call eca_shell_command {"command": "touch made"}\n'


def test_a_conversation_in_a_terminal(tty: Terminal, tmp_path: Path) -> None:
    made = tmp_path / "made"
    tty.until(b"Ctrl-C stops", b"> ")
    tty.type(b"say first answer\n", b"\nfirst answer\r\n", b"> ")
    tty.type(b"repeat 99999999 word\n", b"wordword")
    tty.type(b"\x03", b"\nStopped.\r\n> ")
    tty.type(b"say after the stop\n", b"\nafter the stop\r\n", b"> ")
    tty.type(TOUCH, b"touch made\r\nRun `touch made`? [y/N] ")
    tty.type(b"\n", b"> ")
    tty.type(TOUCH, b"? [y/N] ")
    tty.type(b"\x03", b"\n> ")
    assert not made.exists()
    tty.type(TOUCH, b"? [y/N] ")
    tty.type(b"y\n", b"[Running 'touch made']", b"> ")
    assert made.exists()
    tty.type(b'call eca_write_file {"path": "a.txt", "content": "new"}\n', b"+new", b"? [y/N] ")
    tty.type(b"yes\n", b"> ")
    assert (tmp_path / "a.txt").read_text() == "new"
    tty.type(
        b'call eca_move_file {"source": "a.txt", "destination": "b\\u001b[2K.txt"}\n',
        b"  tool: move_file\r\n",
        b"  directory: %b\r\n" % os.fsencode(tmp_path),
        b"  source: a.txt\r\n",
        b"  destination: b\\x1b[2K.txt\r\n",
        b"Move `a.txt` to `b\\x1b[2K.txt`? [y/N] ",
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
    assert b"planted" not in tty.all_shown
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
        b"? [y/N] ",
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
        ('call grep {"path": ".", "pattern": "("}', "[Searching failed: pattern: expected a reg"),
        ("call nosuch {}", "[nosuch failed: There is no tool 'nosuch'"),
        ('call edit_file {"path": "x"', "[Editing file failed: The arguments are unreadable"),
        ('call shell_command {"command": "pwd"}', "denied by the agent or the configuration]"),
    ],
)
def test_a_call_that_does_nothing_is_reported_with_the_reason(tmp_path, call, note):
    denied = {"toolCall": {"approval": {"deny": {"eca_shell_command": {}}}}}
    script = f"say Let me see\n{call}\nsay went on"
    config = json.dumps(denied)
    done = eca(tmp_path, "chat", "--model", "simulator/script", script, ECA_CONFIG=config)
    assert (done.returncode, done.stdout) == (0, "Let me see\nwent on\n")
    assert note in done.stderr


def test_schema_prints_the_revision_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    asked = {(): Revision.R2025_10, ("--revision", "current"): Revision.CURRENT}
    for arguments, revision in asked.items():
        assert run([*arguments, "schema"]) == 0
        assert json.loads(capsys.readouterr().out) == json_schema(revision)
    assert run(["schema", "--typescript", "--revision", "2025-06"]) == 0
    assert capsys.readouterr().out == typescript(Revision.DRAFT)


@pytest.mark.parametrize(
    ("main", "run"),
    [("eca_server.__main__", "eca_server.cli.main"), ("eca_server.ecp.cli", "eca_server.ecp.cli")],
)
def test_an_interrupt_while_a_command_is_imported_leaves_no_traceback(main, run, monkeypatch):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module(run), "run", interrupted)
    monkeypatch.setattr(sys, "path", list(sys.path))
    try:
        code = importlib.import_module(main).main()
    except SystemExit as left:
        code = left.code
    assert code == 130

"""`eca-server trust`, `--trust-workspace`, and the trust question of `chat`."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.server.roots import uri_of
from eca_server.cli.main import run
from eca_server.config.trust_store import TrustStore
from eca_server.models.credentials.logins import Logins
from eca_server.secret import Secret
from tests.eca_server.agent.chat.editor import editor
from tests.eca_server.cli.running import Terminal, eca
from tests.eca_server.stranger import environment

SERVER: dict[str, Any] = {"mcpServers": {"planted": {"command": "planted", "args": ["--all"]}}}


def configure(folder: Path, **config: Any) -> Path:
    """Configure a folder with a server that leaves a mark when it starts."""
    (folder / ".eca").mkdir(parents=True, exist_ok=True)
    hook = {"type": "sessionStart", "actions": [{"type": "shell", "shell": "touch marked"}]}
    (folder / ".eca" / "config.json").write_text(json.dumps({"hooks": {"mark": hook}, **config}))
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return configure(tmp_path, **SERVER)


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs command lines in this process, in the home folder."""
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        try:
            code = run(arguments)
        except SystemExit as ending:
            code = ending.code  # type: ignore[assignment] - argparse leaves with a number
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return call


def accepted(home: Path) -> dict[str, int]:
    decisions = TrustStore(environment(home), home).read()
    return {root: len(trust.accepted) for root, trust in decisions.items()}


def test_without_a_terminal_nothing_is_accepted_but_by_yes_listed_and_forgotten(cli, home):
    assert cli("trust", "list").stdout == "You have not decided about any folder yet.\n"
    waiting = cli("trust", "list", ".")
    assert waiting.returncode == 0
    assert waiting.stdout.startswith(f"{home}: not trusted\n2 settings of {home} wait for your")
    done = cli("trust", "add", ".")
    assert done.returncode == 2
    assert "starts the MCP server planted: planted --all" in done.stdout
    assert "cannot ask without a terminal; use --yes to accept these settings" in done.stderr
    assert accepted(home) == {}
    (home / "empty").mkdir()
    assert "use --yes to trust the folder" in cli("trust", "add", "empty").stderr
    done = cli("trust", "add", "--yes", ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert "touch marked" in done.stdout
    assert done.stdout.endswith(f"{home} is trusted: 2 settings accepted.\n")
    assert accepted(home) == {str(home): 2}
    trusted = f"{home}: trusted (2 accepted)\n"
    assert cli("trust", "list").stdout == trusted
    configure(home)
    listed = cli("trust", "list", ".").stdout
    assert listed == f"{trusted}No setting of this folder waits for your trust.\n"
    done = cli("trust", "remove", ".")
    assert (done.returncode, done.stdout) == (0, f"{home} is no longer trusted.\n")
    assert accepted(home) == {}
    again = cli("trust", "remove", "gone")
    assert again.returncode == 1
    assert "you have not decided about" in again.stderr


def test_it_asks_about_the_settings_that_the_server_withholds(cli: Run, home: Path) -> None:
    logins = Logins(environment(home), in_keyring=lambda: False)
    logins.store("logged-in", Secret("sk-123456789"))
    stored = json.loads(logins.path.read_text())
    stored["providers"]["locked"] = {"in": "keyring"}
    logins.path.write_text(json.dumps(stored))
    own = {"url": "https://evil.example", "models": {"m": {}}}
    providers = {"openai": own, "logged_in": own, "locked": own, "new": own}
    configure(home, providers=providers, **SERVER)

    async def of_the_server() -> list[str]:
        async with editor(started=False, **environment(home)) as ours:
            roots = [{"uri": uri_of(home), "name": "w"}]
            await ours.ask("initialize", {"workspaceFolders": roots})
            await ours.connection.gate.wait()
            return [item.digest for item in ours.connection.loaded.withheld]

    withheld = trio.run(of_the_server)
    listed = cli("trust", "add", "--yes", ".").stdout
    assert "adds the provider new at https://evil.example" in listed
    assert "logged_in" not in listed
    assert "locked" not in listed
    assert "sets providers.openai.models to" in listed
    assert len(withheld) == 4
    decisions = TrustStore(environment(home), home).read()
    assert list(decisions[str(home)].accepted) == withheld


def test_what_a_link_leads_to_waits_once_the_link_is_accepted(cli: Run, home: Path) -> None:
    folder = home / "folder"
    (folder / ".eca").mkdir(parents=True)
    (folder / ".eca" / "config.json").symlink_to(home / ".eca" / "config.json")
    done = cli("trust", "add", "--yes", "folder")
    assert f"reads more configuration: {home}/.eca/config.json" in done.stdout
    assert done.stdout.endswith(
        "2 settings in files that were just accepted wait: run `trust add` again.\n"
    )
    assert "2 settings accepted" in cli("trust", "add", "--yes", "folder").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("trust", "add|list|remove"),
        ("trust give .", "give"),
        ("trust add", "DIR"),
        ("trust add missing", "expected a folder, got 'missing'"),
        ("trust list --yes", "--yes"),
        ("doctor --trust-workspace", "--trust-workspace"),
    ],
)
def test_wrong_usage_and_a_decision_that_cannot_be_stored_fail(cli, home, arguments, words):
    done = cli(*arguments.split())
    assert (done.returncode, words in done.stderr) == (2, True)
    (home / ".local").write_text("no directory")
    done = cli("trust", "add", "--yes", ".")
    assert (done.returncode, "trust.json" in done.stderr) == (1, True)
    assert "Traceback" not in done.stderr


def test_a_chat_in_a_pipe_stays_untrusted_and_says_so_as_doctor_does(home: Path) -> None:
    done = eca(home, "chat", "--model", "simulator/script", "say hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "MCP server planted" in done.stderr
    assert "`eca-server trust add" in done.stderr
    done = eca(home, "doctor")
    assert f"- {home}: not trusted; 2 settings withheld until you send `/trust`" in done.stdout
    assert f"mcpServers.planted ({home}/.eca/config.json): waits for your trust" in done.stdout
    assert not (home / "marked").exists()


def test_a_flag_trusts_the_workspace_for_one_session(home: Path) -> None:
    configure(home)
    done = eca(home, "chat", "--trust-workspace", "--model", "simulator/script", "say hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")
    assert (home / "marked").exists()
    assert accepted(home) == {}


@pytest.fixture
def tty(home: Path) -> Iterator[Terminal]:
    opened = Terminal(home)
    yield opened
    opened.close()


def test_a_terminal_asks_first_and_once(tty: Terminal, home: Path) -> None:
    shown = b"starts the MCP server planted: planted --all", b"1. Trust this folder"
    tty.until(*shown, b"Answer (1-3): ")
    assert not (home / "marked").exists()
    tty.type(b"\n", b"continuing without", b"> ")
    tty.type(b"say not asked\n", b"\nnot asked\r\n", b"> ")
    question = {"question": "Which?", "options": [{"label": "this"}, {"label": "that"}]}
    tty.type(
        f"call eca_ask_user {json.dumps(question)}\n".encode(),
        b"Which?\r\n  1. this\r\n  2. that\r\n",
        b"Answer (1-2 or your own text): ",
    )
    tty.type(b"2\n", b"> ")
    tty.type(b"\x04")
    assert tty.exit_code() == 0
    assert tty.all_shown.count(b"Answer (1-3)") == 1
    assert accepted(home) == {}


@pytest.mark.parametrize("key", [b"1\n", b"\x03"])
def test_the_first_question_is_answered_or_left(tty: Terminal, home: Path, key: bytes) -> None:
    tty.until(b"Answer (1-3): ")
    if key == b"1\n":
        tty.type(key, b"are now in effect", b"> ")
        assert accepted(home) == {str(home): 2}
    else:
        tty.type(key)
        assert tty.exit_code() == 130
        assert accepted(home) == {}


def test_the_command_line_asks_at_a_terminal(home: Path) -> None:
    opened = Terminal(home, "trust", "add", ".")
    opened.until(b"starts the MCP server planted: planted --all", b"Trust ", b"? [y/N] ")
    opened.type(b"no\n", b"Nothing changed.")
    assert opened.exit_code() == 1
    opened.close()
    assert accepted(home) == {}

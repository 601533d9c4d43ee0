"""The command line, for a user in a shell and for an editor."""

import argparse
import importlib
import io
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema, typescript
from eca_protocol.testing.provider import provider_in_thread, reply
from eca_server.cli.arguments import make_parser
from eca_server.cli.main import _COMMANDS, _WITH_PARSERS, _WITH_VALUE, _importing, run
from eca_server.ecp.help_texts import PAGES
from tests.eca_server.cli.running import eca
from tests.eca_server.conftest import Start
from tests.eca_server.fork_server import ECA
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import environment


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
    done = run_to_end([sys.executable, "-c", code], env=environment(tmp_path), check=True)
    output, loaded = done.stdout.split("LOADED")
    tops = {name.partition(".")[0] for name in loaded.split()}
    assert not tops & {"trio", "anyio", "asyncio", "attrs", "attr", "cattrs", "httpx", "ssl"}
    assert output.startswith("eca_server ")
    for word in ("serve", "server", "chat", "doctor", "Configuration", "Exit codes", "--model"):
        assert word in output


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


def options_with_a_value(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options_with_a_value(command)
        elif action.nargs != 0:
            yield from action.option_strings


def test_each_option_with_a_value_may_precede_its_command() -> None:
    optional = {"--resume"}  # followed by a command it would be ambiguous
    with_value = {*options_with_a_value(make_parser())} - optional
    assert with_value == {*_WITH_VALUE}, "correct _WITH_VALUE of eca_server/cli/main.py"


@pytest.mark.parametrize(
    "command",
    [
        *_COMMANDS,
        *_WITH_PARSERS,
        *(f"trust {action}" for action in ("add", "list", "remove")),
        *(f"ecp {name}" for name in PAGES),
    ],
)
def test_each_help_has_examples_and_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="0"):
        run([*command.split(), "--help"])
    output = capsys.readouterr().out
    assert "Examples:\n" in output
    assert "Exit codes:" in output


@pytest.mark.parametrize("columns", [70, 80, 120])
def test_the_help_fits_the_terminal_except_for_commands_to_copy(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in ("", "chat", "conformance", "ecp run", "trust"):
        with pytest.raises(SystemExit, match="0"):
            run([*command.split(), "--help"])
        for line in capsys.readouterr().out.splitlines():
            is_whole = line.lstrip().startswith("$ ") or " " not in line.strip()
            assert is_whole or len(line) <= columns, line


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
        ("chat two messages", "unexpected argument 'messages': put the whole message in quotes"),
        ("chat ", "expected a message"),
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
        code = run(arguments.split(" "))
    except SystemExit as ending:
        code = ending.code  # type: ignore[assignment] - argparse leaves with a number
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
        (["models"], "models", "; a chat lists them: try `eca-server chat /model`"),
        (["logout"], "logout", "; a chat does it: try `eca-server chat /logout`"),
        (["logs"], "logs", "; the log goes to stderr: see `eca-server serve --help`"),
        (["--log-level", "info", "write-chat", "-x"], "write-chat", "; did you mean `read-chat`?"),
    ],
)
def test_an_unknown_command_gets_a_suggestion_and_fails_as_upstream_s_does(
    arguments, command, near, capsys
):
    assert run(arguments) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert (
        output.err == f"eca-server: unknown command {command!r}{near}\nTry `eca-server --help`.\n"
    )


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
    assert "- initializationOptions: not found\n" in done.stdout
    for name in ("written", "named", "filed", "MY_SPECIAL_KEY", "OPENAI_API_KEY"):
        assert name in done.stdout
    without = eca(tmp_path, "doctor", ECA_CONFIG='{"pureConfig": true}', XDG_CONFIG_HOME="/none")
    advice = "No model is configured: set a key"
    assert [advice in each.stdout for each in (done, without)] == [False, True]
    for key in planted:
        assert key not in done.stdout + done.stderr


CHTA = {"api": "openai-chta", "url": "http://127.0.0.1:1/v1", "models": {"m": {}}}


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("config", "error"),
    [
        (json.dumps({"providers": {"x": CHTA}}), "x.api: there is no API 'openai-chta'; did you"),
        ('{"providers": {"x": {"url": "localhost:1"}}}', "x.url: expected a url like https://"),
        ('{"providers": {"x": {"url": "http://h:0"}}}', "8080/v1, got one with port 0 (a port is"),
        ('{"welcomeMessage": "${cmd:sleep 2.1; exit 3}"}', "`sleep 2.1; exit 3` failed with exit"),
        ("{oops", "ECA_CONFIG:1:2: expected JSON"),
        ('{"defaultModel": "no/such"}', "defaultModel: 'no/such' cannot be used: there is no mod"),
        ('{"defaultModel": "groq/m"}', "cannot be used: no key for groq: set GROQ_API_KEY or"),
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
            "matcher": {"read_fil": {}},
            "actions": [{"file": "/no/such"}, {"shell": "x"}, {}, {"file": LONG}],
        }
    },
    "disabledTools": ["eca_write_fil", "git_.*", "eca__git"],
    "prompts": {"tools": {"eca__grepp": "x", "eca__fetch_rule": "x"}},
    "toolCall": {
        "approval": {
            "allow": {"shell_command": {"argsMatchers": {"command": ["ls"]}}, "github": {}},
            "ask": {"eca__skill": {}, "eca__spawn_agent": {}, "eca__read_file": {}},
            "deny": {
                "shel_command": {},
                "write_file": {"argsMatchers": {"file": ["x"]}},
                "eca__git": {"argsMatchers": {"operation": ["push"]}},
                "Bash": {},
            },
        }
    },
    "mcpServers": {
        "broken": {
            "command": "no-such-program",
            "env": {"A": "${TOKEN:-x}", "B": "$TOKEN", "C": "${env:HOME}", "D": None},
        }
    },
    "network": {"caCertFile": "/no/ca.pem", "clientCert": __file__},
}


def test_doctor_warns_of_settings_without_effect_and_is_well(tmp_path: Path) -> None:
    done = eca(tmp_path, "doctor", "--json", ECA_CONFIG=json.dumps(IGNORED))
    values = json.loads(done.stdout)
    assert (done.returncode, values["works"], values["errors"]) == (0, True, [])
    expected = [
        "defaultAgent: there is no agent 'agnt' that can be selected; did you mean `agent`?",
        "customTools: The custom tool 'read_file' was left out",
        "toolCall.approval.deny.shel_command: there is no tool 'shel_command'; did you mean",
        "toolCall.approval.deny.write_file: the tool has no argument 'file', so the rule never",
        "toolCall.approval.deny.eca__git: there is no tool 'eca__git' here; git runs in `eca__sh",
        "toolCall.approval.deny.Bash: there is no tool 'Bash'; did you mean `shell_comm",
        "disabledTools.eca_write_fil: there is no tool 'eca_write_fil'; did you mean `eca_write",
        "prompts.tools.eca__grepp: there is no tool 'eca__grepp'; did you mean `eca__grep`?",
        "hooks.h.matcher.read_fil: there is no tool 'read_fil'; did you mean",
        "hooks.h.actions[0]: there is no file '/no/such'",
        "hooks.h.actions[2]: expected either `shell` or `file`",
        f"hooks.h.actions[3]: there is no file '{LONG}'",
        "network.caCertFile: there is no file '/no/ca.pem', so no model can be reached",
        "mcpServers.broken.env.A: `${TOKEN}` stays text; write `${env:TOKEN}`",
        "mcpServers: broken: failed: the command 'no-such-program' cannot be started",
    ]
    for warning, text in zip(values["warnings"], expected, strict=True):
        assert warning.startswith(f"configuration: {text}")
    done = eca(tmp_path, "doctor", ECA_CONFIG=json.dumps(IGNORED))
    assert (done.returncode, done.stderr) == (0, "")
    assert all(text in done.stdout for text in (*expected[:-1], expected[-1].partition(": ")[2]))


def test_doctor_runs_no_hook_as_a_chat_does(tmp_path: Path) -> None:
    events = ("sessionStart", "chatStart", "chatStatusChanged", "sessionEnd")
    hooks = {
        each: {"type": each, "actions": [{"type": "shell", "shell": f"touch '{tmp_path}/{each}'"}]}
        for each in events
    }
    config = json.dumps({"hooks": hooks})
    for command, ran in ((["doctor"], set()), (["chat", "hi"], set(events))):
        assert eca(tmp_path, *command, ECA_CONFIG=config).returncode == 0
        assert ran == {each for each in events if (tmp_path / each).exists()}


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
    assert "exists and was not changed" in capsys.readouterr().err
    assert file.read_text("utf-8") == "mine"


def test_a_starter_configuration_that_finds_no_space_leaves_no_file(tmp_path: Path) -> None:
    command = 'ulimit -f 0; exec "$0" -P -m eca_server config init'
    done = run_to_end(["sh", "-c", command, sys.executable], env=environment(tmp_path))
    assert (done.returncode, "could not write" in done.stderr) == (1, True)
    assert list((tmp_path / ".config/eca").iterdir()) == []


def test_the_text_of_a_pipe_is_the_context_of_the_message(tmp_path: Path) -> None:
    with provider_in_thread([reply("Fine")]) as provider:
        providers = {"p": {"url": provider.url, "key": "planted-key-1", "models": {"m": {}}}}
        config = json.dumps({"providers": providers, "defaultModel": "p/m"})
        done = eca(tmp_path, "chat", "Review this", stdin="+a line\n@b.txt", ECA_CONFIG=config)
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


CRASH = """
import sys
from eca_server.cli import main
from eca_server.secret import Secret

def crash(arguments):
    main._options(arguments).hide([Secret("planted-0123456789")])
    raise ExceptionGroup("several", [RuntimeError("planted-0123456789 \\x1b[31m")])

main._COMMANDS["doctor"] = crash
sys.exit(main.run(["doctor"]))
"""


def test_the_traceback_of_a_crash_has_no_key_and_no_control_sequence(tmp_path: Path) -> None:
    done = run_to_end([sys.executable, "-c", CRASH], env=environment(tmp_path))
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "RuntimeError: *** \\x1b[31m" in done.stderr
    assert "planted" not in done.stderr


def test_schema_prints_the_revision_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    revisions = {(): Revision.R2025_10, ("--revision", "current"): Revision.CURRENT}
    for arguments, revision in revisions.items():
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
    except SystemExit as ending:
        code = ending.code
    assert code == 130


def test_an_interrupt_meets_no_extension_module_inside_its_import():
    code = (
        "import signal\nfrom eca_server.cli.main import _importing\n"
        "try:\n  with _importing(): signal.raise_signal(signal.SIGINT)\n"
        "finally: print('raised')\n"
    )
    done = run_to_end([sys.executable, "-c", code])
    assert (done.returncode, done.stdout + done.stderr) == (130, "")
    with _importing():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

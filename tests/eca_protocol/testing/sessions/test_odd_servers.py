"""Servers that cannot be started, exit at once or write malformed messages are reported."""

import contextlib
import http.client
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from eca_protocol.testing.sessions import session
from eca_protocol.testing.sessions.__main__ import Progress, main
from eca_protocol.testing.sessions.actions import NONSENSE
from eca_protocol.testing.sessions.model import ScriptedModel
from eca_protocol.testing.sessions.replaying import script_of
from eca_protocol.testing.sessions.run import Failure, Run
from eca_protocol.testing.sessions.signatures import Signatures
from eca_protocol.testing.sessions.state import State
from eca_protocol.testing.sessions.wire import Violation

CONTENT = {"method": "chat/contentReceived"}
PROGRESS = {"type": "progress", "state": "running", "text": "Hm"}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    model = ScriptedModel()
    yield model
    model.close()


@pytest.mark.parametrize(
    "message",
    [
        {"id": [1], "result": None},
        {"id": 1, "error": "no"},
        {"id": 1, "result": {"chatId": []}},
        CONTENT,
        {**CONTENT, "params": {"content": PROGRESS}},
        {**CONTENT, "params": {"chatId": "c", "content": {"type": {}}}},
    ],
)
def test_a_malformed_message_starts_and_ends_nothing(model, message):
    state = State(model, draft=False)
    state.expect(1, "any")
    prompt = {"chatId": "c", "message": "mark-1"}
    state.on_sent({"id": 1, "method": "chat/prompt", "params": prompt})
    state.on_received(message)
    assert not any(turn.text or turn.calls for _, turn in state.running())


def test_a_server_gets_the_variables_of_the_caller_but_no_secrets(monkeypatch, capfd):
    monkeypatch.setenv("GEM_PATH", "/gems")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    program = "import os, sys; print(*map(os.environ.get, sys.argv[1:]), file=sys.stderr)"
    main(["--seconds", "1", "--", sys.executable, "-c", program, "GEM_PATH", "SOME_API_KEY"])
    assert "/gems None\n" in capfd.readouterr().err


def test_a_server_that_cannot_be_started_is_no_violation(monkeypatch, capsys, tmp_path):
    missing = str(tmp_path / "no-such-server")
    assert main(["--", missing]) == 3
    monkeypatch.setattr(sys, "argv", ["replay.py", "--", missing])
    assert session.main("2025-10", []) == 3
    assert capsys.readouterr().err.count(missing) == 2


@pytest.mark.parametrize("limit", [("--seconds", "0"), ("--steps", "0")])
def test_a_run_that_judged_nothing_is_no_success(capsys, limit):
    assert main([*limit, "--", sys.executable, "-c", "input()"]) == 3
    assert ", so nothing was judged: the server was not ready." in capsys.readouterr().err


def test_without_hypothesis_the_command_names_the_extra():
    code = (
        "import runpy, sys\n"
        "sys.modules['hypothesis'] = None\n"
        "runpy.run_module('eca_protocol.testing.sessions', run_name='__main__')"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    missing = "hypothesis is missing: run pip install 'eca-protocol[testing]'\n"
    assert (done.returncode, done.stderr) == (2, missing)


def test_the_stderr_of_a_server_that_exits_is_shown_and_the_script_is_not_lost(capsys, tmp_path):
    out = str(tmp_path / "no-such-folder" / "replay.py")
    assert main(["--replay", out, "--", sys.executable, "-S", "no-such-server.py"]) == 1
    output = capsys.readouterr()
    assert "can't open file" in output.err
    assert out in output.err
    assert f"python {out}" not in output.err  # to repeat it
    compile(output.out, "replay.py", "exec")
    assert "EDITION = " in output.out


def test_the_summary_is_not_lost_with_the_reader_of_the_script(monkeypatch, capfd):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        assert main(["--", sys.executable, "-S", "no-such-server.py"]) == 1
    assert ": a violation in " in capfd.readouterr().err


def test_a_command_runs_in_the_current_folder(monkeypatch, capsys, tmp_path):
    (tmp_path / "server.py").write_text("raise SystemExit('it was found')")
    monkeypatch.chdir(tmp_path)
    assert main(["--", sys.executable, "-S", "server.py"]) == 1
    assert "it was found" in capsys.readouterr().err


def test_known_failures_are_the_ids_of_requirements(capsys, tmp_path):
    known = tmp_path / "known.txt"
    known.write_text("# of my server\nW-22e  # later\nno-such-row\n")
    with pytest.raises(SystemExit):
        main(["--known-failures", str(known), "--", "x"])
    assert "line 3: expected the id of a row, got 'no-such-row'" in capsys.readouterr().err


def test_progress_is_a_line_on_a_terminal_and_nothing_elsewhere(monkeypatch):
    out = io.StringIO()
    run = Run(command=[], edition="2025-10", steps=7, examples=2)
    Progress(out).show(run)
    assert out.getvalue() == ""
    monkeypatch.setattr(out, "isatty", lambda: True)
    progress = Progress(out)
    progress.show(run)
    progress.clear()
    assert out.getvalue() == "\r\x1b[K7 steps in 2 sessions\r\x1b[K"


def test_a_violation_is_shown_when_it_is_found_on_a_terminal_and_elsewhere():
    out = io.StringIO()
    failure = Failure(violation=Violation("CHAT-2", "the chat c", "none"), steps=())
    run = Run(command=[], edition="2025-10", steps=7, first_failure=failure)
    progress = Progress(out)
    progress.show(run)
    progress.show(run)
    first, second = out.getvalue().splitlines()
    assert first == "A violation after 7 steps: CHAT-2: Expected the chat c; got none"
    assert second == "Shrinking its steps, for at most 60 s; Ctrl-C prints them as they are"


def test_a_missing_error_is_one_of_the_body_that_deserved_it(model):
    state = State(model, draft=False)
    state.null_errors_due += NONSENSE
    rows = []
    while missing := state.missing():
        assert repr(state.null_errors_due[0]) in missing.expected
        rows.append(missing.requirement)
        state.on_received({"id": None, "error": {"code": -32600, "message": "no"}})
    assert rows == ["BASE-23", "BASE-24", "W-5a", "BASE-20"]


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (2.0, 4.0), (9.0, 10.0)])
def test_a_step_waits_for_less_once_a_violation_is_found(before, after):
    run = Run(command=[], edition="2025-10", longest_step=before)
    assert run.step_seconds == 10.0
    run.failure = Failure(violation=Violation("CHAT-2", "the chat c", "none"), steps=())
    assert run.step_seconds == after


def content(text: object = "x", **members: object) -> dict[str, Any]:
    params = {"chatId": "c", "role": "assistant", "content": {"type": "text", "text": text}}
    return {"method": "chat/contentReceived", "params": {**params, **members}}


END = {**CONTENT, "params": {"chatId": "c", "content": {"type": "progress", "state": "finished"}}}
PROMPT = {"id": 1, "method": "chat/prompt", "params": {"chatId": "c", "message": "Hi"}}


@pytest.mark.parametrize("has_request", [False, True])
def test_a_server_with_a_model_of_its_own_is_not_blamed_for_its_words(model, has_request):
    state = State(model, draft=False)
    model.replies["mark-1"] = [[{"text": "Scripted."}]]
    if has_request:
        model.request_counts["mark-1"] = 1
    params = {"chatId": "c", "message": "mark-1"}
    state.on_sent({"id": 1, "method": "chat/prompt", "params": params})
    state.on_received(content("mark-1", role="user"))
    state.on_received(content("Its own."))
    with pytest.raises(Violation, match="CHAT-12") if has_request else contextlib.nullcontext():
        state.on_received(END)


def test_contents_come_for_opened_chats_only(model):
    state = State(model, draft=False)
    params = {"chatId": "c", "message": "mark-1"}
    state.on_sent({"id": 1, "method": "chat/prompt", "params": params})
    state.on_received(content(chatId="c"))
    with pytest.raises(Violation, match="CHAT-11"):
        state.on_received(content(chatId="other"))


@pytest.mark.parametrize(
    ("before", "other"),
    [
        ([("server", END)], content()),
        ([("client", PROMPT)], content()),
        ([("server", content())], content()),
        ([], content(5)),
        ([], content("")),
        ([], content(role="user")),
        ([], content(more=None)),
    ],
)
def test_a_signature_is_the_form_and_the_place_of_a_message(before, other):
    signature = Signatures().take("server", content())
    assert Signatures().take("server", content("Other words")) == signature
    signatures = Signatures()
    for side, message in before:
        signatures.take(side, message)
    assert signatures.take("server", other) != signature


def test_a_script_is_a_program_whatever_a_server_has_written():
    violation = Violation("CHAT-2", "the chat c", 'x\ud800\\u"""\0\n')
    compile(script_of("2025-10", [("rest", ())], violation).encode(), "replay.py", "exec")


def test_a_model_that_is_closed_waits_at_no_gate():
    model = ScriptedModel()
    model.close()
    model.wait("mark-1", "gate-1")
    assert model.waits == {}


@pytest.mark.parametrize("is_chunked", [False, True])
def test_calls_of_one_turn_have_an_id_each_however_the_request_is_sent(model, is_chunked):
    call = {"tool_call": "x", "arguments": {}}
    model.replies["mark-1"] = [[call, call], [call]]
    request = json.dumps({"messages": [{"role": "user", "content": "mark-1"}]}).encode()
    ids: list[bytes] = []
    with contextlib.closing(http.client.HTTPConnection(model.url.split("/")[2], timeout=5)) as way:
        for _ in range(2):
            body: object = iter([request[:9], request[9:]]) if is_chunked else request
            headers = {"Transfer-Encoding": "chunked"} if is_chunked else {}
            way.request("POST", "/v1/chat/completions", body, headers, encode_chunked=is_chunked)
            ids += re.findall(rb'"id": "(mark[^"]*)"', way.getresponse().read())
    assert len(ids) == len(set(ids)) == 3

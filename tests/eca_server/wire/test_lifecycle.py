"""How the real process begins and ends (chapter "Lifecycle Messages"; rulings W-10 to W-15)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eca_server.stdio import LAST_SECONDS
from tests.eca_server.conftest import SERVE, Start
from tests.eca_server.stranger import (
    Stranger,
    content_of,
    environment,
    frame,
    frames_in,
    is_finished,
    message,
)

NEVER_ALIVE = 2**22 + 1
"""Linux gives no process an id above 2**22."""


def code_of(answer: Any) -> int:
    return int(answer["error"]["code"])


def shown(messages: list[Any]) -> list[tuple[str, str]]:
    return [
        (seen["params"]["type"], seen["params"]["message"])
        for seen in messages
        if seen.get("method") == "$/showMessage"
    ]


def wait_until_read(server: Stranger) -> None:
    """Until all that was sent before has been looked at: a request behind it has its answer."""
    server.answer(server.ask("chat/queryCommands"))


@pytest.mark.requirement(
    "LIFE-1", "LIFE-2", "LIFE-3", "LIFE-4", "LIFE-18", "LIFE-22", "LIFE-23", "LIFE-24",
    "W-10a", "W-13d", "ARROW:initialization-1", "ARROW:initialization-2", "ARROW:initialization-3",
    "ARROW:shutdown-1", "ARROW:shutdown-2", "ARROW:shutdown-3",
)  # fmt: skip
def test_a_connection_is_opened_once_and_closed_once(server: Stranger) -> None:
    server.tell("initialized")
    server.tell("chat/promptStop", {"chatId": "1"})
    for method in ("chat/prompt", "shutdown", "no/such"):
        assert code_of(server.answer(server.ask(method, {"message": "hi"}))) == -32002
    result = server.initialize()
    assert isinstance(result["chatWelcomeMessage"], str)
    assert code_of(server.answer(server.ask("initialize", {"capabilities": {}}))) == -32600
    shutdown = server.answer(server.ask("shutdown"))
    assert shutdown["result"] is None
    for method in ("shutdown", "initialize", "chat/queryCommands", "no/such"):
        assert code_of(server.answer(server.ask(method, {}))) == -32600
    server.tell("exit")
    assert server.exit_code() == 0


@pytest.mark.requirement("W-10b", "W-10c", "W-10e", "LIFE-13")
def test_nothing_is_written_before_the_answer_to_initialize(server: Stranger) -> None:
    early = [
        message("chat/queryContext", {"chatId": "c"}, request_id="early"),
        message(
            "chat/prompt", {"chatId": "c", "message": "hi", "model": "no/such"}, request_id="prompt"
        ),
    ]
    server.send(
        message("initialize", {"workspaceFolders": [{"uri": "ftp://x"}]}, request_id=0), *early
    )
    server.answer("prompt")
    server.until(is_finished)
    assert server.seen[0]["id"] == 0
    assert set(server.seen[0]["result"]) == {"chatWelcomeMessage"}
    assert {seen["id"] for seen in server.seen if "method" not in seen} == {0, "early", "prompt"}
    unasked = {seen["method"] for seen in server.seen if "method" in seen}
    assert unasked == {"chat/contentReceived"}


@pytest.mark.requirement("W-10d")
def test_requests_are_served_without_initialized(server: Stranger) -> None:
    server.result("initialize", {})
    chat = server.prompt("say hello")
    assert chat
    server.until(is_finished)
    assert "config/updated" not in {seen.get("method") for seen in server.seen}


@pytest.mark.requirement(
    "W-11a", "W-11b", "W-11c", "W-11e", "LIFE-14", "LIFE-15", "CONF-1", "CONF-2", "CONF-6",
    "CONF-7", "CONF-8", "ARROW:initialization-4", "ARROW:initialization-5",
)  # fmt: skip
def test_what_follows_initialized(server: Stranger) -> None:
    introduction = server.introduced()
    wait_until_read(server)
    assert [seen["method"] for seen in introduction] == [
        "$/progress",
        "config/updated",
        "tool/serverUpdated",
        "$/progress",
    ]
    start, config, native, finish = (seen["params"] for seen in introduction)
    assert (start["type"], finish["type"]) == ("start", "finish")
    assert start["taskId"] == finish["taskId"]
    assert start["title"]
    assert finish["title"]
    chat = config["chat"]
    assert set(chat) == {
        "models",
        "selectModel",
        "behaviors",
        "selectBehavior",
        "agents",
        "selectAgent",
        "welcomeMessage",
    }
    assert chat["selectModel"] in chat["models"]
    assert chat["selectModel"].startswith("simulator/")
    assert chat["selectBehavior"] in chat["behaviors"]
    assert chat["selectAgent"] in chat["agents"]
    assert isinstance(chat["welcomeMessage"], str)
    assert native == {"type": "native", "name": "ECA", "status": "running", "tools": []}


@pytest.mark.requirement("LIFE-8", "W-28a")
def test_the_first_behaviour_is_the_one_the_client_asked_for(server: Stranger) -> None:
    introduction = server.introduced(initializationOptions={"chatBehavior": "plan"})
    assert introduction[1]["params"]["chat"]["selectBehavior"] == "plan"


@pytest.mark.requirement("W-15a", "W-15b", "W-15c", "W-15d", "LIFE-10", "GEN-1")
def test_folders_that_give_no_root_are_named(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    good = tmp_path / "with space"
    (good / ".eca").mkdir(parents=True)
    (good / ".eca" / "config.json").write_text('{"welcomeMessage": "from the root"}')
    (tmp_path / "project" / ".eca").mkdir()
    (tmp_path / "project" / ".eca" / "config.json").write_text('{"welcomeMessage": "from the cwd"}')
    folders = [
        {"uri": "vscode-remote://ssh/home/x", "name": "remote"},
        {"uri": (tmp_path / "missing").as_uri(), "name": "missing"},
        {"uri": f"file://localhost{good.as_uri().removeprefix('file://')}", "name": "good"},
    ]
    result = server.initialize(workspaceFolders=folders, rootUri=(tmp_path / "project").as_uri())
    assert result["chatWelcomeMessage"] == "from the root"
    wait_until_read(server)
    remote, missing = shown(server.seen)
    assert remote[0] == missing[0] == "warning"
    assert "vscode-remote" in remote[1]
    assert "missing" in missing[1]


@pytest.mark.requirement("W-15c")
def test_the_current_folder_is_no_root(start_server: Start, tmp_path: Path) -> None:
    server = start_server()
    (tmp_path / "project" / ".eca").mkdir()
    (tmp_path / "project" / ".eca" / "config.json").write_text('{"welcomeMessage": "from the cwd"}')
    assert server.initialize(workspaceFolders=None)["chatWelcomeMessage"] != "from the cwd"


@pytest.mark.requirement("GEN-1")
def test_a_broken_configuration_is_told_with_source_line_and_key(
    start_server: Start, tmp_path: Path
) -> None:
    home = tmp_path / ".config" / "eca"
    home.mkdir(parents=True)
    (home / "config.json").write_text('{\n  "defaultModel": 7,\n  "welcomeMessage": "Hello"\n}\n')
    server = start_server(env={"ECA_CONFIG": '{"chat": {"title": "yes"},\n oops'})
    assert server.initialize()["chatWelcomeMessage"] == "Hello"
    wait_until_read(server)
    kinds, texts = zip(*shown(server.seen), strict=True)
    assert set(kinds) == {"error"}
    (inline,) = [text for text in texts if text.startswith("ECA_CONFIG:2")]
    assert inline
    (file,) = [text for text in texts if text.startswith(f"{home / 'config.json'}:2")]
    assert "defaultModel" in file


@pytest.mark.requirement("W-12b", "W-12c", "W-12d")
def test_whatever_edition_is_detected_october_is_spoken(start_server: Start) -> None:
    for capabilities in ({"doc": True}, {"chatCapabilities": {}}):
        server = start_server()
        introduction = server.introduced(capabilities={"codeAssistant": capabilities})
        assert set(server.seen[0]["result"]) == {"chatWelcomeMessage"}
        assert "variants" not in introduction[1]["params"]["chat"]


@pytest.mark.requirement("GEN-1")
def test_an_edition_that_is_not_served_is_refused_in_words(server: Stranger) -> None:
    server.initialize(initializationOptions={"protocolRevision": "current"})
    wait_until_read(server)
    ((_, text),) = shown(server.seen)
    assert "current" in text
    assert "2025-10" in text


def shutdown_then_exit(server: Stranger) -> None:
    assert server.answer(server.ask("shutdown"), seconds=2)["result"] is None
    server.tell("exit", [])


def shutdown_then_sigterm(server: Stranger) -> None:
    server.answer(server.ask("shutdown"))
    server.process.terminate()


def shutdown_then_sigint(server: Stranger) -> None:
    server.answer(server.ask("shutdown"))
    server.process.send_signal(signal.SIGINT)


def close_output(server: Stranger) -> None:
    server.close_output()
    for number in range(3):
        server.send(message("chat/queryCommands", request_id=f"unread {number}"))


ENDS: list[Any] = [
    pytest.param(shutdown_then_exit, 0, id="shutdown-exit"),
    pytest.param(Stranger.close_input, 0, id="eof"),
    pytest.param(lambda server: server.tell("exit"), 1, id="exit-alone"),
    pytest.param(close_output, 1, id="broken-output"),
    pytest.param(lambda server: server.process.terminate(), 143, id="sigterm"),
    pytest.param(lambda server: server.process.send_signal(signal.SIGINT), 130, id="sigint"),
    pytest.param(shutdown_then_sigterm, 0, id="shutdown-sigterm"),
    pytest.param(shutdown_then_sigint, 0, id="shutdown-sigint"),
    pytest.param(lambda server: server.write(b"Content-Length: 50\r\n\r\n{"), 1, id="eof-in-body"),
    pytest.param(lambda server: server.write(b"Content-Length"), 1, id="eof-in-header"),
    pytest.param(lambda server: server.write(b"Content-Length: -1\r\n\r\n"), 1, id="fatal-fault"),
]


@pytest.mark.requirement(
    "W-13a", "W-13d", "W-13e", "W-13f", "W-13g", "W-13h", "W-13i", "W-13j", "W-13k", "W-14c",
    "LIFE-19", "LIFE-25",
)  # fmt: skip
@pytest.mark.parametrize(("end", "code"), ENDS)
def test_every_end_has_its_code_while_a_turn_runs(
    server: Stranger, end: Callable[[Stranger], object], code: int, request: Any
) -> None:
    server.introduced()
    chat = server.start_endless_turn()
    begun = time.monotonic()
    end(server)
    if "eof-in" in request.node.callspec.id:
        server.close_input()
    assert server.exit_code(within=3.0 - (time.monotonic() - begun)) == code
    if end is not close_output:
        ends = [seen for seen in server.seen if is_finished(seen)]
        assert [seen["params"]["chatId"] for seen in ends] == [chat]
    if "fault" in request.node.callspec.id or "eof-in" in request.node.callspec.id:
        (fault,) = [seen for seen in server.seen if "error" in seen]
        assert fault["id"] is None
        assert code_of(fault) == -32700


@pytest.mark.requirement("W-13d", "W-13e", "W-13f", "W-13h")
@pytest.mark.parametrize(
    ("end", "code"), [case for case in ENDS if case.id in {"eof", "exit-alone"}]
)
def test_an_end_before_initialize_has_the_same_code(
    server: Stranger, end: Callable[[Stranger], object], code: int
) -> None:
    server.answer(server.ask("shutdown"))
    end(server)
    assert server.exit_code() == code


@pytest.mark.requirement("W-13a", "LIFE-19")
def test_shutdown_ends_all_turns_before_its_answer(server: Stranger) -> None:
    server.initialize()
    chats = {server.start_endless_turn() for _ in range(20)}
    begun = time.monotonic()
    server.answer(server.ask("shutdown"), seconds=2)
    assert time.monotonic() - begun < 2
    before = server.seen[:-1]
    finished = [seen["params"]["chatId"] for seen in before if is_finished(seen)]
    assert sorted(finished) == sorted(chats)
    server.tell("exit")
    assert server.exit_code() == 0
    assert not content_of(server.seen[-1])


@pytest.mark.requirement("W-13a", "W-13d", "LIFE-19")
def test_shutdown_and_exit_may_share_a_write(server: Stranger) -> None:
    server.introduced()
    server.start_endless_turn()
    server.send(message("shutdown", request_id="bye"), message("exit"))
    assert server.exit_code() == 0
    finished, answer = server.seen[-2:]
    assert is_finished(finished)
    assert answer == {"jsonrpc": "2.0", "id": "bye", "result": None}


@pytest.mark.requirement("W-13e", "W-13j", "W-14c")
@pytest.mark.parametrize(("tail", "code"), [(b"", 0), (b"Content-Length: 9\r\n\r\n{", 1)])
def test_a_conversation_may_come_from_a_file_and_go_to_one(
    tmp_path: Path, tail: bytes, code: int
) -> None:
    said, heard = tmp_path / "said", tmp_path / "heard"
    said.write_bytes(
        frame(message("initialize", {}, request_id=0))
        + frame(message("chat/prompt", {"message": "wait forever", "model": "simulator/script"}))
        + tail
    )
    with said.open("rb") as stdin, heard.open("wb") as stdout:
        done = subprocess.run(
            SERVE,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path),
            timeout=30,
            check=False,
        )
    assert (done.returncode, done.stderr) == (code, b"")
    messages = frames_in(heard.read_bytes())
    assert messages[0]["id"] == 0
    assert [is_finished(heard) for heard in messages].count(True) == 1


@pytest.mark.requirement("W-13d")
def test_messages_behind_exit_are_not_looked_at(server: Stranger) -> None:
    server.initialize()
    server.answer(server.ask("shutdown"))
    server.write(
        frame(message("exit")) + frame(message("chat/queryCommands", request_id=99)) + b"junk"
    )
    assert server.exit_code() == 0
    assert "error" not in server.seen[-1]


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that a client could be; it lives until it is killed."""
    with subprocess.Popen([sys.executable, "-Ic", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.mark.requirement("W-14a", "LIFE-5", "LIFE-6")
def test_the_server_ends_with_the_client_s_process(
    server: Stranger, parent: subprocess.Popen[bytes]
) -> None:
    server.initialize(processId=parent.pid)
    server.start_endless_turn()
    parent.kill()
    assert server.exit_code(within=5.0) == 0
    assert is_finished(server.seen[-1])


@pytest.mark.requirement("W-14b", "W-14c")
@pytest.mark.parametrize("process_id", [NEVER_ALIVE, 2**70])
def test_a_process_never_seen_alive_is_not_watched(server: Stranger, process_id: object) -> None:
    server.initialize(processId=process_id)
    server.start_endless_turn()
    wait_until_read(server)
    assert server.process.poll() is None
    server.close_input()
    assert server.exit_code() == 0


@pytest.mark.requirement("W-14a")
def test_a_client_that_has_ended_already_is_as_one_never_seen(
    server: Stranger, parent: subprocess.Popen[bytes]
) -> None:
    parent.kill()
    parent.wait()

    server.initialize(processId=parent.pid)
    wait_until_read(server)
    assert server.process.poll() is None


@pytest.mark.requirement("W-13h")
def test_a_signal_that_comes_again_and_again_ends_the_server_once(server: Stranger) -> None:
    server.initialize()
    server.start_endless_turn()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        server.process.send_signal(number)
    assert server.exit_code() in {130, 143}
    assert is_finished(server.seen[-1])


@pytest.mark.requirement("W-13g", "W-13k")
def test_a_deaf_client_does_not_keep_a_server_that_was_told_to_end(server: Stranger) -> None:
    server.initialize()
    server.prompt("repeat 200000 words that nobody reads")
    server.process.terminate()
    begun = time.monotonic()
    assert server.process.wait(3.0) == 143
    assert time.monotonic() - begun < 3.0
    server.close_output()


HANGING = """
import sys, time, trio
import eca_server.stdio
from eca_server.chat.chat import Chats
from eca_server.cli import run

async def close(self):
    await trio.to_thread.run_sync(time.sleep, 60)

Chats.close = close
eca_server.stdio.LAST_SECONDS = 0.3
sys.exit(run(["server"]))
"""


@pytest.mark.requirement("W-13k")
def test_a_thread_that_hangs_does_not_keep_the_process(start_server: Start, tmp_path: Path) -> None:
    assert LAST_SECONDS < 3
    (tmp_path / "hanging.py").write_text(HANGING)
    server = start_server(command=(sys.executable, "-P", str(tmp_path / "hanging.py")))
    server.initialize()
    server.start_endless_turn()
    server.close_input()
    assert server.exit_code() == 1

"""Peers that nobody here wrote meet the real process: vscode-jsonrpc, and the reader of pygls."""

from __future__ import annotations

import io
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from pygls.io_ import run

from tests.eca_server.conftest import SERVE, Start
from tests.eca_server.stranger import environment, frame, is_finished, message, text_of
from tests.node import node, node_modules


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What an editor on vscode-jsonrpc saw of a whole conversation."""
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        [node(), str(Path(__file__).with_name("vscode_client.js")), *SERVE],
        env=environment(home, NODE_PATH=str(node_modules())),
        cwd=home,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.requirement("W-2a", "W-2b", "W-10a", "LIFE-3", "LIFE-18", "W-13d", "W-24e", "BASE-25")
def test_vscode_jsonrpc_initializes_asks_and_leaves(seen: Any) -> None:
    assert seen["errors"] == []
    assert "Sending request 'initialize - (0)'." in seen["wire"]
    assert list(seen["initialize"]) == ["chatWelcomeMessage"]
    assert seen["unknown"] == -32601
    assert seen["deleted"] == {}
    assert seen["shutdown"] is None
    assert seen["exit"] == 0


@pytest.mark.requirement("W-11a", "W-11c", "W-11e")
def test_vscode_jsonrpc_hears_how_the_server_starts(seen: Any) -> None:
    methods = [notification["method"] for notification in seen["notifications"]]
    assert methods[:4] == ["$/progress", "config/updated", "tool/serverUpdated", "$/progress"]
    assert set(methods[4:]) == {"chat/contentReceived"}


@pytest.mark.requirement("W-20b", "W-20d", "CHAT-12", "CHAT-23")
def test_vscode_jsonrpc_gets_a_streamed_answer(seen: Any) -> None:
    contents = seen["notifications"][4:]
    end = next(place for place, value in enumerate(contents) if is_finished(value))
    turn = contents[: end + 1]
    assert text_of(turn) == "wörd\n" * 3000 + "\U0001f600 end"
    assert text_of(turn, "user") == "think hm\nrepeat 3000 wörd\\n\nsay \U0001f600 end"
    assert {value["params"]["chatId"] for value in turn} == {seen["prompt"]["chatId"]}
    assert seen["prompt"]["status"] == "prompting"


@pytest.mark.requirement("W-22f", "CHAT-32", "W-23d", "W-23g")
def test_vscode_jsonrpc_stops_a_turn(seen: Any) -> None:
    contents = seen["notifications"][4:]
    ends = [place for place, value in enumerate(contents) if is_finished(value)]
    assert len(ends) == 2
    assert ends[-1] == len(contents) - 1
    stopped = contents[ends[0] + 1 :]
    assert text_of(stopped) == "here"
    assert "usage" not in {value["params"]["content"]["type"] for value in stopped}


class _Received:
    """What pygls's reader hands its messages to."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def structure_message(self, data: Any) -> Any:
        return data

    def handle_message(self, data: Any) -> None:
        self.messages.append(data)


@pytest.mark.requirement("W-1", "BASE-2", "BASE-4", "BASE-6")
def test_pygls_reads_what_is_written(start_server: Start) -> None:
    server = start_server()
    server.introduced()
    server.prompt("think ünïcödé\nrepeat 500 \U0001f600\nsay " + "long " * 3000)
    server.until(is_finished)
    server.write(frame(message("no/such", request_id="x")) + frame(b"{") + frame(b"[]"))
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0

    received = _Received()
    run(threading.Event(), io.BytesIO(b"".join(server.reads)), received)
    assert received.messages == server.seen

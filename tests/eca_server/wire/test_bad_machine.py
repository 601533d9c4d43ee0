"""The real process on a machine's bad day: no directory for data, no threads, no network."""

import json

import pytest

from tests.eca_server.stranger import text_of
from tests.eca_server.wire.broken_server import BROKEN


def test_a_data_directory_that_cannot_be_looked_at_costs_only_the_stored_chats(
    start_server, tmp_path
):
    # "File name too long" stands for "Permission denied", which the administrator never gets.
    unusable = tmp_path / ("x" * 300)
    server = start_server(env={"XDG_DATA_HOME": str(unusable)})
    server.introduced(tmp_path / "project")
    assert "hello" in text_of(server.turn("hello", model="simulator/echo"))
    shown = [m["params"]["message"] for m in server.received if m.get("method") == "$/showMessage"]
    assert any("Chats are not stored" in message for message in shown), shown


def test_without_threads_the_server_waits_for_some(start_server, tmp_path):
    limit = tmp_path / "limit"
    limit.touch()
    server = start_server(
        command=(*BROKEN, "threads"),
        env={"LIMIT": str(limit)},
        may_log_tracebacks=True,
    )
    server.introduced(tmp_path / "project")
    server.send_prompt("early", model="simulator/echo")
    server.until(lambda m: "does not answer" in str(m.get("params")))  # the store, for a while
    limit.unlink()
    assert "early" in text_of(server.expect_finished("c"))
    limit.touch()
    assert "again" in text_of(server.turn("again", model="simulator/echo", seconds=20))
    assert "result" in server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0


@pytest.mark.long
def test_look_ups_of_hosts_that_hang_leave_threads_for_tools(start_server, tmp_path):
    provider = {"api": "openai-chat", "url": "http://provider.example", "key": "k"}
    configuration = {"providers": {"away": provider | {"models": {"m": {}}}}}
    server = start_server(
        command=(*BROKEN, "names"),
        env={"ECA_CONFIG": json.dumps(configuration)},
    )
    server.introduced(tmp_path / "project")
    chats = [f"c{number}" for number in range(50)]
    for chat in chats:
        server.prompt("hello", chat=chat, model="away/m")
    for chat in chats:
        server.stop(chat)
        server.expect_finished(chat)
    tree = json.dumps({"path": str(tmp_path / "project")})
    server.turn(f"call eca_directory_tree {tree}\nsay done", model="simulator/script")
    assert server.leave() == 0

"""The real process on a machine's bad day: no directory for data, none left, no threads."""

import sys

from tests.eca_server.stranger import text_of

WITHOUT_THREADS = """\
import os, sys, threading
start = threading.Thread.start
def refuse(thread):
    if os.path.exists(os.environ["LIMIT"]):
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refuse
from eca_server.cli.main import run
sys.exit(run(["server"]))
"""
"""A server that cannot start a thread while a file exists."""


def test_a_data_directory_that_cannot_be_looked_at_costs_only_the_stored_chats(
    start_server, tmp_path
):
    # "File name too long" stands for "Permission denied", which the administrator never gets.
    unusable = tmp_path / ("x" * 300)
    server = start_server(env={"XDG_DATA_HOME": str(unusable)})
    server.introduced(tmp_path / "project")
    assert "hello" in text_of(server.turn("hello", model="simulator/echo"))
    shown = [m["params"]["message"] for m in server.seen if m.get("method") == "$/showMessage"]
    assert any("Chats are not stored" in message for message in shown), shown


def test_without_threads_the_server_waits_for_some(start_server, tmp_path):
    limit = tmp_path / "limit"
    limit.touch()
    server = start_server(
        command=(sys.executable, "-P", "-c", WITHOUT_THREADS),
        env={"LIMIT": str(limit)},
        may_log_tracebacks=True,
    )
    server.introduced(tmp_path / "project")
    server.send_prompt("early", model="simulator/echo")
    server.expect_content("progress", "c", state="running")
    limit.unlink()
    assert "early" in text_of(server.expect_finished("c"))
    limit.touch()
    assert "again" in text_of(server.turn("again", model="simulator/echo", seconds=20))
    assert "result" in server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0

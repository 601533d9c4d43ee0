"""A third-party peer meets the real process: the reader of pygls.

vscode-jsonrpc does in the days of the clients that stand on it.
"""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from tests.eca_server.conftest import Start
from tests.eca_server.stranger import frame, message
from tests.lazy import LazyModule

pygls_io = LazyModule("pygls.io_")


class _Received:
    """The receiver of the messages that pygls's reader parses."""

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
    server.expect_finished()
    server.write(frame(message("no/such", request_id="x")) + frame(b"{") + frame(b"[]"))
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0

    received = _Received()
    pygls_io.run(threading.Event(), io.BytesIO(b"".join(server.reads)), received)
    assert received.messages == server.seen

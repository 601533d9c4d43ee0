"""A client that does not read while the model talks on: bounded memory, and a stop that works."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from eca_protocol import json
from eca_protocol.testing.provider import burst, provider_in_thread, reply
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.stranger import Stranger, content_of, frame, message, text_of

DELTAS = 200_000
PIECE = "x" * 300


def resident(server: Stranger) -> int:
    """Bytes the process has in memory now."""
    status = Path(f"/proc/{server.pid}/status").read_text("ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


def wait_until_idle(server: Stranger) -> None:
    """Until the process has used no CPU for a while: no event tells that nothing happens."""

    def used() -> int:
        fields = Path(f"/proc/{server.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before, idle = used(), 0
    while idle < 4:
        select.select([], [], [], 0.05)
        now = used()
        idle = idle + 1 if now == before else 0
        before = now


@pytest.fixture
def provider_url() -> Iterator[str]:
    with provider_in_thread([reply(burst(DELTAS, PIECE))], otherwise=reply("fine")) as provider:
        yield provider.url


@pytest.mark.parametrize("model", ["simulator/script", "p/m"])
def test_a_client_that_does_not_read_fills_no_memory_and_can_still_stop(
    start_server, provider_url, model
):
    config = json.dumps(provider_config(provider_url, chat={"title": False})).decode()
    server = start_server(env={"ECA_CONFIG": config})
    server.introduced()
    chat = server.prompt("say warm", model="simulator/script")
    server.expect_finished()
    before = resident(server)

    prompt = {"chatId": chat, "message": f"repeat {DELTAS} {PIECE}", "model": model}
    server.ask("chat/prompt", prompt)
    wait_until_idle(server)
    assert resident(server) - before < 2**24
    assert resident(server) < 200 * 10**6

    stop = frame(message("chat/promptStop", {"chatId": chat}))
    assert os.write(server._input, stop) == len(stop)
    wait_until_idle(server)
    came = server.expect_finished()
    texts = [each for each in came if content_of(each).get("type") == "text"]
    assert len(texts) < DELTAS / 10
    came_later = server.prompt("say on", chat=chat)
    assert came_later == chat
    assert text_of(server.expect_finished()) == "on"

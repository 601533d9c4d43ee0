"""A compacted chat in the real process: after a restart it continues from its summary."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from eca_protocol.testing.provider import (
    ReceivedRequest,
    Reply,
    finish,
    provider_in_thread,
    reply,
    usage,
)
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger


def opened(start_server: Start, url: str, project: Path) -> Stranger:
    config = provider_config(url, chat={"title": False})
    config["providers"]["p"]["models"]["m"] = {"limit": {"context": 10_000, "output": 1000}}
    server = start_server(env={"ECA_CONFIG": json.dumps(config)})
    server.introduced(project)
    return server


def is_for_summary(request: ReceivedRequest) -> bool:
    return "Summarize a conversation" in request.body["messages"][0]["content"]


def answer(request: ReceivedRequest) -> Reply:
    words = "THE SUMMARY" if is_for_summary(request) else "an answer"
    full = str(request.body["messages"][-1]["content"]).endswith("much")
    return reply(words, finish("stop"), usage(9000 if full else 10, 5))


@pytest.mark.parametrize(
    "how", ["automatically", pytest.param("by the user", marks=pytest.mark.long)]
)
def test_a_compacted_chat_continues_from_its_summary_after_a_kill(start_server, tmp_path, how):
    with provider_in_thread(answer) as provider:
        first = opened(start_server, provider.url, tmp_path)
        first.say("a first prompt, and much", chat="kept")
        said = first.say("a second prompt" if how == "automatically" else "/compact", chat="kept")
        assert "The chat was compacted" in said
        os.kill(first.pid, signal.SIGKILL)
        second = opened(start_server, provider.url, tmp_path)
        second.say("a last prompt", chat="kept")
        second.say("/resume 1", chat="resumed")
        second.say("another prompt", chat="resumed")
        resumed, last = (
            [each["content"] for each in request.body["messages"][1:]]
            for request in (provider.requests[-1], provider.requests[-2])
        )
    assert sum(map(is_for_summary, provider.requests)) == 1
    for told in (last, resumed):
        assert "THE SUMMARY" in told[0]
        assert not any("a first prompt" in words for words in told)
    assert last[-1].endswith("a last prompt")
    assert resumed[-1] == "another prompt"
    if how == "automatically":
        assert last[0].endswith("a second prompt")
        assert last[1:] == ["an answer", "a last prompt"]

"""Requests in the debug log: their timing, without any content."""

import logging
import re

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, reply, wait
from eca_server.models.access import KeyAccess
from eca_server.models.backend import BackendError, Request
from eca_server.models.retry import RetryPolicy, stream_with_retries
from eca_server.secret import Secret
from tests.eca_server.models.histories import user
from tests.eca_server.models.reading import TOOL, backend_of

REQUEST = Request(messages=[user("the prompt")], tools=[TOOL])


@pytest.fixture(autouse=True)
def debug_level(caplog):
    caplog.set_level(logging.DEBUG, "eca_server.models")


async def ask(script, *, query="", on_event=lambda _: None):
    async with Provider(script) as provider, HTTPClient() as http:
        access = KeyAccess(url=provider.url + query, key=Secret("planted-key"))
        backend = backend_of("openai-chat", http=http, access=access)
        policy = RetryPolicy(base=0.001)
        async with stream_with_retries(backend, REQUEST, policy=policy) as events:
            async for event in events:
                on_event(event)


def lines(caplog) -> list[str]:
    return [
        re.sub(r"\d+ ms", "N ms", re.sub(r"^request \d+: ", "", record.getMessage()))
        for record in caplog.records
        if record.name == "eca_server.models"
    ]


async def test_a_request_is_logged_from_its_size_to_its_tokens_and_no_content(caplog):
    await ask([reply("the ", "answer")], query="?api-version=1&key=planted-query")
    sent, *rest = lines(caplog)
    assert re.fullmatch(
        r"POST http://127\.0\.0\.1:\d+/v1/chat/completions\?api-version=\*\*\*&key=\*\*\* for p/m: "
        r"1 messages, 1 tools, \d+ bytes",
        sent,
    )
    assert rest == [
        "status 200 after N ms",
        "first event after N ms",
        "finished (stop) after N ms; tokens: 10 input, 2 output",
    ]
    quoting = Reply(status=400, body={"error": {"message": "the prompt, by planted-key"}})
    with pytest.raises(BackendError):
        await ask([quoting])
    for content in ("the prompt", "the answer", "planted"):
        assert content not in caplog.text


async def test_refusals_further_tries_and_stops_are_reported(caplog):
    busy = Reply(status=503, body={"error": {"message": "busy"}})
    await ask([busy, reply("Hi")])
    assert lines(caplog)[1:4] == [
        "status 503 after N ms",
        "ended after N ms",
        "p/m: overloaded, try 2 of 5 in 0.0 s",
    ]
    with trio.CancelScope() as scope:
        await ask([reply("Hi", wait("for ever"))], on_event=lambda _: scope.cancel())
    assert lines(caplog)[-1] == "stopped after N ms"


async def test_without_debug_nothing_is_logged(caplog):
    caplog.set_level(logging.INFO, "eca_server.models")
    await ask([reply("Hi")])
    assert lines(caplog) == []

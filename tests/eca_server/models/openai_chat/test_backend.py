"""Chat Completions over real HTTP on loopback, against the scripted provider; timers in memory.

Tested elsewhere: proxies, compression, stale connections and starved tasks with the SDK's HTTP
client; dialects, tags, line ends and truncation with the decoder; waits with the retries; ids,
pairs and foreign opaque data with the history.
"""

from functools import partial

import httpx
import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import (
    Provider,
    Reply,
    reply,
    wait,
)
from eca_server.models.access import KeyAccess, join_url
from eca_server.models.backend import Request
from eca_server.models.events import Finished, Progress
from eca_server.models.history import Origin
from eca_server.models.openai_chat import OpenAIChat
from tests.eca_server.models.histories import user
from tests.eca_server.models.reading import (
    ask,
    failure,
    talking,
)

ORIGIN = Origin(api="openai-chat", provider="test", model="m")
talking = partial(talking, OpenAIChat, origin=ORIGIN)


def backend_at(url: str, http: HTTPClient, **options) -> OpenAIChat:
    return OpenAIChat(http=http, origin=ORIGIN, access=KeyAccess(url=url), **options)


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h/v1", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/", "chat/completions", "http://h/v1/chat/completions"),
        ("http://h", "/x", "http://h/x"),
        (" http://h/v1?a=b\n", "/x", "http://h/v1/x?a=b"),
        ("http://h/v1?a=b", "/x?c=d", "http://h/v1/x?a=b&c=d"),
        ("http://h", "/v1/x", "http://h/v1/x"),
        ("http://h/api/v1/", "/v1/x", "http://h/api/v1/x"),
        ("http://h/v2", "/v1/x", "http://h/v2/v1/x"),
    ],
)
def test_the_path_is_added_to_the_base_and_queries_are_preserved(base, path, url):
    assert join_url(base, path) == url


async def test_ten_megabytes_in_one_event_are_one_delta_and_twenty_are_refused():
    async with talking([reply("x" * 10 * 2**20), reply("x" * 20 * 2**20)]) as (_, backend):
        assert len((await ask(backend))[0].text) == 10 * 2**20
        assert (await failure(backend)).kind == "protocol"


async def test_a_redirect_is_reported_and_the_key_goes_nowhere():
    async with Provider([]) as elsewhere:
        moved = Reply(status=307, headers={"location": elsewhere.url + "/chat/completions"})
        async with talking([moved]) as (_, backend):
            error = await failure(backend)
        assert elsewhere.requests == elsewhere.other_requests == []
    assert (error.kind, error.retryable) == ("configuration", False)
    assert elsewhere.url in error.message


async def test_turns_stopped_at_once_close_all_their_connections():
    def script(request) -> Reply:
        return reply("last") if "last" in str(request.body) else reply("x", wait("never"))

    async with talking(script) as (provider, backend):
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(ask, backend)
            await provider.until(lambda: provider.open_connections == 30)
            nursery.cancel_scope.cancel()
        await provider.until(lambda: provider.open_connections == 0)
        assert (await ask(backend, Request(messages=[user("last")])))[0].text == "last"


class Scripted(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
    """A transport in memory: bytes, and seconds of silence as numbers."""

    def __init__(self, before: float, steps) -> None:
        self.before = before
        self.steps = steps

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.sleep(self.before)
        return httpx.Response(200, stream=self)

    async def __aiter__(self):
        for step in self.steps:
            if isinstance(step, bytes):
                yield step
            else:
                await trio.sleep(step)


def piece(text: str, reason: str | None = "stop") -> bytes:
    written = "null" if reason is None else f'"{reason}"'
    choice = f'{{"delta":{{"content":"{text}"}},"finish_reason":{written}}}'
    return f'data: {{"choices":[{choice}]}}\n\n'.encode()


DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
PINGS = [10, PING] * 100
ANSWER = piece("Hi") + DONE


@pytest.mark.parametrize(
    ("before", "steps", "words"),
    [
        (61, [ANSWER], "no answer began within 60 s"),
        (0, [121, ANSWER], "no byte of the answer came for 120 s"),
        (0, [PING, 100] * 8 + [ANSWER], "no progress for 600 s"),
        (59, [119, PING, 119, ANSWER], None),
    ],
)
async def test_each_timer_has_its_length_and_its_name(autojump_clock, before, steps, words):
    async with HTTPClient(transport=Scripted(before, steps)) as http:
        backend = backend_at("http://model", http)
        if words is None:
            assert (await ask(backend))[0].text == "Hi"
        else:
            error = await failure(backend)
            assert (error.kind, error.retryable) == ("timeout", True)
            assert words in error.message


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([piece("Hel"), 19, piece("lo"), DONE], 19),
        ([piece("Hel"), 1, piece(" "), 100, piece("lo"), DONE], 101),
        ([piece(""), 100, piece("Hello"), DONE], 100),
        ([piece("Hello"), 60], 20),
        ([piece("Hel", None), 60, piece("lo", None), 60, piece(""), 60], 140),
        ([piece("Hel"), 1, piece("lo"), 1, piece(""), 60], 22),
        ([piece("Hello"), *PINGS], 20.5),
        ([piece("Hel"), 10, PING, 9, piece("lo"), *PINGS], 139.5),
        ([piece("Hel"), 1, piece(" "), *PINGS[:12], piece("lo"), DONE], 61),
        ([piece("Hello", None), *PINGS[:12], piece(""), *PINGS], 80.5),
    ],
)
async def test_what_comes_behind_a_finish_reason_is_waited_for(autojump_clock, steps, seconds):
    async with HTTPClient(transport=Scripted(0, steps)) as http:
        began = trio.current_time()
        answer, _ = await ask(backend_at("http://model", http))
        assert answer.text.replace(" ", "") == "Hello"
        assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)


async def test_calls_behind_the_finish_reason_of_text_are_waited_for(autojump_clock):
    call = '{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}'
    other = f'{{"index":1,"delta":{{"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}'
    steps = [piece("I will look."), 15, f'data: {{"choices":[{other}]}}\n\n'.encode(), DONE]
    async with HTTPClient(transport=Scripted(0, steps)) as http:
        answer, _ = await ask(backend_at("http://model", http))
    assert answer.finished.reason == "tool_calls"


async def test_comments_are_progress_events_and_no_answer(autojump_clock):
    async with HTTPClient(transport=Scripted(0, [PING, 1, ANSWER])) as http:
        _, events = await ask(backend_at("http://model", http))
    assert events[0] == Progress("ping")
    assert isinstance(events[-1], Finished)


async def test_what_cannot_be_sent_is_an_error_of_the_configuration():
    async with HTTPClient() as http:
        for url in ("not a url", "http://127.0.0.1:99999/v1"):
            assert (await failure(backend_at(url, http))).kind in ("configuration", "network")
        bad = backend_at("http://127.0.0.1:1", http, extra_headers={"x": "a\nb"})
        assert (await failure(bad)).kind == "configuration"

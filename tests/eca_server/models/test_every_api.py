"""The common behaviour of all APIs: the same answer, the same errors, the same stop.

The tests of a single API are in its own directory.
"""

import gzip
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.testing.provider import Reply, close, hang, raw, reset, wait
from eca_protocol.testing.script import Step
from eca_server.models import answer_body, answer_reader
from eca_server.models.access import Access, Target
from eca_server.models.answer import Answer
from eca_server.models.apis import APIS
from eca_server.models.backend import BackendError, Request
from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.http_backend import HTTPBackend
from tests.eca_server.models.every_api import (
    EVERY_API,
    ScriptedAnswer,
    ScriptedAPI,
    ScriptedCall,
    each_api,
    expected,
    read_answer,
)
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.histories import model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import HELLO, after, ask, notes, read

ALL = ScriptedAnswer(
    thoughts=("Hm\u2028", "so"),
    text=("Hel", "lo\u0085", "\u000b \U0001f600"),
    calls=(ScriptedCall("f", {"n": 1, "m": ["x\u2028", None]}), ScriptedCall("g", {})),
)

pieces = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=4)
arguments = st.dictionaries(
    st.text("ab\u2028", max_size=2),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
scripts = st.builds(
    ScriptedAnswer,
    thoughts=pieces,
    text=pieces,
    calls=st.lists(st.builds(ScriptedCall, st.sampled_from("fg"), arguments), max_size=3),
    cut=st.booleans(),
).filter(lambda answer: answer.text or answer.calls or answer.cut)


def own_parts(backend: type[HTTPBackend]) -> tuple[Any, ...]:
    """Return what a backend inherits if it speaks the same API as another one."""
    return backend.path, backend.framing, backend.write, backend.decoder


def test_no_api_is_left_out():
    spoken = {own_parts(APIS[api.name].load()) for api in EVERY_API}
    left_out = [name for name, api in APIS.items() if own_parts(api.load()) not in spoken]
    assert not left_out, "give each a row in EVERY_API (every_api.py)"


@each_api
@given(scripts)
def test_the_same_script_is_the_same_answer(api, script):
    events, error = api.decode(api.say(script))
    assert error is None
    assert read_answer(read(events)) == expected(script)


@each_api
def test_a_call_without_a_name_is_a_protocol_error(api):
    assert api.decode(api.say(ScriptedAnswer(calls=[ScriptedCall("", {})])))[1] == "protocol"


NO_ANSWERS = [
    (b"<html><title>Welcome</title></html>", "protocol", "login page of the network.*Welcome"),
    (b"hello there\n", "protocol", "hello there"),
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x1b[31m", "protocol", "binary data|not JSON|not text"),
    (b'{"error": {"message": "quota", "code": "insufficient_quota"}}', "quota", "quota"),
    (b'[{"error": {"code": 503, "message": "busy"}}]', "overloaded", "busy"),
    (b'{"half": ', "protocol", "JSON"),
    (b'[{"half": [', "protocol", "JSON"),
    (b"", "premature_stop", "broke off"),
    (b"data: " + b"x" * (17 * 2**20), "protocol", "16777216|not JSON"),
]
NO_EVENTS = [
    (b": only comments\n\n", "premature_stop", "broke off"),
    (b"data: {\n\n", "protocol", "JSON"),
    (b"data: 5\n\n", "protocol", "expected|5"),
    (b"data: [DONE]\n\n", "premature_stop", "broke off"),
]
OF_ANOTHER_API = (b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n', "protocol", "expected")


@each_api
@pytest.mark.parametrize("is_typed", [False, True])
def test_what_is_no_answer_is_reported_as_what_it_is(api, is_typed):
    content_type = api.content_type if is_typed else ""
    strange = [] if api.name in ("openai-chat", "anthropic") else [OF_ANOTHER_API]
    for body, kind, words in [*NO_ANSWERS, *strange, *(NO_EVENTS if api.framing == "sse" else [])]:
        decoding = api.body(content_type=content_type)
        with pytest.raises(BackendError, match=words) as caught:
            list(itertools.chain(decoding.feed(body), decoding.close()))
        assert caught.value.kind == kind, body[:60]
        assert caught.value.message.isprintable()


@each_api
def test_a_stream_that_only_grows_in_memory_has_a_limit(api, monkeypatch):
    monkeypatch.setattr(answer_body, "MAX_STREAM", 1000)
    decoding = api.body()
    silence = b": ping\n\n" * 50 if api.framing == "sse" else b"\n" * 400
    assert list(itertools.chain(decoding.feed(silence), decoding.feed(silence))) == []
    with pytest.raises(BackendError, match="more than 1000 bytes"):
        list(decoding.feed(silence))


def cut_replies(api: ScriptedAPI, ends: Iterable[int]) -> Iterator[Reply]:
    """Yield the same answer, truncated in every way that a connection can end."""
    stream = b"".join(api.say(ALL))
    ways = itertools.cycle([(close(), False), (reset(), False), (close(), True)])
    for end, (ending, close_delimited) in zip(ends, ways, strict=False):
        yield api.replying([raw(stream[:end]), ending], close_delimited=close_delimited)


async def ask_in_vain(backend: HTTPBackend) -> tuple[Answer, BackendError | None]:
    """Return the partial answer and its error; fail if it does not end."""
    answer = Answer()
    with trio.fail_after(10):
        try:
            async with backend.stream(HELLO) as events:
                async for event in events:
                    answer.feed(event)
        except BackendError as error:
            return answer, error
    return answer, None


@each_api
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 97])
async def test_an_answer_that_breaks_off_on_its_way_ends_at_once(api, stride):
    ends = range(1, len(b"".join(api.say(ALL))), stride)
    whole = expected(ALL)
    complete = [api.reply(ALL, close_delimited=True), api.reply(ALL)]
    async with api.talking([*cut_replies(api, ends), *complete]) as (provider, backend):
        for _ in ends:
            answer, error = await ask_in_vain(backend)
            came = read_answer(answer)
            assert whole.text.startswith(came.text)
            assert came.calls == whole.calls[: len(came.calls)]
            if error is None:
                assert (came.text, came.calls) == (whole.text, whole.calls)
            else:
                assert error.kind == "premature_stop" or (error.kind, came.text) == ("protocol", "")
        for _ in complete:
            assert read_answer((await ask(backend))[0]) == whole
        await provider.until(lambda: provider.open_connections <= 1)


@each_api
async def test_a_compressed_answer_that_breaks_off_is_no_complete_one(api):
    headers = {"content-type": api.content_type, "content-encoding": "gzip"}
    packed = gzip.compress(b"".join(api.say(ALL)))
    without_checksum = len(packed) - 8
    ends = [*range(1, len(packed) * 3 // 4, 29), without_checksum]
    script = [
        Reply(steps=[raw(packed[:end]), close()], headers=headers, close_delimited=True)
        for end in ends
    ]
    async with api.talking(script) as (_, backend):
        for end in ends:
            answer, error = await ask_in_vain(backend)
            if end == without_checksum:
                assert read_answer(answer) == expected(ALL)
            else:
                assert (error.kind, error.retryable) == ("premature_stop", True)


def faults(api: ScriptedAPI) -> dict[str, Reply]:
    """Return a reply for each class of error; the class is before the colon."""
    pieces = api.say(ScriptedAnswer(text=["Hel", "lo"]))
    begun = [raw(piece) for piece in pieces[: len(pieces) // 2]]
    status, code = api.overloaded
    return {
        "network: reset": Reply(before_headers=[reset()]),
        "network: closed": Reply(before_headers=[close()]),
        "protocol: no HTTP": Reply(before_headers=[raw("garbage\r\n\r\n"), close()]),
        "protocol: a page": Reply(body="<html><h1>Sign in</h1></html>"),
        "protocol: no stream": api.replying(
            [raw("complete garbage\n\n"), close()], close_delimited=True
        ),
        "premature_stop: nothing": api.replying([raw("\n"), close()], close_delimited=True),
        "premature_stop: reset": api.replying([*begun, reset()]),
        "auth: 401": api.refusing(401, words=f"wrong key plain-key-{api.name}"),
        "auth: 401, empty": Reply(status=401, body=""),
        "permission: 403": api.refusing(403),
        "quota: 402": api.refusing(402),
        "model_not_found: 404": api.refusing(404, words="the model m is not found"),
        "request_too_large: 413": api.refusing(413),
        "context_overflow: 400": api.refusing(400, words="the prompt is too long: 9 tokens > 8"),
        "invalid_request: 400": api.refusing(400, words="something is wrong"),
        "rate_limit: 429": api.refusing(429),
        "overloaded: 500": api.refusing(500),
        "overloaded: a page": Reply(status=502, body="<html><title>Bad Gateway</title>"),
        "auth: a body that breaks off": Reply(
            status=401, steps=[raw("{"), reset()], headers={"content-type": "application/json"}
        ),
        "rate_limit: compressed unasked": Reply(
            status=429, body="?", headers={"content-encoding": "br"}
        ),
        "overloaded: its own words": api.refusing(status, code),
        "context_overflow: in the stream": api.replying([raw(api.fail("", "context window"))]),
        "context_overflow: behind words": api.replying(
            [*begun, raw(api.fail("", "context window"))]
        ),
        "network: moved": Reply(status=307, headers={"location": "http://h"}, body=""),
        "empty_response: nothing said": api.reply(ScriptedAnswer()),
        **(
            {"overloaded: in the stream": api.replying([raw(api.fail(code, "no"))])} if code else {}
        ),
    }


@pytest.mark.parametrize(
    ("api", "trouble"),
    [
        pytest.param(api, trouble, id=f"{api.name}-{trouble}")
        for api in EVERY_API
        for trouble in faults(api)
    ],
)
async def test_an_error_has_the_same_class_over_every_api(api, trouble):
    replies = [faults(api)[trouble]]
    async with api.talking(lambda _request: replies[0]) as (_, backend):
        _, error = await ask_in_vain(backend)
        assert error is not None
        kind = trouble.partition(":")[0]
        assert error.kind == kind
        assert error.retryable == (kind in TRANSIENT and trouble != "network: moved")
        assert ("http://h" if trouble == "network: moved" else "") in error.message != ""
        assert "plain-key" not in f"{error} {error.raw}"
        replies[:] = [api.reply(ALL)]
        assert read_answer((await ask(backend))[0]) == expected(ALL)


AFTER_RESULTS = Request(messages=[user(), model(tool_call()), tool(tool_result())])


@each_api
async def test_an_empty_answer_behind_results_is_an_end_and_behind_a_prompt_an_error(api):
    async with api.talking([api.reply(ScriptedAnswer())] * 2) as (_, backend):
        _, error = await ask_in_vain(backend)
        answer, _ = await ask(backend, AFTER_RESULTS)
    assert (error.kind, error.retryable) == ("empty_response", True)
    assert ("STOP" if api.name == "google" else "context") in error.message
    assert (answer.text, answer.finished.reason) == ("", "stop")


@each_api
async def test_an_answer_ends_though_its_connection_stays_open(api, monkeypatch):
    monkeypatch.setattr(answer_reader, "DRAIN", 0.01)
    monkeypatch.setattr(answer_reader, "TAIL", 0.2)
    held = api.replying([*map(raw, api.say(ALL)), hang()])
    async with api.talking([held]) as (provider, backend):
        answer, error = await ask_in_vain(backend)
        assert error is None
        await provider.until(lambda: provider.requests[0].closed_by_client)
    assert read_answer(answer) == expected(ALL)


MISSING_SIGNATURE = google.reply(finish="MISSING_THOUGHT_SIGNATURE")
SECRETS_REFUSED = {
    "anthropic": (
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`",
        "`thinking` blocks in the latest assistant message cannot be modified",
    ),
    "google": ("Corrupted thought signature.", MISSING_SIGNATURE),
    "openai-responses": (
        "The encrypted content could not be verified.",
        "reasoning `encrypted_content` was not issued to this caller",
        "Item with id 'rs_0' not found. Items are not persisted.",
        "Item 'rs_0' was provided without its required following item.",
        "Item 'msg_1' was provided without its required 'reasoning' item: 'rs_0'.",
    ),
}


@pytest.mark.parametrize(
    ("api", "refusal"),
    [(api, each) for api in EVERY_API for each in SECRETS_REFUSED.get(api.name, ())],
)
async def test_secrets_that_are_not_taken_back_are_left_out_and_announced_once_a_chat(api, refusal):
    scripted_answer = ScriptedAnswer(thoughts=["Hm"], text=["So"], calls=[ScriptedCall("f", {})])
    refused = api.refusing(400, words=refusal) if isinstance(refusal, str) else refusal
    has_secret = []

    def script(request) -> Reply:
        has_secret.append(scripted_answer.secret in str(request.body))
        return refused if has_secret[-1] else api.reply(scripted_answer)

    async with api.talking(script) as (_, backend):
        answer, _ = await ask(backend)
        history = after(HELLO, answer, backend).messages
        notice_counts = []
        for chat in ("one", "one", "another"):
            request = Request(messages=history, reasoning_effort="low", cache_key=chat)
            result, events = await ask(backend, request)
            assert result.text == "So"
            notice_counts.append(len(notes(events)))
    if api.name == "openai-responses":  # it remembers them
        assert (has_secret, notice_counts) == ([False, True, False, False, False], [1, 0, 0])
    else:
        assert (has_secret, notice_counts) == ([False, *[True, False] * 3], [1, 0, 1])


REASONING_DEMANDED = [
    "The `reasoning_content` in the thinking mode must be passed back to the API.",
    "thinking is enabled but reasoning_content is missing in assistant tool call message",
    "The `content[].thinking` in the thinking mode must be passed back to the API.",
]


@pytest.mark.parametrize("refusal", REASONING_DEMANDED)
@pytest.mark.parametrize("name", ["openai-chat", "anthropic"])
async def test_an_answer_without_reasoning_gets_a_blank_one_if_the_server_demands_it(name, refusal):
    [api] = [each for each in EVERY_API if each.name == name]
    scripted_answer = ScriptedAnswer(thoughts=["Hm"], text=["So"], calls=[ScriptedCall("f", {})])

    def thoughts(body: Any) -> list[str | None]:
        answers = [each for each in body["messages"] if each["role"] == "assistant"]
        if name == "openai-chat":
            return [answer.get("reasoning_content") for answer in answers]
        return [answer["content"][0].get("thinking") for answer in answers]

    def script(request) -> Reply:
        refused = None in thoughts(request.body)
        return api.refusing(400, words=refusal) if refused else api.reply(scripted_answer)

    async with api.talking(script) as (provider, backend):
        answer, _ = await ask(backend)
        own = after(HELLO, answer, backend).messages
        foreign = [user(), model("Hi", tool_call("a")), tool(tool_result("a"))]
        for _ in range(2):
            result, events = await ask(backend, Request(messages=[*foreign, *own]))
            assert (result.text, notes(events)) == ("So", [])
        requests = [thoughts(request.body) for request in provider.requests]
    assert None in requests[1]
    assert requests[2:] == [[" ", "Hm"]] * 2


class SlowAccess:
    """An access whose model requests wait for a permission."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.leave = trio.Semaphore(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._access, name)

    async def target(self, path: str, request: Request | None = None) -> Target:
        if request is not None:
            await self.leave.acquire()
        return await self._access.target(path, request)


@each_api
async def test_a_request_that_waits_for_its_key_holds_no_messages_of_a_fork(api, monkeypatch):
    begun = [user("Hello"), model("Hello", origin=api.origin)] * 4
    sent_request = Request(messages=[*begun, user("mine")])
    fork = Request(messages=[*begun, *[user("secret"), model("secret", origin=api.origin)] * 4])
    async with api.talking(lambda _request: api.reply(ALL)) as (provider, backend):
        access = SlowAccess(backend.client.access)
        monkeypatch.setattr(backend.client, "access", access)
        await ask(backend, sent_request)
        async with trio.open_nursery() as nursery:
            for request in (sent_request, fork):
                nursery.start_soon(ask, backend, request)
                await trio.testing.wait_all_tasks_blocked()
            access.leave.release()
            access.leave.release()
        first, *both = (str(request.body) for request in provider.requests)
    assert first in both
    assert ["secret" in each for each in sorted(both, key=len)] == [False, True]


def places(api: ScriptedAPI) -> Iterator[Reply]:
    """Yield the answer with a pause at each place: between and inside of its events."""
    content = [raw(piece) for piece in api.say(ALL)]
    yield api.replying(content, before_headers=[wait("here")])
    for place in range(len(content) + 1):
        yield api.replying([*content[:place], wait("here"), hang()])
        yield api.replying(
            [*content[:place], *half(content[place : place + 1]), wait("here"), hang()]
        )


def half(steps: list[Step]) -> list[Step]:
    return [raw(step["raw"][: len(step["raw"]) // 2]) for step in steps]


@each_api
async def test_a_stop_closes_the_connection_wherever_the_answer_is(api, monkeypatch):
    monkeypatch.setattr(answer_reader, "DRAIN", 60)
    monkeypatch.setattr(answer_reader, "TAIL", 60)
    root = trio.lowlevel.current_root_task()
    held = list(places(api))
    async with api.talking([*held, api.reply(ALL)]) as (provider, backend):
        tasks = 0
        for number in range(len(held)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, backend)
                await provider.until(lambda: "here" in provider.reached)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            provider.reached.clear()
            stopped = provider.requests[number]
            await provider.until(lambda: stopped.closed_by_client)  # noqa: B023 - awaited here
            await provider.until(lambda: provider.open_connections == 0)
            tasks = tasks or count_tasks(root)
            assert count_tasks(root) == tasks
        assert read_answer((await ask(backend))[0]) == expected(ALL)


def count_tasks(task: trio.lowlevel.Task) -> int:
    """Return the number of tasks below a task, itself included."""
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return 1 + sum(map(count_tasks, children))

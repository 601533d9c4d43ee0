"""The shared parts of the APIs' tests: models made and asked, requests, events read and checked."""

import base64
import itertools
import json
import math
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from hypothesis import strategies as st

from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.testing.provider import Provider
from eca_server.config.settings import Config
from eca_server.config.settings import Provider as Settings
from eca_server.models import events as ev
from eca_server.models.access import Access, KeyAccess
from eca_server.models.answer import Answer
from eca_server.models.apis import APIS
from eca_server.models.backend import Backend, BackendError, ModelInfo, Request, Tool
from eca_server.models.encoding import encoded
from eca_server.models.facts import Capabilities
from eca_server.models.history import BlockPart, CitationPart, ImagePart, Message
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.listings import Endpoint, Listing
from eca_server.models.models import Models
from eca_server.models.provider_client import ProviderClient
from tests.eca_server.models.histories import OURS, PICTURE, tool, tool_result, user
from tests.scripted_http import ScriptedHTTPClient, Steps

HELLO = Request(messages=[user()])
TOOL = Tool(name="f", description="d", parameters={"type": "object"})


CAPABILITIES = attrs.fields_dict(Capabilities)


def backend_of(
    api: str,
    *,
    url: str = "http://model",
    http: HTTPClient | None = None,
    access: Access | None = None,
    extra_headers: Mapping[str, str] | None = None,
    model: str = "m",
    calls_tools: bool = True,
    **options: Any,
) -> HTTPBackend:
    """Make a backend; `options` are capabilities of the model and settings of the backend."""
    can = {name: options.pop(name) for name in CAPABILITIES if name in options}
    client = ProviderClient(
        http=http or HTTPClient(),
        access=access or KeyAccess(url=url),
        model="p/m",
        extra_headers=dict(extra_headers or {}),
        deadlines=Deadlines(),
    )
    return APIS[api].load()(
        client=client,
        wire_model="gemini-3.1-pro" if (api, model) == ("google", "m") else model,
        capabilities=Capabilities(tools=calls_tools, **can),
        **{"origin": OURS, **options},
    )


@asynccontextmanager
async def talking(
    api: str, script: Any, **options: Any
) -> AsyncIterator[tuple[Provider, HTTPBackend]]:
    """Run a provider with that script, and a backend that asks it."""
    async with Provider(script) as provider, HTTPClient() as http:
        yield provider, backend_of(api, url=provider.url, http=http, **options)


def models_of(
    providers: Mapping[str, Settings],
    *,
    http: HTTPClient | None = None,
    listed: Mapping[str, Sequence[str | ModelInfo]] | None = None,
    environ: Mapping[str, str] | None = None,
    **config: Any,
) -> Models:
    """Return the models of these providers; `listed` has the models that some of them list."""

    def listing(endpoint: Endpoint) -> Listing | None:
        names = (listed or {}).get(endpoint.provider)
        return Listing(models=tuple(map(_named, names)), at=0) if names else None

    return Models(
        Config(providers=providers, **config),
        environ=environ or {},
        http=http or HTTPClient(),
        listing=listing,
    )


def _named(name: str | ModelInfo) -> ModelInfo:
    return ModelInfo(name=name) if isinstance(name, str) else name


HISTORY = {
    "openai-chat": "messages",
    "openai-responses": "input",
    "anthropic": "messages",
    "google": "contents",
    "ollama": "messages",
}
"""The field of a request that holds the history."""

PICTURE_DATA = base64.b64encode(PICTURE.data).decode()


def payload_of(backend: HTTPBackend, request: Request) -> dict[str, Any]:
    return json.loads(encoded(backend.payload(request)))


def write(api: str, *history: Message, **options: Any) -> dict[str, Any]:
    """Return the request of a history; `options` are fields of it, too."""
    names = attrs.fields_dict(Request)
    fields = {name: options.pop(name) for name in names if name in options}
    return payload_of(backend_of(api, **options), Request(messages=history, **fields))


def write_history(api: str, *history: Message, **options: Any) -> list[dict[str, Any]]:
    """Return the history of a request, without marks for a cache."""
    written = write(api, *history, **options)[HISTORY[api]]
    for message in written:
        for block in message["content"] if api == "anthropic" else ():
            block.pop("cache_control", None)
    return written


def scripted(before: float, steps: Steps) -> HTTPClient:
    """Return a client whose only response has these steps, after some seconds."""
    return ScriptedHTTPClient(lambda _: steps, before=before)


async def ask(backend: Backend, request: Request = HELLO) -> tuple[Answer, list[Any]]:
    """Return the answer to a request, and its events."""
    answer, events = Answer(), []
    async with backend.stream(request) as stream:
        async for event in stream:
            answer.feed(event)
            events.append(event)
    return answer, events


async def failure(backend: Backend, request: Request = HELLO) -> BackendError:
    with pytest.raises(BackendError) as caught:
        await ask(backend, request)
    return caught.value


def after(request: Request, answer: Answer, backend: Backend) -> Request:
    """Return the next request: the answer, then the results of its calls or a new prompt."""
    results = [tool_result(call.key, f"r{n}") for n, call in enumerate(answer.calls)]
    last = tool(*results) if results else user("And?")
    messages = [*request.messages, answer.message(backend.origin), last]
    return Request(messages=messages, tools=request.tools, system=request.system)


def new_keys(first: str = "k") -> Callable[[], str]:
    """Return a function that numbers the keys of calls."""
    return map(f"{first}{{}}".format, itertools.count(1)).__next__


def read(events: Iterable[ev.Event]) -> Answer:
    answer = Answer()
    for event in events:
        answer.feed(event)
    return answer


def only(kind: Any, events: Iterable[ev.Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def notes(events: Iterable[ev.Event]) -> list[str]:
    return [event.text for event in only(ev.Note, events)]


def text_of(events: Iterable[ev.Event]) -> str:
    return "".join(event.text for event in only(ev.TextDelta, events))


def thoughts_of(events: Iterable[ev.Event]) -> str:
    return "".join(event.text for event in only(ev.ReasoningDelta, events))


def calls_of(events: Sequence[ev.Event]) -> list[tuple[str, dict[str, Any] | None]]:
    """Return the name and the arguments of each finished call."""
    names = {event.key: event.name for event in only(ev.ToolCallStarted, events)}
    return [(names[event.key], event.arguments) for event in only(ev.ToolCallFinished, events)]


def summary(events: Sequence[ev.Event]) -> dict[str, Any]:
    """Return what an answer holds, by name; tables list the members that a row is about."""
    calls = only(ev.ToolCallFinished, events)
    return {
        "text": text_of(events),
        "thoughts": [event.text for event in only(ev.ReasoningDelta, events)],
        "opaques": [event.opaque for event in only(ev.ReasoningFinished, events)],
        "calls": calls_of(events),
        "call_errors": [event.error for event in calls],
        "call_opaques": [event.opaque for event in calls],
        "blocks": [event.raw for event in only(BlockPart, events)],
        "citations": only(CitationPart, events),
        "images": only(ImagePart, events),
        "tools": [(event.kind, event.phase) for event in only(ev.ServerTool, events)],
        "refusal": "".join(event.text for event in only(ev.RefusalDelta, events)),
        "usage": [None, *only(ev.Usage, events)][-1],
        "reason": events[-1].reason,
    }


def holds(events: Sequence[ev.Event], **expected: Any) -> None:
    result = summary(events)
    assert {name: result[name] for name in expected} == expected


def check_grammar(events: Sequence[ev.Event]) -> None:
    """Check the rules for the events of every whole answer."""
    assert only(ev.Started, events) == [events[0]]
    assert only(ev.Finished, events) == [events[-1]]
    grown: dict[str, str] = {}
    open_blocks: set[str] = set()
    for event in events:
        match event:
            case ev.ReasoningStarted(key) | ev.ToolCallStarted(key=key):
                assert key not in grown
                grown[key] = ""
                open_blocks.add(key)
            case ev.ReasoningDelta(key, piece) | ev.ToolCallArguments(key, piece):
                assert key in open_blocks
                assert piece
                grown[key] += piece
            case ev.ReasoningFinished(key=key):
                open_blocks.remove(key)
            case ev.ToolCallFinished(key=key, raw=raw):
                open_blocks.remove(key)
                assert raw == grown[key]
            case ev.TextDelta(piece):
                assert piece
            case ev.Usage():
                counts = [event.input, event.output]
                assert all(n is None or (n >= 0 and math.isfinite(n)) for n in counts)
    assert not open_blocks


def check_one_answer_of_two_tries(events: Sequence[ev.Event]) -> None:
    """Check that a repeated request shows as one answer with a note and closed thoughts."""
    assert len(only(ev.Started, events)) == len(notes(events)) == 1
    begun = [event.key for event in only(ev.ReasoningStarted, events)]
    assert begun == [event.key for event in only(ev.ReasoningFinished, events)]
    assert len(set(begun)) == len(begun)


def odd_values(
    keys: Sequence[str], words: st.SearchStrategy[Any], *, leaves: int = 12
) -> st.SearchStrategy[Any]:
    """Return JSON of any form, with keys that the decoder looks for."""
    return st.recursive(
        st.none() | st.booleans() | st.integers(-1, 3) | words,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=5)
        ),
        max_leaves=leaves,
    )

"""Scripted answers in the format of every API.

A row in `EVERY_API` applies the common tests to a new API. `grammars` has its strict reader of
requests; `test_requests`, `test_decoders` and `test_backends` have tables with rows of each API.
"""

import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing import script as chat_script
from eca_protocol.testing.provider import Provider, Reply, Script, raw
from eca_server.config import settings as config
from eca_server.models.answer import Answer
from eca_server.models.answer_body import AnswerBody, Framing
from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.apis import APIS
from eca_server.models.backend import BackendError
from eca_server.models.events import Event
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.history import Origin, ReasoningPart, ToolCallPart
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.ollama.decoder import OllamaDecoder
from eca_server.models.openai_chat.decoder import ChatDecoder
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from eca_server.models.stream_decoder import StreamDecoder
from eca_server.secret import Secret
from tests.eca_server.models.anthropic import scripted as anthropic
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.ollama import scripted as ollama
from tests.eca_server.models.openai_responses import scripted as responses
from tests.eca_server.models.reading import models_of, new_keys

PROMPT_TOKENS, ANSWER_TOKENS = 100, 20


@attrs.frozen
class ScriptedCall:
    name: str
    arguments: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class ScriptedAnswer:
    """An answer of the model, in this order; pieces are not empty.

    Attributes:
        thoughts: pieces of one block of reasoning.
        text: pieces of the visible text.
        calls: parallel tool calls.
        cut: whether the answer ends at its limit.
        secret: opaque data of the thoughts, which only the provider may receive.
    """

    thoughts: Sequence[str] = ()
    text: Sequence[str] = ()
    calls: Sequence[ScriptedCall] = ()
    cut: bool = False
    secret: str = "c2VjcmV0"


@attrs.frozen(kw_only=True)
class ReadAnswer:
    """The content of an answer, independent of the API."""

    thoughts: str
    text: str
    calls: tuple[tuple[str, Mapping[str, Any] | None], ...]
    reason: str | None
    prompt_tokens: int | None
    answer_tokens: int | None


@attrs.frozen(kw_only=True, repr=False)
class ScriptedAPI:
    """An API with its format of scripted answers.

    Attributes:
        name: its name in a configuration.
        model: the name of a model that reasons.
        say: returns the events of an answer's stream, as bytes.
        decoder: the class of its decoder.
        refuse: returns the body of an error, from its status, its code and its text.
        fail: returns an error inside a stream, from its code and its text.
        overloaded: the code and the status of an overloaded server.
        framing: the format of the stream.
        content_type: the content type of a stream.
    """

    name: str
    model: str
    say: Callable[[ScriptedAnswer], list[bytes]]
    decoder: Callable[..., StreamDecoder]
    refuse: Callable[[int, str, str], Any]
    fail: Callable[[str, str], bytes]
    overloaded: tuple[int, str]
    framing: Framing = "sse"
    content_type: str = "text/event-stream"

    def __repr__(self) -> str:
        return self.name

    @property
    def origin(self) -> Origin:
        """The origin of the answers; the provider has the name of the API."""
        return Origin(api=self.name, provider=self.name, model=self.model)

    def reply(self, answer: ScriptedAnswer, **fields: Any) -> Reply:
        return self.replying([raw(piece) for piece in self.say(answer)], **fields)

    def replying(self, steps: Iterable[chat_script.Step], **fields: Any) -> Reply:
        return Reply(headers={"content-type": self.content_type}, steps=steps, **fields)

    def refusing(self, status: int, code: str = "", words: str = "no", **fields: Any) -> Reply:
        return Reply(status=status, body=self.refuse(status, code, words), **fields)

    def body(
        self,
        keys: str = "k",
        *,
        content_type: str | None = None,
        decoder: StreamDecoder | None = None,
    ) -> AnswerBody:
        """Make the body that decodes a stream; the keys of calls are numbered."""
        return AnswerBody(
            content_type=self.content_type if content_type is None else content_type,
            decoder=decoder or self.decoder(new_key=new_keys(keys)),
            framing=self.framing,
        )

    def decode(self, pieces: Iterable[bytes], **body: Any) -> tuple[list[Event], str | None]:
        """Return the events of a stream, and the class of the error that ends it."""
        decoding, events = self.body(**body), []
        try:
            for piece in pieces:
                events.extend(decoding.feed(piece))
            events.extend(decoding.close())
        except BackendError as error:
            return events, error.kind
        return events, None

    def play(self, objects: Iterable[Any], **options: Any) -> list[Event]:
        """Return the events of a complete stream of these objects."""
        decoder = self.decoder(new_key=new_keys(), **options)
        fed = [list(decoder.feed_object(each)) for each in objects]
        return [*itertools.chain(*fed), *decoder.close()]

    def settings(self, url: str, **model: Any) -> config.Provider:
        """Return the settings of a provider at `url`, with those of its model.

        Its key looks like no key, so that only who knows it can hide it.
        """
        return config.Provider(
            api=self.name,
            url=url,
            key=Secret(f"plain-key-{self.name}"),
            models={self.model: config.Model(**model)},
        )

    @asynccontextmanager
    async def talking(
        self, script: Script, *, known: str | None = None, **model: Any
    ) -> AsyncIterator[tuple[Provider, HTTPBackend]]:
        """Run a provider with that script, by default of the API's name; yield it and its model."""
        name = known or self.name
        async with Provider(script) as provider, HTTPClient() as http:
            models = models_of({name: self.settings(provider.url, **model)}, http=http)
            backend = models.backend(f"{name}/{self.model}")
            assert type(backend) is APIS[self.name].load()
            yield provider, backend


def read_answer(answer: Answer) -> ReadAnswer:
    message = answer.message(Origin("any", "any", "any"))
    usage = answer.usage
    prompt = usage and [usage.input, usage.cache_read, usage.cache_write]
    return ReadAnswer(
        thoughts="".join(part.text for part in message.parts if isinstance(part, ReasoningPart)),
        text=answer.text,
        calls=tuple(
            (call.name, call.arguments) for call in message.parts if isinstance(call, ToolCallPart)
        ),
        reason=answer.finished and answer.finished.reason,
        prompt_tokens=prompt and sum(count or 0 for count in prompt),
        answer_tokens=usage and usage.output,
    )


def expected(answer: ScriptedAnswer) -> ReadAnswer:
    return ReadAnswer(
        thoughts="".join(answer.thoughts),
        text="".join(answer.text),
        calls=tuple((call.name, dict(call.arguments)) for call in answer.calls),
        reason="length" if answer.cut else "tool_calls" if answer.calls else "stop",
        prompt_tokens=PROMPT_TOKENS,
        answer_tokens=ANSWER_TOKENS,
    )


def _halves(arguments: Mapping[str, Any]) -> tuple[str, str]:
    text = json.dumps(arguments)
    return text[: len(text) // 2], text[len(text) // 2 :]


def _error(code: str, words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": code or "error", "code": code or None}}


def _chat(answer: ScriptedAnswer) -> list[bytes]:
    head = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    steps = [
        *(chat_script.reasoning(piece) for piece in answer.thoughts),
        *(chat_script.text(piece) for piece in answer.text),
        *(
            chat_script.tool_call(call.name, json.dumps(call.arguments), call_id=f"c{n}", index=n)
            for n, call in enumerate(answer.calls)
        ),
        chat_script.finish("length" if answer.cut else "tool_calls" if answer.calls else "stop"),
        chat_script.usage(PROMPT_TOKENS, ANSWER_TOKENS),
    ]
    return [*(each for step in steps for each in chat_script.events(step, head)), _DONE]


_DONE = b"data: [DONE]\n\n"


def _responses(answer: ScriptedAnswer) -> list[bytes]:
    items = [
        *(
            [responses.reasoning("".join(answer.thoughts), encrypted=answer.secret)]
            * bool(answer.thoughts)
        ),
        *([responses.message(*answer.text)] * bool(answer.text)),
        *(
            responses.call(call.name, json.dumps(call.arguments), call_id=f"call_{n}")
            for n, call in enumerate(answer.calls)
        ),
    ]
    events = responses.cut(*items) if answer.cut else responses.answer(*items)
    return [responses.as_bytes([event]) for event in events]


def _anthropic(answer: ScriptedAnswer) -> list[bytes]:
    items = [
        *(
            [anthropic.thinking(*answer.thoughts, signature=answer.secret)]
            if answer.thoughts
            else []
        ),
        *([anthropic.text(*answer.text)] if answer.text else []),
        *(
            anthropic.tool_use(call.name, *_halves(call.arguments), call_id=f"toolu_{n}")
            for n, call in enumerate(answer.calls)
        ),
    ]
    stop = "max_tokens" if answer.cut else "tool_use" if answer.calls else "end_turn"
    counts = {"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10}
    [_, *events] = anthropic.answer(*items, stop=stop)
    events[-2]["usage"]["output_tokens"] = ANSWER_TOKENS
    begun = anthropic.started({**counts, "output_tokens": 1})
    return [anthropic.written(event) for event in (begun, *events)]


def _google(answer: ScriptedAnswer) -> list[bytes]:
    signed = {"thoughtSignature": answer.secret} if answer.thoughts else {}
    parts = [
        *(google.thought(piece) for piece in answer.thoughts),
        *(google.text_part(piece) for piece in answer.text),
        *(google.call(call.name, dict(call.arguments)) for call in answer.calls),
    ]
    behind = next((part for part in parts if "thought" not in part), None)
    if behind is not None:
        behind |= signed
    finish = "MAX_TOKENS" if answer.cut else "STOP"
    counts = {
        "promptTokenCount": PROMPT_TOKENS,
        "candidatesTokenCount": 15,
        "thoughtsTokenCount": ANSWER_TOKENS - 15,
    }
    events = google.answer(*parts, finish=finish, counts=counts)
    return [google.as_bytes([event]) for event in events]


def _ollama(answer: ScriptedAnswer) -> list[bytes]:
    calls = [ollama.call(call.name, dict(call.arguments)) for call in answer.calls]
    objects = ollama.answer(
        *map(ollama.thinking, answer.thoughts),
        *map(ollama.text, answer.text),
        *([ollama.calls(*calls)] if calls else []),
        reason="length" if answer.cut else "stop",
        counts={"prompt_eval_count": PROMPT_TOKENS, "eval_count": ANSWER_TOKENS},
    )
    return [ollama.written(each) for each in objects]


EVERY_API = (
    ScriptedAPI(
        name="openai-chat",
        model="m",
        say=_chat,
        decoder=ChatDecoder,
        refuse=lambda _status, code, words: _error(code, words),
        fail=lambda code, words: b"data: " + json.dumps(_error(code, words)).encode() + b"\n\n",
        overloaded=(503, "server_error"),
    ),
    ScriptedAPI(
        name="openai-responses",
        model="gpt-5",
        say=_responses,
        decoder=ResponsesDecoder,
        refuse=lambda _status, code, words: _error(code, words),
        fail=lambda code, words: responses.as_bytes(
            [{"type": "error", "code": code, "message": words, "param": None, "sequence_number": 9}]
        ),
        overloaded=(503, "server_is_overloaded"),
    ),
    ScriptedAPI(
        name="anthropic",
        model="claude-opus-4-7",
        say=_anthropic,
        decoder=MessagesDecoder,
        refuse=lambda _status, code, words: {
            "type": "error",
            "error": {"type": code or "invalid_request_error", "message": words},
        },
        fail=lambda code, words: anthropic.written(
            {"type": "error", "error": {"type": code, "message": words}}
        ),
        overloaded=(529, "overloaded_error"),
    ),
    ScriptedAPI(
        name="google",
        model="gemini-3.1-pro",
        say=_google,
        decoder=GeminiDecoder,
        refuse=lambda status, code, words: {
            "error": {"code": status, "status": code or "UNKNOWN", "message": words}
        },
        fail=lambda code, words: google.as_bytes(
            [{"error": {"code": 503 if code else 400, "status": code or "X", "message": words}}]
        ),
        overloaded=(503, "UNAVAILABLE"),
    ),
    ScriptedAPI(
        name="ollama",
        model="m",
        say=_ollama,
        decoder=OllamaDecoder,
        refuse=lambda _status, _code, words: {"error": words},
        fail=lambda _code, words: ollama.written({"error": words}),
        overloaded=(503, ""),
        framing="lines",
        content_type="application/x-ndjson",
    ),
)

API = {api.name: api for api in EVERY_API}
each_api = pytest.mark.parametrize("api", EVERY_API, ids=lambda api: api.name)

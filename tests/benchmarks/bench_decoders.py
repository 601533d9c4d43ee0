"""Cost of an event of each API's stream, beside a bare JSON loop and the provider's own SDK.

Aims: at most 2x the bare loop over the same bytes, at least 5x cheaper than the SDK. A new API is a
row of `APIS`: its bytes, its decoder, and what the SDK does with the bytes.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import anthropic
import httpx
import httpx2
import ollama
import openai
from anthropic.types import RawMessageStreamEvent
from google import genai
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseStreamEvent
from report import Row, at_least, at_most, compare, machine

from eca_protocol import json
from eca_server.models.answer_body import AnswerBody, Framing
from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.ollama.decoder import OllamaDecoder
from eca_server.models.openai_chat.decoder import ChatDecoder
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from eca_server.models.stream_decoder import StreamDecoder

COUNT = 4000
READ = 64 * 1024  # bytes a read of a socket brings


class API(NamedTuple):
    """One API: its bytes, its decoder, what its SDK does with the bytes, how they are cut."""

    stream: bytes
    decoder: Callable[[], StreamDecoder]
    sdk: Callable[[bytes], Iterable[object]]
    framing: Framing = "sse"


def openai_chat() -> API:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: " + json.dumps({**head, "choices": [choice]}) + b"\n\n"

    stream = chunk({"content": "words of it"}) * COUNT + chunk({}, "stop") + b"data: [DONE]\n\n"
    return API(
        stream=stream,
        decoder=lambda: ChatDecoder(think_tags="off"),
        sdk=lambda data: openai_events(data, ChatCompletionChunk),
    )


def openai_responses() -> API:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    response = {"id": "resp_1", "object": "response", "model": "m", "output": []}

    def event(kind: str, **fields: object) -> bytes:
        data = json.dumps({"type": kind, "sequence_number": 1, "output_index": 0, **fields})
        return f"event: {kind}\ndata: ".encode() + data + b"\n\n"

    delta = event(
        "response.output_text.delta",
        item_id="msg_1",
        content_index=0,
        delta="words of it",
        logprobs=[],
    )
    return API(
        stream=event("response.created", response=response)
        + event("response.output_item.added", item=item)
        + delta * COUNT
        + event("response.completed", response=response),
        decoder=ResponsesDecoder,
        sdk=lambda data: openai_events(data, ResponseStreamEvent),
    )


def anthropic_messages() -> API:
    def event(kind: str, **fields: object) -> bytes:
        return f"event: {kind}\ndata: ".encode() + json.dumps({"type": kind, **fields}) + b"\n\n"

    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    begun = {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}
    delta = {"type": "text_delta", "text": "words of it"}
    return API(
        stream=event("message_start", message=begun)
        + event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        + event("content_block_delta", index=0, delta=delta) * COUNT
        + event("content_block_stop", index=0)
        + event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9})
        + event("message_stop"),
        decoder=MessagesDecoder,
        sdk=anthropic_events,
    )


def google() -> API:
    head = {"usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1}, "responseId": "r"}

    def event(**ending: str) -> bytes:
        content = {"role": "model", "parts": [{"text": "words of it"}]}
        candidate = {"content": content, "index": 0, **ending}
        return b"data: " + json.dumps({"candidates": [candidate], **head}) + b"\r\n\r\n"

    return API(
        stream=event() * COUNT + event(finishReason="STOP"),
        decoder=GeminiDecoder,
        sdk=google_events,
    )


def ollama_chat() -> API:
    head = {"model": "m", "created_at": "2026-11-01T10:00:00.123456789Z"}
    delta = {**head, "message": {"role": "assistant", "content": "words of it"}, "done": False}
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 9}
    return API(
        stream=(json.dumps(delta) + b"\n") * COUNT + json.dumps({**delta, **end}) + b"\n",
        decoder=OllamaDecoder,
        sdk=ollama_events,
        framing="lines",
    )


def ollama_events(data: bytes) -> Iterable[object]:
    answered = httpx.MockTransport(
        lambda _request: httpx.Response(200, stream=httpx.ByteStream(data))
    )
    return ollama.Client(transport=answered).chat(model="m", messages=[], stream=True)


def google_events(data: bytes) -> Iterable[object]:
    headers = {"content-type": "text/event-stream"}
    answered = httpx2.MockTransport(
        lambda _request: httpx2.Response(200, headers=headers, stream=httpx2.ByteStream(data))
    )
    options = genai.types.HttpOptions(httpx_client=httpx2.Client(transport=answered))
    client = genai.Client(api_key="none", http_options=options)
    return client.models.generate_content_stream(model="m", contents="x")


def anthropic_events(data: bytes) -> Iterable[object]:
    client = anthropic.Anthropic(api_key="none")
    request = httpx2.Request("POST", "http://localhost")
    headers = {"content-type": "text/event-stream"}
    pieces = httpx2.ByteStream(data)
    response = httpx2.Response(200, headers=headers, stream=pieces, request=request)
    return anthropic.Stream(cast_to=RawMessageStreamEvent, response=response, client=client)


def openai_events(data: bytes, kind: object) -> Iterable[object]:
    client = openai.OpenAI(api_key="none")
    request = httpx2.Request("POST", "http://localhost")
    pieces = httpx2.ByteStream(data)
    headers = {"content-type": "text/event-stream"}
    response = httpx2.Response(200, headers=headers, stream=pieces, request=request)
    return openai.Stream(cast_to=kind, response=response, client=client)


APIS: dict[str, Callable[[], API]] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "google": google,
    "ollama": ollama_chat,
}


def bare(stream: bytes, framing: Framing) -> None:
    head = b"data: " if framing == "sse" else b""
    for line in stream.split(b"\n"):
        if line.startswith(head + b"{"):
            json.loads(line[len(head) :])


def ours(api: API) -> int:
    stream = api.stream
    content_type = "text/event-stream" if api.framing == "sse" else "application/x-ndjson"
    body = AnswerBody(content_type=content_type, decoder=api.decoder(), framing=api.framing)
    count = 0
    for start in range(0, len(stream), READ):
        for _ in body.feed(stream[start : start + READ]):
            count += 1
    for _ in body.close():
        count += 1
    return count


def main() -> list[Row]:
    print(machine("orjson", "openai", "anthropic", "google-genai", "ollama"))
    rows: list[Row] = []
    for name, make in APIS.items():
        api = make()
        assert ours(api) >= COUNT
        contenders: dict[str, Callable[[], object]] = {
            "bare json": lambda api=api: bare(api.stream, api.framing),
            "ours": lambda api=api: ours(api),
            "SDK": lambda api=api: sum(1 for _ in api.sdk(api.stream)),
        }
        ratios = compare(name, contenders, baseline="bare json", number=COUNT, rounds=5)
        what = f"an event of {name}"
        rows += [
            at_most(what, ratios["ours"], 2, "x bare JSON"),
            at_least(what, ratios["SDK"] / ratios["ours"], 5, "x cheaper than its SDK"),
        ]
    return rows

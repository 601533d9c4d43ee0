"""Scripted answers of Gemini, as the responses of a stream."""

import base64
import json
from collections.abc import Sequence

from eca_protocol.testing.script import Reply, raw

SIGNATURE = base64.b64encode(b"signed by the model").decode()
SIGNED = {"thoughtSignature": SIGNATURE}

COUNTS = {
    "promptTokenCount": 100,
    "cachedContentTokenCount": 60,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 125,
}


def text_part(text: str, **part) -> dict:
    return {"text": text, **part}


def thought(text: str, **part) -> dict:
    return {"text": text, "thought": True, **part}


def call(name: str, args: dict | None = None, *, signed: bool = False, **fields) -> dict:
    function = {"name": name, **({} if args is None else {"args": args}), **fields}
    return {"functionCall": function, **({"thoughtSignature": SIGNATURE} if signed else {})}


def picture(data: bytes, **part) -> dict:
    return {
        "inlineData": {"mimeType": "image/png", "data": base64.b64encode(data).decode()},
        **part,
    }


def grounding(*urls: str, query: str = "weather", text: str | None = None) -> dict:
    """Return the result of a search; `text` is the text that the first page supports."""
    supports = [{"segment": {"text": text, "endIndex": 1}, "groundingChunkIndices": [0]}]
    return {
        "webSearchQueries": [query],
        "searchEntryPoint": {"renderedContent": "<div/>"},
        "groundingChunks": [{"web": {"uri": url, "title": url[-1]}} for url in urls],
        "groundingSupports": supports if text else [],
    }


def response(*parts: dict, counts: dict | None = None, **candidate) -> dict:
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {
        "candidates": [{**content, "index": 0, **candidate}],
        "usageMetadata": counts or {"promptTokenCount": 100, "totalTokenCount": 100},
        "modelVersion": "gemini-test",
        "responseId": "resp_1",
    }


def answer(*parts: dict, finish: str = "STOP", counts: dict | None = None, **last) -> list[dict]:
    """Return all events of an answer, one for each part; `last` goes into the last candidate."""
    *before, end = parts or (None,)
    ending = response(*([end] if end else []), counts=counts or COUNTS, finishReason=finish, **last)
    return [*(response(part) for part in before), ending]


EVERYTHING = answer(
    thought("Hm\u2028m"),
    thought("so", **SIGNED),
    text_part("a\u0085b\u2028c"),
    text_part("\u000bd"),
    picture(b"png"),
    call("f", {"n": 1}, signed=True),
    text_part("", **SIGNED),
    groundingMetadata=grounding("http://u", text="b"),
)


def as_bytes(events: Sequence[dict]) -> bytes:
    return b"".join(
        f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n".encode() for event in events
    )


def reply(*parts: dict, **fields) -> Reply:
    return Reply(steps=[raw(as_bytes(answer(*parts, **fields)))])

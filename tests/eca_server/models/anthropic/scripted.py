"""Scripted answers over the Messages API, as its events.

A block is a function from its index to its events; `answer` joins blocks.
"""

import json
from collections.abc import Callable, Sequence

from eca_protocol.testing.script import Reply, Step, raw

Item = Callable[[int], list[dict]]
"""The events of a block at an index."""

USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 1,
    "service_tier": "standard",
}


def block(start: dict, *deltas: dict) -> Item:
    def at(index: int) -> list[dict]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    return at


def text(*pieces: str, cites: Sequence[dict] = ()) -> Item:
    return block(
        {"type": "text", "text": "", "citations": [] if cites else None},
        *({"type": "citations_delta", "citation": cite} for cite in cites),
        *({"type": "text_delta", "text": piece} for piece in pieces),
    )


def citation(url: str, title: str) -> dict:
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title,
        "encrypted_index": f"index of {url}",
        "cited_text": "quoted words",
    }


def thinking(*pieces: str, signature: str = "c2ln") -> Item:
    """Return thinking in pieces; without pieces it is that of `display: omitted`."""
    return block(
        {"type": "thinking", "thinking": "", "signature": ""},
        *({"type": "thinking_delta", "thinking": piece} for piece in pieces),
        *([{"type": "signature_delta", "signature": signature}] if signature else []),
    )


def redacted(data: str = "c2VjcmV0") -> Item:
    return block({"type": "redacted_thinking", "data": data})


def tool_use(
    name: str, *pieces: str, call_id: str = "toolu_1", arguments: dict | None = None
) -> Item:
    """Return a call with `pieces` of its input's JSON."""
    return block(
        {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}},
        *({"type": "input_json_delta", "partial_json": piece} for piece in pieces),
    )


def search(query: str, call_id: str = "srvtoolu_1") -> Item:
    return block(
        {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "input_json_delta", "partial_json": json.dumps({"query": query})},
    )


def search_result(*urls: str, call_id: str = "srvtoolu_1") -> Item:
    results = [
        {
            "type": "web_search_result",
            "url": url,
            "title": f"Page {url}",
            "encrypted_content": "ZW5j",
            "page_age": "2 days",
        }
        for url in urls
    ]
    return block({"type": "web_search_tool_result", "tool_use_id": call_id, "content": results})


def started(usage: dict | None = USAGE) -> dict:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if usage is not None:
        message["usage"] = usage
    return {"type": "message_start", "message": message}


def stopped(reason: str | None, output: int = 5, **delta: object) -> list[dict]:
    result = {"stop_reason": reason, "stop_sequence": None, **delta}
    usage = {"output_tokens": output}
    return [{"type": "message_delta", "delta": result, "usage": usage}, {"type": "message_stop"}]


def answer(*items: Item, stop: str = "end_turn", **delta: object) -> list[dict]:
    blocks = [event for index, item in enumerate(items) for event in item(index)]
    return [started(), {"type": "ping"}, *blocks, *stopped(stop, **delta)]


CAN, CANNOT = {"supported": True}, {"supported": False}
MODES = {"adaptive": CAN, "between_tools": CANNOT, "disabled": CAN, "enabled": CANNOT}
LISTED = {
    "id": "claude-a",
    "type": "model",
    "display_name": "A",
    "created_at": "2026-01-01T00:00:00Z",
    "max_input_tokens": 1_000_000,
    "max_tokens": 128_000,
    "lifecycle": "active",
    "capabilities": {
        **dict.fromkeys(("batch", "citations", "code_execution", "structured_outputs"), CAN),
        **dict.fromkeys(("pdf_input", "image_input", "context_management"), CANNOT),
        "effort": {**CAN, "low": CAN, "medium": CANNOT, "high": CANNOT, "max": CAN, "xhigh": None},
        "server_tools": {**CAN, "code_execution": CAN, "web_search": CAN},
        "thinking": {**CAN, "types": MODES},
    },
}
ITEMS = [
    thinking("Hm\u2028", "m"),
    redacted(),
    thinking(),
    text("a\u0085", "b\u2028c\u000b"),
    search("q"),
    search_result("https://a.example"),
    text("cited", cites=[citation("https://a.example", "A")]),
    tool_use("f", "", '{"n"', ":1}", call_id="1"),
    tool_use("g", call_id="2"),
]
EVERYTHING = answer(*ITEMS, stop="tool_use")


def written(event: dict) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def wire(events: Sequence[dict]) -> bytes:
    return b"".join(map(written, events))


def steps(events: Sequence[dict]) -> list[Step]:
    return [raw(written(event)) for event in events]


def reply(*items: Item, stop: str = "end_turn", **delta: object) -> Reply:
    return Reply(headers={"request-id": "req_1"}, steps=steps(answer(*items, stop=stop, **delta)))

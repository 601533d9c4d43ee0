"""Scripted answers over Responses, as its events.

An output item is a function from its position to its events; `answer` joins items.
"""

import json
from collections.abc import Callable, Sequence

from eca_protocol.testing.script import Reply, Step, raw

Item = Callable[[int], list[dict]]
"""The events of an item at a position; the last one contains the completed item."""


def item_events(place: int, begun: dict, done: dict, *between: dict) -> list[dict]:
    return [
        {"type": "response.output_item.added", "output_index": place, "item": begun},
        *({"item_id": begun["id"], "output_index": place, **event} for event in between),
        {"type": "response.output_item.done", "output_index": place, "item": done},
    ]


def message(*pieces: str, phase: str | None = None, cites: Sequence[dict] = ()) -> Item:
    """Return a message with its text in pieces, then its citations."""

    def at(place: int) -> list[dict]:
        head = {"type": "message", "id": f"msg_{place}", "role": "assistant"}
        head |= {"phase": phase} if phase else {}
        text = {"type": "output_text", "text": "".join(pieces), "annotations": list(cites)}
        empty = {"type": "output_text", "text": "", "annotations": []}
        part = {"content_index": 0}
        return item_events(
            place,
            {**head, "status": "in_progress", "content": []},
            {**head, "status": "completed", "content": [text]},
            {"type": "response.content_part.added", **part, "part": empty},
            *(
                {"type": "response.output_text.delta", **part, "delta": piece, "logprobs": []}
                for piece in pieces
            ),
            *(
                {
                    "type": "response.output_text.annotation.added",
                    **part,
                    "annotation_index": number,
                    "annotation": cite,
                }
                for number, cite in enumerate(cites)
            ),
            {"type": "response.output_text.done", **part, "text": text["text"], "logprobs": []},
            {"type": "response.content_part.done", **part, "part": text},
        )

    return at


def citation(url: str, title: str, start: int, end: int) -> dict:
    return {
        "type": "url_citation",
        "url": url,
        "title": title,
        "start_index": start,
        "end_index": end,
    }


def refusal(*pieces: str) -> Item:
    def at(place: int) -> list[dict]:
        head = {"type": "message", "id": f"msg_{place}", "role": "assistant"}
        whole = {"type": "refusal", "refusal": "".join(pieces)}
        return item_events(
            place,
            {**head, "status": "in_progress", "content": []},
            {**head, "status": "completed", "content": [whole]},
            *(
                {"type": "response.refusal.delta", "content_index": 0, "delta": piece}
                for piece in pieces
            ),
            {"type": "response.refusal.done", "content_index": 0, "refusal": whole["refusal"]},
        )

    return at


def reasoning(*parts: str, encrypted: str | None = "gAAA") -> Item:
    """Return reasoning with a summary in parts; its first event has an incomplete secret."""

    def at(place: int) -> list[dict]:
        head = {"type": "reasoning", "id": f"rs_{place}"}
        summary = [{"type": "summary_text", "text": part} for part in parts]
        between = []
        for number, part in enumerate(parts):
            where = {"summary_index": number}
            half = len(part) // 2
            empty = {"type": "summary_text", "text": ""}
            delta = "response.reasoning_summary_text.delta"
            between += [
                {"type": "response.reasoning_summary_part.added", **where, "part": empty},
                {"type": delta, **where, "delta": part[:half]},
                {"type": delta, **where, "delta": part[half:]},
                {"type": "response.reasoning_summary_text.done", **where, "text": part},
                {"type": "response.reasoning_summary_part.done", **where, "part": summary[number]},
            ]
        return item_events(
            place,
            {**head, "summary": [], "encrypted_content": "begun"},
            {**head, "summary": summary, "encrypted_content": encrypted, "status": None},
            *between,
        )

    return at


def call(name: str, arguments: str, *, call_id: str = "call_theirs", cut: bool = False) -> Item:
    """Return a function call; `cut`: it is truncated by the answer's limit."""

    def at(place: int) -> list[dict]:
        head = {"type": "function_call", "id": f"fc_{place}", "call_id": call_id, "name": name}
        half = len(arguments) // 2
        delta = "response.function_call_arguments.delta"
        status = "incomplete" if cut else "completed"
        between = [{"type": delta, "delta": arguments[:half]}]
        between += [{"type": delta, "delta": arguments[half:]}]
        if not cut:
            between += [
                {
                    "type": "response.function_call_arguments.done",
                    "arguments": arguments,
                    "name": name,
                }
            ]
        return item_events(
            place,
            {**head, "arguments": "", "status": "in_progress"},
            {**head, "arguments": arguments, "status": status},
            *between,
        )

    return at


def search(query: str, *urls: str) -> Item:
    def at(place: int) -> list[dict]:
        head = {"type": "web_search_call", "id": f"ws_{place}"}
        sources = [{"type": "url", "url": url} for url in urls]
        action = {"type": "search", "query": query, "queries": [query], "sources": sources}
        kind = "response.web_search_call"
        return item_events(
            place,
            {**head, "status": "in_progress", "action": {"type": "search", "query": ""}},
            {**head, "status": "completed", "action": action},
            {"type": f"{kind}.in_progress"},
            {"type": f"{kind}.searching"},
            {"type": f"{kind}.completed"},
        )

    return at


def other(item: dict) -> Item:
    return lambda place: item_events(place, item, item)


USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}


def response(status: str, output: Sequence[dict] = (), **fields) -> dict:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "gpt-test",
        "status": status,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
        **fields,
    }


def answer(*items: Item, status: str = "completed", **fields) -> list[dict]:
    """Return all events of an answer, numbered; `fields` go into the last response."""
    events = [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
    ]
    output = []
    for place, item in enumerate(items):
        events += item(place)
        output.append(events[-1]["item"])
    last = response(status, output, **{"usage": USAGE, **fields})
    events.append({"type": f"response.{status}", "response": last})
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


EVERYTHING = answer(
    reasoning("Hm\u2028m", "so"),
    search("q", "http://u"),
    message("a\u0085b\u2028c", "\u000bd", cites=[citation("http://u", "U", 0, 1)]),
    call("f", '{"n": 1}'),
)


def cut(*items: Item, reason: str = "max_output_tokens") -> list[dict]:
    return answer(*items, status="incomplete", incomplete_details={"reason": reason})


def as_bytes(events: Sequence[dict]) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


def reply(*items: Item, **reply_fields) -> Reply:
    return Reply(steps=[raw(as_bytes(answer(*items)))], **reply_fields)


def steps(*steps: Step | Sequence[dict], **reply_fields) -> Reply:
    return Reply(
        steps=[step if isinstance(step, dict) else raw(as_bytes(step)) for step in steps],
        **reply_fields,
    )

"""Scripted answers over Responses, as its events.

An output item is a function from its position to its events; `answer` joins items.
"""

import json
from collections.abc import Callable, Sequence

from eca_protocol.testing.script import Reply, Step, raw

Item = Callable[[int], list[dict]]
"""The events of an item at a position; the last one contains the completed item."""


def event(kind: str, **fields) -> dict:
    return {"type": f"response.{kind}", **fields}


def item(begun: dict, done: dict, *between: dict) -> Item:
    """Return an item with what its begin and its end have in common in `begun`."""

    def at(place: int) -> list[dict]:
        first = {**begun, "id": f"{begun['id']}_{place}"}
        where = {"output_index": place}
        return [
            event("output_item.added", **where, item=first),
            *({"item_id": first["id"], **where, **each} for each in between),
            event("output_item.done", **where, item={**first, **done}),
        ]

    return at


def _message(phase: str | None, content: dict, *between: dict) -> Item:
    head = {"type": "message", "id": "msg", "role": "assistant", "status": "in_progress"}
    head |= {"phase": phase} if phase else {}
    parts = ({**each, "content_index": 0} for each in between)
    return item({**head, "content": []}, {"status": "completed", "content": [content]}, *parts)


def message(*pieces: str, phase: str | None = None, cites: Sequence[dict] = ()) -> Item:
    """Return a message with its text in pieces, then its citations."""
    text = {"type": "output_text", "text": "".join(pieces), "annotations": list(cites)}
    return _message(
        phase,
        text,
        event("content_part.added", part={**text, "text": "", "annotations": []}),
        *(event("output_text.delta", delta=piece, logprobs=[]) for piece in pieces),
        *(
            event("output_text.annotation.added", annotation_index=number, annotation=cite)
            for number, cite in enumerate(cites)
        ),
        event("output_text.done", text=text["text"], logprobs=[]),
        event("content_part.done", part=text),
    )


def citation(url: str, title: str, start: int, end: int) -> dict:
    span = {"start_index": start, "end_index": end}
    return {"type": "url_citation", "url": url, "title": title, **span}


def refusal(*pieces: str) -> Item:
    whole = {"type": "refusal", "refusal": "".join(pieces)}
    deltas = (event("refusal.delta", delta=piece) for piece in pieces)
    return _message(None, whole, *deltas, event("refusal.done", refusal=whole["refusal"]))


def reasoning(*parts: str, encrypted: str | None = "gAAA") -> Item:
    """Return reasoning with a summary in parts; its first event has an incomplete secret."""
    summary = [{"type": "summary_text", "text": part} for part in parts]
    between = []
    for number, part in enumerate(summary):
        text, half = part["text"], len(part["text"]) // 2
        steps = [
            event("reasoning_summary_part.added", part={**part, "text": ""}),
            event("reasoning_summary_text.delta", delta=text[:half]),
            event("reasoning_summary_text.delta", delta=text[half:]),
            event("reasoning_summary_text.done", text=text),
            event("reasoning_summary_part.done", part=part),
        ]
        between += [{**step, "summary_index": number} for step in steps]
    return item(
        {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "begun"},
        {"summary": summary, "encrypted_content": encrypted, "status": None},
        *between,
    )


def call(name: str, arguments: str, *, call_id: str = "call_theirs", cut: bool = False) -> Item:
    """Return a function call; `cut`: it is truncated by the answer's limit."""
    half = len(arguments) // 2
    pieces = (arguments[:half], arguments[half:])
    deltas = [event("function_call_arguments.delta", delta=piece) for piece in pieces]
    end = event("function_call_arguments.done", arguments=arguments, name=name)
    head = {"type": "function_call", "id": "fc", "call_id": call_id, "name": name}
    return item(
        {**head, "arguments": "", "status": "in_progress"},
        {"arguments": arguments, "status": "incomplete" if cut else "completed"},
        *(deltas if cut else [*deltas, end]),
    )


def search(query: str, *urls: str) -> Item:
    sources = [{"type": "url", "url": url} for url in urls]
    action = {"type": "search", "query": query, "queries": [query], "sources": sources}
    empty = {"type": "search", "query": ""}
    return item(
        {"type": "web_search_call", "id": "ws", "status": "in_progress", "action": empty},
        {"status": "completed", "action": action},
        *(event(f"web_search_call.{kind}") for kind in ("in_progress", "searching", "completed")),
    )


def other(raw: dict) -> Item:
    """Return an item that comes whole, with its own id."""
    return lambda place: [
        event(f"output_item.{kind}", output_index=place, item=raw) for kind in ("added", "done")
    ]


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
    begun = response("in_progress")
    events = [event(kind, response=begun) for kind in ("created", "in_progress")]
    output = []
    for place, each in enumerate(items):
        events += each(place)
        output.append(events[-1]["item"])
    last = response(status, output, **{"usage": USAGE, **fields})
    events.append(event(status, response=last))
    return [{**each, "sequence_number": number} for number, each in enumerate(events)]


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
        f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n".encode()
        for each in events
    )


def steps(*steps: Step | Sequence[dict]) -> Reply:
    """Return a reply of these steps; a list among them is written as events."""
    return Reply(steps=[each if isinstance(each, dict) else raw(as_bytes(each)) for each in steps])


def reply(*items: Item) -> Reply:
    return steps(answer(*items))

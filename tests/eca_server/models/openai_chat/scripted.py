"""Scripted chunks of Chat Completions, and their events."""

import json

from eca_protocol.sse import SSEvent
from eca_server.models.openai_chat.decoder import ChatDecoder
from tests.eca_server.models.reading import new_keys


def decoder(**options) -> ChatDecoder:
    return ChatDecoder(new_key=new_keys(), **options)


def delta(finish=None, /, **fields) -> dict:
    return {"id": "r1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def tool(*fragments) -> dict:
    return delta(tool_calls=list(fragments))


def fragment(arguments="", name=None, **fields) -> dict:
    return {**fields, "function": {"name": name, "arguments": arguments}}


STOP = delta("stop")
EVERYTHING = [
    delta(role="assistant", content=""),
    delta(reasoning_content="Hm\u2028m"),
    delta(content="a\u0085b\u2028c"),
    tool(fragment(name="f", index=0, id="a")),
    tool(fragment('{"n"', index=0)),
    tool(fragment(":1}", index=0)),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
]


def play(*chunks, done=True, **options) -> list:
    """Return the events of a complete stream of these chunks."""
    decoding = decoder(**options)
    events = []
    for chunk in chunks:
        data = chunk if isinstance(chunk, str) else json.dumps(chunk)
        events += decoding.feed(SSEvent(event="message", data=data))
    if done:
        events += decoding.feed(SSEvent(event="message", data="[DONE]"))
    return events + decoding.close()

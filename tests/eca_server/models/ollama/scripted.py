"""Scripted answers over Ollama's own API, as the objects of a stream."""

import json
from typing import Any

from eca_protocol.testing.script import Reply, raw

HEAD = {"model": "qwen3:8b", "created_at": "2026-11-01T10:00:00.123456789Z"}
COUNTS = {"prompt_eval_count": 26, "eval_count": 7}
NANOSECONDS = {
    "total_duration": 4_000_000_000,
    "load_duration": 1_000_000_000,
    "prompt_eval_duration": 1_000_000_000,
    "eval_duration": 2_000_000_000,
}


def message(**fields: object) -> dict:
    return {**HEAD, "message": {"role": "assistant", "content": "", **fields}, "done": False}


def text(piece: str) -> dict:
    return message(content=piece)


def thinking(piece: str) -> dict:
    return message(thinking=piece)


def call(name: str, arguments: object = None, **fields: object) -> dict:
    function = {"index": 0, "name": name, "arguments": arguments if arguments is not None else {}}
    return {"function": function, **fields}


def calls(*each: dict) -> dict:
    return message(tool_calls=list(each))


def done(reason: str | None = "stop", *, counts: dict | None = COUNTS) -> dict:
    end = {**HEAD, "message": {"role": "assistant", "content": ""}, "done": True}
    if reason is not None:
        end["done_reason"] = reason
    return {**end, **NANOSECONDS, **(counts or {})}


def answer(*objects: dict, reason: str | None = "stop", counts: dict | None = COUNTS) -> list[dict]:
    return [*objects, done(reason, counts=counts)]


EVERYTHING = answer(
    thinking("Hm\u2028"),
    thinking("m"),
    text("a\u0085"),
    text("b\u2028c\u000b"),
    calls(call("f", {"n": 1}), call("f", {"n": 1})),
)


def written(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def reply(*objects: dict) -> Reply:
    return Reply(
        headers={"content-type": "application/x-ndjson"},
        steps=[raw(written(each)) for each in answer(*objects)],
    )


def shown(
    *capabilities: str,
    context: int = 131_072,
    architecture: str = "qwen3",
    parameters: str = "",
    **fields: object,
) -> dict:
    return {
        "license": "a long text",
        "modelfile": "FROM x",
        "parameters": parameters,
        "template": "{{ .Prompt }}",
        "details": {"format": "gguf", "family": architecture, "parameter_size": "8.2B"},
        "model_info": {
            "general.architecture": architecture,
            f"{architecture}.context_length": context,
            f"{architecture}.block_count": 36,
        },
        "capabilities": list(capabilities),
        **fields,
    }


def installed(name: str, *capabilities: str, family: str = "qwen3") -> dict:
    listed = {
        "name": name,
        "model": name,
        "modified_at": "2026-10-01T10:00:00Z",
        "size": 5_200_000_000,
        "digest": "abc",
        "details": {"family": family, "families": [family], "context_length": 131_072},
    }
    return {**listed, "capabilities": list(capabilities)} if capabilities else listed


def running(name: str, context: int) -> dict:
    """Return the answer of `/api/ps` with one loaded model."""
    there = {"name": name, "model": name, "size": 1, "context_length": context}
    return {"models": [there]}

"""Both JSON engines take and give the same, and what is read classifies or says why not."""

from __future__ import annotations

import contextlib
from typing import Any

from runner import instrumented, main

with instrumented():
    from eca_protocol import json, jsonrpc
    from eca_protocol.errors import InvalidJSON, RemoteProtocolError

ENGINES = (json._Stdlib, json._Orjson)


def read(engine: Any, data: bytes, duplicate_keys: str) -> tuple[Any, str]:
    """The value and what to compare: types are told apart, 1 from 1.0 from True."""
    try:
        value = engine.loads(data, duplicate_keys=duplicate_keys)
    except InvalidJSON as refusal:
        return None, f"refused: {refusal}"
    return value, repr(value)


def check(data: bytes) -> None:
    for duplicate_keys in ("refuse", "last"):
        (value, seen), (_, seen_too) = (read(engine, data, duplicate_keys) for engine in ENGINES)
        assert seen == seen_too, f"{seen[:200]} is not {seen_too[:200]}"
    if seen.startswith("refused"):
        return
    for engine in ENGINES:
        body = engine.dumps(value)
        for reader in ENGINES:
            assert repr(reader.loads(body)) == seen
    with contextlib.suppress(RemoteProtocolError):
        jsonrpc.classify(value)


if __name__ == "__main__":
    main("json", check)

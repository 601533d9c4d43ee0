"""Both JSON engines read and write the same, and each value is classified or refused."""

from __future__ import annotations

import contextlib
from typing import Any

from runner import instrumented, main

with instrumented():
    from eca_protocol import json, jsonrpc
    from eca_protocol.errors import InvalidJSON, RemoteProtocolError

ENGINES = (json._Stdlib, json._Orjson)


def read(engine: Any, data: bytes, duplicate_keys: str) -> tuple[Any, str]:
    """Return the value, and a text in which 1, 1.0 and True differ."""
    try:
        value = engine.loads(data, duplicate_keys=duplicate_keys)
    except InvalidJSON as refusal:
        return None, f"refused: {refusal}"
    return value, repr(value)


def check(data: bytes) -> None:
    for duplicate_keys in ("refuse", "last"):
        (value, outcome), (_, other) = (read(engine, data, duplicate_keys) for engine in ENGINES)
        assert outcome == other, f"{outcome[:200]} is not {other[:200]}"
    if outcome.startswith("refused"):
        return
    for engine in ENGINES:
        body = engine.dumps(value)
        for reader in ENGINES:
            assert repr(reader.loads(body)) == outcome
    with contextlib.suppress(RemoteProtocolError):
        jsonrpc.classify(value)


if __name__ == "__main__":
    main("json", check)

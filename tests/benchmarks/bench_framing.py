"""Framing and JSON of 150-byte deltas, both ways, beside bare JSON loops and other readers.

Aims: at most 1.25x the bare loop of the standard library, at most 0.75x with the extra `speed`.
"""

import io
import json as stdlib_json
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson
import pygls.io_
from report import Row, at_most, compare, machine

from eca_protocol import json
from eca_protocol.framing import ContentLengthDecoder, encode_frame

COUNT = 4000
DELTA = {
    "jsonrpc": "2.0",
    "method": "chat/contentReceived",
    "params": {
        "chatId": "chat-1",
        "role": "assistant",
        "content": {"type": "text", "text": "words of it"},
    },
}


def pieces(stream: bytes, size: int) -> list[bytes]:
    return [stream[start : start + size] for start in range(0, len(stream), size)]


def ours(engine: Any, size: int) -> Callable[[], None]:
    """Both ways: values to frames, the frames in pieces of that size, frames to values."""

    def run() -> None:
        stream = b"".join([encode_frame(engine.dumps(DELTA)) for _ in range(COUNT)])
        decoder = ContentLengthDecoder()
        loads = engine.loads
        for piece in pieces(stream, size):
            for body in decoder.feed(piece):
                loads(body)

    return run


def bare_stdlib() -> None:
    bodies = [stdlib_json.dumps(DELTA).encode() for _ in range(COUNT)]
    for body in bodies:
        stdlib_json.loads(body)


def bare_orjson() -> None:
    bodies = [orjson.dumps(DELTA) for _ in range(COUNT)]
    for body in bodies:
        orjson.loads(body)


def pygls_reader() -> None:
    """pygls's loop over a file in memory; the writing is what its writer does, without I/O."""
    frames = []
    for _ in range(COUNT):
        body = stdlib_json.dumps(DELTA)
        frames.append(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    protocol = SimpleNamespace(structure_message=dict, handle_message=dict)
    pygls.io_.run(threading.Event(), io.BytesIO(b"".join(frames)), protocol)


def main() -> list[Row]:
    print(machine("orjson", "pygls"))
    size = len(json.dumps(DELTA))
    contenders: dict[str, Callable[[], None]] = {
        "bare stdlib json": bare_stdlib,
        "bare orjson": bare_orjson,
        "pygls reader, stdlib json": pygls_reader,
    }
    for name, engine in (("stdlib json", json._Stdlib), ("orjson", json._Orjson)):
        for piece in (65536, 1460, 1):
            contenders[f"ours, {name}, pieces of {piece}"] = ours(engine, piece)
    ratios = compare(
        f"One delta of {size} bytes, encoded, framed, read and decoded",
        contenders,
        baseline="bare stdlib json",
        number=COUNT,
    )
    what = "framing and JSON beside bare stdlib json, {}"
    return [
        at_most(what.format(name), ratios[f"ours, {name}, pieces of 65536"], bound)
        for name, bound in (("stdlib json", 1.25), ("orjson", 0.75))
    ]

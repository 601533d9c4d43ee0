"""Any message of an agent or its evaluator is refused, or read, written and read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.ecp import messages as m
    from eca_protocol.errors import InvalidJSON, RemoteProtocolError

CODECS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (m.read_initialize_params, m.write_initialize_params),
    (m.read_initialize_result, m.write_initialize_result),
    (m.read_step_params, m.write_step_params),
    (m.read_step_result, m.write_step_result),
]


def check(data: bytes) -> None:
    try:
        raw = json.loads(data)
    except InvalidJSON:
        return
    for read, write in CODECS:
        try:
            value = read(raw)
        except RemoteProtocolError as fault:
            assert str(fault)
            continue
        written = json.loads(json.dumps(write(value)))
        assert read(written) == value
        assert write(read(written)) == written
    try:
        m.read_reset_result(raw)
    except RemoteProtocolError as fault:
        assert str(fault)


if __name__ == "__main__":
    main("ecp_messages", check)

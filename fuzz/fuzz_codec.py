"""Any message is read or refused with a DecodeError, as explained, and writes what it reads."""

from __future__ import annotations

from typing import Any, Literal

from runner import instrumented, main

with instrumented(__name__):
    from eca_protocol import json
    from eca_protocol.codec import Codec, explain
    from eca_protocol.endpoint import Method
    from eca_protocol.errors import DecodeError, InvalidJSON
    from eca_protocol.methods import ECA
    from eca_protocol.revisions import Revision

CODEC = Codec(ECA, Revision.CURRENT)


def check(data: bytes) -> None:
    """`data` is a message; one whose method is unknown is tried as each method there is."""
    try:
        message = json.loads(data)
    except InvalidJSON:
        return
    if not isinstance(message, dict):
        message = {"params": message}
    named = ECA.get(str(message.get("method")))
    for method in [named] if named else ECA:
        if "params" in message:
            check_part(method, "params", message["params"])
        if "result" in message:
            check_part(method, "result", message["result"])


def check_part(method: Method, part: Literal["params", "result"], raw: Any) -> None:
    decode = CODEC.decode_params if part == "params" else CODEC.decode_result
    encode = CODEC.encode_params if part == "params" else CODEC.encode_result
    refused = [
        departure
        for departure in explain(method.name, raw, Revision.CURRENT, part=part)
        if departure.refused
    ]
    try:
        value, place = decode(method.name, raw), None
    except DecodeError as refusal:
        value, place = None, refusal.path
    assert place == (refused[0].path if refused else None)
    if refused:
        return
    written = encode(method.name, value)
    assert encode(method.name, decode(method.name, written)) == written


if __name__ == "__main__":
    main("codec", check)

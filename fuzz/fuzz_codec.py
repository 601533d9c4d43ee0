"""Any message of any edition is read or refused as explained, and what is read can be written."""

from __future__ import annotations

from typing import Any, Literal

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.codec import Codec, explain
    from eca_protocol.draft.methods import DRAFT
    from eca_protocol.endpoint import Method
    from eca_protocol.errors import DecodeError, InvalidJSON, LocalProtocolError, RequestFailed
    from eca_protocol.methods import ECA
    from eca_protocol.revisions import Revision

CODECS = {
    b"6": Codec(DRAFT, Revision.DRAFT),
    b"9": Codec(ECA, Revision.R2025_09),
    b"0": Codec(ECA, Revision.R2025_10),
    b"c": Codec(ECA, Revision.CURRENT),
}
"""By the last digit of an edition's month; a message without one is of the current edition."""


def check(data: bytes) -> None:
    """Check `data`: an edition and a message; an unknown method is tried as each known one."""
    edition = data[:1] if data[:1] in CODECS else b"c"
    try:
        message = json.loads(data.removeprefix(edition))
    except InvalidJSON:
        return
    if not isinstance(message, dict):
        message = {"params": message}
    codec = CODECS[edition]
    table = DRAFT if edition == b"6" else ECA
    named = table.get(str(message.get("method")))
    for method in [named] if named else table:
        if "params" in message:
            check_part(codec, method, "params", message["params"])
        if "result" in message:
            check_part(codec, method, "result", message["result"])


def check_part(codec: Codec, method: Method, part: Literal["params", "result"], raw: Any) -> None:
    decode = codec.decode_params if part == "params" else codec.decode_result
    encode = codec.encode_params if part == "params" else codec.encode_result
    table = DRAFT if codec.revision is Revision.DRAFT else ECA
    refused = [
        departure
        for departure in explain(method.name, raw, codec.revision, part=part, table=table)
        if departure.refused
    ]
    try:
        value, place = decode(method.name, raw), None
    except DecodeError as refusal:
        value, place = None, refusal.path
    except RequestFailed:
        assert part == "result"  # an error in place of a result (ruling W-60)
        return
    assert place == (refused[0].path if refused else None)
    if refused:
        return
    try:
        written = encode(method.name, value)
    except LocalProtocolError:
        assert codec.revision is not Revision.CURRENT  # names of a later edition
        return
    assert encode(method.name, decode(method.name, written)) == written


if __name__ == "__main__":
    main("codec", check)

"""A draft client reads the same texts that a chat writes, and each turn ends once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol import messages as m
    from eca_protocol.codec import Codec
    from eca_protocol.draft.codec import DraftCodec
    from eca_protocol.errors import DecodeError, InvalidJSON
    from eca_protocol.methods import ECA
    from eca_protocol.revisions import Revision

CONTENT = "chat/contentReceived"
READER = Codec(ECA, Revision.R2025_10)


def check(data: bytes) -> None:
    """Check `data`: each line is a content of our server or, behind a `-`, of a draft server."""
    ours, theirs, stranger = DraftCodec(), DraftCodec(), DraftCodec()
    written = received = ""
    turns = ends = 0
    for line in data.split(b"\n"):
        if line.startswith(b"-"):
            read(stranger, line[1:])
            continue
        for content in contents(line):
            if content.role == "assistant" and isinstance(content.content, m.ChatTextContent):
                written += content.content.text
            turns += is_end(content)
            for each in relayed(ours, theirs, content):
                if each.role == "assistant" and isinstance(each.content, m.ChatTextContent):
                    received += each.content.text
                ends += is_end(each)
    assert ends == turns
    at = 0
    for character in written:  # system texts may be between the model's
        at = received.find(character, at) + 1
        assert at, f"{written!r} is not in {received!r}"


def contents(line: bytes) -> Iterator[m.ChatContentReceivedParams]:
    try:
        params = READER.decode_params(CONTENT, {"chatId": "c", **json.loads(line)})
    except (DecodeError, InvalidJSON, TypeError):
        return
    if params.chat_id == "c" and params.parent_chat_id is None:
        yield params


def is_end(params: m.ChatContentReceivedParams) -> bool:
    content = params.content
    return isinstance(content, m.ChatProgressContent) and content.state == "finished"


def relayed(
    ours: DraftCodec, theirs: DraftCodec, content: m.ChatContentReceivedParams
) -> Iterator[m.ChatContentReceivedParams]:
    """Write a content by a server and read it by a client."""
    for method, raw in ours.outgoing(CONTENT, content):
        over_the_wire: Any = json.loads(json.dumps(raw))
        for _, params in theirs.incoming(method, over_the_wire):
            yield params


def read(codec: DraftCodec, line: bytes) -> None:
    """Read any notification; October can write the result, or it is refused."""
    with contextlib.suppress(DecodeError, InvalidJSON):
        for method, params in codec.incoming(CONTENT, json.loads(line)):
            READER.encode_params(method, params)


if __name__ == "__main__":
    main("draft", check)

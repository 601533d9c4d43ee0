"""What a chat says is heard by a draft client in the same words, and each turn ends once."""

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
    """A line is what a server says of its chat or, behind a `-`, what a draft server sends."""
    ours, theirs, stranger = DraftCodec(), DraftCodec(), DraftCodec()
    said = heard = ""
    turns = ends = 0
    for line in data.split(b"\n"):
        if line.startswith(b"-"):
            read(stranger, line[1:])
            continue
        for content in contents(line):
            if content.role == "assistant" and isinstance(content.content, m.ChatTextContent):
                said += content.content.text
            turns += is_end(content)
            for told in relayed(ours, theirs, content):
                if told.role == "assistant" and isinstance(told.content, m.ChatTextContent):
                    heard += told.content.text
                ends += is_end(told)
    assert ends == turns
    at = 0
    for character in said:  # the server's own words stand between the model's
        at = heard.find(character, at) + 1
        assert at, f"{said!r} is not told in {heard!r}"


def contents(line: bytes) -> Iterator[m.ChatContentReceivedParams]:
    try:
        params = READER.decode_params(CONTENT, {"chatId": "c", **json.loads(line)})
    except (DecodeError, InvalidJSON, TypeError):
        return
    if params.chat_id == "c" and params.parent_chat_id is None:
        yield params


def is_end(told: m.ChatContentReceivedParams) -> bool:
    return isinstance(told.content, m.ChatProgressContent) and told.content.state == "finished"


def relayed(
    ours: DraftCodec, theirs: DraftCodec, content: m.ChatContentReceivedParams
) -> Iterator[m.ChatContentReceivedParams]:
    """One content, told by a server and heard by a client."""
    for method, raw in ours.outgoing(CONTENT, content):
        over_the_wire: Any = json.loads(json.dumps(raw))
        for _, told in theirs.incoming(method, over_the_wire):
            yield told


def read(codec: DraftCodec, line: bytes) -> None:
    """A notification of anybody's: read as what October can write, or refused."""
    with contextlib.suppress(DecodeError, InvalidJSON):
        for method, told in codec.incoming(CONTENT, json.loads(line)):
            READER.encode_params(method, told)


if __name__ == "__main__":
    main("draft", check)

"""What a chat says is heard by a draft client in the same words, and each turn ends once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol import messages as m
    from eca_protocol.codec import Codec
    from eca_protocol.draft.codec import DraftCodec
    from eca_protocol.errors import DecodeError, InvalidJSON, LocalProtocolError
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
            hear(stranger, line[1:])
            continue
        for content in contents(line):
            if content.role == "assistant" and isinstance(content.content, m.ChatTextContent):
                said += content.content.text
            turns += content.content == m.ChatProgressContent(state="finished")
            for told in relayed(ours, theirs, content):
                if told.role == "assistant" and isinstance(told.content, m.ChatTextContent):
                    heard += told.content.text
                ends += told.content == m.ChatProgressContent(state="finished")
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
    is_finish = getattr(params.content, "state", None) == "finished"
    if params.chat_id == "c" and params.parent_chat_id is None:
        if is_finish:
            params = m.ChatContentReceivedParams(
                chat_id="c", role="system", content=m.ChatProgressContent(state="finished")
            )
        yield params


def relayed(
    ours: DraftCodec, theirs: DraftCodec, content: m.ChatContentReceivedParams
) -> Iterator[m.ChatContentReceivedParams]:
    """One content, told by a server and heard by a client."""
    for method, raw in ours.outgoing(CONTENT, content):
        over_the_wire: Any = json.loads(json.dumps(raw))
        for _, told in theirs.incoming(method, over_the_wire):
            yield told


def hear(codec: DraftCodec, line: bytes) -> None:
    """A notification of anybody's: read as what October can write, or refused."""
    try:
        raw = json.loads(line)
        for method, told in codec.incoming(CONTENT, raw):
            READER.encode_params(method, told)
    except (DecodeError, InvalidJSON):
        pass
    except LocalProtocolError as fault:
        assert "too deep" in str(fault), fault


if __name__ == "__main__":
    main("draft", check)

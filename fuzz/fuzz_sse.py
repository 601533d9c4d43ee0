"""The events and the error of a stream are the same for any size of chunks, and round-trip."""

from __future__ import annotations

from collections.abc import Iterable

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.errors import RemoteProtocolError
    from eca_protocol.sse import SSEDecoder, SSEvent, encode_event


def decoded(pieces: Iterable[bytes], max_event: int) -> list[SSEvent | str]:
    """Return the events, then the error, if any."""
    decoder = SSEDecoder(max_event=max_event)
    output: list[SSEvent | str] = []
    try:
        for piece in pieces:
            output += decoder.feed(piece)
        output += decoder.close()
    except RemoteProtocolError as fault:
        output.append(str(fault))
    return output


def check(data: bytes) -> None:
    for max_event in (2**20, 16):
        whole = decoded([data], max_event)
        assert decoded(bytewise(data), max_event) == whole
        assert decoded(cut(data), max_event) == whole
    for event in decoded([data], 2**20):
        assert isinstance(event, SSEvent)
        stream = encode_event(event.data, event=event.event, id=event.id)
        (again,) = decoded([stream], 2**20)
        assert isinstance(again, SSEvent)
        assert (again.data, again.event, again.id) == (event.data, event.event, event.id)


if __name__ == "__main__":
    main("sse", check)

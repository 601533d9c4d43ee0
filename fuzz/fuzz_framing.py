"""The frames and errors of a stream are the same for any size of chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.framing import (
        ContentLengthDecoder,
        FrameDecoder,
        FrameError,
        Frames,
        LineDecoder,
        encode_frame,
        encode_line,
    )

DECODERS: list[Callable[[], FrameDecoder]] = [
    ContentLengthDecoder,
    lambda: ContentLengthDecoder(max_body=20, max_header=64, max_skip=200),
    LineDecoder,
    lambda: LineDecoder(max_line=10),
]


def decoded(decoder: FrameDecoder, pieces: Iterable[bytes]) -> Frames:
    output: Frames = []
    for piece in pieces:
        if decoder.closed:
            break
        output += decoder.feed(piece)
    assert not any(isinstance(item, FrameError) and item.fatal for item in output[:-1])
    output += decoder.feed_eof()
    assert decoder.closed
    return output


def check(data: bytes) -> None:
    for make in DECODERS:
        whole = decoded(make(), [data])
        assert decoded(make(), bytewise(data)) == whole
        assert decoded(make(), cut(data)) == whole
        bodies = [item for item in whole if isinstance(item, bytes)]
        assert sum(map(len, bodies)) <= len(data)
        headed = b"".join(map(encode_frame, bodies))
        assert decoded(ContentLengthDecoder(), cut(headed)) == bodies
        for body in bodies:
            if body.strip(b" \t") and not set(body) & set(b"\r\n"):
                assert decoded(LineDecoder(), [encode_line(body)]) == [body]


if __name__ == "__main__":
    main("framing", check)

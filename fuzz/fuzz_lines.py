"""Lines and their errors are the same for any size of chunks; reading inverts writing."""

from __future__ import annotations

from collections.abc import Iterable

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.framing import FrameError, Frames, LineDecoder, encode_line


def decoded(pieces: Iterable[bytes], max_line: int) -> Frames:
    decoder = LineDecoder(max_line=max_line)
    output: Frames = []
    for piece in pieces:
        output += decoder.feed(piece)
    output += decoder.feed_eof()
    assert decoder.closed
    return output


def check(data: bytes) -> None:
    for max_line in (2**20, 10):
        whole = decoded([data], max_line)
        assert decoded(bytewise(data), max_line) == whole
        assert decoded(cut(data), max_line) == whole
        lines = [item for item in whole if isinstance(item, bytes)]
        faults = [item for item in whole if isinstance(item, FrameError)]
        assert not any(fault.fatal for fault in faults)
        assert all(len(line) <= max_line and line.strip(b" \t") for line in lines)
        assert sum(map(len, lines)) + len(faults) * (max_line + 1) <= len(data)
        single_lines = [line for line in lines if not set(line) & set(b"\r\n")]
        assert decoded(cut(b"".join(map(encode_line, single_lines))), max_line) == single_lines


if __name__ == "__main__":
    main("lines", check)

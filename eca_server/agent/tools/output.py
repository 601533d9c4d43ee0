"""The caps of tool outputs, and the mark of a cut (ruling W-38).

The rule of this module: the stored part of an output is limited from the first byte on, and the
number of omitted bytes is reported. Sizes are bytes of UTF-8. A text is cut at a line end if one is
near, and never inside a character.
"""

from __future__ import annotations

import attrs

from eca_server.config.tool_settings import OutputTruncation


@attrs.frozen(kw_only=True)
class Cap:
    """The limit of an output: `toolCall.outputTruncation`.

    Attributes:
        size: the maximum number of bytes, without the mark.
    """

    lines: int = 2000
    size: int = 50 * 1024

    @classmethod
    def of(cls, limits: OutputTruncation) -> Cap:
        """Return the configured limit."""
        return cls(lines=limits.lines, size=limits.size_kb * 1024)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def cut_mark(left_out: int, hint: str = "") -> str:
    """Return the mark of a cut of `left_out` bytes; `hint` says how to get them."""
    mark = f"... cut, {left_out} bytes left out ..."
    return f"{mark} ({hint})" if hint else mark


def cut_end(text: str, cap: Cap, *, hint: str = "") -> str:
    """Return a text that fits the cap, or its beginning and the mark."""
    data = text.encode("utf-8", "surrogatepass")
    if _fits(data, cap):
        return text
    head = _head(data, cap)
    return _joined(_decoded(head, "surrogatepass"), cut_mark(len(data) - len(head), hint))


def cut_middle(text: str, cap: Cap) -> str:
    """Return a text that fits the cap, or its beginning and end with the mark between them."""
    data = text.encode("utf-8", "surrogatepass")
    if _fits(data, cap):
        return text
    head = _head(data, _first_half(cap))
    tail = _tail(data[len(head) :], _second_half(cap))
    mark = cut_mark(len(data) - len(head) - len(tail))
    return _joined(_decoded(head, "surrogatepass"), f"{mark}\n{_decoded(tail, 'surrogatepass')}")


class OutputBuffer:
    """A buffer of the beginning and the end of a byte stream of any length."""

    def __init__(self, cap: Cap) -> None:
        self._cap = cap
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0
        self.lines = 0

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self.size += len(data)
        self.lines += data.count(b"\n")
        free = self._cap.size - len(self._head)
        self._head += data[:free]
        rest = data[max(free, 0, len(data) - self._cap.size) :]
        if len(self._tail) + len(rest) > 2 * self._cap.size:
            del self._tail[: max(len(self._tail) - self._cap.size, 0)]
        self._tail += rest

    def text(self, cap: Cap | None = None, *, hint: str = "") -> str:
        """Return the stored text within the buffer's own cap or a smaller one.

        Each byte that is not UTF-8 becomes U+FFFD, so the text may be up to three times as long as
        the cap's size.
        """
        cap = cap or self._cap
        whole = self.size == len(self._head)
        if whole and _fits(bytes(self._head), cap):
            return _decoded(self._head, "replace")
        head = _head(bytes(self._head), _first_half(cap))
        tail = _tail(bytes(self._head[len(head) :]) + bytes(self._tail), _second_half(cap))
        mark = cut_mark(self.size - len(head) - len(tail), hint)
        return _joined(_decoded(head, "replace"), f"{mark}\n{_decoded(tail, 'replace')}")


def _fits(data: bytes, cap: Cap) -> bool:
    return len(data) <= cap.size and _lines(data) <= cap.lines


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n") and data != b"")


def _first_half(cap: Cap) -> Cap:
    return Cap(lines=(cap.lines + 1) // 2, size=(cap.size + 1) // 2)


def _second_half(cap: Cap) -> Cap:
    return Cap(lines=cap.lines // 2, size=cap.size // 2)


def _head(data: bytes, cap: Cap) -> bytes:
    """Return the longest beginning within the cap, cut at a line end in its second half."""
    end = 0
    for _ in range(cap.lines):
        end = data.find(b"\n", end, cap.size) + 1
        if not end:
            break
    else:
        return data[:end]
    if len(data) <= cap.size:
        return data
    line_end = data.rfind(b"\n", 0, cap.size) + 1
    if line_end * 2 > cap.size:
        return data[:line_end]
    return data[: _character_start(data, cap.size)]


def _tail(data: bytes, cap: Cap) -> bytes:
    """Return the longest end within the cap, cut at a line start in its first half."""
    first = max(len(data) - cap.size, 0)
    start = len(data) - data.endswith(b"\n")
    for _ in range(cap.lines):
        start = data.rfind(b"\n", first, max(start, 0))
        if start < 0:
            break
    else:
        return data[start + 1 :]
    if not first:
        return data
    line_start = data.find(b"\n", first - 1) + 1
    if line_start and (len(data) - line_start) * 2 > cap.size:
        return data[line_start:]
    for start in range(first, first + 4):
        if start == len(data) or not _continues(data[start]):
            return data[start:]
    return data[first:]


def _character_start(data: bytes, position: int) -> int:
    """Return the start of the character at a position, or the position if none is near."""
    for start in range(position, max(position - 4, -1), -1):
        if not _continues(data[start]):
            return start
    return position


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _decoded(data: bytes | bytearray, errors: str) -> str:
    return data.decode("utf-8", errors)


def _joined(before: str, after: str) -> str:
    return f"{before}{after}" if before.endswith("\n") or not before else f"{before}\n{after}"

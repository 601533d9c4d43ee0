"""Scenarios with frames and JSON that a client has to read in any spelling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from eca_protocol import json
from eca_protocol.testing.conformance.client.harness import ClientHarness, Scenario, scenarios_in
from eca_protocol.testing.conformance.client.scripted_server import DECISIONS

__all__ = ["SCENARIOS"]


class HeadersInLowerCase(Scenario, rows="BASE-5"):
    """Every header's name is in lower case, with blanks around its value."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        body = json.dumps(message)
        yield b"content-length:   %d  \r\n\r\n%b" % (len(body), body)


class ContentTypeNamesUTF8(Scenario, rows="BASE-14"):
    """Every frame has a Content-Type, with the charset in one of its spellings."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        body = json.dumps(message)
        charset = (b"utf-8", b"utf8", b'"UTF-8"')[len(self.record) % 3]
        kind = b"application/vscode-jsonrpc; charset=" + charset
        yield b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (kind, len(body), body)


class OtherHeaders(Scenario, rows="BASE-11"):
    """Every frame has unknown headers, before and after its length."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        body = json.dumps(message)
        yield b"X-One: 1\r\nContent-Length: %d\r\nX-Two: 2\r\n\r\n%b" % (len(body), body)


class FramesInPieces(Scenario, rows="BASE-2"):
    """Every frame is written byte by byte."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        frame = b"".join(super().frames(message))
        yield from (frame[place : place + 1] for place in range(len(frame)))


class TextsOfManyBytes(Scenario, rows="BASE-6"):
    """Texts have characters of two, three and four bytes."""

    async def text(self, chat_id: str, text: str) -> None:
        await super().text(chat_id, f"{text} Grüße, 世界 🎉")

    async def after_greeting(self) -> None:
        await self.notify("$/showMessage", {"type": "info", "message": "Grüße, 世界 🎉" * 20})


class LongMessages(Scenario, rows="BASE-2"):
    """A message is longer than any pipe holds at once."""

    async def after_greeting(self) -> None:
        await self.notify("$/showMessage", {"type": "info", "message": "long " * 60_000})


class AMessageForTheUser(Scenario, rows="W-15d"):
    """The server sends the notification `$/showMessage`."""

    async def after_greeting(self) -> None:
        await self.notify("$/showMessage", {"type": "warning", "message": "Look here."})


class HalfASurrogatePair(Scenario, rows="W-5b", triggers=("chat/prompt",)):
    """A text holds the escape of half a surrogate pair."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        body = json.dumps(message).replace(b"Hello, ", rb"Hello\ud83d, ")
        yield b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class LongIntegers(Scenario, rows="W-5c", triggers=DECISIONS):
    """A call's arguments hold an integer of 400 digits."""

    async def call(self, chat_id: str, **details: Any) -> None:
        await super().call(chat_id, arguments={"long": 10**400})


class EqualKeys(Scenario, rows="W-5e"):
    """An object has a key twice."""

    async def after_greeting(self) -> None:
        body = (
            b'{"jsonrpc":"2.0","method":"$/none","method":"$/showMessage",'
            b'"params":{"type":"info","message":"one","message":"two"}}'
        )
        await self.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


class DeepNesting(Scenario, rows="W-5g", triggers=DECISIONS):
    """A call's arguments hold 100 arrays, one inside the other."""

    async def call(self, chat_id: str, **details: Any) -> None:
        nested: list[Any] = []
        for _ in range(100):
            nested = [nested]
        await super().call(chat_id, arguments={"deep": nested})


_NO_MESSAGES = (
    ("BASE-23", -32700, b"{no json"),
    ("BASE-24", -32600, b'{"jsonrpc":"2.0","what":"ever"}'),
    ("BASE-28", -32600, b'[{"jsonrpc":"2.0","id":"b","method":"editor/getDiagnostics"}]'),
    ("BASE-16", -32600, b'{"jsonrpc":"1.0","id":"v","method":"conformance/unknown"}'),
    ("BASE-20", -32600, b'{"jsonrpc":"2.0","id":[1],"method":"conformance/unknown"}'),
    ("BASE-21", -32600, b'{"jsonrpc":"2.0","id":"m","method":7}'),
    ("W-5d", -32700, b'{"jsonrpc":"2.0","method":"$/conformance","params":{"x":NaN}}'),
)


class WhatIsNoMessage(Scenario, rows=" ".join([*(row for row, _, _ in _NO_MESSAGES), "BASE-15"])):
    """Bodies that are no message get an error, and the stream continues."""

    codes: Mapping[str, object] = MappingProxyType({})

    async def after_greeting(self) -> None:
        for row, _, body in _NO_MESSAGES:
            await self._try(row, b"", body)
        header = b"Content-Type: application/json; charset=utf-16\r\n"
        await self._try("BASE-15", header, "{}".encode("utf-16"))

    async def _try(self, row: str, headers: bytes, body: bytes) -> None:
        self.codes = {**self.codes, row: None}
        before = len(self._errors())
        await self.write(b"%bContent-Length: %d\r\n\r\n%b" % (headers, len(body), body))
        if await self.until_answered(lambda: len(self._errors()) > before):
            self.codes = {**self.codes, row: self._errors()[-1]}

    def _errors(self) -> list[object]:
        messages = [entry.message for entry in self.record if entry.side == "client"]
        errors = [message["error"] for message in messages if "error" in message]
        return [error.get("code") for error in errors if isinstance(error, dict)]

    def judge(self, harness: ClientHarness) -> None:
        expected_codes = {row: code for row, code, _ in _NO_MESSAGES} | {"BASE-15": -32600}
        for row, code in self.codes.items():
            accepted = {expected_codes[row], -32700} if row == "BASE-15" else {expected_codes[row]}
            expected = f"the error {expected_codes[row]} with id null"
            got = f"no answer; {harness.run.exit_description}" if code is None else None
            harness.check(row, code in accepted, expected, got or f"an error {code!r}")


_NOTHING = b'{"jsonrpc":"2.0","method":"$/conformance"}'
"""A message that a client ignores, and so reads without an error, if it takes the header."""


class _LostStream(Scenario):
    """A header that leaves open where the next message begins."""

    header: ClassVar[bytes]
    payload: ClassVar[bytes] = _NOTHING
    was_sent: bool = False
    was_ignored: bool = False
    """True if the connection went on; its end, which ends this task too, leaves it False."""

    async def after_greeting(self) -> None:
        await self.write(b"%b\r\n\r\n%b" % (self.header, self.payload))
        self.was_sent = True
        self.was_ignored = not await self.until_answered(
            lambda: any(each.side == "client" and "error" in each.message for each in self.record)
        )

    def judge(self, harness: ClientHarness) -> None:
        for row in self.rows if self.was_sent else ():
            expected = "an error with id null, or the end of the connection"
            got = "neither" if self.was_ignored else "an error or the end"
            harness.check(row, not self.was_ignored, expected, got)


class NoLength(_LostStream, rows="BASE-7"):
    """A header block has no Content-Length."""

    header: ClassVar[bytes] = b"X-Length: 2"
    payload = b""


class StrangeLength(_LostStream, rows="BASE-8"):
    """A length is no plain decimal number."""

    header: ClassVar[bytes] = b"Content-Length: +%d" % len(_NOTHING)


class TwoLengths(_LostStream, rows="BASE-9"):
    """A header block has two different lengths."""

    header: ClassVar[bytes] = b"Content-Length: %d\r\nContent-Length: %d" % (
        len(_NOTHING),
        len(_NOTHING) + 1,
    )
    payload = _NOTHING + b"\n"


class StrangeHeaderBytes(_LostStream, rows="BASE-12"):
    """A header holds bytes that are not ASCII."""

    header: ClassVar[bytes] = b"Content-Length: %d\r\nX-Gr\xc3\xb6\xc3\x9fe: 2" % len(_NOTHING)


SCENARIOS = scenarios_in(globals())

"""Mutants of frames, JSON and JSON-RPC."""

from collections.abc import Iterator
from typing import Any

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.connection import NOTIFICATIONS
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.wire import INVALID_JSON, Fault, Wire

Message = dict[str, Any]


@breaks("W-1", "Writes `content-length`.")
class LowerCaseHeaders(Wire):
    def header(self, length: int) -> bytes:
        return super().header(length).lower()


@breaks("W-1", "Writes a second header.")
class ContentTypeWritten(Wire):
    def header(self, length: int) -> bytes:
        return b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\n" + super().header(
            length
        )


@breaks("W-1", "Puts a byte order mark before each body.")
class ByteOrderMark(Wire):
    def body(self, message: Message) -> bytes:
        return b"\xef\xbb\xbf" + super().body(message)


@breaks("BASE-6", "Takes the number of characters for the length of a message that is not ASCII.")
class CountsCharacters(Wire):
    def body(self, message: Message) -> bytes:
        content = message.get("params", {}).get("content", {})
        if content.get("text") != "Calling tool":
            return super().body(message)
        body = super().body(message).replace(b"Calling tool", "Calling tool…".encode())
        return body[: len(body.decode())]


@breaks("BASE-1", "Refuses a query for a chat whose turn runs.")
class BusyChatsAreNotAskedAbout(Server):
    def query_context(self, params: Params) -> Any:
        chat = self.chats.get(params.text("chatId"))
        if chat is not None and chat.turn is not None:
            raise Fault(-32603, "the chat is busy")
        return super().query_context(params)


@breaks("BASE-5", "Knows `Content-Length` in this one spelling.")
class CaseOfHeadersMatters(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        if not any(line.startswith(b"Content-Length:") for line in lines):
            raise Fault(INVALID_JSON, "expected Content-Length", fatal=True)
        return super().read_header(lines)


@breaks("BASE-7", "Reads a header without a length as that of an empty body, and drops it.")
class LengthMayBeMissing(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        if not any(line.lower().startswith(b"content-length") for line in lines):
            lines = [*lines, b"Content-Length: 0"]
        return super().read_header(lines)


@breaks("BASE-8", "Reads signs and hexadecimal digits as lengths.")
class AnyNumberIsALength(Wire):
    def read_length(self, value: bytes) -> int:
        try:
            return abs(int(value, 0))
        except ValueError:
            return super().read_length(value)


@breaks("BASE-9", "Takes the last of two lengths.")
class LastLengthCounts(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        lengths = [line for line in lines if line.lower().startswith(b"content-length")]
        return super().read_header([line for line in lines if line not in lengths[:-1]])


@breaks("BASE-10", "Wants a Content-Type in every header once one had it.")
class OnceTypedAlwaysTyped(Wire):
    is_typed = False

    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        length, complaint = super().read_header(lines)
        has_type = any(line.lower().startswith(b"content-type") for line in lines)
        if self.is_typed and not has_type:
            complaint = Fault(INVALID_JSON, "expected Content-Type")
        self.is_typed = self.is_typed or (has_type and complaint is None)
        return length, complaint


@breaks("BASE-11", "Knows two headers and refuses all others.")
class OtherHeadersAreFatal(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        if not all(line.lower().startswith(b"content-") for line in lines):
            raise Fault(INVALID_JSON, "expected no other header", fatal=True)
        return super().read_header(lines)


@breaks("BASE-12", "Reads headers that are no ASCII.")
class OddHeadersAreFine(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        return super().read_header([line for line in lines if line.isascii()])


@breaks("BASE-14", "Knows `charset=utf-8` without quotes, in lower case, and nothing else.")
class CharsetMustBeSpeltSo(Wire):
    def read_header(self, lines: list[bytes]) -> tuple[int, Fault | None]:
        length, complaint = super().read_header(lines)
        for line in lines:
            if b"charset" in line.lower() and b"charset=utf-8" not in line:
                complaint = Fault(INVALID_JSON, "expected charset=utf-8")
        return length, complaint


@breaks("BASE-15", "Reads every charset as if it were UTF-8.")
class AnyCharset(Wire):
    def complain(self, text: str) -> Fault | None:
        return None if "charset" in text else super().complain(text)


@breaks("BASE-15", "Ends the stream for another charset.")
class CharsetIsFatal(Wire):
    def complain(self, text: str) -> Fault | None:
        if "charset" in text:
            raise Fault(INVALID_JSON, text, fatal=True)
        return super().complain(text)


@breaks("BASE-18", "Answers notifications, with id null.")
class AnswersNotifications(Server):
    def notice(self, method: str, params: Any) -> None:
        super().notice(method, params)
        if self.is_introduced and method == "chat/promptStop":
            self.write({"jsonrpc": "2.0", "id": None, "result": None})


@breaks("BASE-25", "Answers unknown requests with null.")
class UnknownIsNull(Server):
    def refuse_unknown(self, method: str) -> None:
        return None


@breaks("BASE-30", "Answers an answer that it does not wait for.")
class OddAnswersAreFaults(Server):
    def take_answer(self, message: Message) -> None:
        if message.get("id") not in self._asked:
            raise Fault(-32600, "expected no such answer")
        super().take_answer(message)


@breaks("W-2b", "Takes a request with the id 0 for one without.")
class ZeroIsNoId(Server):
    def check(self, message: Any) -> tuple[Any, bool]:
        id_, has_id = super().check(message)
        return id_, has_id and id_ != 0


@breaks("W-2c", "Serves a request whose id another one has that still runs.")
class PendingIdsAreFree(Server):
    def check(self, message: Any) -> tuple[Any, bool]:
        pending, self._pending = self._pending, {}
        try:
            return super().check(message)
        finally:
            self._pending = pending


@breaks("W-4c", "Answers an unknown notification with an error.")
class UnknownNotificationsAreErrors(Server):
    def notice(self, method: str, params: Any) -> None:
        if method not in NOTIFICATIONS:
            self.fail(Fault(-32601, f"there is no method {method}"))
        super().notice(method, params)


@breaks("BASE-2", "Drops the first byte of a header if it comes alone.")
class HeadersComeWhole(Wire):
    def feed(self, data: bytes) -> Iterator[Any]:
        yield from super().feed(data)
        if self._length is None and len(data) == len(self._buffer) == 1:
            self._buffer.clear()


@breaks("BASE-29", "Takes the client's answers in the order of the requests, whatever their ids.")
class AnswersAreTakenInTurn(Server):
    def take_answer(self, message: Message) -> None:
        waiting = [id_ for id_, (answered, _) in self._asked.items() if not answered.is_set()]
        if waiting:
            super().take_answer({**message, "id": waiting[0]})

"""Mutants of what is JSON and what is a message."""

import json
import re
from typing import Any

from eca_protocol.errors import InvalidJSON
from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.wire import INVALID_JSON, Fault, Wire

Message = dict[str, Any]


@breaks("W-5a", "Reads bodies in UTF-16, as the standard library does.")
class GuessesUTF16(Wire):
    def decode(self, body: bytes) -> Any:
        if b"\0" in body:
            return super().decode(body.decode(json.detect_encoding(body)).encode())
        return super().decode(body)


@breaks("W-5d", "Reads NaN and Infinity, as the standard library does.")
class ReadsNaN(Wire):
    def decode(self, body: bytes) -> Any:
        if b"NaN" in body or b"Infinity" in body:
            return json.loads(body)
        return super().decode(body)


@breaks("W-5e", "Takes the first of duplicate keys.")
class FirstKeyCounts(Wire):
    def decode(self, body: bytes) -> Any:
        super().decode(body)
        value = json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
        return super().decode(json.dumps(value).encode())


@breaks("W-5g", "Reads 64 levels.")
class ShallowReader(Wire):
    def decode(self, body: bytes) -> Any:
        value = super().decode(body)
        if body.count(b"[") > 64:
            raise Fault(INVALID_JSON, "too deep")
        return value


@breaks("BASE-20", "Takes true as an id.")
class TrueIsAnId(Server):
    def check(self, message: Any) -> tuple[Any, bool]:
        if isinstance(message, dict) and message.get("id") is True:
            return True, True
        return super().check(message)


@breaks("BASE-13", "Takes the first of two messages in one body.")
class FirstMessageCounts(Wire):
    def decode(self, body: bytes) -> Any:
        try:
            return super().decode(body)
        except InvalidJSON as error:
            if "Extra data" not in str(error):
                raise
            return json.JSONDecoder().raw_decode(body.decode())[0]


@breaks("W-5b", "Refuses half a surrogate pair.")
class HalfPairsAreRefused(Wire):
    def decode(self, body: bytes) -> Any:
        try:
            json.dumps(json.loads(body), ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise Fault(INVALID_JSON, "expected whole characters") from error
        except ValueError:
            pass
        return super().decode(body)


@breaks("W-5c", "Refuses integers that a machine's word does not hold.")
class LongNumbersAreRefused(Wire):
    def decode(self, body: bytes) -> Any:
        if re.search(rb"[1-9][0-9]{100}", body):
            raise Fault(INVALID_JSON, "expected a shorter number")
        return super().decode(body)

"""Mutants of frames, JSON and JSON-RPC, by the row that they break."""

import json as stdlib_json
import re
from typing import Any

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    Out,
    args,
    at,
    called,
    change,
    drop,
    error,
    granted,
    is_busy,
    method_of,
    only,
    put,
    refuse,
    result,
    then,
    twice,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import register_filters
from tests.eca_protocol.testing.conformance.reference.connection import NOTIFICATIONS, REQUESTS
from tests.eca_protocol.testing.conformance.reference.wire import INVALID_JSON

Message = dict[str, Any]

BODY = at("body")
HEADER = at("header")
FOREIGN = b"Content-Type: text/plain; charset=none"
WRITTEN_HEADER = at("frame", lambda data: data.startswith(b"Content-Length"))
PROMPT_ANSWER = result("chat/prompt")


def has_line(start: bytes) -> Any:
    """Make a test of whether a header has a line that begins with this."""
    return lambda lines: any(line.startswith(start) for line in lines)


def in_lower_case(test: Any) -> Any:
    return lambda lines: test([line.lower() for line in lines])


def has_foreign_charset(lines: list[bytes]) -> bool:
    return any(re.search(rb"charset(?!=\"?utf-?8)", line) for line in lines)


def in_characters(body: bytes) -> bytes:
    """Cut a body to as many bytes as it has characters, one of which is not ASCII."""
    body = body.replace(b'"Calling tool"', '"Calling tool…"'.encode())
    return body[: len(body.decode())]


def in_decimals(line: bytes) -> bytes:
    """Write a length that is no decimal number as one."""
    name, _, value = line.partition(b":")
    try:
        return b"%s: %d" % (name, abs(int(value, 0)))
    except ValueError:
        return line


def last_length(lines: list[bytes]) -> list[bytes]:
    lengths = [line for line in lines if line.lower().startswith(b"content-length")]
    return [line for line in lines if line not in lengths[:-1]]


def typed_from_now_on(lines: list[bytes], server: Filtered) -> list[bytes]:
    """Let a header without a type fail once one had it."""
    if not in_lower_case(has_line(b"content-type"))(lines):
        return [*lines, *server.notes.get("needed", ())]
    if not in_lower_case(has_foreign_charset)(lines):
        server.notes["needed"] = [FOREIGN]
    return lines


def comes_first(data: bytes, server: Filtered) -> bool:
    """Return whether bytes come in front of a message."""
    return server._wire._length is None and not server._wire._buffer


def first_keys(body: bytes) -> bytes:
    """Write the first of duplicate keys last."""
    try:
        json.loads(body)
    except InvalidJSON:
        return body
    pairs = stdlib_json.loads(body, object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    return stdlib_json.dumps(pairs).encode()


def first_message(body: bytes) -> bytes:
    """Cut off what follows the first value of a body."""
    try:
        json.loads(body)
    except InvalidJSON as error:
        if "Extra data" in str(error):
            text = body.decode()
            return text[: stdlib_json.JSONDecoder().raw_decode(text)[1]].encode()
    return body


def has_odd_method(message: Any) -> bool:
    """Return whether the method of a message is no text."""
    return isinstance(message, dict) and not isinstance(message.get("method", ""), str)


def is_no_message(message: Any) -> bool:
    """Return whether a body is no message and no batch."""
    return message in ({}, {"jsonrpc": "2.0"}) or not isinstance(message, dict | list)


def is_answer(message: Any) -> bool:
    return isinstance(message, dict) and "method" not in message and "result" in message


def is_unknown_notification(message: Any) -> bool:
    known = {"", *REQUESTS, *NOTIFICATIONS}
    return method_of(message) not in known and "id" not in message


def unanswered(server: Filtered) -> list[str]:
    """Return the ids of the server's requests that wait for an answer."""
    return [id_ for id_, (event, _) in server._own_requests.items() if not event.is_set()]


def has_id(id_: Any) -> Any:
    """Make a test of whether a message has this id, of this type."""
    return lambda m: isinstance(m, dict) and repr(m.get("id")) == repr(id_)


def chat_capability(params: dict[str, Any]) -> Any:
    """Return the capability to chat, if the params of `initialize` have their usual types."""
    for name in ("capabilities", "codeAssistant", "chat"):
        params = params.get(name) if isinstance(params, dict) else None
    return params


MUTANTS = {
    # frames
    "W-1: in lower case": Filter(WRITTEN_HEADER, bytes.lower),
    "W-1: a byte order mark": Filter(
        at("frame", lambda data: data[:1] == b"{"), lambda body: b"\xef\xbb\xbf" + body
    ),
    "BASE-6": Filter(at("frame", lambda data: b'"text": "Calling tool"' in data), in_characters),
    "BASE-2": Filter(
        at("chunk", lambda data: len(data) == 1).when(comes_first),
        drop,
    ),
    "BASE-5": Filter(
        at("header", lambda lines: not has_line(b"Content-Length:")(lines)),
        refuse("expected Content-Length", INVALID_JSON, fatal=True),
    ),
    "BASE-7": Filter(
        at("header", lambda lines: not in_lower_case(has_line(b"content-length"))(lines)),
        lambda lines: [*lines, b"Content-Length: 0"],
    ),
    "BASE-8": Filter(HEADER, lambda lines: [*map(in_decimals, lines)]),
    "BASE-9": Filter(HEADER, last_length),
    "BASE-10": Filter(HEADER, Knowing(typed_from_now_on)),
    "BASE-11": Filter(
        at("header", lambda lines: not all(x.lower().startswith(b"content-") for x in lines)),
        refuse("expected no other header", INVALID_JSON, fatal=True),
    ),
    "BASE-12": Filter(HEADER, only(bytes.isascii)),
    "BASE-14": Filter(
        at("header", lambda lines: any(re.search(rb"(?i)charset(?!=utf-8)", x) for x in lines)),
        lambda lines: [*lines, FOREIGN],
    ),
    "BASE-15": Filter(HEADER, only(lambda line: b"charset" not in line.lower())),
    # bodies
    "W-5a": Filter(
        at("body", lambda body: b"\0" in body),
        lambda body: body.decode(stdlib_json.detect_encoding(body)).encode(),
    ),
    "W-5d": Filter(BODY, lambda body: re.sub(rb"-?(NaN|Infinity)", b"0", body)),
    "W-5e": Filter(BODY, first_keys),
    "W-5g": Filter(
        at("body", lambda body: body.count(b"[") > 64), refuse("too deep", INVALID_JSON)
    ),
    "BASE-13": Filter(BODY, first_message),
    "W-5b": Filter(
        at("body", re.compile(rb"(?i)\\ud[89ab]..(?!\\ud[c-f])").search),
        refuse("expected whole characters", INVALID_JSON),
    ),
    "W-5c": Filter(
        at("body", re.compile(rb"[1-9][0-9]{100}").search),
        refuse("expected a shorter number", INVALID_JSON),
    ),
    "W-5c: as floats": Filter(
        at("written", lambda m: isinstance(m.get("id"), int) and "method" not in m),
        change(id=lambda number: int(float(number)) if abs(number) < 2**100 else number),
    ),
    # JSON-RPC
    "BASE-17: twice": Filter(PROMPT_ANSWER, twice),
    "BASE-17: never": Filter(result("chat/delete"), drop),
    "BASE-1": Filter(called("chat/queryContext").when(is_busy), refuse("the chat is busy", -32603)),
    "BASE-19": Filter(at("written", lambda m: "error" in m), change(error=without("message"))),
    "W-2a": Filter(at("written", lambda m: "result" in m), put(error=None)),
    "W-2b: as text": Filter(at("written", lambda m: "method" not in m), change(id=str)),
    "W-2b: 0 is none": Filter(at("received", has_id(0)), without("id")),
    "BASE-20": Filter(
        at("received", has_id(True)),
        put(id="true"),
        also=(at("written", has_id("true")), put(id=True)),
    ),
    "W-2c": Filter(error(-32600, "is pending").whole, granted({})),
    "W-2d": Filter(at("written", lambda m: m.get("method") == "$/progress"), put(id=None)),
    "BASE-18": Filter(
        called("chat/promptStop").when(lambda m, s: s.is_introduced),
        then(Out({"jsonrpc": "2.0", "id": None, "result": None})),
    ),
    "BASE-25": Filter(error(-32601).whole, granted(None)),
    "BASE-30": Filter(
        at("received", is_answer).when(lambda m, s: m.get("id") not in s._own_requests),
        refuse("expected no such answer", -32600),
    ),
    "BASE-29": Filter(
        at("received", is_answer).when(lambda m, s: unanswered(s)),
        Knowing(lambda m, s: {**m, "id": unanswered(s)[0]}),
    ),
    "BASE-31": Filter(error(-32800), put(code=-32603)),
    "BASE-23": Filter(error(-32700, "its end"), put(code=-32603)),
    "BASE-26": Filter(error(-32602), put(code=-32600)),
    "BASE-32": Filter(error(-32602), put(message="Invalid params")),
    "W-4a: ignored": Filter(called(REQUESTS, lambda m: "id" not in m), drop),
    "W-4a: answered": Filter(
        called(REQUESTS, lambda m: "id" not in m),
        then(Out({"jsonrpc": "2.0", "id": None, "result": {}})),
    ),
    "W-4b": Filter(called(NOTIFICATIONS, lambda m: "id" in m), refuse("no such request", -32601)),
    "W-4c": Filter(
        at("received", is_unknown_notification),
        then(Out({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "No."}})),
    ),
    "BASE-16": Filter(at("received", method_of), put(jsonrpc="2.0")),
    "BASE-21": Filter(at("received", has_odd_method), put(method="no such method")),
    "BASE-22": Filter(
        at("received", lambda m: method_of(m) and not isinstance(m.get("params"), dict | list)),
        put(params=None),
    ),
    "BASE-24": Filter(at("received", is_no_message), refuse("expected a message", -32700)),
    "BASE-28": Filter(at("received", lambda m: m and isinstance(m, list)), tuple),
    # params
    "W-3a": Filter(called("chat/queryCommands", lambda m: m.get("params") == []), refuse("params")),
    "W-3b": Filter(
        args("chat/queryContext", lambda p: p.get("chatId", 0) is None), refuse("params.chatId")
    ),
    "W-3c": Filter(
        args("chat/queryContext", lambda p: p.get("query") is None), refuse("params.query")
    ),
    "W-3h": Filter(
        args("initialize", lambda p: isinstance(chat_capability(p), dict)),
        refuse("params.capabilities"),
    ),
    "W-3e": Filter(
        args("chat/queryContext", lambda p: p.keys() - {"query", "contexts", "chatId"}),
        refuse("params"),
    ),
    "W-3f: an error": Filter(
        args("chat/queryContext", lambda p: {"type": "cursor"} in (p.get("contexts") or ())),
        refuse("params.contexts"),
    ),
}

register_filters(MUTANTS)

"""Rows of the base protocol: headers, content, and JSON-RPC 2.0."""

from __future__ import annotations

from functools import partial

from eca_protocol.testing.requirements.row import row

_overview = partial(row, section="ECA Protocol")
_header = partial(row, section="Header Part")
_content = partial(row, section="Content Part")
_rpc = partial(row, section="JSON-RPC 2.0")

ROWS = (
    _overview("BASE-1", "both", "Either side may send requests and notifications at any time."),
    _header("BASE-2", "both", "A message is header lines, an empty line, and its body."),
    _header("BASE-3", "both", "A header line is a name, a colon, a space and a value."),
    _header("BASE-4", "both", "Lines and the whole header block end with CR LF when written."),
    _header(
        "BASE-5",
        "both",
        "Whitespace around a header value and the case of a header name are ignored.",
    ),
    _header("BASE-6", "both", "Content-Length counts the bytes of the body, not its characters."),
    _header("BASE-7", "both", "A header block without Content-Length is a protocol error."),
    _header(
        "BASE-8", "both", "A Content-Length that is not a plain decimal number is a protocol error."
    ),
    _header("BASE-9", "both", "Two different lengths in one header block are a protocol error."),
    _header("BASE-10", "both", "Content-Type may be missing; its default is JSON-RPC in UTF-8."),
    _header("BASE-11", "both", "Other headers are ignored, and headers may have any order."),
    _header("BASE-12", "both", "Header bytes outside ASCII are a protocol error."),
    _content("BASE-13", "both", "A body is one JSON-RPC 2.0 message."),
    _content("BASE-14", "both", "A Content-Type that names UTF-8, in any spelling, is accepted."),
    _content(
        "BASE-15",
        "both",
        "A different charset is answered with an error, and the stream continues.",
    ),
    _rpc(
        "BASE-16",
        "both",
        'Every message has `jsonrpc: "2.0"`; other versions are refused with -32600.',
    ),
    _rpc("BASE-17", "both", "A request gets exactly one response, with its id."),
    _rpc("BASE-18", "both", "A notification is never answered."),
    _rpc("BASE-19", "both", "An error has an integer code, a message, and optional data."),
    _rpc(
        "BASE-20",
        "both",
        "An id that is neither a number nor a string is refused with -32600 and id null.",
    ),
    _rpc("BASE-21", "both", "A method that is not a string is refused with -32600."),
    _rpc("BASE-22", "both", "Params that are neither an object nor an array are refused."),
    _rpc("BASE-23", "both", "A body that is not JSON is refused with -32700 and id null."),
    _rpc(
        "BASE-24",
        "both",
        "JSON that is no request, notification or response is refused with -32600.",
    ),
    _rpc("BASE-25", "both", "A request for an unknown method is refused with -32601."),
    _rpc("BASE-26", "both", "Params that do not match their method are refused with -32602."),
    _rpc("BASE-27", "both", "An internal error is reported as -32603, without internal details."),
    _rpc("BASE-28", "both", "A batch is refused with -32600, and none of its messages runs."),
    _rpc("BASE-29", "both", "Responses are matched to requests by id, in any order."),
    _rpc("BASE-30", "both", "A response to no pending request is ignored."),
    _rpc(
        "BASE-31",
        "both",
        "`$/cancelRequest` cancels a running request, which is then answered with -32800.",
        level="observed",
    ),
    _rpc("BASE-32", "server", "The error for invalid params names the field.", level="should"),
)

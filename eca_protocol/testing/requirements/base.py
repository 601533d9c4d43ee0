"""Rows of the base protocol: headers, content, and the JSON-RPC 2.0 it refers to."""

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
    _header("BASE-5", "both", "White space around a value and the case of a name mean nothing."),
    _header("BASE-6", "both", "Content-Length counts the bytes of the body, not its characters."),
    _header("BASE-7", "both", "A header block without Content-Length is a fault."),
    _header("BASE-8", "both", "A length that is no plain decimal number is a fault."),
    _header("BASE-9", "both", "Two different lengths in one header block are a fault."),
    _header("BASE-10", "both", "Content-Type may be missing; then JSON-RPC in UTF-8 is meant."),
    _header("BASE-11", "both", "Other headers are skipped, and the order of headers is free."),
    _header("BASE-12", "both", "Header bytes outside ASCII are a fault."),
    _content("BASE-13", "both", "A body is one JSON-RPC 2.0 message."),
    _content("BASE-14", "both", "A Content-Type that names UTF-8, in any spelling, is accepted."),
    _content("BASE-15", "both", "Another charset is answered with an error, the stream goes on."),
    _rpc("BASE-16", "both", 'Every message says `jsonrpc: "2.0"`; other versions are -32600.'),
    _rpc("BASE-17", "both", "A request gets exactly one answer, which carries its id."),
    _rpc("BASE-18", "both", "A notification is never answered."),
    _rpc("BASE-19", "both", "An error is an integer code, a text, and data if there is any."),
    _rpc("BASE-20", "both", "An id that is no number or text is -32600 with id null."),
    _rpc("BASE-21", "both", "A method that is no text is -32600."),
    _rpc("BASE-22", "both", "Params that are neither an object nor an array are refused."),
    _rpc("BASE-23", "both", "A body that is no JSON is -32700 with id null."),
    _rpc("BASE-24", "both", "JSON that is no request, notification or answer is -32600."),
    _rpc("BASE-25", "both", "A request for a method nobody knows is -32601."),
    _rpc("BASE-26", "both", "Params that do not fit their method are -32602."),
    _rpc("BASE-27", "both", "A fault of our own is -32603 and tells nothing internal."),
    _rpc("BASE-28", "both", "A batch is not part of ECA: refused with -32600, nothing in it runs."),
    _rpc("BASE-29", "both", "Answers find their request by id, in whatever order they come."),
    _rpc("BASE-30", "both", "An answer that nobody waits for does no harm."),
    _rpc(
        "BASE-31",
        "both",
        "`$/cancelRequest` ends a running request, which is then answered -32800.",
        level="observed",
    ),
    _rpc(
        "BASE-32", "server", "The error for params that do not fit names the field.", level="should"
    ),
)

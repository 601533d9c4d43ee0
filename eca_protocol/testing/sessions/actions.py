"""Actions of the client and the scripted model, as strategies for `machine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.model import Reply
from eca_protocol.testing.sessions.session import DRAFT

Query = tuple[str, Mapping[str, Any]]

_OCTOBER: tuple[Query, ...] = (
    ("chat/queryCommands", {"query": ""}),
    ("chat/queryContext", {"query": "", "contexts": []}),
    ("chat/queryContext", {"query": "file", "contexts": [{"type": "repoMap"}]}),
    ("chat/queryCommands", {"chatId": "c", "query": "in"}),
)
_CURRENT: tuple[Query, ...] = (
    ("chat/queryFiles", {"chatId": "c", "query": "file"}),
    ("chat/list", {}),
    ("providers/list", {}),
)
QUERIES: Mapping[str, tuple[Query, ...]] = {
    DRAFT: (("chat/queryContext", {"query": "", "contexts": []}),),
    "2025-09": _OCTOBER,
    "2025-10": _OCTOBER,
    "current": _OCTOBER + _CURRENT,
}
"""Requests with an immediate response, by edition."""

_CAPABILITIES = {Revision.CURRENT.value: {"rewrite": True}, DRAFT: {"doc": True}}
"""The capabilities that announce an edition."""

ERRORS: tuple[tuple[str, Any], ...] = (
    ("no/such/method", {"a": 1}),
    ("chat/prompt", {"message": 5}),
    ("chat/prompt", {"message": "no text", "chatId": {}}),
    ("chat/prompt", "params"),
    ("initialize", {"capabilities": {}}),
)
"""Requests that are refused."""

NONSENSE = (b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0","id":{},"method":"m"}')
"""Bodies that are not messages."""

texts = st.sampled_from(
    ["go", "größer 😀 \u2028", "one\r\n\n two\t", "@file.txt", "w" * 5000, '"quoted" \\ \x7f']
)
"""Texts of the user after the marker of a prompt."""

_pieces = st.sampled_from(["Hi", " there", "é😀", "\n", "```py\nx\n```\n", "word " * 300])
_speech: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"text": text}, _pieces),
    st.builds(lambda text: {"reasoning": text}, _pieces),
    st.just({"wait": "a gate"}),
)
_breaks: st.SearchStrategy[Reply] = st.sampled_from(
    [
        [],
        [{"text": "cut "}, {"close": True}],
        [{"status": 400}],
        [{"text": "then "}, {"raw": "data: {oops\n\n"}],
    ]
)
_allowed = {"tool_call": "read_file", "arguments": {"path": "{{workspace}}/file.txt"}}
_needs_approval = {
    "tool_call": "write_file",
    "arguments": {"path": "{{workspace}}/new.txt", "content": "new\n"},
}
_unknown = {"tool_call": "no_such_tool", "arguments": {}}


@st.composite
def replies(draw: st.DrawFn, *, edition: str) -> list[Reply]:
    """Generate the model's replies of one turn: up to two with tool calls, then one without."""
    calls = [_allowed, _unknown] if edition == DRAFT else [_allowed, _needs_approval, _unknown]
    called = st.lists(st.sampled_from(calls), min_size=1, max_size=2)
    speech = st.lists(_speech, max_size=4)
    with_calls = st.builds(lambda before, made: before + made, speech, called)
    first = draw(st.lists(with_calls, max_size=2))
    return [*first, [{"text": "Hello"}, *draw(speech), *draw(_breaks)]]


def hello(edition: str, variant: int) -> list[tuple[Any, ...]]:
    """Return the steps that open a session: variant 0 is usual, the others unusual but legal."""
    folders = [{"name": "project", "uri": "file://{{workspace}}"}]
    params: dict[str, Any] = {
        "processId": None,
        "clientInfo": {"name": "sessions", "version": "1"},
        "capabilities": {"codeAssistant": {"chat": True, **_CAPABILITIES.get(edition, {})}},
        "initializationOptions": {"protocolRevision": edition},
        "workspaceFolders": folders,
    }
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    second = {"jsonrpc": "2.0", "method": "initialized", "params": {}}
    early = {"jsonrpc": "2.0", "id": "early", "method": QUERIES[edition][0][0], "params": {}}
    plain = [("send", [first], 0), ("rest",), ("send", [second], 0), ("rest",)]
    match variant:
        case 1:
            return [("expect", "early", -32002), ("send", [early]), ("rest",), *plain]
        case 2:
            return [("send", [first, early], 30), ("rest",), ("send", [second]), ("rest",)]
        case 3:
            strange = {**params, "clientInfo": None, "x-unknown": [1], "processId": None}
            return [("send", [{**first, "params": strange}]), ("rest",), *plain[2:]]
        case 4:
            again = {**first, "id": "again"}
            return [*plain, ("expect", "again", -32600), ("send", [again]), ("rest",)]
        case _:
            return list(plain)

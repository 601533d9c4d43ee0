"""What a client and a model may do in a session, as strategies; see `machine` for who does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.model import Reply
from eca_protocol.testing.sessions.session import DRAFT

__all__ = ["ERRORS", "NONSENSE", "QUERIES", "hello", "replies", "texts"]

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
"""Requests that are answered at once, by edition."""

ERRORS: tuple[tuple[str, Any], ...] = (
    ("no/such/method", {"a": 1}),
    ("chat/prompt", {"message": 5}),
    ("chat/prompt", {"message": "no text", "chatId": {}}),
    ("chat/prompt", "params"),
    ("initialize", {"capabilities": {}}),
)
"""Requests that are refused."""

NONSENSE = (b"{", b"[]", b"\xff", b'{"jsonrpc":"2.0","id":{},"method":"m"}')
"""Bodies that are no message."""

texts = st.sampled_from(
    ["go", "größer 😀 \u2028", "one\r\n\n two\t", "@file.txt", "w" * 5000, '"quoted" \\ \x7f']
)
"""What a user writes behind a prompt's mark."""

_said = st.sampled_from(["Hi", " there", "é😀", "\n", "```py\nx\n```\n", "word " * 300])
_speech: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda text: {"text": text}, _said),
    st.builds(lambda text: {"reasoning": text}, _said),
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
_asked = {
    "tool_call": "write_file",
    "arguments": {"path": "{{workspace}}/new.txt", "content": "new\n"},
}
_unknown = {"tool_call": "no_such_tool", "arguments": {}}


@st.composite
def replies(draw: st.DrawFn, *, edition: str) -> list[Reply]:
    """What the model says in one turn: up to two answers with calls, then one without."""
    calls = [_allowed, _unknown] if edition == DRAFT else [_allowed, _asked, _unknown]
    called = st.lists(st.sampled_from(calls), min_size=1, max_size=2)
    speech = st.lists(_speech, max_size=4)
    with_calls = st.builds(lambda said, made: said + made, speech, called)
    said = draw(st.lists(with_calls, max_size=2))
    return [*said, [{"text": "Hello"}, *draw(speech), *draw(_breaks)]]


def hello(edition: str, variant: int) -> list[tuple[Any, ...]]:
    """The steps that open a session; variant 0 is the plain way, the others are odd and legal."""
    folders = [{"name": "project", "uri": "file://{{workspace}}"}]
    params: dict[str, Any] = {
        "processId": None,
        "clientInfo": {"name": "sessions", "version": "1"},
        "capabilities": _capabilities(edition),
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


def _capabilities(edition: str) -> dict[str, Any]:
    if edition == Revision.CURRENT.value:
        return {"codeAssistant": {"chat": True, "rewrite": True}}
    if edition == DRAFT:
        return {"codeAssistant": {"chat": True, "doc": True}}
    return {"codeAssistant": {"chat": True}}

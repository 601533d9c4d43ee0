"""Strategies for complete sessions of a client, from `initialize` to `exit`, by edition.

    from eca_protocol.testing.sessions import strategies as sessions

    @given(sessions.sessions(revision=Revision.R2025_10))
    def test_my_server_s_gate_lets_every_legal_session_through(messages): ...

A session conforms to its edition; a broken one has exactly one error, which it names.
"""

from __future__ import annotations

import itertools
from typing import Any, Literal, TypeAlias, get_args

import attrs
from hypothesis import strategies as st

from eca_protocol.codec import Codec
from eca_protocol.framing import encode_frame
from eca_protocol.json import dumps
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies as eca

Wrong: TypeAlias = Literal[
    "request before initialize",
    "second initialize",
    "request after shutdown",
    "unknown method",
    "id of two types",
    "no version",
    "batch",
    "no object",
]
_LIFECYCLE = ("initialize", "initialized", "shutdown", "exit")


@attrs.frozen(kw_only=True)
class Broken:
    """A session with one error.

    Attributes:
        at: the index of the wrong message.
    """

    messages: tuple[Any, ...]
    at: int
    wrong: Wrong


@st.composite
def sessions(
    draw: st.DrawFn, *, revision: Revision = Revision.CURRENT, max_size: int = 8
) -> tuple[dict[str, Any], ...]:
    """Generate the messages of a conforming client.

    They are `initialize`, `initialized`, up to `max_size` others, `shutdown` and `exit`. The draft
    is not supported.
    """
    codec = Codec(ECA, revision)
    names = [
        row.name
        for row in ECA
        if row.window.holds(revision)
        and row.direction in ("client_to_server", "both")
        and row.name not in _LIFECYCLE
    ]
    fillers = draw(st.lists(st.sampled_from(names), max_size=max_size))
    numbers = itertools.count(draw(st.integers(0, 2**31)))
    messages = []
    for name in ("initialize", "initialized", *fillers, "shutdown", "exit"):
        params = draw(eca.params(name, revision=revision, unknown=False))
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": name}
        if params is not None:
            message["params"] = codec.encode_params(name, params)
        if ECA[name].kind == "request":
            message["id"] = next(numbers)
        messages.append(message)
    return tuple(messages)


@st.composite
def broken_sessions(draw: st.DrawFn, *, revision: Revision = Revision.CURRENT) -> Broken:
    """Generate a session with one wrong message."""
    messages: list[Any] = list(draw(sessions(revision=revision)))
    wrong = draw(st.sampled_from(get_args(Wrong)))
    last = len(messages) - 2  # shutdown
    at = {"request before initialize": 0, "request after shutdown": last + 1}.get(wrong)
    if at is None:
        at = draw(st.integers(2, last))
    messages.insert(at, _message(wrong, first=messages[0]))
    return Broken(messages=tuple(messages), at=at, wrong=wrong)


def _message(wrong: Wrong, *, first: dict[str, Any]) -> Any:
    query = {"jsonrpc": "2.0", "id": "wrong", "method": "chat/queryCommands", "params": {}}
    made: dict[Wrong, Any] = {
        "second initialize": {**first, "id": "wrong"},
        "unknown method": {**query, "method": "no/such/method"},
        "id of two types": {**query, "id": ["wrong", 1]},
        "no version": {key: value for key, value in query.items() if key != "jsonrpc"},
        "batch": [query],
        "no object": "chat/queryCommands",
    }
    return made.get(wrong, query)


@st.composite
def writes(draw: st.DrawFn, messages: st.SearchStrategy[Any]) -> tuple[bytes, ...]:
    """Generate the frames of a session, split into writes at any byte."""
    data = b"".join(encode_frame(dumps(message)) for message in draw(messages))
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=6).map(sorted))
    ends = [0, *cuts, len(data)]
    return tuple(data[start:stop] for start, stop in itertools.pairwise(ends))

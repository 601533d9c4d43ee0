"""Messages of a history written short, and strategies of histories.

Most of the histories would be accepted by no API unrepaired.
"""

from typing import Any

from hypothesis import strategies as st

from eca_server.models import history as h

OURS = h.Origin(api="openai-chat", provider="p", model="m")
THEIRS = h.Origin(api="other", provider="q", model="n")
SECRET = {"field": "reasoning_content", "details": ["of theirs"]}
PICTURE = h.ImagePart(media_type="image/png", data=b"i")


def user(*parts: Any) -> h.Message:
    """Return a prompt; a string among the parts is a text, here and below."""
    return h.Message(role="user", parts=_parts(parts or ("Hello",)))


def model(*parts: Any, origin: h.Origin | None = OURS, **fields: Any) -> h.Message:
    return h.Message(role="assistant", parts=_parts(parts), origin=origin, **fields)


def tool(*results: h.ToolResultPart) -> h.Message:
    return h.Message(role="tool", parts=results)


def tool_call(call_id: str = "c", name: str = "f", **fields: Any) -> h.ToolCallPart:
    return h.ToolCallPart(id=call_id, name=name, **{"raw": "{}", "arguments": {}, **fields})


def tool_result(call_id: str = "c", *parts: Any, **fields: Any) -> h.ToolResultPart:
    return h.ToolResultPart(call_id=call_id, parts=_parts(parts or ("r",)), **fields)


def file(name: str, media_type: str, data: bytes) -> h.FilePart:
    return h.FilePart(name=name, media_type=media_type, data=data)


def _parts(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(h.TextPart(part) if isinstance(part, str) else part for part in parts)


texts = st.builds(h.TextPart, st.sampled_from(["", " ", "a", "b"]))
images = st.just(PICTURE)
media_types = st.sampled_from(["application/pdf", "text/plain", "application/zip"])
files = st.builds(file, st.just("f"), media_types, st.just(b"f"))
ids = st.sampled_from(["", "a", "b", "c d", "x" * 70])
names = st.sampled_from(["f", "", "read file", "\n", "é", "n" * 70])
opaques = st.sampled_from([None, {"extra_content": {"secret": 1}}])
arguments = st.sampled_from(
    [{"raw": '{"n":1}', "arguments": {"n": 1}}, {"raw": "{bad", "arguments": None}]
)
calls = st.builds(
    lambda call_id, name, fields, opaque: tool_call(call_id, name, opaque=opaque, **fields),
    ids,
    names,
    arguments,
    opaques,
)
results = st.builds(
    lambda call_id, parts, error: h.ToolResultPart(
        call_id=call_id, parts=tuple(parts), is_error=error
    ),
    ids,
    st.lists(texts | images | files, max_size=2),
    st.booleans(),
)
thoughts = st.builds(
    h.ReasoningPart,
    text=st.sampled_from(["", "hm"]),
    opaque=st.sampled_from([None, {"field": "reasoning_content"}, {"field": "content"}, SECRET]),
)
others = st.sampled_from(
    [
        h.RefusalPart("no"),
        h.ServerToolPart(kind="web_search", raw={"secret": 1}),
        h.BlockPart(raw={"secret": 1}),
        file("f", "text/plain", b"f"),
    ]
)


def histories_with(own: st.SearchStrategy) -> st.SearchStrategy[list[h.Message]]:
    """Return histories with parts from `own`, the opaque ones of an API."""
    messages = st.builds(
        lambda role, parts, origin, interrupted: h.Message(
            role=role,
            parts=tuple(parts),
            origin=origin if role == "assistant" else None,
            interrupted=interrupted,
        ),
        st.sampled_from(["user", "assistant", "assistant", "tool"]),
        st.lists(texts | calls | results | results | own, max_size=4),
        st.sampled_from([None, OURS, THEIRS]),
        st.booleans(),
    )
    return st.lists(messages, max_size=8)


histories = histories_with(thoughts | others)

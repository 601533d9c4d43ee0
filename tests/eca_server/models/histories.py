"""Strategies of histories, most of which no API would accept unrepaired."""

from hypothesis import strategies as st

from eca_server.models.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

OURS = Origin(api="openai-chat", provider="p", model="m")
THEIRS = Origin(api="other", provider="q", model="n")
SECRET = {"field": "reasoning_content", "details": ["of theirs"]}

texts = st.builds(TextPart, st.sampled_from(["", " ", "a", "b"]))
images = st.just(ImagePart(media_type="image/png", data=b"i"))
files = st.sampled_from(
    [
        FilePart(name="f", media_type=media_type, data=b"f")
        for media_type in ("application/pdf", "text/plain", "application/zip")
    ]
)
ids = st.sampled_from(["", "a", "b", "c d", "x" * 70])
names = st.sampled_from(["f", "", "read file", "\n", "é", "n" * 70])
opaques = st.sampled_from([None, {"extra_content": {"secret": 1}}])
calls = st.builds(
    lambda call_id, name, user_message, opaque: ToolCallPart(
        id=call_id,
        name=name,
        raw='{"n":1}' if user_message else "{bad",
        arguments={"n": 1} if user_message else None,
        opaque=opaque,
    ),
    ids,
    names,
    st.booleans(),
    opaques,
)
results = st.builds(
    lambda call_id, parts, error: ToolResultPart(
        call_id=call_id, parts=tuple(parts), is_error=error
    ),
    ids,
    st.lists(texts | images | files, max_size=2),
    st.booleans(),
)
thoughts = st.builds(
    lambda text, opaque: ReasoningPart(text=text, opaque=opaque),
    st.sampled_from(["", "hm"]),
    st.sampled_from([None, {"field": "reasoning_content"}, {"field": "content"}, SECRET]),
)
others = st.sampled_from(
    [
        RefusalPart("no"),
        ServerToolPart(kind="web_search", raw={"secret": 1}),
        BlockPart(raw={"secret": 1}),
        FilePart(name="f", media_type="text/plain", data=b"f"),
    ]
)


def histories_with(own: st.SearchStrategy) -> st.SearchStrategy[list[Message]]:
    """Return histories with parts from `own`, the opaque ones of an API."""
    messages = st.builds(
        lambda role, parts, origin, interrupted: Message(
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

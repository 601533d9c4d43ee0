"""A message comes back from its row exactly as it was."""

from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json
from eca_protocol.messages import FileChangeDetails, JsonOutputsDetails, SubagentDetails
from eca_server.agent.chat.store.coding import decode_message, decode_settings, encode_message
from eca_server.agent.chat.store.rows import ChatSettings, UnreadableRow
from eca_server.models import history as h

texts = st.text(max_size=20)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
parts_of_text = st.builds(h.TextPart, texts)
images = st.builds(h.ImagePart, media_type=texts, data=st.binary(max_size=20))
DONE = (
    h.Message(role="user", parts=(h.TextPart("go"),), content_id="u"),
    h.Message(
        role="assistant",
        parts=(h.ToolCallPart(id="1", name="f", raw="{}", arguments={"a": [1]}, opaque={"b": 2}),),
        origin=h.Origin(api="a", provider="p", model="m"),
    ),
    h.Message(role="tool", parts=(h.ToolResultPart(call_id="1", parts=(h.TextPart("x"),)),)),
)
DETAILS = (
    FileChangeDetails(path="/a", diff="@@ -1 +1 @@\n-a\n+b", lines_added=1, lines_removed=1),
    JsonOutputsDetails(jsons=("{}",)),
    SubagentDetails(subagent_chat_id="s", model="p/m", agent_name="scout", step=2),
)
views = st.builds(
    h.CallView,
    summary=st.none() | texts,
    details=st.none() | st.sampled_from(DETAILS),
    total_time_ms=st.none() | st.integers(1, 10**9),
    reason=st.none() | st.sampled_from(["user-choice", "user-config", "hookRejected"]),
)
PARTS: dict[type, st.SearchStrategy[Any]] = {
    h.TextPart: parts_of_text,
    h.ImagePart: images,
    h.FilePart: st.builds(h.FilePart, name=texts, media_type=texts, data=st.binary(max_size=20)),
    h.ReasoningPart: st.builds(
        h.ReasoningPart,
        text=texts,
        opaque=values,
        redacted=st.booleans(),
        total_time_ms=st.none() | st.integers(1, 10**9),
    ),
    h.ToolCallPart: st.builds(
        h.ToolCallPart,
        id=texts,
        name=texts,
        raw=texts,
        arguments=st.none() | st.dictionaries(texts, values, max_size=3),
        provider_id=st.none() | texts,
        opaque=values,
    ),
    h.ToolResultPart: st.builds(
        h.ToolResultPart,
        call_id=texts,
        parts=st.lists(parts_of_text | images, max_size=3).map(tuple),
        is_error=st.booleans(),
        subagent=st.none() | st.builds(h.Subagent, name=texts, model=texts, messages=st.just(DONE)),
        view=st.none() | views,
    ),
    h.ServerToolPart: st.builds(h.ServerToolPart, kind=texts, raw=values),
    h.RefusalPart: st.builds(h.RefusalPart, texts),
    h.CitationPart: st.builds(h.CitationPart, url=texts, title=texts),
    h.BlockPart: st.builds(h.BlockPart, raw=values),
    h.CompactionPart: st.builds(h.CompactionPart, texts),
}
parts = st.one_of(*PARTS.values())
messages = st.builds(
    h.Message,
    role=st.sampled_from(["user", "assistant", "tool"]),
    parts=st.lists(parts, max_size=5).map(tuple),
    origin=st.none() | st.builds(h.Origin, api=texts, provider=texts, model=texts),
    interrupted=st.booleans(),
)


@given(messages)
def test_any_message_comes_back_as_it_was(message):
    back = decode_message(encode_message(message))
    assert back == message
    assert repr(back) == repr(message)


def test_no_kind_of_part_is_left_out():
    assert PARTS.keys() == {*get_args(h.Part)}


def test_a_result_outlives_details_that_cannot_be_read():
    view = h.CallView(summary="s", details=DETAILS[0])
    part = h.ToolResultPart(call_id="1", parts=(h.TextPart("x"),), view=view)
    body = encode_message(h.Message(role="tool", parts=(part,)))
    [back] = decode_message(body.replace(b'\\"/a\\"', b"7")).parts
    assert (back.parts, back.view) == (part.parts, h.CallView(summary="s"))


def test_json_of_a_provider_nests_as_deep_as_json_may():
    deep: Any = "bottom"
    for _ in range(json.MAX_DEPTH):
        deep = [deep]
    call = h.ToolCallPart(id="1", name="f", raw="", arguments={"a": deep[0]}, opaque=deep)
    message = h.Message(role="assistant", parts=(call, h.BlockPart(raw=deep)))
    assert decode_message(encode_message(message)) == message


def test_a_field_with_its_default_is_not_written_and_its_absence_is_read():
    message = h.Message(role="user", parts=(h.TextPart("hi"),))
    body = encode_message(message)
    assert json.loads(body) == {"role": "user", "parts": [{"type": "text", "text": "hi"}]}


@given(st.binary(max_size=30) | values.map(json.dumps) | messages.map(encode_message), st.data())
def test_a_damaged_row_is_a_message_or_unreadable(body, data):
    place = data.draw(st.integers(0, max(0, len(body) - 1)))
    damaged = body[:place] + data.draw(st.binary(max_size=3)) + body[place + 1 :]
    with suppress(UnreadableRow):
        assert isinstance(decode_message(damaged), h.Message)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b"null", b"{}", b'{"role":"user"}', b'{"parts":[]}',
     b'{"role":"user","parts":[{}]}', b'{"role":"user","parts":[{"type":"video"}]}',
     b'{"role":"user","parts":[{"type":"text"}]}', b'{"role":"user","parts":5}',
     b'{"role":"user","parts":[{"type":"image","media_type":"a","data":"\xc3\xa9"}]}',
     b'{"role":"user","parts":[],"more":1}'],
)  # fmt: skip
def test_what_is_no_message_is_unreadable(body):
    with pytest.raises(UnreadableRow):
        decode_message(body)


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b'{"trust":true,"of_tomorrow":[1]}', ChatSettings(trust=True)),
        *((body, ChatSettings()) for body in (None, b"", b"{", b"[]", b"5", b"null", b"{}")),
    ],
)
def test_of_settings_what_is_known_counts(body, read):
    assert decode_settings(body) == read

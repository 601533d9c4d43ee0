"""The tables of the draft's counterparts, compared with the codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given

from eca_protocol import messages as m
from eca_protocol.draft import DRAFT, DraftCodec
from eca_protocol.draft.counterparts import CONTENTS, CONTEXTS, DRAFT_ONLY, METHODS
from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages.shapes import Tagged, shape_of
from eca_protocol.methods import ECA
from eca_protocol.testing import strategies as eca


def types_of(union: Any) -> set[str]:
    shape = shape_of(union)
    assert isinstance(shape, Tagged)
    return set(shape.members)


def test_every_method_content_and_context_has_its_row_and_no_row_is_of_another() -> None:
    assert METHODS.keys() == {method.name for method in ECA}
    assert CONTENTS.keys() == types_of(m.ChatContent)
    assert CONTEXTS.keys() == types_of(m.ChatContext)
    assert {method.name for method in DRAFT} <= {row.draft for row in METHODS.values()}
    rows = [*METHODS.values(), *CONTENTS.values(), *CONTEXTS.values()]
    assert all(row.note.endswith(".") for row in rows)
    assert all(DRAFT_ONLY.values())


@given(eca.messages())
def test_a_method_is_written_where_its_row_says_so(message: tuple[str, Any]) -> None:
    method, params = message
    codec = DraftCodec()
    if isinstance(params, m.ChatContentReceivedParams | m.ChatPromptParams):
        return  # by content and by context, below
    if ECA[method].kind == "notification":
        assert bool(codec.outgoing(method, params)) == (METHODS[method].draft is not None)
    elif METHODS[method].draft is None:
        with pytest.raises(LocalProtocolError):
            codec.encode_params(method, params)
    else:
        codec.encode_params(method, params)


CALL: Mapping[str, Any] = {"id": "1", "name": "x", "server": "eca", "origin": "native"}
RUN = m.ChatToolCallRunContent(**CALL, manual_approval=True)
WRITES = m.FileChangeDetails(path="/a", diff="", lines_added=0, lines_removed=0)
FINISHED = m.ChatProgressContent(state="finished")
WRITTEN_CONTENTS = {
    "text": m.ChatTextContent(text="x"),
    "progress": FINISHED,
    "usage": m.ChatUsageContent(session_tokens=1, tokens_used=3),
    "toolCallRun": RUN,
    "toolCalled": m.ChatToolCalledContent(**CALL, details=WRITES),
    "toolCallRejected": m.ChatToolCallRejectedContent(**CALL, reason="user-choice"),
}
"""One content of each type that the draft has, after a call that waits."""


def written(codec: DraftCodec, content: m.ChatContent) -> list[Any]:
    params = m.ChatContentReceivedParams(chat_id="c", role="assistant", content=content)
    return [raw for _, raw in codec.outgoing("chat/contentReceived", params)]


def test_a_content_is_sent_as_its_row_says() -> None:
    assert {type_ for type_, row in CONTENTS.items() if row.draft} == WRITTEN_CONTENTS.keys()
    for type_, content in WRITTEN_CONTENTS.items():
        codec = DraftCodec()
        if type_ == "toolCallRejected":
            written(codec, RUN)
        contents = [*written(codec, content), *written(codec, FINISHED)]
        assert CONTENTS[type_].draft == contents[0]["content"]["type"]
        assert contents[-1]["metadata"]["tokensUsed"] == (3 if type_ == "usage" else 0)


@given(eca.contents(unknown=False))
def test_a_content_without_a_counterpart_is_not_written(content: m.ChatContent) -> None:
    assert not isinstance(content, m.UnknownContent)
    if CONTENTS[content.type].draft is None:
        assert written(DraftCodec(), content) == []


@given(eca.contexts(unknown=False))
def test_a_context_is_written_as_its_row_says(context: m.ChatContext) -> None:
    assert not isinstance(context, m.UnknownContext)
    params = m.ChatPromptParams(message="x", contexts=(context,))
    row = CONTEXTS[context.type]
    if row.draft is None:
        with pytest.raises(LocalProtocolError, match=type(context).__name__):
            DraftCodec().encode_params("chat/prompt", params)
    else:
        ((written),) = DraftCodec().encode_params("chat/prompt", params)["context"]
        assert written["type"] == row.draft
        assert attrs.fields(type(context))

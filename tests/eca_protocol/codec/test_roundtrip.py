"""Properties of every message: reading inverts writing, and the two readers agree."""

from __future__ import annotations

import functools
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.codec import Codec, explain
from eca_protocol.errors import DecodeError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies
from tests.eca_protocol.codec.marks import assert_told_but_for_the_marks

REVISIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]
PER_METHOD = settings(max_examples=max(1, settings.default.max_examples // 12))
REQUESTS = [row.name for row in ECA if row.kind == "request"]
Part = Literal["params", "result"]
PARTS: list[tuple[str, Part]] = [
    *((row.name, "params") for row in ECA),
    *((name, "result") for name in REQUESTS),
]


@functools.cache
def raw_messages(method: str, part: Part) -> st.SearchStrategy[Any]:
    make = strategies.raw_params if part == "params" else strategies.raw_results
    return make(method)


def decode(method: str, part: Part, raw: Any) -> Any:
    codec = Codec(ECA, Revision.R2025_10)
    return (codec.decode_params if part == "params" else codec.decode_result)(method, raw)


@pytest.mark.parametrize("method", [row.name for row in ECA])
@PER_METHOD
@given(data=st.data())
def test_params_come_back_as_they_were_written(method, data):
    revision = data.draw(
        st.sampled_from(
            [revision for revision in REVISIONS if ECA[method].window.written_in(revision)]
        )
    )
    codec = Codec(ECA, revision)
    params = data.draw(strategies.params(method, revision=revision))
    raw = codec.encode_params(method, params)
    assert codec.decode_params(method, raw) == params
    assert codec.encode_params(method, codec.decode_params(method, raw)) == raw


@pytest.mark.parametrize("method", REQUESTS)
@PER_METHOD
@given(data=st.data())
def test_results_come_back_as_they_were_written(method, data):
    revision = data.draw(st.sampled_from(REVISIONS))
    codec = Codec(ECA, revision)
    result = data.draw(strategies.results(method, revision=revision))
    raw = codec.encode_result(method, result)
    assert codec.decode_result(method, raw) == result


@given(data=st.data())
def test_a_different_revision_is_sent_all_but_what_the_marks_name(data):
    method = data.draw(st.sampled_from([row.name for row in ECA if row.params is not None]))
    written_in = [each for each in REVISIONS if ECA[method].window.written_in(each)]
    source, target = (data.draw(st.sampled_from(written_in)) for _ in range(2))
    params = data.draw(strategies.params(method, revision=source))
    assert_told_but_for_the_marks(method, params, target)


@pytest.mark.parametrize(("method", "part"), PARTS)
@PER_METHOD
@given(data=st.data())
def test_noise_that_the_rulings_allow_is_read(method, part, data):
    raw = data.draw(raw_messages(method, part))
    decode(method, part, raw)
    assert not any(
        departure.refused for departure in explain(method, raw, Revision.CURRENT, part=part)
    )


@pytest.mark.parametrize(("method", "part"), PARTS)
@PER_METHOD
@given(data=st.data())
def test_reading_refuses_exactly_what_the_explanation_refuses(method, part, data):
    raw = data.draw(strategies.broken(raw_messages(method, part)) | strategies.json_values())
    refused = [
        departure
        for departure in explain(method, raw, Revision.R2025_10, part=part)
        if departure.refused
    ]
    if not refused:
        decode(method, part, raw)
        return
    with pytest.raises(DecodeError) as raised:
        decode(method, part, raw)
    assert raised.value.path == refused[0].path
    assert raised.value.expected == refused[0].expected
    assert raised.value.got == refused[0].got


@pytest.mark.parametrize("revision", REVISIONS)
@given(content=st.builds(dict, strategies.json_objects(), type=st.text()))
def test_content_of_an_unknown_type_is_written_as_it_came(revision, content):
    content["type"] += " of another protocol"
    raw = {"chatId": "c", "role": "assistant", "content": content}
    codec = Codec(ECA, revision)
    params = codec.decode_params("chat/contentReceived", raw)
    assert codec.outgoing("chat/contentReceived", params) == (("chat/contentReceived", raw),)

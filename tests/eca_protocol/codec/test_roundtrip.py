"""Properties of every message: reading inverts writing, and the two readers agree."""

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

REVISIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]
Part = Literal["params", "result"]
PARTS: list[tuple[str, Part]] = [
    *((row.name, "params") for row in ECA),
    *((row.name, "result") for row in ECA if row.kind == "request"),
]
parts = st.sampled_from(PARTS)
MANY = settings(max_examples=2 * settings.default.max_examples)


@functools.cache
def raw_messages(method: str, part: Part) -> st.SearchStrategy[Any]:
    make = strategies.raw_params if part == "params" else strategies.raw_results
    return make(method)


def decode(method: str, part: Part, raw: Any, revision: Revision = Revision.R2025_10) -> Any:
    codec = Codec(ECA, revision)
    return (codec.decode_params if part == "params" else codec.decode_result)(method, raw)


@MANY
@given(message=parts, revision=st.sampled_from(REVISIONS), data=st.data())
def test_a_message_comes_back_as_it_was_written(message, revision, data):
    method, part = message
    if part == "params" and not ECA[method].window.written_in(revision):
        revision = Revision.CURRENT
    codec = Codec(ECA, revision)
    make = strategies.params if part == "params" else strategies.results
    encode = codec.encode_params if part == "params" else codec.encode_result
    value = data.draw(make(method, revision=revision))
    raw = encode(method, value)
    assert decode(method, part, raw, revision) == value
    assert encode(method, decode(method, part, raw, revision)) == raw


@MANY
@given(message=parts, data=st.data())
def test_noise_that_the_rulings_allow_is_read(message, data):
    method, part = message
    raw = data.draw(raw_messages(method, part))
    decode(method, part, raw)
    departures = explain(method, raw, Revision.CURRENT, part=part)
    assert not any(departure.refused for departure in departures)


@MANY
@given(message=parts, data=st.data())
def test_reading_refuses_exactly_what_the_explanation_refuses(message, data):
    method, part = message
    raw = data.draw(strategies.broken(raw_messages(method, part)) | strategies.json_values())
    departures = explain(method, raw, Revision.R2025_10, part=part)
    refused = [departure for departure in departures if departure.refused]
    if not refused:
        decode(method, part, raw)
        return
    with pytest.raises(DecodeError) as raised:
        decode(method, part, raw)
    assert raised.value.path == refused[0].path
    assert raised.value.expected == refused[0].expected
    assert raised.value.got == refused[0].got

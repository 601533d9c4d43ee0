"""The stream of Ollama's own API, as objects."""

import json

import pytest

from eca_protocol.sse import SSEvent
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Finished,
)
from eca_server.models.ollama.decoder import OllamaDecoder
from tests.eca_server.models.ollama.scripted import answer, message, text
from tests.eca_server.models.reading import new_keys, play_objects, text_of, thoughts_of


def decoder(**options) -> OllamaDecoder:
    return OllamaDecoder(new_key=new_keys(), **options)


def play(*objects, **fields) -> list:
    return play_objects(decoder(), answer(*objects, **fields))


def test_thinking_between_tags_is_thinking_where_the_server_does_not_mark_it():
    events = play(text("<th"), text("ink>Hm"), text("</think>\n\nSo <think>"))
    assert (thoughts_of(events), text_of(events)) == ("Hm", "So <think>")


FULL = {"prompt_eval_count": 4_000, "eval_count": 95}


@pytest.mark.parametrize(
    ("fields", "context", "reason"),
    [
        ({"reason": None}, None, "stop"),
        ({"reason": 5}, None, "stop"),
        ({"reason": "length"}, None, "length"),
        ({"reason": "load"}, None, "other"),
        ({"reason": "length", "counts": FULL}, 4_096, "context_window"),
        ({"reason": "length", "counts": FULL}, None, "length"),
        ({"reason": "length"}, 4_096, "length"),
    ],
)
def test_a_done_reason_has_its_meaning(fields, context, reason):
    raw = fields["reason"] if isinstance(fields["reason"], str) else None
    ended = play_objects(decoder(context=context), answer(text("x"), **fields))[-1]
    assert ended == Finished(reason=reason, raw_reason=raw)


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"message": None},
        message(content=None, thinking=None, tool_calls=None),
        message(content=5, images=["x"]),
        {"message": {"content": "no"}, "done": "yes"},
        {"model": 5, "new": {}},
    ],
)
def test_what_is_odd_or_new_is_no_error(odd):
    assert text_of(play(text("a"), odd, text("b"))).replace("no", "") == "ab"


def test_a_gateway_may_send_the_objects_as_events_and_nothing_follows_the_end():
    decoding = decoder()
    events = []
    for each in answer(text("Hi")):
        events += decoding.feed(SSEvent(event="message", data=json.dumps(each)))
    assert events == play(text("Hi"))
    assert decoding.done
    assert decoding.feed_object(text("more")) == decoding.close() == []
    with pytest.raises(BackendError, match="not JSON"):
        decoder().feed(SSEvent(event="message", data="{"))

"""The reasoning that goes back: the user's choice, for APIs that can do without it."""

from __future__ import annotations

import pytest
from hypothesis import given

from eca_protocol.http import HTTPClient
from eca_server.config.settings import Config, Model, Provider
from eca_server.models.history import Message, Origin, ReasoningPart, TextPart
from eca_server.models.models import Models
from eca_server.models.reasoning import select_reasoning
from tests.eca_server.models.histories import histories

ORIGIN = Origin("openai-chat", "p", "m")


def prompt(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


def thought(text: str) -> Message:
    parts = (ReasoningPart(text=text), TextPart("so"))
    return Message(role="assistant", parts=parts, origin=ORIGIN)


@pytest.mark.parametrize(
    ("which", "kept"), [("all", ["1", "2", "3"]), ("turn", ["2", "3"]), ("off", [])]
)
def test_all_go_back_or_those_since_the_users_last_message_or_none(which, kept):
    history = [prompt("a"), thought("1"), prompt("b"), thought("2"), thought("3")]
    selected = select_reasoning(history, which)
    texts = [
        part.text for each in selected for part in each.parts if isinstance(part, ReasoningPart)
    ]
    assert texts == kept
    assert [each.role for each in selected] == [each.role for each in history]
    assert selected[2] is history[2]


@given(history=histories)
def test_nothing_but_thoughts_is_left_out(history):
    for which in ("turn", "off"):
        for before, after in zip(history, select_reasoning(history, which), strict=True):
            assert (before.role, before.origin) == (after.role, after.origin)
            parts = [part for part in before.parts if not isinstance(part, ReasoningPart)]
            assert list(after.parts) in (parts, list(before.parts))


@pytest.mark.parametrize(("api", "counts"), [("openai-chat", True), ("anthropic", False)])
def test_it_counts_where_thoughts_may_be_missing(api, counts):
    model = Model(reasoning_history="off")
    provider = Provider(api=api, url="http://localhost", models={"m": model})
    models = Models(Config(providers={"p": provider}), environ={}, http=HTTPClient())
    assert models.find("p/m")._thoughts == ("off" if counts else "all")

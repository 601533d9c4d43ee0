"""The strategies: they make what they say, everything of it, and shrink to what is readable."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument

from eca_protocol.codec import Codec, explain
from eca_protocol.messages import (
    ChatContent,
    ChatContentReceivedParams,
    ChatMetadataContent,
    ChatPromptParams,
    ChatTextContent,
    ChatToolCallRunContent,
    FileContext,
    UnknownContent,
    UnknownContext,
    UnknownValue,
)
from eca_protocol.messages.shapes import Tagged, shape_of
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing import _hypothesis_entry_point, strategies

SHAPE = shape_of(ChatContent)
FIND = settings(phases=(Phase.generate,), max_examples=1000, derandomize=True, database=None)
SHRINK = settings(FIND, phases=(Phase.generate, Phase.shrink))
assert isinstance(SHAPE, Tagged)


def find(strategy: st.SearchStrategy[Any], condition: Callable[[Any], bool]) -> Any:
    return hypothesis.find(strategy, condition, settings=FIND)


def find_smallest(strategy: st.SearchStrategy[Any], condition: Callable[[Any], bool]) -> Any:
    return hypothesis.find(strategy, condition, settings=SHRINK)


@pytest.mark.long
def test_every_content_is_found() -> None:
    missing = {*SHAPE.members.values(), SHAPE.unknown}

    def is_last_one(content: Any) -> bool:
        missing.discard(type(content))
        return not missing

    assert find(strategies.contents(), is_last_one)


@pytest.mark.long
def test_a_counterexample_is_as_small_as_it_can_be() -> None:
    assert find_smallest(strategies.params("chat/prompt"), lambda _: True) == ChatPromptParams(
        message=""
    )
    assert find_smallest(
        strategies.params("chat/prompt"),
        lambda params: any(isinstance(context, FileContext) for context in params.contexts),
    ) == ChatPromptParams(message="", contexts=(FileContext(path=""),))
    assert find_smallest(
        strategies.contents(),
        lambda content: isinstance(content, ChatToolCallRunContent) and content.manual_approval,
    ) == ChatToolCallRunContent(origin="mcp", id="", name="", server="", manual_approval=True)


@given(content=strategies.contents(revision=Revision.R2025_09))
def test_a_revision_s_values_have_nothing_of_later_ones(content: ChatContent) -> None:
    assert not isinstance(content, ChatMetadataContent)


@given(params=strategies.params("chat/prompt", unknown=False))
def test_unknown_values_can_be_left_out(params: ChatPromptParams) -> None:
    assert not isinstance(params.behavior, UnknownValue)
    assert not any(isinstance(context, UnknownContext) for context in params.contexts)


@given(content=strategies.contents(revision=Revision.R2025_10, unknown=False))
def test_what_the_letter_knows_departs_only_where_a_ruling_writes_it(content: ChatContent) -> None:
    params = ChatContentReceivedParams(chat_id="c", role="user", content=content)
    raw = Codec(ECA, Revision.R2025_10).encode_params("chat/contentReceived", params)
    departures = explain("chat/contentReceived", raw, Revision.R2025_10)
    assert all(departure.ruling for departure in departures)


@given(message=strategies.messages(direction="server_to_client", kind="notification"))
def test_messages_are_of_the_side_and_kind_asked_for(message: tuple[str, Any]) -> None:
    method, params = message
    assert (ECA[method].direction, ECA[method].kind) == ("server_to_client", "notification")
    assert Codec(ECA, Revision.CURRENT).outgoing(method, params)


def test_methods_of_other_revisions_are_no_messages() -> None:
    with pytest.raises(InvalidArgument):
        strategies.params("chat/unheard")
    with pytest.raises(InvalidArgument):
        find(strategies.messages(kind="letter"), lambda _: True)


@pytest.mark.parametrize("kind", ["null", "unknown key", "missing", "unknown type"])
def test_raw_params_depart_in_every_way_that_is_allowed(kind: str) -> None:
    def departs(raw: Any) -> bool:
        return any(
            departure.kind == kind
            for departure in explain("chat/queryContext", raw, Revision.CURRENT)
        )

    assert find(strategies.raw_params("chat/queryContext"), departs) is not None


@given(data=st.data())
def test_a_broken_value_is_another_one(data: st.DataObject) -> None:
    value = data.draw(strategies.json_values())
    assert data.draw(strategies.broken(st.just(value))) != value


@pytest.mark.long(but=10)
@pytest.mark.parametrize("method", [row.name for row in ECA])
def test_every_method_can_be_refused(method: str) -> None:
    if ECA[method].params is None:
        return

    def is_refused(raw: Any) -> bool:
        return any(departure.refused for departure in explain(method, raw, Revision.CURRENT))

    assert find(strategies.broken(strategies.raw_params(method)), is_refused) is not ...


def test_hypothesis_finds_the_strategies_by_type() -> None:
    _hypothesis_entry_point.register()
    assert find_smallest(st.from_type(ChatTextContent), lambda _: True) == ChatTextContent(text="")
    example = find_smallest(
        st.from_type(ChatContentReceivedParams), lambda params: params.content.type == "text"
    )
    assert example == ChatContentReceivedParams(
        chat_id="", role="user", content=ChatTextContent(text="")
    )


@pytest.mark.long
def test_registering_loads_no_strategy() -> None:
    program = """
import sys
from eca_protocol.testing import _hypothesis_entry_point
_hypothesis_entry_point.register()
print("eca_protocol.testing.strategies" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"


@pytest.mark.long
def test_an_unknown_content_keeps_what_it_came_with() -> None:
    example = find_smallest(
        strategies.contents(),
        lambda content: isinstance(content, UnknownContent) and content.type is not None,
    )
    assert example == UnknownContent(type="", raw={"type": ""})

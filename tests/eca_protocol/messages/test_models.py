"""The common properties of all models."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
from typing import Any

import attrs
import pytest
from hypothesis import given

from eca_protocol import messages
from eca_protocol.messages import (
    ChatContent,
    ChatContext,
    RewriteContent,
    ToolCallDetails,
    ToolCallOutput,
    ToolServerUpdatedParams,
)
from eca_protocol.messages.shapes import Tagged, fields_of, shape_of
from eca_protocol.testing import strategies

CLASSES = [
    value
    for value in (getattr(messages, name) for name in messages.__all__)
    if isinstance(value, type) and attrs.has(value)
]
UNIONS = [
    ChatContent,
    ChatContext,
    RewriteContent,
    ToolCallDetails,
    ToolCallOutput,
    ToolServerUpdatedParams,
]


def test_every_name_of_a_chapter_is_loaded_from_it() -> None:
    for chapter, names in messages._NAMES.items():
        module = importlib.import_module(f".{chapter}", "eca_protocol.messages")
        assert chapter == "marks" or sorted(names.split()) == sorted(module.__all__), chapter
    with pytest.raises(AttributeError, match="nonsense"):
        messages.nonsense  # noqa: B018


def test_the_method_table_loads_no_chapter() -> None:
    program = """
import sys
from eca_protocol.methods import ECA
assert len(ECA) > 60
print([name for name in sys.modules if name.startswith("eca_protocol.messages.")])
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"


def test_a_model_is_frozen_and_takes_keywords_only() -> None:
    for cls in CLASSES:
        assert not hasattr(cls, "__dict__") or "__dict__" not in dir(cls), cls
        assert cls.__setattr__ is not object.__setattr__, cls
        assert all(attribute.kw_only for attribute in attrs.fields(cls)), cls


def test_a_model_has_nothing_that_making_it_from_slots_would_miss() -> None:
    for cls in CLASSES:
        assert not hasattr(cls, "__attrs_post_init__"), cls
        assert not hasattr(cls, "__attrs_pre_init__"), cls
        for attribute in attrs.fields(cls):
            assert (attribute.validator, attribute.converter) == (None, None), (cls, attribute)
            assert attribute.init, (cls, attribute)
        assert fields_of(cls) is fields_of(cls), cls


@pytest.mark.parametrize("union", UNIONS, ids=str)
def test_the_members_of_a_union_say_their_type(union: Any) -> None:
    shape = shape_of(union)
    assert isinstance(shape, Tagged)
    assert all(cls.type == tag for tag, cls in shape.members.items())
    assert shape.unknown.__name__.startswith("Unknown")
    assert [attribute.name for attribute in attrs.fields(shape.unknown)] == ["type", "raw"]


@given(content=strategies.contents())
def test_models_can_be_copied_and_pickled(content: ChatContent) -> None:
    assert pickle.loads(pickle.dumps(content)) == content
    assert copy.deepcopy(content) == content


def test_a_type_that_no_message_needs_has_no_shape() -> None:
    for hint in (list[str], dict[str, int], bytes, tuple[str, int]):
        with pytest.raises(TypeError, match="a model cannot contain"):
            shape_of(hint)

"""Messages cut to fit one read of a client (W-6, W-38)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json
from eca_server.connection.fitting import fit

TEXT = st.text(max_size=20).flatmap(lambda text: st.integers(0, 60).map(lambda n: text * n))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=3,
)
CALLED = st.fixed_dictionaries(
    {
        "type": st.just("toolCalled"),
        "id": st.just("call_1"),
        "arguments": st.dictionaries(st.text(max_size=10), JSON, max_size=3),
        "outputs": st.lists(
            st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=3
        ),
        "details": st.fixed_dictionaries(
            {"path": st.just("/p/a"), "diff": TEXT, "added": st.just(7)}
        ),
    }
)


@given(content=CALLED)
def test_a_call_fits_and_what_is_done_with_its_arguments_is_untouched(content: Any) -> None:
    raw = {"chatId": "c", "role": "assistant", "content": content}
    before = copy.deepcopy(raw)
    fitting = fit(raw, 1800)
    assert raw == before
    assert len(json.dumps(fitting)) <= 1800
    assert fitting == raw or b"bytes left out" in json.dumps(fitting)
    assert fitting["content"]["details"]["added"] == 7
    assert fitting["content"]["arguments"].keys() == content["arguments"].keys()
    assert len(fitting["content"]["outputs"]) == len(content["outputs"])


@pytest.mark.requirement("W-11b")
@given(count=st.integers(1, 400), selected=st.integers(0, 399), size=st.integers(300, 4000))
def test_of_many_models_the_selected_one_stays(count: int, selected: int, size: int) -> None:
    models = [f"provider/model-{number}" for number in range(count)]
    chat = {"models": models, "selectModel": models[selected % count], "welcomeMessage": "Hello"}
    fitting = fit({"chat": chat}, size)["chat"]
    assert len(json.dumps({"chat": fitting})) <= size
    assert fitting["selectModel"] in fitting["models"]
    assert set(fitting["models"]) <= set(models)
    assert fitting["models"] == models or len(json.dumps({"chat": fitting})) > size / 3


@pytest.mark.requirement("W-6e")
def test_a_list_loses_its_end() -> None:
    for key in ("contexts", "files", "commands", "tools", "chats", "jobs"):
        raw = {key: [{"name": f"number {number}"} for number in range(500)]}
        fitting = fit(raw, 4000)
        assert fitting[key] == raw[key][: len(fitting[key])]
        assert len(json.dumps(fitting)) <= 4000 < 3 * len(json.dumps(fitting))


def test_what_a_hook_wrote_is_cut_and_how_it_ended_is_not() -> None:
    content = {"type": "hookActionFinished", "id": "h", "status": 2, "output": "o" * 70_000}
    fitting = fit({"chatId": "c", "content": {**content, "error": "e" * 70_000}}, 4000)["content"]
    assert len(json.dumps(fitting)) <= 4000
    assert fitting["status"] == 2
    assert "bytes left out" in fitting["output"]
    assert "bytes left out" in fitting["error"]


@pytest.mark.parametrize("raw", [None, {}, {"chatId": "x" * 500}, {"content": {"text": "x" * 500}}])
def test_what_is_small_or_of_another_kind_stays_as_it_is(raw: Any) -> None:
    assert fit(raw, 400) is raw or fit(raw, 400) == raw

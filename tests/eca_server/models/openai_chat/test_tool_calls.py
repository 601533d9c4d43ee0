"""Tool calls with all labels that servers use, and their arguments."""

import pytest

from eca_server.models.backend import BackendError
from eca_server.models.events import Block, ToolCallArguments, ToolCallFinished, ToolCallStarted
from tests.eca_server.models.openai_chat.scripted import STOP, delta, fragment, play, tool
from tests.eca_server.models.reading import calls_of


@pytest.mark.parametrize(
    "fragments",
    [
        pytest.param(
            [
                fragment(name="f", index=0, id="a"),
                fragment('{"n"', index=0),
                fragment(":1}", index=0),
                fragment(name="f", index=1, id="b"),
                fragment('{"n":2}', index=1),
            ],
            id="as OpenAI",
        ),
        pytest.param(
            [
                fragment(name="f", index=0, id="a"),
                fragment(name="f", index=1, id="b"),
                fragment('{"n"', index=0),
                fragment('{"n"', index=1),
                fragment(":1}", index=0),
                fragment(":2}", index=1),
            ],
            id="interleaved",
        ),
        pytest.param(
            [fragment('{"n":1}', "f", id="a"), fragment('{"n":2}', "f", id="b")], id="no index"
        ),
        pytest.param(
            [fragment('{"n":1}', "f", index=0, id="a"), fragment('{"n":2}', "f", index=0, id="b")],
            id="all index 0",
        ),
        pytest.param(
            [fragment('{"n":1}', "f"), fragment('{"n":2}', "f")], id="neither index nor id"
        ),
        pytest.param(
            [fragment('{"n":1}', "f", index=0), fragment('{"n":2}', "f", index=0)],
            id="index 0 and no id",
        ),
        pytest.param(
            [
                fragment('{"n":1}', "f", index=0, id="same"),
                fragment('{"n":2}', "f", index=1, id="same"),
            ],
            id="equal ids",
        ),
        pytest.param(
            [
                fragment('{"n":1}', "f", index=0, id="same"),
                fragment('{"n":2}', "f", index=0, id="same"),
            ],
            id="equal ids and index",
        ),
        pytest.param(
            [
                fragment('{"n"', "f", index=0, id="a"),
                fragment(":1}", "", index=0, id=""),
                fragment('{"n"', "f", index=1, id="b"),
                fragment(":2}", None, index=1, id=""),
            ],
            id="empty ids later",
        ),
        pytest.param(
            [
                fragment('{"n"', "f", index=0, id="a"),
                fragment(":1}", "f", index=0, id="a"),
                fragment('{"n"', "f", index=1, id="b"),
                fragment(":2}", "f", index=1, id="b"),
            ],
            id="id and name on every piece",
        ),
        pytest.param(
            [fragment({"n": 1}, "f", id="a"), fragment({"n": 2}, "f", id="b")],
            id="arguments as objects",
        ),
    ],
)
def test_two_calls_are_two_calls_however_they_are_labelled(fragments):
    events = play(*[tool(piece) for piece in fragments], delta("tool_calls"))
    assert calls_of(events) == [("f", {"n": 1}), ("f", {"n": 2})]
    assert len({event.key for event in events if isinstance(event, ToolCallStarted)}) == 2
    for done in [event for event in events if isinstance(event, ToolCallFinished)]:
        pieces = [
            event.text
            for event in events
            if isinstance(event, ToolCallArguments) and event.key == done.key
        ]
        assert "".join(pieces) == done.raw


@pytest.mark.parametrize("labels", [{}, {"index": 0}, {"id": "same"}, {"index": 0, "id": "same"}])
@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_a_different_name_starts_a_new_call(labels, arguments):
    pieces = [
        fragment(arguments, "git_status", **labels),
        fragment('{"path":', "delete_file", **labels),
        fragment('"a"}', "delete_file", **labels),
        fragment(arguments, "git_log", **labels),
    ]
    events = play(*[tool(piece) for piece in pieces], delta("tool_calls"))
    calls = [("git_status", {}), ("delete_file", {"path": "a"}), ("git_log", {})]
    assert calls_of(events) == calls


@pytest.mark.parametrize("arguments", ["", None, "{}", " "])
def test_no_arguments_are_an_empty_object(arguments):
    events = play(tool(fragment(arguments, "f", index=0, id="a")), delta("tool_calls"))
    assert calls_of(events) == [("f", {})]


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "end_turn", "", "odd"])
def test_complete_calls_decide_whatever_the_reason_says(reason):
    events = play(tool(fragment("{}", "f", index=0, id="a")), delta(reason))
    assert events[-1].reason == "tool_calls"


def test_a_call_cut_by_the_limit_is_not_to_be_run():
    events = play(tool(fragment('{"n":', "f", index=0, id="a")), delta("length"))
    [call] = [event for event in events if isinstance(event, ToolCallFinished)]
    assert call.arguments is None
    assert "cut off" in call.error
    assert events[-1].reason == "length"


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"n": 1180591620717411303424}', {"n": 2**70}),
        ('{"n": NaN}', None),
        ('{"n": ' + "[" * 100_000, None),
        ('{"n": "\\ud800"}', {"n": "\ufffd"}),
        ('{"a":1}{"a":1}', None),
        ("[1]", None),
        ('"text"', None),
    ],
)
def test_arguments_are_strict_json_or_an_error_for_the_model(raw, arguments):
    events = play(tool(fragment(raw, "f", index=0, id="a")), delta("tool_calls"))
    [call] = [event for event in events if isinstance(event, ToolCallFinished)]
    assert (call.arguments, call.raw) == (arguments, raw)
    assert (call.error is None) == (arguments is not None)


def test_the_name_may_come_late():
    events = play(
        tool({"index": 0, "id": "a", "function": {"arguments": "{"}}),
        tool(fragment("}", "f", index=0)),
        STOP,
    )
    assert [type(event) for event in events[1:3]] == [ToolCallStarted, ToolCallArguments]
    assert calls_of(events) == [("f", {})]


def test_the_old_single_call_is_read():
    events = play(
        delta(function_call={"name": "f", "arguments": "{"}),
        delta(function_call={"arguments": "}"}),
        delta("function_call"),
    )
    assert calls_of(events) == [("f", {})]


@pytest.mark.parametrize(
    "piece", [{"index": 0, "function": {"arguments": "{}"}}, fragment("{}", index=0, id="a")]
)
def test_pieces_of_nothing_are_a_protocol_error(piece):
    with pytest.raises(BackendError) as caught:
        play(tool(piece), STOP)
    assert caught.value.kind == "protocol"


def test_a_signature_comes_back_with_its_call():
    extra = {"google": {"thought_signature": "c2ln"}}
    events = play(
        tool(fragment("{}", "f", index=0, id="a")),
        tool({"index": 0, "extra_content": extra}),
        delta(extra_content=extra),
        STOP,
    )
    [call] = [event for event in events if isinstance(event, ToolCallFinished)]
    assert call.opaque == {"extra_content": extra}
    assert Block(raw={"extra_content": extra}, position=0) in events

"""Tool calls with all labels that servers use, and their arguments."""

import pytest

from eca_server.models.events import Block, ToolCallArguments, ToolCallFinished, ToolCallStarted
from tests.eca_server.models.openai_chat.scripted import STOP, delta, fragment, play, tool
from tests.eca_server.models.reading import calls_of, only

ONE, TWO = '{"n":1}', '{"n":2}'

LABELS = {
    "as OpenAI": [("", "f", 0, "a"), ('{"n"',), (":1}",), ("", "f", 1, "b"), (TWO, None, 1)],
    "interleaved": [
        *(("", "f", 0, "a"), ("", "f", 1, "b"), ('{"n"', None, 0), ('{"n"', None, 1)),
        *((":1}", None, 0), (":2}", None, 1)),
    ],
    "no index": [(ONE, "f", None, "a"), (TWO, "f", None, "b")],
    "all index 0": [(ONE, "f", 0, "a"), (TWO, "f", 0, "b")],
    "neither index nor id": [(ONE, "f", None), (TWO, "f", None)],
    "index 0 and no id": [(ONE, "f"), (TWO, "f")],
    "equal ids": [(ONE, "f", 0, "same"), (TWO, "f", 1, "same")],
    "equal ids and index": [(ONE, "f", 0, "same"), (TWO, "f", 0, "same")],
    "empty ids later": [
        *(('{"n"', "f", 0, "a"), (":1}", "", 0, "")),
        *(('{"n"', "f", 1, "b"), (":2}", None, 1, "")),
    ],
    "id and name on every piece": [
        *(('{"n"', "f", 0, "a"), (":1}", "f", 0, "a")),
        *(('{"n"', "f", 1, "b"), (":2}", "f", 1, "b")),
    ],
    "arguments as objects": [({"n": 1}, "f", None, "a"), ({"n": 2}, "f", None, "b")],
}


def labelled(arguments, name=None, index=0, call_id=None) -> dict:
    """Return a piece of a call; None is no label."""
    labels = {"index": index, "id": call_id}
    return fragment(arguments, name, **{k: v for k, v in labels.items() if v is not None})


def played(*fragments, reason="tool_calls") -> list:
    return play(*map(tool, fragments), delta(reason))


@pytest.mark.parametrize("pieces", LABELS.values(), ids=LABELS)
def test_two_calls_are_two_calls_however_they_are_labelled(pieces):
    events = played(*[labelled(*piece) for piece in pieces])
    assert calls_of(events) == [("f", {"n": 1}), ("f", {"n": 2})]
    assert len({event.key for event in only(ToolCallStarted, events)}) == 2
    for done in only(ToolCallFinished, events):
        grown = [event.text for event in only(ToolCallArguments, events) if event.key == done.key]
        assert "".join(grown) == done.raw


@pytest.mark.parametrize("labels", [{}, {"index": 0}, {"id": "same"}, {"index": 0, "id": "same"}])
@pytest.mark.parametrize("arguments", ["", None, "{}", " "])
def test_a_different_name_starts_a_new_call(labels, arguments):
    events = played(
        fragment(arguments, "git_status", **labels),
        fragment('{"path":', "delete_file", **labels),
        fragment('"a"}', "delete_file", **labels),
        fragment(arguments, "git_log", **labels),
    )
    calls = [("git_status", {}), ("delete_file", {"path": "a"}), ("git_log", {})]
    assert calls_of(events) == calls


def test_the_name_may_come_late():
    early = {"index": 0, "id": "a", "function": {"arguments": "{"}}
    events = played(early, labelled("}", "f"))
    assert [type(event) for event in events[1:3]] == [ToolCallStarted, ToolCallArguments]
    assert calls_of(events) == [("f", {})]


def test_the_old_single_call_is_read():
    pieces = [{"name": "f", "arguments": "{"}, {"arguments": "}"}]
    deltas = [delta(function_call=piece) for piece in pieces]
    assert calls_of(play(*deltas, delta("function_call"))) == [("f", {})]


def test_a_signature_comes_back_with_its_call():
    extra = {"google": {"thought_signature": "c2ln"}}
    sealed = tool({"index": 0, "extra_content": extra})
    call = tool(labelled("{}", "f", 0, "a"))
    events = play(call, sealed, delta(extra_content=extra), STOP)
    [call] = only(ToolCallFinished, events)
    assert call.opaque == {"extra_content": extra}
    assert Block(raw={"extra_content": extra}, position=0) in events

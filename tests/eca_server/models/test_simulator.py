"""The embedded model: its answers, and every directive of its script."""

import re
from pathlib import Path

import pytest
import trio

from eca_server.models import simulator
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import (
    Citation,
    Finished,
    Progress,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    TextDelta,
    ToolCallFinished,
    Usage,
)
from eca_server.models.history import Message, TextPart, ToolResultPart
from eca_server.models.simulator import Simulator


def request(text: str, *later: Message, system: str = "") -> Request:
    return Request(system=system, messages=[Message(role="user", parts=(TextPart(text),)), *later])


async def play(given_request: Request | str, model="script") -> list:
    given_request = request(given_request) if isinstance(given_request, str) else given_request
    async with Simulator(model).stream(given_request) as events:
        return [event async for event in events]


def text_of(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


@pytest.mark.parametrize("text", ["", "Hello", "two\nlines  and\tspaces \n", "a \\n b \\\\ c", " "])
async def test_echo_says_the_text_exactly_in_small_pieces(text):
    events = await play(text, "echo")
    assert text_of(events) == text
    assert isinstance(events[0], Started)
    assert events[-1] == Finished(reason="stop")
    assert [event.output for event in events if isinstance(event, Usage)] == [
        sum(isinstance(event, TextDelta) for event in events)
    ]
    assert max((len(event.text.split()) for event in events if isinstance(event, TextDelta)),
               default=0) <= 1  # fmt: skip


async def test_a_script_says_thinks_cites_and_counts():
    events = await play(
        "think let me see\nsay Hel\\nlo\nrepeat 3 x\ncite http://a A title\nprogress\nusage 7 9"
    )
    kinds = [type(event) for event in events]
    assert kinds.index(ReasoningStarted) < kinds.index(ReasoningFinished) < kinds.index(TextDelta)
    assert text_of(events) == "Hel\nloxxx"
    assert Citation(url="http://a", title="A title") in events
    assert Progress("loading") in events
    assert events[-2:] == [Usage(input=7, output=9), Finished(reason="stop")]


async def test_a_script_calls_tools_and_continues_behind_their_results():
    script = 'say first\ncall f {"n": 1}\ncall g\nsay second\ncall h {"bad\nsay third'
    events = await play(script)
    calls = [event for event in events if isinstance(event, ToolCallFinished)]
    assert [call.arguments for call in calls] == [{"n": 1}, {}]
    assert (text_of(events), events[-1].reason) == ("first", "tool_calls")
    answer = Message(role="assistant", parts=())
    result = Message(role="tool", parts=(ToolResultPart(call_id="x", parts=()),))
    events = await play(request(script, answer, result))
    [bad] = [event for event in events if isinstance(event, ToolCallFinished)]
    assert (text_of(events), bad.arguments) == ("second", None)
    assert bad.error
    events = await play(request(script, answer, result, answer, result))
    assert (text_of(events), events[-1].reason) == ("third", "stop")
    assert (await play(request(script, *[answer, result] * 3)))[-1].reason == "stop"


async def test_a_script_fails_crashes_and_ends_on_demand():
    with pytest.raises(BackendError, match="too many") as caught:
        await play("fail rate_limit too many")
    assert (caught.value.kind, caught.value.retryable) == ("rate_limit", True)
    with pytest.raises(BackendError) as caught:
        await play("fail auth")
    assert not caught.value.retryable
    with pytest.raises(RuntimeError):
        await play("crash")
    assert (await play("say x\nfinish length\nsay y"))[-1].reason == "length"
    assert not isinstance((await play("say x\ncut"))[-1], Finished)
    assert text_of(await play("empty")) == ""


@pytest.mark.parametrize(
    "line", ["hello there", "fail nothing", "wait long", "speed", "repeat x y", "finish odd"]
)
async def test_a_line_that_is_no_directive_is_named_in_the_answer(line):
    assert line in text_of(await play(line))


async def test_speed_and_waits_take_their_time(autojump_clock):
    began = trio.current_time()
    await play("speed 10\nsay a b c d e\nspeed 0\nrepeat 1000 x\nwait 2.5")
    assert trio.current_time() - began == pytest.approx(3.0)
    with trio.move_on_after(1e6) as scope:
        await play("wait forever")
    assert scope.cancelled_caught


async def test_it_can_be_stopped_at_full_speed_and_lets_others_run():
    count = 0
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            nursery.cancel_scope.cancel()

        nursery.start_soon(stop)
        async with Simulator("script").stream(request("repeat 100000 x")) as events:
            async for _ in events:
                count += 1
    assert 0 < count < 100


async def test_a_request_for_a_title_gets_the_first_words():
    sent_request = request("say one two three four five six seven", system="Write a title.")
    for model in simulator.MODELS:
        assert text_of(await play(sent_request, model)) == "say one two three four five"


async def test_the_documentation_lists_every_directive():
    documented = {form.split()[0] for form in simulator.DIRECTIVES}
    used = set(re.findall(r'case \("(\w+)"', Path(simulator.__file__).read_text())) | {"empty"}
    assert documented == used


async def test_help_and_the_guide_list_every_directive():
    text = text_of(await play("help"))
    guide = Path(simulator.__file__).parents[2] / "docs" / "guides" / "sdk.md"
    rows = dict(re.findall(r"^\| `([^|]+)` \| (.+) \|$", guide.read_text(), re.MULTILINE))
    for form, meaning in simulator.DIRECTIVES.items():
        assert form in text
        assert meaning in text
        assert rows[form] == meaning


async def test_its_models_and_the_parts_of_an_answer():
    backend = Simulator("echo")
    assert [model.name for model in await backend.models()] == ["echo", "script"]
    answer = Answer()
    for event in await play("think x\nsay y"):
        answer.feed(event)
    assert [type(part).__name__ for part in answer.message(backend.origin).parts] == [
        "ReasoningPart",
        "TextPart",
    ]

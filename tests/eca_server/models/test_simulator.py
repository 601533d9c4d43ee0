"""The embedded model: its answers, and every directive of its script."""

import re
from pathlib import Path

import pytest
import trio

from eca_server.models import events as ev
from eca_server.models import simulator
from eca_server.models.backend import BackendError, Request
from eca_server.models.history import CitationPart, Message
from eca_server.models.simulator import Simulator
from tests.eca_server.models.histories import model, tool, tool_result, user
from tests.eca_server.models.reading import ask, only, read, text_of


async def play(text: str, *later: Message, name: str = "script", system: str = "") -> list:
    request = Request(system=system, messages=[user(text), *later])
    return (await ask(Simulator(name), request))[1]


@pytest.mark.parametrize("text", ["", "Hello", "two\nlines  and\tspaces \n", "a \\n b \\\\ c", " "])
async def test_echo_says_the_text_exactly_in_small_pieces(text):
    events = await play(text, name="echo")
    assert text_of(events) == text
    assert isinstance(events[0], ev.Started)
    assert events[-1] == ev.Finished(reason="stop")
    pieces = only(ev.TextDelta, events)
    assert [event.output for event in only(ev.Usage, events)] == [len(pieces)]
    assert all(len(event.text.split()) <= 1 for event in pieces)


async def test_a_script_says_thinks_cites_and_counts():
    events = await play(
        "think let me see\nsay Hel\\nlo\nrepeat 3 x\ncite http://a A title\nprogress\nusage 7 9"
    )
    kinds = [type(event) for event in events]
    assert (
        kinds.index(ev.ReasoningStarted)
        < kinds.index(ev.ReasoningFinished)
        < kinds.index(ev.TextDelta)
    )
    assert text_of(events) == "Hel\nloxxx"
    assert CitationPart(url="http://a", title="A title") in events
    assert ev.Progress("loading") in events
    assert events[-2:] == [ev.Usage(input=7, output=9), ev.Finished(reason="stop")]


async def test_a_script_calls_tools_and_continues_behind_their_results():
    script = 'say first\ncall f {"n": 1}\ncall g\nsay second\ncall h {"bad\nsay third'
    step = [model(), tool(tool_result())]
    events = await play(script)
    assert [call.arguments for call in only(ev.ToolCallFinished, events)] == [{"n": 1}, {}]
    assert (text_of(events), events[-1].reason) == ("first", "tool_calls")
    events = await play(script, *step)
    [bad] = only(ev.ToolCallFinished, events)
    assert (text_of(events), bad.arguments) == ("second", None)
    assert bad.error
    events = await play(script, *step * 2)
    assert (text_of(events), events[-1].reason) == ("third", "stop")
    assert (await play(script, *step * 3))[-1].reason == "stop"


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
    assert not isinstance((await play("say x\ncut"))[-1], ev.Finished)
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
        repeated = Request(messages=[user("repeat 100000 x")])
        async with Simulator("script").stream(repeated) as events:
            async for _ in events:
                count += 1
    assert 0 < count < 100


async def test_a_request_for_a_title_gets_the_first_words():
    for name in simulator.MODELS:
        text = "say one two three four five six seven"
        assert text_of(await play(text, name=name, system="Write a title.")) == text[:27]


async def test_help_and_the_guide_list_every_directive():
    documented = {form.split()[0] for form in simulator.DIRECTIVES}
    used = set(re.findall(r'case \("(\w+)"', Path(simulator.__file__).read_text())) | {"empty"}
    assert documented == used
    text = text_of(await play("help"))
    guide = Path(simulator.__file__).parents[2] / "docs" / "guides" / "sdk.md"
    rows = dict(re.findall(r"^\| `([^|]+)` \| (.+) \|$", guide.read_text(), re.MULTILINE))
    for form, meaning in simulator.DIRECTIVES.items():
        assert form in text
        assert meaning in text
        assert rows[form] == meaning


async def test_the_parts_of_an_answer():
    message = read(await play("think x\nsay y")).message(Simulator("echo").origin)
    assert [type(part).__name__ for part in message.parts] == ["ReasoningPart", "TextPart"]

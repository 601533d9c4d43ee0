"""Cases of the stop: in each state of the model's answer, of a tool call, and of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio
import attrs

from eca_protocol.errors import DeadlineExceeded
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.reading import (
    Content,
    asked,
    calls,
    comes,
    conversation,
    ends,
    finishes,
    id_of,
    next_run,
    told,
)
from eca_protocol.testing.script import Reply, hang, reasoning, reply, text

BUSY = Reply(status=429, headers={"retry-after": "30"}, body={"error": {"message": "slow down"}})
STATES: Mapping[str, tuple[Reply, str]] = {
    "before the headers": (Reply(before_headers=[hang()], steps=[text("never")]), ""),
    "before the first word": (reply(hang()), ""),
    "in the midst of a text": (reply("some", hang()), "text"),
    "in the midst of a thought": (reply(reasoning("hm"), hang()), "reasonText"),
    "in a wait before another try": (BUSY, ""),
}
"""What the model does, and the content by which the client sees that it is there."""

_LAGS: Final = 4
"""How many times a query's answer may be waited for where nothing takes time but the machine."""

AT_ONCE = 0.5
"""Seconds within which a stopped turn has finished; with a tool that runs 1."""


@case("W-23a", "W-23d", "W-23e", "W-23f", "W-23g", "CHAT-33", "CHAT-34", seconds=30)
async def a_stop_ends_the_turn_in_each_state_of_the_answer(bench: Bench) -> None:
    """A stop before the headers, the first word, in a text, in a thought, in a Retry-After."""
    trials = []
    async with bench.seat() as seat:
        for state in STATES:
            trial = await _tried(seat, state)
            if trial.is_slow:  # once more: the machine may have been busy
                trial = await _tried(seat, state)
            trials.append(trial)
        await seat.settle()
    trials = [trial for trial in trials if trial.was_tried]
    if not trials:
        raise Stuck("an answer that can be stopped", "turns that were over before")
    never = [trial.state for trial in trials if trial.seconds is None]
    bench.check("W-23a", not never, expected="`finished` in each state", got=never)
    slow = [(trial.state, trial.seconds) for trial in trials if trial.is_slow]
    bench.check("W-23e", not slow, expected=f"`finished` within {AT_ONCE} s", got=slow)
    told = [trial.state for trial in trials if trial.tells_usage]
    bench.check("W-23d", not told, expected="no usage of a stopped turn", got=told)
    left = [trial.state for trial in trials if not trial.hangs_up]
    bench.check("W-23f", not left, expected="the connection to the model closed", got=left)
    deaf = [trial.state for trial in trials if not trial.goes_on]
    expected = "the next prompt's turn, whose request is the second"
    bench.check("CHAT-34", not deaf, expected=expected, got=deaf)
    bench.saw("W-23g", "CHAT-33")


@attrs.frozen(kw_only=True)
class _Trial:
    """What came of a stop; `seconds` is None where nothing ended.

    It was not tried where the answer never came to that state, or the turn was over before.
    """

    state: str
    seconds: float | None = None
    was_tried: bool = True
    tells_usage: bool = False
    hangs_up: bool = True
    goes_on: bool = True

    @property
    def is_slow(self) -> bool:
        return (self.seconds or 0.0) > AT_ONCE


async def _tried(seat: Seat, state: str) -> _Trial:
    """Prompt, let it come to that state, stop, and prompt again.

    A server need not wait where it was told to; then the turn comes to its own end.
    """
    answer, sign = STATES[state]
    chat = seat.chat(answer, reply("next"))
    await chat.prompt("Hi.")
    await asked(chat)
    if sign and not await comes(chat, sign):
        return _Trial(state=state, was_tried=False)
    await seat.settle()
    if chat.ends:
        return _Trial(state=state, was_tried=False)
    seconds = await stopped(chat)
    if seconds is None:
        return _Trial(state=state, seconds=None)
    tells_usage = answer is not BUSY and bool(chat.of("usage"))
    hangs_up = answer is BUSY or await hung_up(chat)
    before = len(chat.model.requests)
    await chat.prompt("Go on.")
    goes_on = await finishes(chat, 2)
    requests = len(chat.model.requests)
    goes_on = goes_on and (requests > before if answer is BUSY else requests == 2)
    return _Trial(
        state=state,
        seconds=seconds,
        tells_usage=tells_usage,
        hangs_up=hangs_up,
        goes_on=goes_on,
    )


async def stopped(chat: ChatSeat) -> float | None:
    """The seconds that a stop takes, less what a busy machine makes of it; None: nothing ends."""
    ended = chat.ends
    begun = anyio.current_time()
    await chat.stop()
    if not await finishes(chat, ended + 1, seconds=5):
        return None
    took, begun = anyio.current_time() - begun, anyio.current_time()
    await chat.seat.settle()
    return max(0.0, took - _LAGS * (anyio.current_time() - begun))


async def hung_up(chat: ChatSeat) -> bool:
    """Whether the server closes the connection of its first request for that chat."""
    request = chat.model.first
    try:
        await chat.model.until(lambda: request.closed_by_client, seconds=2)
    except DeadlineExceeded:
        return False
    return True


@case("W-23b", "W-30g", needs="native-tools")
async def a_stop_ends_a_call_that_waits_and_one_that_runs(bench: Bench) -> None:
    """A stop while the user is asked, and one while a command sleeps."""
    took: dict[str, float | None] = {}
    async with bench.seat() as seat:
        seat.tool("shell_command")
        for state in _ENDS_OF:
            took[state] = await _stopped_call(bench, seat, state)
            if (took[state] or 0.0) > 1:  # once more: the machine may have been busy
                took[state] = await _stopped_call(bench, seat, state)
    slow = {state: seconds for state, seconds in took.items() if seconds is None or seconds > 1}
    bench.check("W-23b", not slow, expected="`finished` within 1 s of the stop", got=slow)


async def _stopped_call(bench: Bench, seat: Seat, state: str) -> float | None:
    """Stop a call in that state; the seconds that it takes, None if nothing ends.

    A server need not ask the user; then no call waits.
    """
    chat = seat.chat(calls(("shell_command", {"command": "sleep 30"})))
    await chat.prompt("Sleep.")
    run = await next_run(chat)
    if state == "waiting" and run.get("manualApproval") is not True:
        await chat.stop()
        return 0.0
    if state == "running":
        await chat.approve(id_of(run))
        await comes(chat, "toolCallRunning")
        if ends(chat):
            raise Stuck("a call that runs", ends(chat))
    seconds = await stopped(chat)
    if seconds is not None:
        closed = ends(chat)
        right = len(closed) == 1 and _ENDS_OF[state](closed[0])
        bench.check("W-30g", right, expected=_SAID_OF[state], got=closed)
    return seconds


_ENDS_OF: Final[Mapping[str, Callable[[Content], bool]]] = {
    "waiting": lambda end: end["type"] == "toolCallRejected" and end.get("reason") != "user-config",
    "running": lambda end: end["type"] == "toolCalled" and end.get("error", True) is True,
}
_SAID_OF: Final[Mapping[str, str]] = {
    "waiting": "a call that waited is rejected by the user's choice",
    "running": "a call that ran is called, with an error",
}


@case("W-22f", "W-22g")
async def a_stop_of_what_does_not_run_ends_no_turn(bench: Bench) -> None:
    """Stop an unknown chat and an idle one, then prompt the idle one."""
    async with bench.seat() as seat:
        unknown, chat = seat.chat(id="never-seen"), seat.chat(reply("one"), reply("two"))
        await unknown.stop()
        await chat.prompt("First.")
        await chat.finished()
        await seat.settle()
        before, notified = len(chat.contents), len(seat.heard)
        await chat.stop()
        await seat.settle()
        is_answered = bench.edition is Revision.CURRENT
        for stopped, since in ((unknown, 0), (chat, notified)) if is_answered else ():
            states = [
                heard.params.get("status")
                for heard in seat.heard[since:]
                if heard.method == "chat/statusChanged" and heard.chat_id == stopped.id
            ]
            expected = "`chat/statusChanged` idle"
            bench.check("W-22g", states == ["idle"], expected=expected, got=states)
        told = [
            heard.params
            for heard in [*unknown.heard, *chat.heard[before:]]
            if heard.content.get("type") != "metadata"
        ]
        bench.check("W-22f", not told, expected="nothing", got=told)
        await chat.prompt("Second.")
        ended = await finishes(chat, 2)
        bench.check(
            "W-22f",
            ended and len(chat.model.requests) == 2,
            expected="two turns",
            got=f"{chat.ends} turns, {len(chat.model.requests)} requests",
        )


@case("W-22c", "W-22d")
async def a_stop_empties_the_queue_and_repeats_what_it_drops(bench: Bench) -> None:
    """Two prompts wait behind a turn that is stopped; a prompt behind the stop is answered."""
    async with bench.seat() as seat:
        chat = seat.chat(reply("one", hang()), reply("behind the stop"))
        await chat.prompt("First.")
        await chat.content("text", text="one")
        for prompt in ("Second, dropped.", "Third, dropped as well."):
            answer = await chat.prompt(prompt)
            if "result" not in answer:
                raise Stuck("a prompt that waits for its turn", answer)
        await chat.stop()
        await chat.finished()
        repeated = told(chat)
        await chat.prompt("Fourth.")
        await finishes(chat, 2)
        await seat.settle()
        queued = [conversation(request.body) for request in chat.model.requests[1:2]]
        dropped = all(chat.prompted[3] in each for each in queued)
        bench.check("W-22c", dropped, expected="the fourth prompt in the next request", got=queued)
        bench.check(
            "W-22d",
            not dropped or all(prompt in repeated for prompt in chat.prompted[1:3]),
            expected=f"a text of the system's with {chat.prompted[1:3]}, before `finished`",
            got=repeated,
        )

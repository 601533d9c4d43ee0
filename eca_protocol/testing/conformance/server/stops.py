"""Cases of the stop: in each state of the model's answer, of a tool call, and of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio
import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession, Content, comes
from eca_protocol.testing.conformance.server.reading import calls, conversation, id_of
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, hang, reasoning, reply, wait

BUSY = Reply(status=429, headers={"retry-after": "30"}, body={"error": {"message": "slow down"}})
ON: Final = "on"  # the gate in front of the model's output after a stop
STATES: Mapping[str, tuple[Reply, str]] = {
    "before the headers": (Reply(before_headers=[wait(ON)], steps=reply("late").steps), ""),
    "before the first word": (reply(wait(ON), "late"), ""),
    "in the midst of a text": (reply("some", wait(ON), "late"), "text"),
    "in the midst of a thought": (
        reply(reasoning("hm"), wait(ON), reasoning("late"), "late"),
        "reasonText",
    ),
    "in a wait before another try": (BUSY, ""),
}
"""The model's reply in each state, and the content that shows the state to the client.

Behind the gate the model continues: a server that still listens after a stop has to drop that.
"""

_LAG_FACTOR: Final = 4  # the multiple of a query's round trip that is taken for the machine's lag
_LATE_SECONDS: Final = 0.3
"""Seconds in which the model's output after a stop would reach the client."""

STOP_SECONDS = 0.5  # seconds within which a stopped turn has to finish; 1 for a running tool


@case("W-23a", "W-23d", "W-23e", "W-23f", "W-23g", "CHAT-33", "CHAT-34", needs="model", seconds=30)
async def a_stop_ends_the_turn_in_each_state_of_the_answer(session: ClientSession) -> None:
    """Stop before the headers, before text, in a text, in reasoning, and in a retry."""
    trials = []
    for state in STATES:
        trial = await _try_state(session, state)
        if trial.is_slow:  # once more: the machine may have been busy
            trial = await _try_state(session, state)
        trials.append(trial)
    await session.settle()
    trials = [trial for trial in trials if trial.was_tried]
    if not trials:
        raise Unmet("a running answer to stop", "turns that were over before")
    unfinished = [trial.state for trial in trials if trial.seconds is None]
    got = f"no `finished`: {unfinished}"
    session.check("W-23a", not unfinished, "`finished` after a stop in each state", got)
    slow = [(trial.state, trial.seconds) for trial in trials if trial.is_slow]
    session.check("W-23e", not slow, f"`finished` within {STOP_SECONDS} s of the stop", slow)
    with_usage = [trial.state for trial in trials if trial.tells_usage]
    session.check("W-23d", not with_usage, "no usage of a stopped turn", f"usage: {with_usage}")
    left_open = [trial.state for trial in trials if not trial.hangs_up]
    got = f"an open connection: {left_open}"
    session.check("W-23f", not left_open, "a closed connection to the model", got)
    not_continued = [trial.state for trial in trials if not trial.continues]
    expected = "a turn of the next prompt, with one more request to the model"
    session.check("CHAT-34", not not_continued, expected, f"no such turn: {not_continued}")
    late = {trial.state: trial.late for trial in trials if trial.late}
    session.check("W-23g", not late, "no content of a stopped turn after its `finished`", late)
    if late:
        session.untestable("CHAT-33", "the output came after `finished`, which breaks W-23g")
    else:
        session.record_pass("CHAT-33")


@attrs.frozen(kw_only=True)
class _Trial:
    """The result of a stop; `seconds` is None if the turn did not end.

    `was_tried` is False if the answer never reached the state, or the turn had ended. `late` are
    the contents after `finished`.
    """

    state: str
    seconds: float | None = None
    was_tried: bool = True
    tells_usage: bool = False
    hangs_up: bool = True
    continues: bool = True
    late: Sequence[Content] = ()

    @property
    def is_slow(self) -> bool:
        return (self.seconds or 0.0) > STOP_SECONDS


async def _try_state(session: ClientSession, state: str) -> _Trial:
    """Prompt, wait for the state, stop, and prompt again.

    A server need not retry; then the turn ends before the stop.
    """
    answer, sign = STATES[state]
    chat = session.chat(answer, reply("next"))
    await chat.prompt("Hi.")
    await chat.model.wait_for_requests()
    if sign and not await chat.comes(sign):
        return _Trial(state=state, was_tried=False)
    await session.settle()
    if chat.ends:
        return _Trial(state=state, was_tried=False)
    seconds = await stop_turn(chat)
    if seconds is None:
        return _Trial(state=state, seconds=None)
    tells_usage = answer is not BUSY and bool(chat.of("usage"))
    hangs_up = answer is BUSY or await closes_connection(chat)
    if not hangs_up:
        await _let_model_continue(chat)
    late = [each for each in contents_after_end(chat) if each.get("state") != "finished"]  # W-22e
    before = len(chat.model.requests)
    await chat.prompt("Continue.")
    continues = await chat.finishes(2)
    requests = len(chat.model.requests)
    continues = continues and (requests > before if answer is BUSY else requests == 2)
    return _Trial(
        state=state,
        seconds=seconds,
        tells_usage=tells_usage,
        hangs_up=hangs_up,
        continues=continues,
        late=late,
    )


async def _let_model_continue(chat: ChatSession) -> None:
    """Let the model write the rest of its answer, and the server read it."""
    request = chat.model.first
    chat.model.open(ON)
    await comes(chat.model.until(lambda: request.answered, "the end of the answer", seconds=1))
    await chat.session.quiet(_LATE_SECONDS)


def contents_after_end(chat: ChatSession) -> list[Content]:
    """Return the contents after the first `finished`, without titles."""
    end = chat.kinds.index("finished") + 1
    return [each for each in chat.of()[end:] if each.get("type") != "metadata"]


async def stop_turn(chat: ChatSession) -> float | None:
    """Stop a turn; return the seconds it took, less the machine's lag, or None."""
    ended = chat.ends
    start = anyio.current_time()
    await chat.stop()
    if not await chat.finishes(ended + 1, seconds=5):
        return None
    took, start = anyio.current_time() - start, anyio.current_time()
    await chat.session.settle()
    return max(0.0, took - _LAG_FACTOR * (anyio.current_time() - start))


async def closes_connection(chat: ChatSession) -> bool:
    """Return whether the server closes its first connection to the model for the chat."""
    request = chat.model.first
    closed = "a closed connection to the model"
    return await comes(chat.model.until(lambda: request.closed_by_client, closed, seconds=2))


@case("W-23b", "W-30g", tools=["shell_command"])
async def a_stop_ends_a_call_that_waits_and_one_that_runs(session: ClientSession) -> None:
    """Stop a call that waits for approval, and a command that runs."""
    seconds_by_state: dict[str, float | None] = {}
    for state in _ENDS_OF:
        seconds_by_state[state] = await _stop_call(session, state)
        if (seconds_by_state[state] or 0.0) > 1:  # once more: the machine may have been busy
            seconds_by_state[state] = await _stop_call(session, state)
    slow = {
        state: seconds
        for state, seconds in seconds_by_state.items()
        if seconds is None or seconds > 1
    }
    session.check("W-23b", not slow, "`finished` within 1 s of the stop", slow)


async def _stop_call(session: ClientSession, state: str) -> float | None:
    """Stop a call in that state, and decide too late; return the seconds it took, or None.

    A server need not ask for approval; then no call waits.
    """
    chat = session.chat(calls(("shell_command", {"command": "sleep 30"})))
    await chat.prompt("Sleep.")
    run = await chat.next_run()
    if state == "waiting" and run.get("manualApproval") is not True:
        await chat.stop()
        return 0.0
    if state == "running":
        await chat.approve(id_of(run))
        await chat.comes("toolCallRunning")
        if chat.call_ends:
            raise Unmet("a running call", chat.call_ends)
    seconds = await stop_turn(chat)
    if state == "waiting":
        await chat.reject(id_of(run))
    await session.settle()
    if seconds is not None:
        closed, (is_end, expected) = chat.call_ends, _ENDS_OF[state]
        session.check("W-30g", len(closed) == 1 and is_end(closed[0]), expected, closed)
    return seconds


_ENDS_OF: Final[Mapping[str, tuple[Callable[[Content], bool], str]]] = {
    "waiting": (
        lambda end: end["type"] == "toolCallRejected" and end.get("reason") != "user-config",
        "one toolCallRejected of the waiting call, not by user-config",
    ),
    "running": (
        lambda end: end["type"] == "toolCalled" and end.get("error", True) is True,
        "one toolCalled with an error of the running call",
    ),
}
"""The end of a call in each state."""


@case("W-22f", "W-22g", needs="model")
async def a_stop_of_what_does_not_run_ends_no_turn(session: ClientSession) -> None:
    """Stop an unknown chat and an idle one, then prompt the idle one."""
    unknown, chat = session.chat(id="never-seen"), session.chat(reply("one"), reply("two"))
    await unknown.stop()
    await chat.take_turn("First.")
    await session.settle()
    before, notified = len(chat.contents), len(session.messages)
    await chat.stop()
    await session.settle()
    is_answered = session.edition is Revision.CURRENT
    for stopped, since in ((unknown, 0), (chat, notified)) if is_answered else ():
        states = [
            received.params.get("status")
            for received in session.messages[since:]
            if received.method == "chat/statusChanged" and received.chat_id == stopped.id
        ]
        expected = "one `chat/statusChanged` with the status idle"
        session.check("W-22g", states == ["idle"], expected, states)
    later_contents = [
        received.params
        for received in [*unknown.messages, *chat.messages[before:]]
        if received.content.get("type") != "metadata"
    ]
    expected = "no content after a stop of an idle or unknown chat"
    session.check("W-22f", not later_contents, expected, later_contents)
    await chat.prompt("Second.")
    ended = await chat.finishes(2)
    expected = "two turns and two requests to the model"
    got = f"{chat.ends} turns, {len(chat.model.requests)} requests"
    session.check("W-22f", ended and len(chat.model.requests) == 2, expected, got)


@case("W-22c", "W-22d", needs="model")
async def a_stop_empties_the_queue_and_repeats_what_it_drops(session: ClientSession) -> None:
    """Stop a turn that has two prompts queued, then prompt again."""
    chat = session.chat(reply("one", hang()), reply("behind the stop"))
    await chat.prompt("First.")
    await chat.content("text", text="one")
    for prompt in ("Second, dropped.", "Third, dropped as well."):
        answer = await chat.prompt(prompt)
        if "result" not in answer:
            raise Unmet("a prompt that waits for its turn", answer)
    await chat.stop()
    await chat.finished()
    repeated = chat.text("system")
    await chat.prompt("Fourth.")
    await chat.finishes(2)
    await session.settle()
    queued = [conversation(request.body) for request in chat.model.requests[1:2]]
    dropped = all(chat.prompts[3] in each for each in queued)
    session.check("W-22c", dropped, "the prompt after the stop in the next request", queued)
    is_right = not dropped or all(prompt in repeated for prompt in chat.prompts[1:3])
    expected = f"a text of the role system with {chat.prompts[1:3]}, before `finished`"
    session.check("W-22d", is_right, expected, repeated)

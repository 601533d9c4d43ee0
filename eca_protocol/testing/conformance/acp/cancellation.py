"""Cases of `session/cancel`: in each state of a turn, and without one."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from eca_protocol.testing.conformance.acp.harness import (
    CANCELLED,
    PATIENCE,
    AgentSession,
    Prompt,
    agent_case,
    runs,
)
from eca_protocol.testing.conformance.acp.turns import asks_for_permission
from eca_protocol.testing.conformance.cases import Need
from eca_protocol.testing.conformance.model import AnswersWith
from eca_protocol.testing.conformance.server.children import becomes_true
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, reply, wait

_AT_ONCE: Final = 5.0  # seconds
_MARK: Final = "mark.txt"


async def _nothing(_: AgentSession, __: Prompt) -> None:
    return


async def _request_to_the_model(_: AgentSession, prompt: Prompt) -> None:
    expected = "a request to the model"
    await prompt.model.until(lambda: bool(prompt.model.requests), expected, seconds=PATIENCE)


async def _text(agent: AgentSession, prompt: Prompt) -> None:
    await agent.event(prompt, "agent_message_chunk")


async def _running_tool(agent: AgentSession, _: Prompt) -> None:
    if not await becomes_true((agent.workspace / _MARK).exists, seconds=PATIENCE):
        raise Unmet("a running command")


async def _permission(agent: AgentSession, prompt: Prompt) -> None:
    await asks_for_permission(agent, prompt)


_WAITS: Final = Reply(before_headers=[wait("never")], steps=reply("late").steps)


def _cancel_case(
    row: str,
    name: str,
    script: Callable[[str], AnswersWith],
    reach: Callable[[AgentSession, Prompt], Awaitable[None]],
    needs: Need | tuple[()] = (),
) -> None:
    """Declare the case of a cancel in a state, by its script and the function that waits for it."""
    asks = reach is _permission
    more = ("ACP-45",) if reach is _text else ()

    async def cancel(agent: AgentSession) -> None:
        agent.choose(None if asks else "allow")
        mark = agent.workspace / _MARK
        session_id = await agent.new()
        prompt = await agent.prompt(session_id, script(str(mark)))
        await reach(agent, prompt)
        start = time.monotonic()
        await agent.notify("session/cancel", {"sessionId": session_id})
        if asks:
            await agent.reply(await asks_for_permission(agent, prompt), CANCELLED)
        try:
            end = await agent.ended(prompt, seconds=_AT_ONCE)
        except Unmet as stuck:
            end = stuck.got
        has_run = asks and mark.exists()
        got = f"{end} after {time.monotonic() - start:.1f} s{', and it ran' if has_run else ''}"
        agent.check(row, end == "cancelled" and not has_run, "the answer `cancelled`", got)
        await agent.quiet(0.3)
        if more:
            agent.choose("allow")
            end = await agent.ended(await agent.prompt(session_id, reply("Again.")))
            agent.check("ACP-45", end == "end_turn", "the answer `end_turn`", end)

    cancel.__name__ = f"a_cancel_{name}"
    cancel.__doc__ = f"Cancel a prompt {name.replace('_', ' ')}."
    agent_case(row, *more, needs=needs)(cancel)


_cancel_case("ACP-40", "at_the_start", lambda _: _WAITS, _nothing)
_cancel_case("ACP-41", "before_an_answer", lambda _: _WAITS, _request_to_the_model, "model")
_cancel_case("ACP-42", "in_a_text", lambda _: reply("a", wait("never"), "b"), _text)
_cancel_case(
    "ACP-43", "in_a_tool", lambda mark: runs(f"touch '{mark}'; sleep 60"), _running_tool, "model"
)
_cancel_case("ACP-44", "in_a_permission", lambda mark: runs(f"touch '{mark}'"), _permission)


@agent_case("ACP-46")
async def a_cancel_without_a_prompt(agent: AgentSession) -> None:
    """Cancel a session without a prompt, and send one then."""
    session_id = await agent.new()
    await agent.notify("session/cancel", {"sessionId": session_id})
    end = await agent.ended(await agent.prompt(session_id, reply("Hello.")))
    agent.check("ACP-46", end == "end_turn", "the answer `end_turn`", end)

"""Cases of turns: texts, several sessions, tool calls and their permission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.testing.conformance.acp.harness import (
    PERMISSION,
    AgentSession,
    Prompt,
    agent_case,
    runs,
)
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import reply, wait

_TEXT: Final = ("One ", "two.\n", "\n```\ncode\n```\n", "ä€𝄞")


@agent_case("ACP-30", "ACP-32")
async def a_turn_runs_to_its_end(agent: AgentSession) -> None:
    """Send a prompt with a text and a resource link."""
    uri = agent.file("a.txt", "a file\n").as_uri()
    link = {"type": "resource_link", "name": "a.txt", "uri": uri}
    end = await agent.ended(await agent.prompt(await agent.new(), reply("A."), blocks=[link]))
    agent.check("ACP-32", isinstance(end, str), "a stop reason", end)
    agent.check("ACP-30", end == "end_turn", "end_turn", end)


@agent_case("ACP-29", needs="model")
async def the_text_arrives(agent: AgentSession) -> None:
    """Let the model send a text in several parts."""
    session_id = await agent.new()
    prompt = await agent.prompt(session_id, reply(*_TEXT))
    await agent.ended(prompt)
    await agent.settle()
    text = agent.text(session_id, after=prompt.after)
    agent.check("ACP-29", text == "".join(_TEXT), repr("".join(_TEXT)), text)


@agent_case("ACP-33", needs="model")
async def sessions_do_not_mix(agent: AgentSession) -> None:
    """Run two turns at once, in two sessions."""
    first, second = [await agent.new(), await agent.new()]
    slow = await agent.prompt(first, reply("slow ", wait("on"), "end"))
    await agent.event(slow, "agent_message_chunk")
    await agent.ended(await agent.prompt(second, reply("fast")))
    slow.model.open("on")
    await agent.ended(slow)
    await agent.settle()
    texts = agent.text(first), agent.text(second)
    agent.check("ACP-33", texts == ("slow end", "fast"), "'slow end' and 'fast'", texts)


async def asks_for_permission(agent: AgentSession, prompt: Prompt) -> ReceivedMessage:
    """Wait for a request for permission.

    Raises:
        NotApplicable: the turn ends without one.
    """
    try:
        return await agent.event(prompt, PERMISSION)
    except Unmet as stuck:
        raise NotApplicable(f"the agent asks for no permission: {stuck.got}") from stuck


def _status(agent: AgentSession, prompt: Prompt, call_id: object) -> object:
    updates = [
        update
        for kind in ("tool_call", "tool_call_update")
        for update in agent.updates(prompt.session_id, kind, after=prompt.after)
        if update.get("toolCallId") == call_id and update.get("status")
    ]
    return updates[-1]["status"] if updates else None


def _decision_case(choice: str, row: str) -> None:
    async def decide(agent: AgentSession) -> None:
        agent.choose(choice)
        mark = agent.workspace / "mark.txt"
        prompt = await agent.prompt(await agent.new(), runs(f"touch '{mark}'"), reply("done"))
        request = await asks_for_permission(agent, prompt)
        end = await agent.ended(prompt)
        call = request.params.get("toolCall", {}).get("toolCallId")
        status = _status(agent, prompt, call)
        uses_model = bool(prompt.model.requests)
        has_run = mark.exists() if uses_model else choice == "allow"
        if choice == "allow":
            _check_options(agent, request.params)
            is_right = has_run and status == "completed"
            expected = "the effect of the command, and the status completed"
        else:
            is_right = (
                isinstance(end, str) and status != "completed" and not (uses_model and has_run)
            )
            expected = "no effect of the command, and a stop reason"
        agent.check(row, is_right, expected, f"effect: {has_run}, status: {status}, end: {end}")

    decide.__name__ = f"permission_to_{choice}"
    decide.__doc__ = f"Answer a request for permission: {choice}."
    agent_case(row, *(("ACP-39",) if choice == "allow" else ()))(decide)


def _check_options(agent: AgentSession, params: Mapping[str, Any]) -> None:
    options = params.get("options", ())
    kinds = {str(option.get("kind")).partition("_")[0] for option in options}
    is_complete = {"allow", "reject"} <= kinds
    has_unique = len({option.get("optionId") for option in options}) == len(options)
    agent.check("ACP-39", is_complete and has_unique, "options to allow and to reject", options)


_decision_case("allow", "ACP-37")
_decision_case("reject", "ACP-38")

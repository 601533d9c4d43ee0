"""Cases of odd messages, after which the agent has to serve on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.testing.conformance.acp.harness import PATIENCE, AgentSession, agent_case
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.members import at, object_at
from eca_protocol.testing.script import reply, wait

_WRONG_PARAMS: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("session/new", {"mcpServers": []}),
    ("session/new", {"cwd": 3, "mcpServers": []}),
    ("session/prompt", {"prompt": []}),
    ("session/prompt", {"sessionId": "x", "prompt": "text"}),
)


def _code(answer: Mapping[str, Any]) -> object:
    return at(answer, "error", "code") if "error" in answer else answer


@agent_case("ACP-5", "ACP-6")
async def unknown_methods_are_refused(agent: AgentSession) -> None:
    """Send an unknown notification, then an unknown request."""
    before = len(agent.messages)
    await agent.notify("_eca/unknown", {"any": 1})
    answer = await agent.ask("_eca/unknown", {"any": 1}, seconds=PATIENCE)
    agent.check("ACP-5", _code(answer) == -32601, "the code -32601", answer)
    others = [each.message for each in agent.messages[before:] if each.message != answer]
    agent.check("ACP-6", not others, "nothing but the answer to the request", others)


@agent_case("ACP-7", "ACP-8")
async def broken_lines_are_survived(agent: AgentSession) -> None:
    """Send a line that is no JSON, then a request."""
    before = len(agent.messages)
    await agent.send(b'{"jsonrpc": "2.0", "id": 1, "method": ')
    await agent.settle(shows="ACP-8")
    agent.check("ACP-8", True, "an answer", "an answer")
    codes = [_code(each.message) for each in agent.messages[before:] if "id" in each.message]
    agent.check("ACP-7", -32700 in codes, "an error with the code -32700", codes)


@agent_case("ACP-9")
async def wrong_params_are_refused(agent: AgentSession) -> None:
    """Send requests without required members, and with members of wrong types."""
    answers = [await agent.ask(*each, seconds=PATIENCE) for each in _WRONG_PARAMS]
    codes = list(map(_code, answers))
    agent.check("ACP-9", set(codes) == {-32602}, "the code -32602", codes)


@agent_case("ACP-11")
async def unknown_sessions_are_refused(agent: AgentSession) -> None:
    """Send a prompt to a session that does not exist."""
    error = await agent.ended(await agent.prompt("no-such-session"))
    agent.check("ACP-11", isinstance(error, Mapping), "an error", error)


@agent_case("ACP-10", needs="model")
async def duplicate_ids_do_no_harm(agent: AgentSession) -> None:
    """Send a request with the id of a running prompt, then let the prompt end."""
    prompt = await agent.prompt(await agent.new(), reply("a", wait("on"), "b"))
    await agent.event(prompt, "agent_message_chunk")
    await agent.request("_eca/unknown", {}, id=prompt.id)
    await agent.settle()
    prompt.model.open("on")

    def is_own(received: ReceivedMessage) -> bool:
        is_answer = "stopReason" in object_at(received.message, "result")
        return is_answer and received.message.get("id") == prompt.id

    await agent.until(is_own, seconds=PATIENCE, expected="the answer", shows="ACP-10")
    agent.check("ACP-10", True, "the answer of the prompt", "its answer")


@agent_case("ACP-12", needs="model")
async def a_cancelled_request_is_answered(agent: AgentSession) -> None:
    """Cancel a running prompt as a request, then let the model end."""
    prompt = await agent.prompt(await agent.new(), reply("a", wait("on"), "b"))
    await agent.event(prompt, "agent_message_chunk")
    await agent.notify("$/cancel_request", {"requestId": prompt.id})
    await agent.settle()
    prompt.model.open("on")
    answer = await agent.answer(prompt.id, seconds=PATIENCE, shows="ACP-12")
    is_valid = "result" in answer or _code(answer) == -32800
    agent.check("ACP-12", is_valid, "a result, or an error with -32800", answer)

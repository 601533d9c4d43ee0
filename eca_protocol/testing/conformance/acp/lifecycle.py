"""Cases of the start, the versions, and the end of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.testing.conformance.acp.harness import PATIENCE, AgentSession, agent_case, runs
from eca_protocol.testing.script import reply

_UNKNOWN_VERSION = 65535


@agent_case("ACP-13", "ACP-15", handshake=False)
async def it_speaks_version_1(agent: AgentSession) -> None:
    """Send `initialize` with version 1 and the client's capabilities."""
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    info = {"name": "suite", "version": "1"}
    params = {"protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info}
    result = await agent.result("initialize", params)
    version = result.get("protocolVersion")
    agent.check("ACP-13", version == 1, "version 1", version)
    named: Any = result.get("agentInfo")
    is_named = isinstance(named, Mapping) and bool(named.get("name") and named.get("version"))
    agent.check("ACP-15", is_named, "agentInfo with name and version", named)


@agent_case("ACP-14", handshake=False)
async def it_offers_its_latest_version(agent: AgentSession) -> None:
    """Send `initialize` with a version that does not exist."""
    answer = await agent.ask("initialize", {"protocolVersion": _UNKNOWN_VERSION}, seconds=PATIENCE)
    result = answer.get("result")
    version = result.get("protocolVersion") if isinstance(result, Mapping) else answer
    is_known = type(version) is int and 0 < version < _UNKNOWN_VERSION
    agent.check("ACP-14", is_known, "the agent's latest version", version)


@agent_case("ACP-17", handshake=False)
async def sessions_wait_for_initialize(agent: AgentSession) -> None:
    """Open a session without `initialize`."""
    answer = await agent.ask("session/new", agent.at_workspace(), seconds=PATIENCE)
    agent.check("ACP-17", "error" in answer, "an error", answer)


@agent_case("ACP-4")
async def it_ends_with_its_input(agent: AgentSession) -> None:
    """Close the agent's input."""
    await agent.close_input()
    code = await agent.exit_code(5)
    agent.check("ACP-4", code is not None, "the agent's end within 5 s", f"exit code {code}")


@agent_case("ACP-1", "ACP-2", "ACP-3", "ACP-16", "ACP-31", "ACP-34", "ACP-35", "ACP-36")
async def a_turn_keeps_the_rules(agent: AgentSession) -> None:
    """Run a turn with a tool call; each message is watched, here and in all cases."""
    session_id = await agent.new()
    prompt = await agent.prompt(session_id, runs("echo one"), reply("done"))
    await agent.ended(prompt)
    await agent.quiet(0.5)
    agent.record_pass("ACP-1", "ACP-2", "ACP-3", "ACP-16", "ACP-31")
    if agent.updates(session_id, "tool_call", after=prompt.after):
        agent.record_pass("ACP-34", "ACP-35", "ACP-36")

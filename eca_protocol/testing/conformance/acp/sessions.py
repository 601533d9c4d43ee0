"""Cases of sessions: new ones, stored ones, lists and settings, as the agent announces them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eca_protocol.testing.conformance.acp.harness import (
    PATIENCE,
    AcpHarness,
    AgentSession,
    agent_case,
)
from eca_protocol.testing.conformance.verdicts import NotApplicable, Unmet
from eca_protocol.testing.script import reply, wait

_ANNOUNCED: Final = {
    "session/load": ("loadSession",),
    "session/resume": ("sessionCapabilities", "resume"),
    "session/list": ("sessionCapabilities", "list"),
    "session/close": ("sessionCapabilities", "close"),
    "session/delete": ("sessionCapabilities", "delete"),
}
"""The capability of each optional method."""


def _require(agent: AgentSession, *methods: str) -> None:
    for method in methods:
        if not agent.can(*_ANNOUNCED[method]):
            raise NotApplicable(f"the agent does not announce `{method}`")


@agent_case("ACP-18", "ACP-19")
async def sessions_are_opened(agent: AgentSession) -> None:
    """Open two sessions, and one in a relative directory."""
    ids = [await agent.new(), await agent.new()]
    agent.check("ACP-18", ids[0] != ids[1], "two ids", ids)
    answer = await agent.ask(
        "session/new", agent.at_workspace(cwd="relative/path"), seconds=PATIENCE
    )
    agent.check("ACP-19", "error" in answer, "an error", answer)


@agent_case("ACP-26")
async def unannounced_methods_are_refused(agent: AgentSession) -> None:
    """Call each method whose capability is missing."""
    missing = [method for method, path in _ANNOUNCED.items() if not agent.can(*path)]
    if not missing:
        raise NotApplicable("the agent announces all methods")
    params = agent.at_workspace(sessionId="x")
    answers = {each: await agent.ask(each, params, seconds=PATIENCE) for each in missing}
    codes = {method: (each.get("error") or {}).get("code") for method, each in answers.items()}
    agent.check("ACP-26", set(codes.values()) == {-32601}, "the code -32601", codes)


@agent_case("ACP-20", "ACP-21", "ACP-22", needs="model", seconds=120)
async def sessions_are_opened_again(harness: AcpHarness) -> None:
    """Take a turn, end the agent, and open the session by `session/load` and `session/resume`."""
    for method, row in (("session/load", "ACP-20"), ("session/resume", "ACP-21")):
        directories = harness.directories()
        async with harness.agent(directories=directories) as agent:
            if not agent.can(*_ANNOUNCED[method]):
                harness.not_applicable(row, f"the agent does not announce `{method}`")
                continue
            session_id = await agent.new()
            await agent.ended(await agent.prompt(session_id, reply("the first answer")))
        async with harness.agent(directories=directories) as agent:
            await agent.result(method, agent.at_workspace(sessionId=session_id))
            replayed = [agent.text(session_id, f"{who}_message_chunk") for who in ("user", "agent")]
            if method == "session/load":
                is_whole = "Hello." in replayed[0] and "the first answer" in replayed[1]
                harness.check(row, is_whole, "the prompt and the answer", replayed)
            else:
                harness.check(row, not any(replayed), "no message", replayed)
            prompt = await agent.prompt(session_id, reply("the second answer"), text="Again.")
            await agent.ended(prompt)
            known = str(prompt.model.first.body)
            has_history = "the first answer" in known
            harness.check("ACP-22", has_history, "the first answer in the request", known)


@agent_case("ACP-23", needs="model")
async def sessions_are_listed(agent: AgentSession) -> None:
    """List the sessions of the workspace, and of an empty directory."""
    _require(agent, "session/list")
    session_id = await agent.new()
    await agent.ended(await agent.prompt(session_id, reply("An answer.")))
    empty = agent.workspace / "empty"
    empty.mkdir()
    here, there = [await _listed(agent, str(each)) for each in (agent.workspace, empty)]
    is_right = session_id in here and not there
    agent.check("ACP-23", is_right, f"{session_id}, and nothing elsewhere", (here, there))


async def _listed(agent: AgentSession, cwd: str) -> list[Any]:
    sessions = (await agent.result("session/list", {"cwd": cwd})).get("sessions")
    listed = sessions if isinstance(sessions, Sequence) else ()
    return [each.get("sessionId") for each in listed if isinstance(each, Mapping)]


@agent_case("ACP-24")
async def a_closed_session_stops(agent: AgentSession) -> None:
    """Close a session with a running prompt."""
    _require(agent, "session/close")
    session_id = await agent.new()
    prompt = await agent.prompt(session_id, reply("a", wait("never"), "b"))
    await agent.event(prompt, "agent_message_chunk")
    await agent.result("session/close", {"sessionId": session_id})
    try:
        end = await agent.ended(prompt, seconds=5)
    except Unmet as stuck:
        end = stuck.got
    agent.check("ACP-24", end == "cancelled", "the answer `cancelled`", end)


@agent_case("ACP-25")
async def sessions_are_deleted(agent: AgentSession) -> None:
    """Delete a session, and one that does not exist."""
    _require(agent, "session/delete", "session/list")
    session_id = await agent.new()
    await agent.ended(await agent.prompt(session_id, reply("An answer.")))
    for each in (session_id, "no-such-session"):
        answer = await agent.ask("session/delete", {"sessionId": each}, seconds=PATIENCE)
        agent.check("ACP-25", "result" in answer, "a result", answer)
    listed = await _listed(agent, str(agent.workspace))
    agent.check("ACP-25", session_id not in listed, "no such session in the list", listed)


@agent_case("ACP-27", "ACP-28")
async def settings_are_changed(agent: AgentSession) -> None:
    """Change each setting to its last value, and to one that does not exist."""
    opened = await agent.result("session/new", agent.at_workspace())
    options = opened.get("configOptions") or ()
    if not options and not opened.get("modes"):
        raise NotApplicable("the agent has neither modes nor settings")
    session_id = opened["sessionId"]
    wrong = {"session/set_mode": {"modeId": "no-such-mode"}} if opened.get("modes") else {}
    for option in options:
        if option.get("type") != "select":
            continue
        change = {"sessionId": session_id, "configId": option["id"]}
        last = option["options"][-1]  # or a group of them
        value = last["options"][-1]["value"] if "options" in last else last["value"]
        result = await agent.result("session/set_config_option", {**change, "value": value})
        values = {each["id"]: each.get("currentValue") for each in result["configOptions"]}
        agent.check("ACP-27", values.get(option["id"]) == value, f"the value {value!r}", values)
        wrong["session/set_config_option"] = {"configId": option["id"], "value": "no-such-value"}
    for method, params in wrong.items():
        answer = await agent.ask(method, {"sessionId": session_id, **params}, seconds=PATIENCE)
        agent.check("ACP-28", "error" in answer, "an error", answer)

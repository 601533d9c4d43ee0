"""The official Python SDK's client, which uses the whole of our agent."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import acp
from acp import schema

from eca_protocol.testing.provider import Provider, reply
from eca_protocol.testing.script import wait
from tests.eca_server import fork_server
from tests.eca_server.agent.mcp.scripted import SERVER

ALLOWED: dict[str, Any] = {"eca__task": {}, "eca__ask_user": {}}
TASKS = json.dumps({"op": "plan", "tasks": [{"subject": "look", "priority": "high"}]})
QUESTION = json.dumps({"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]})
PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
CAPABILITIES = schema.ClientCapabilities(
    elicitation=acp.ElicitationCapabilities(form=acp.ElicitationFormCapabilities())
)

Prompt = Callable[..., Awaitable[int]]
"""Sends a script and more blocks; returns the number of updates before the turn."""


class SDKClient:
    """A client that chooses the option of the kind `choice` when the agent asks."""

    def __init__(self) -> None:
        self.choice = "allow_once"
        self.updates: list[Any] = []
        self.permissions: list[str | None] = []
        self.changed = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self.changed.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **_: Any,
    ) -> acp.RequestPermissionResponse:
        self.permissions.append(tool_call.title)
        (chosen,) = [each.option_id for each in options if each.kind == self.choice]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return acp.RequestPermissionResponse(outcome=outcome)

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        assert message == "Which?"
        return acp.AcceptElicitationResponse(action="accept", content={"answer": "blue"})

    def of(self, kind: Any, begun: int = 0) -> list[Any]:
        return [each for each in self.updates[begun:] if isinstance(each, kind)]

    def text(self, kind: Any = schema.AgentMessageChunk, begun: int = 0) -> str:
        return "".join(each.content.text for each in self.of(kind, begun))

    async def until(self, kind: Any, begun: int) -> Any:
        while not self.of(kind, begun):
            self.changed.clear()
            await self.changed.wait()
        return self.of(kind, begun)[0]


async def use_agent(folder: Path) -> None:
    client = SDKClient()
    model = Provider([reply("a picture and a file")], title=reply(wait("late"), "A title"))
    async with asyncio.timeout(60), model:
        config = {
            "defaultModel": "simulator/script",
            "chat": {"title": True},
            "toolCall": {"approval": {"byDefault": "ask", "allow": ALLOWED}},
            "providers": {
                "p": {
                    "api": "openai-chat",
                    "url": model.url,
                    "key": "k",
                    "models": {"scripted": {}},
                }
            },
        }
        environ = {**os.environ, "HOME": str(folder / "home"), "ECA_CONFIG": json.dumps(config)}
        command = (*fork_server.command(), "acp")
        async with acp.spawn_agent_process(
            cast("acp.Client", client),
            *command,
            env=environ,
            cwd=folder,
            use_unstable_protocol=True,
        ) as (agent, process):
            about = await agent.initialize(acp.PROTOCOL_VERSION, CAPABILITIES)
            assert about.agent_info.name == "eca"
            await _session(agent, client, folder, model)
            process.stdin.close()
            assert await process.wait() == 0


async def _session(agent: Any, client: SDKClient, folder: Path, model: Provider) -> None:
    server = schema.McpServerStdio(
        name="scripted", command=sys.executable, args=["-S", "-E", str(SERVER), "{}"], env=[]
    )
    session_id = (await agent.new_session(str(folder), mcp_servers=[server])).session_id
    listed = await client.until(schema.AvailableCommandsUpdate, 0)
    assert "compact" in {each.name for each in listed.available_commands}

    async def prompt(text: str, *more: Any) -> int:
        begun = len(client.updates)
        answer = await agent.prompt(session_id, [acp.text_block(text), *more])
        assert answer.stop_reason == "end_turn"
        return begun

    await _blocks_reach_the_model(agent, client, session_id, prompt, folder, model)
    begun = await prompt("think hm\nsay one two")
    assert client.text(schema.AgentThoughtChunk, begun) == "hm"
    assert client.text(begun=begun) == "one two"
    assert client.of(schema.UsageUpdate, begun)
    await _tools_are_shown(client, prompt)
    await _permissions_are_asked_for(client, prompt, folder)
    await _a_prompt_is_cancelled(agent, client, session_id)
    await agent.close_session(session_id)
    begun = len(client.updates)
    await agent.load_session(cwd=str(folder), session_id=session_id)
    assert "one two" in client.text(begun=begun)
    assert "say one two" in client.text(schema.UserMessageChunk, begun)
    begun = await prompt("call scripted__echo")  # the server belonged to the closed session
    assert (
        "There is no tool" in client.of(schema.ToolCallProgress, begun)[-1].content[0].content.text
    )
    known = (await agent.list_sessions(cwd=str(folder))).sessions
    assert [each.session_id for each in known] == [session_id]


async def _blocks_reach_the_model(
    agent: Any, client: SDKClient, session_id: str, prompt: Prompt, folder: Path, model: Provider
) -> None:
    set_option = partial(_set_option, agent, session_id)
    await agent.set_session_mode(mode_id="plan", session_id=session_id)
    assert client.of(schema.CurrentModeUpdate)[-1].current_mode_id == "plan"
    await set_option("mode", "code")
    changed = await set_option("model", "p/scripted")
    values = {each.id: each.current_value for each in changed.config_options}
    assert (values["mode"], values["model"]) == ("code", "p/scripted")
    (folder / "linked.txt").write_text("text of the linked file\n")
    link = acp.resource_link_block("linked.txt", (folder / "linked.txt").as_uri())
    begun = await prompt("Look.", acp.image_block(PICTURE, "image/png"), link)
    assert client.text(begun=begun) == "a picture and a file"
    model.open("late")
    assert (await client.until(schema.SessionInfoUpdate, 0)).title == "A title"
    sent = json.dumps(model.requests[0].body["messages"])
    assert PICTURE in sent
    assert "text of the linked file" in sent
    await set_option("model", "simulator/script")


async def _set_option(agent: Any, session_id: str, name: str, value: str) -> Any:
    return await agent.set_config_option(config_id=name, session_id=session_id, value=value)


async def _tools_are_shown(client: SDKClient, prompt: Prompt) -> None:
    begun = await prompt(f"call eca_task {TASKS}")
    (plan,) = client.of(schema.AgentPlanUpdate, begun)
    assert [(each.content, each.priority) for each in plan.entries] == [("look", "high")]
    begun = await prompt(f"call eca_ask_user {QUESTION}")
    assert "blue" in client.of(schema.ToolCallProgress, begun)[-1].content[0].content.text


async def _permissions_are_asked_for(client: SDKClient, prompt: Prompt, folder: Path) -> None:
    permission_counts: list[tuple[str, int]] = []
    for choice in ("reject_once", "allow_once", "allow_always", "reject_once"):
        client.choice = choice
        begun = await prompt("call scripted__echo {}")
        status = client.of(schema.ToolCallProgress, begun)[-1].status
        permission_counts.append((status, len(client.permissions)))
    assert permission_counts == [
        ("failed", 1),
        ("completed", 2),
        ("completed", 3),
        ("completed", 3),
    ]
    client.choice = "allow_once"
    call = json.dumps({"path": str(folder / "new.txt"), "content": "first\n"})
    begun = await prompt(f"call eca_write_file {call}")
    (diff,) = client.of(schema.ToolCallProgress, begun)[-1].content
    assert (diff.old_text, diff.new_text) == (None, "first\n")
    assert (folder / "new.txt").read_text() == "first\n"


async def _a_prompt_is_cancelled(agent: Any, client: SDKClient, session_id: str) -> None:
    begun = len(client.updates)
    blocks = [acp.text_block("say slow\nwait forever")]
    running = asyncio.create_task(agent.prompt(session_id, blocks))
    await client.until(schema.AgentMessageChunk, begun)
    await agent.cancel(session_id)
    assert (await running).stop_reason == "cancelled"

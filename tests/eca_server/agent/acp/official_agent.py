"""An agent made with the official Python SDK of ACP: it edits the file that its prompt names."""

import asyncio
from typing import Any

import acp
from acp import schema


class Editing(acp.Agent):
    """Reads a file, asks, and appends a line to it."""

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        return acp.InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        return acp.NewSessionResponse(session_id="the one")

    async def cancel(self, session_id: str, **_: Any) -> None:
        pass

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> acp.PromptResponse:
        say, path = self.client.session_update, prompt[-1].text
        await say(session_id, acp.update_agent_thought_text("let me see"))
        before = (await self.client.read_text_file(session_id=session_id, path=path)).content
        after = before + "more\n"
        diff = acp.tool_diff_content(path, after, before)
        call = acp.start_tool_call("1", "Append a line", kind="edit", content=[diff])
        await say(session_id, call)
        options = [
            schema.PermissionOption(option_id="y", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="n", name="No", kind="reject_once"),
        ]
        answer = await self.client.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="1"),
            options=options,
        )
        if getattr(answer.outcome, "option_id", None) == "y":
            await self.client.write_text_file(session_id=session_id, path=path, content=after)
            terminal = await self.client.create_terminal(
                session_id=session_id, command="cat", args=[path]
            )
            await self.client.wait_for_terminal_exit(
                session_id=session_id, terminal_id=terminal.terminal_id
            )
            shown = acp.tool_terminal_ref(terminal.terminal_id)
            done = acp.update_tool_call("1", status="completed", content=[shown])
            await say(session_id, done)
        await say(session_id, acp.update_agent_message_text("finished"))
        return acp.PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(Editing()))

"""An ACP agent over stdin and stdout that does what the lines of its prompts say.

Its argument is a JSON object: `resume` or `load` (the sessions that it offers), `login` (it needs a
login), `late_mode` (its mode after a cancel), `only` (its only session), `slow` (what it never
answers: `process`, `session` or `load`), `log` (a file for what it is sent).
"""

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from eca_protocol import json
from eca_protocol.acp import AUTHENTICATION_REQUIRED, open_peer
from eca_protocol.acp import messages as m
from eca_protocol.errors import RPCError
from eca_protocol.streams import FdTransport

MODES = m.SessionModeState(
    current_mode_id="ask",
    available_modes=tuple(m.SessionMode(id=name, name=name) for name in ("ask", "plan")),
)
OPTIONS = tuple(
    m.PermissionOption(option_id=kind, name=kind, kind=kind)
    for kind in ("allow_once", "allow_always", "reject_once")
)


class ScriptedAgent:
    """The agent; each prompt is a script, a directive a line."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.numbers = itertools.count(1)
        self.running: dict[str, trio.CancelScope] = {}
        self.terminals: list[str] = []
        handlers: dict[str, Callable[[Any], Any]] = {
            "initialize": self.initialize,
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.load,
            "session/close": self.close,
            "session/set_mode": self.set_mode,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
        }
        self.peer = open_peer(FdTransport(0, os.dup(1)), side="server", handlers=handlers)

    def log(self, *entry: Any) -> None:
        with Path(self.options["log"]).open("ab") as file:
            file.write(json.dumps(entry) + b"\n")

    async def initialize(self, params: m.InitializeRequest) -> m.InitializeResponse:
        self.log("initialize", params.client_capabilities.terminal, dict(os.environ))
        if self.options.get("slow") == "process":
            await trio.sleep_forever()
        has_resume = m.Empty() if self.options.get("resume") else None
        return m.InitializeResponse(
            protocol_version=1,
            agent_capabilities=m.AgentCapabilities(
                load_session=bool(self.options.get("load")),
                session_capabilities=m.SessionCapabilities(resume=has_resume, close=m.Empty()),
            ),
            auth_methods=(m.AuthMethod(id="own", name="Own login", type="terminal", args=("in",)),),
        )

    async def new(self, params: m.NewSessionRequest) -> m.NewSessionResponse:
        self.log("new", params.cwd)
        if self.options.get("login"):
            raise RPCError(AUTHENTICATION_REQUIRED, "log in")
        if self.options.get("slow") == "session":
            await trio.sleep_forever()
        session_id = self.options.get("only") or f"{os.getpid()}-{next(self.numbers)}"
        return m.NewSessionResponse(session_id=session_id, modes=MODES)

    async def load(self, params: Any) -> m.SessionState:
        self.log("load", params.session_id)
        assert isinstance(params, m.LoadSessionRequest) is bool(self.options.get("load"))
        if self.options.get("slow") == "load":
            await trio.sleep_forever()
        if self.options.get("load"):
            await self.do_say(params.session_id, "replayed")
        return m.SessionState(modes=MODES)

    def close(self, params: m.SessionReference) -> m.Empty:
        self.log("close", params.session_id)
        return m.Empty()

    def set_mode(self, params: m.SetSessionModeRequest) -> m.Empty:
        self.log("mode", params.mode_id)
        return m.Empty()

    def cancel(self, params: m.SessionReference) -> None:
        self.log("cancel", time.time())
        if params.session_id in self.running:
            self.running[params.session_id].cancel()

    def update(self, session: str, update: Any) -> None:
        self.peer.notify("session/update", m.SessionNotification(session_id=session, update=update))

    async def prompt(self, params: m.PromptRequest) -> m.PromptResponse:
        texts = [block.text for block in params.prompt if isinstance(block, m.TextContent)]
        self.log("prompt", texts)
        reason: m.StopReason = "cancelled"
        with trio.CancelScope() as scope:
            self.running[params.session_id] = scope
            for line in texts[-1].splitlines():
                name, _, rest = line.partition(" ")
                await getattr(self, f"do_{name}")(params.session_id, rest)
            reason = "end_turn"
        if scope.cancelled_caught:
            await self.do_say(params.session_id, "late")
            if "late_mode" in self.options:
                await self.do_mode(params.session_id, self.options["late_mode"])
                self.log("late mode")
        return m.PromptResponse(stop_reason=reason)

    async def do_say(self, session: str, text: str) -> None:
        self.update(session, m.AgentMessageChunk(content=m.TextContent(text=text)))

    async def do_message(self, session: str, text: str) -> None:
        """`message ID TEXT`: say a part of the message with this id."""
        message_id, _, part = text.partition(" ")
        content = m.TextContent(text=part)
        self.update(session, m.AgentMessageChunk(content=content, message_id=message_id))

    async def do_think(self, session: str, text: str) -> None:
        self.update(session, m.AgentThoughtChunk(content=m.TextContent(text=text)))

    async def do_picture(self, session: str, text: str) -> None:
        picture = m.ImageContent(data=text, mime_type="image/png")
        self.update(session, m.AgentMessageChunk(content=picture))

    async def do_wait(self, session: str, text: str) -> None:
        await trio.sleep_forever()

    async def do_tool(self, session: str, text: str) -> None:
        """`tool JSON`: a call with these members; the ids `same` continue it."""
        fields = json.loads(text.encode())
        cls = m.ToolCallUpdate if fields.get("update") else m.ToolCall
        self.update(session, _call(cls, fields))

    async def do_ask(self, session: str, text: str) -> None:
        """`ask JSON`: ask for a permission, and say the chosen option."""
        params = _permission(session, text)
        with trio.CancelScope(shield=True):  # a cancelled prompt still gets an answer
            answer = await self.peer.call("session/request_permission", params)
        self.log("permission", answer.outcome.outcome)
        await self.do_say(session, f"[{answer.outcome.option_id or answer.outcome.outcome}]")

    async def do_read(self, session: str, text: str) -> None:
        """`read PATH [FIRST COUNT]`: read the file, or these lines of it."""
        path, *numbers = text.split()
        line, limit = map(int, numbers) if numbers else (None, None)
        params = m.ReadTextFileRequest(session_id=session, path=path, line=line, limit=limit)
        await self._try(session, "fs/read_text_file", params)

    async def do_write(self, session: str, text: str) -> None:
        path, _, content = text.partition(" ")
        params = m.WriteTextFileRequest(session_id=session, path=path, content=content)
        await self._try(session, "fs/write_text_file", params)

    async def do_flood(self, session: str, text: str) -> None:
        """`flood COUNT`: say so many times 1000 letters, as fast as they are read."""
        for number in range(int(text)):
            await self.do_say(session, "x" * 1000)
            await self.peer.transport.drain()
            if number % 50 == 0:
                self.log("flood", number)

    async def do_leave(self, session: str, text: str) -> None:
        """`leave JSON`: ask for a permission, and do not wait for it."""
        self.peer.start_call("session/request_permission", _permission(session, text))

    async def do_until(self, session: str, text: str) -> None:
        """`until PATH`: wait until the file exists."""
        while not await trio.Path(text).exists():
            await trio.sleep(0.005)

    async def _try(self, session: str, method: str, params: Any) -> Any:
        try:
            answer = await self.peer.call(method, params)
        except RPCError as error:
            self.log("failed", method, error.message)
            await self.do_say(session, f"[failed: {error.message}]")
            return None
        await self.do_say(session, f"[{getattr(answer, 'content', 'done')}]")
        return answer

    async def do_run(self, session: str, text: str, **options: Any) -> None:
        """`run COMMAND`: run it in a terminal to its end, and say its output and status."""
        created = await self.do_keep(session, text, **options)
        if created is None:
            return
        reference = m.TerminalReference(session_id=session, terminal_id=created.terminal_id)
        self.log("terminal", created.terminal_id)
        await self.peer.call("terminal/wait_for_exit", reference)
        shown = await self.peer.call("terminal/output", reference)
        await self.peer.call("terminal/release", reference)
        code = shown.exit_status.exit_code
        await self.do_say(session, f"[{shown.output.strip()} {code} {shown.truncated}]")

    async def do_run_in(self, session: str, text: str) -> None:
        """`run_in DIRECTORY COMMAND`: the same in a directory."""
        where, _, command = text.partition(" ")
        await self.do_run(session, command, cwd=where)

    async def do_run_with(self, session: str, text: str) -> None:
        """`run_with NAME=VALUE COMMAND`: the same with a variable."""
        variable, _, command = text.partition(" ")
        name, _, value = variable.partition("=")
        await self.do_run(session, command, env=(m.EnvVariable(name=name, value=value),))

    async def do_keep(self, session: str, text: str, **options: Any) -> Any:
        """`keep COMMAND`: start it in a terminal that is not released."""
        params = m.CreateTerminalRequest(session_id=session, command=text, **options)
        return await self._try(session, "terminal/create", params)

    async def do_plan(self, session: str, text: str) -> None:
        entries: list[dict[str, Any]] = [
            {"content": content, "status": status}
            for content, status in (each.split("=") for each in text.split())
        ]
        plan = m.Plan(entries=tuple(m.PlanEntry(priority="high", **each) for each in entries))
        self.update(session, plan)

    async def do_usage(self, session: str, text: str) -> None:
        """`usage USED COST [SIZE]`: report the tokens and the cost."""
        used, cost, *size = text.split()
        money = m.Cost(amount=float(cost), currency="USD")
        self.update(session, m.UsageUpdate(used=int(used), size=int(*size or ["1000"]), cost=money))

    async def do_title(self, session: str, text: str) -> None:
        self.update(session, m.SessionInfoUpdate(title=text))

    async def do_mode(self, session: str, text: str) -> None:
        self.update(session, m.CurrentModeUpdate(current_mode_id=text))

    async def do_fail(self, session: str, text: str) -> None:
        raise RPCError(-32603, "failed", {"details": text})

    async def do_die(self, session: str, text: str) -> None:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
        os._exit(3)


def _permission(session: str, text: str) -> m.RequestPermissionRequest:
    change = _call(m.ToolCallChange, json.loads(text.encode()))
    return m.RequestPermissionRequest(session_id=session, tool_call=change, options=OPTIONS)


def _call(cls: Any, fields: dict[str, Any]) -> Any:
    content = tuple(
        m.DiffOfCall(path=path, old_text=old, new_text=new)
        for path, old, new in fields.get("diffs", ())
    ) + tuple(m.ContentOfCall(content=m.TextContent(text=each)) for each in fields.get("texts", ()))
    title = fields.get("title") or (fields["id"] if cls is m.ToolCall else None)
    return cls(
        tool_call_id=fields["id"],
        title=title,
        kind=fields.get("kind"),
        status=fields.get("status"),
        raw_input=fields.get("input"),
        content=content or None,
        locations=tuple(m.ToolCallLocation(path=path) for path in fields.get("locations", ()))
        or None,
    )


async def main() -> None:
    agent = ScriptedAgent(json.loads(sys.argv[1].encode()))
    agent.log("start", os.getpid())
    async with agent.peer:
        await agent.peer.serve()


if __name__ == "__main__":
    trio.run(main)

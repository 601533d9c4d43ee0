"""One tool call: its contents in their order, and the user's decision."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import anyio

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from tests.eca_protocol.testing.conformance.reference.tools import FileChange, Tool, ToolFault

if TYPE_CHECKING:
    from tests.eca_protocol.testing.conformance.reference.chat import Turn


class ToolCall:
    """A call from the first piece of its arguments to its one end.

    Attributes:
        state: preparing, waiting (for the user), running, or closed.
    """

    def __init__(self, turn: Turn, requested_name: str) -> None:
        self.turn = turn
        self.id = f"call_{uuid.uuid4().hex}"
        self.requested_name = requested_name
        self.tool: Tool | None = turn.server.toolbox.find(requested_name)
        self.arguments_text = ""
        self.arguments: dict[str, Any] = {}
        self.unreadable = ""
        self.state = "preparing"
        self.is_in_history = False
        self._prepared = -1  # how much of the arguments was shown; -1: nothing, not even the name
        self._change: FileChange | None = None
        self._decision: bool | None = None
        self._decided = anyio.Event()
        self._began = 0.0

    def common(self) -> dict[str, Any]:
        tool = self.tool
        return {
            "origin": tool.origin if tool else "native",
            "id": self.id,
            "name": tool.name if tool else self.requested_name,
            "server": tool.server if tool else "eca",
        }

    def summary(self) -> str:
        return f"Calling {self.tool.name}" if self.tool else ""

    def details(self) -> dict[str, Any]:
        return self._change.as_details() if self._change else {}

    def say(self, kind: str, **fields: Any) -> None:
        content = {"type": kind, **self.common(), **fields}
        if kind != "toolCallPrepare":
            if summary := self.summary():
                content["summary"] = summary
            if details := self.details():
                content["details"] = details
        self.turn.chat.say("assistant", content)

    def prepare_rest(self) -> None:
        """Send the unsent part of the arguments."""
        if self._prepared < len(self.arguments_text):
            new = self.arguments_text[max(0, self._prepared) :]
            self._prepared = len(self.arguments_text)
            self.say("toolCallPrepare", argumentsText=new)

    def end_preparing(self) -> None:
        """Handle the end of the model's call."""
        self.prepare_rest()
        try:
            arguments = json.loads(self.arguments_text.encode() or b"{}")
        except InvalidJSON as error:
            self.unreadable = f"The arguments are unreadable: {error}"
            return
        if isinstance(arguments, dict):
            self.arguments = arguments
        else:
            self.unreadable = "The arguments are no object."

    def as_asked(self) -> dict[str, Any]:
        """Return the call for the next request."""
        self.is_in_history = True
        function = {"name": self.requested_name, "arguments": json.dumps(self.arguments).decode()}
        return {"id": self.id, "type": "function", "function": function}

    async def run(self) -> None:
        verdict = self.verdict()
        if verdict != "error" and self.tool is not None:
            self._change = self.tool.preview(self.arguments)
        self.announce(manual=verdict == "ask")
        if verdict == "error":
            words = self.unreadable or f"There is no tool {self.requested_name!r}."
            self.called(words, error=True)
        elif verdict == "deny":
            self.rejected("user-config")
        elif verdict == "ask" and not await self.approved():
            self.rejected("user-choice")
        else:
            await self.execute()

    def verdict(self) -> str:
        """Return allow, ask or deny, or error if no tool can run."""
        if self.tool is None or self.unreadable:
            return "error"
        behavior, toolbox = self.turn.prompt.behavior, self.turn.server.toolbox
        return toolbox.verdict(self.tool, behavior, self.arguments)

    def announce(self, *, manual: bool) -> None:
        self.say("toolCallRun", arguments=self.arguments, manualApproval=manual)
        if manual:
            self.state = "waiting"

    async def approved(self) -> bool:
        self.turn.progress("Waiting for your approval")
        await self._decided.wait()
        return bool(self._decision)

    def decide(self, approves: bool, *, for_session: bool = False) -> None:
        """Take the user's decision; only the first, while the call waits, counts."""
        if self.state == "waiting" and self._decision is None:
            self._decision = approves
            self._decided.set()
            if approves and for_session and self.tool is not None:
                self.turn.server.toolbox.approved.add(self.tool.name)

    async def execute(self) -> None:
        assert self.tool is not None
        self.state, self._began = "running", anyio.current_time()
        self.say("toolCallRunning", arguments=self.arguments)
        self.turn.progress("Calling tool")
        try:
            output = await self.tool.run(self.arguments)
        except ToolFault as fault:
            self.called(str(fault), error=True)
        else:
            self.called(output, error=False)

    def called(self, output: str, *, error: bool) -> None:
        took = int((anyio.current_time() - self._began) * 1000) if self._began else 0
        outputs = [{"type": "text", "text": output}]
        self.close(output, "toolCalled", error=error, outputs=outputs, totalTimeMs=took)

    def rejected(self, reason: str) -> None:
        self.close("The call was rejected.", "toolCallRejected", reason=reason)

    def close(self, result: str, kind: str, **fields: Any) -> None:
        self.state = "closed"
        if self.is_in_history:
            message = {"role": "tool", "tool_call_id": self.id, "content": result}
            self.turn.chat.history.append(message)
        self.say(kind, arguments=self.arguments, **fields)

    def cut_short(self) -> None:
        """End the call with its turn, according to its state."""
        if self.state == "running":
            self.called("It was stopped.", error=True)
        elif self.state != "closed" and self._prepared >= 0:
            self.rejected("user-choice")

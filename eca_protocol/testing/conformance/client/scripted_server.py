"""The server that a client under test talks with, scripted by the suite.

`ScriptedServer` is plain: it has a chat, one model and one tool. A case is a subclass with one
deviation, so that the client, which does the same each time, must get as far as with the plain
server.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client.client_link import ClientLink, Connection
from eca_protocol.testing.conformance.recorder import ReceivedMessage

MODEL: Final = "conformance/played"
DECISIONS: Final = ("chat/toolCallApprove", "chat/toolCallReject")
_GREETING: Final = 20.0
_ECHOED_TOOL: Final = "eca_read_file"


class ScriptedServer(ClientLink):
    """A server for one connection, from the client's first byte to its last.

    Attributes:
        decisions: the client's approvals and rejections.
        is_shut_down: whether the client has sent `shutdown`.
        greeted: whether the announcements before the first prompt are done.
    """

    reason: str = "user-choice"

    def __init__(self, connection: Connection, edition: Revision, *, calls: bool = True) -> None:
        """Prepare to talk.

        `calls`: whether turns have a call that needs approval. It is off for clients that never
        decide, where each call would wait for the whole patience.
        """
        super().__init__(connection, edition)
        self.calls = calls
        self.greeted: bool = False
        self._is_initialized = False
        self.decisions: list[ReceivedMessage] = []
        self.is_shut_down: bool = False
        self._turns: dict[str, anyio.CancelScope] = {}
        self._busy: dict[str, anyio.Lock] = {}
        self._chats = 0
        self._calls = 0

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        """Handle a request; slow work runs in a task of its own."""
        if method == "chat/prompt":
            self.tasks.start_soon(self.turn, id_, params)
        elif method == "shutdown":
            self.is_shut_down = True
            self.tasks.start_soon(self.on_shutdown, id_)
        elif method == "initialize":
            self.tasks.start_soon(self.on_initialize, id_, params)
        elif method in ("chat/queryContext", "chat/queryFiles", "chat/queryCommands"):
            result_name = method.removeprefix("chat/query").lower().replace("context", "contexts")
            chat = {"chatId": params["chatId"]} if isinstance(params.get("chatId"), str) else {}
            await self.answer(id_, {**chat, result_name: []})
        elif method == "chat/delete":
            await self.answer(id_, {})
        else:
            await self.refuse(id_, -32601, f"Method not found: {method}")

    async def on_initialize(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Answer `initialize`."""
        await self.answer(id_, {"chatWelcomeMessage": "Welcome to the conformance suite."})

    async def on_shutdown(self, id_: Any) -> None:
        """Answer `shutdown`."""
        await self.answer(id_, None)

    async def on_notification(self, received: ReceivedMessage) -> None:
        """Handle a notification."""
        chat = received.params.get("chatId")
        if received.method == "initialized":
            self._is_initialized = True
            self.tasks.start_soon(self._greet_then_continue)
        elif received.method == "chat/promptStop":
            if isinstance(chat, str) and chat in self._turns:
                self._turns[chat].cancel()
        elif received.method in DECISIONS:
            self.decisions.append(received)

    async def _greet_then_continue(self) -> None:
        await self.greet()
        await self.after_greeting()
        self.greeted = True
        self._wake()

    async def greet(self) -> None:
        """Send a server's announcements after `initialized`."""
        await self.notify("config/updated", {"chat": self.chat_config()})
        tool = {
            "name": "read_file" if self.edition is Revision.CURRENT else _ECHOED_TOOL,
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
            "disabled": False,
        }
        await self.notify(
            "tool/serverUpdated",
            {"type": "native", "name": "ECA", "status": "running", "tools": [tool]},
        )

    def chat_config(self) -> dict[str, Any]:
        """Return `chat` of the first `config/updated`."""
        agent = "code" if self.edition is Revision.CURRENT else "agent"
        config = {
            "models": [MODEL],
            "selectModel": MODEL,
            "behaviors": [agent, "plan"],
            "selectBehavior": agent,
            "agents": [agent, "plan"],
            "selectAgent": agent,
            "welcomeMessage": "Welcome.",
        }
        return {**config, "variants": []} if self.edition is Revision.CURRENT else config

    async def after_greeting(self) -> None:
        """Do nothing; a case may act here before the first prompt."""

    async def turn(self, id_: Any, params: Mapping[str, Any]) -> None:
        """Run a turn after the announcements; a stop ends it.

        A prompt to a busy chat is answered at once, and its turn waits for the one before. What
        follows the end of a turn comes before the answer to the next prompt, so that a client can
        tell a second end from the end of its next turn.
        """
        if await self.until(lambda: self._is_initialized):
            await self.until(lambda: self.greeted, seconds=_GREETING)
        self._chats += 1
        requested = params.get("chatId")
        chat_id = requested if isinstance(requested, str) else f"played-{self._chats}"
        answer = {"chatId": chat_id, "model": MODEL, "status": "prompting"}
        busy = self._busy.setdefault(chat_id, anyio.Lock())
        has_to_wait = chat_id in self._turns
        if has_to_wait:
            await self.answer(id_, answer)
        async with busy:
            with anyio.CancelScope() as scope:
                self._turns[chat_id] = scope
                await self.progress(chat_id, "running", "Thinking")
                await self.content(
                    chat_id, "user", {"type": "text", "text": str(params.get("message", ""))}
                )
                if not has_to_wait:
                    await self.answer(id_, answer)
                await self.body(chat_id, params)
            del self._turns[chat_id]
            await self.progress(chat_id, "finished", "")
            await self.after_turn(chat_id)

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        """Send text, a tool call that needs approval, and usage."""
        await self.text(chat_id, "Hello, ")
        await self.text(chat_id, "client.")
        if self.calls:
            await self.call(chat_id)
        await self.content(
            chat_id,
            "system",
            {"type": "usage", "messageInputTokens": 3, "messageOutputTokens": 2,
             "sessionTokens": 5},
        )  # fmt: skip

    async def after_turn(self, chat_id: str) -> None:
        """Do nothing; a case may send more here."""

    async def call(self, chat_id: str, **details: Any) -> None:
        """Send a tool call that needs approval; reject it if the user does not decide."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        tool = "read_file" if self.edition is Revision.CURRENT else _ECHOED_TOOL
        send = partial(self.call_content, chat_id, call_id, tool, "Reading a file")
        for piece in ('{"path": ', '"a file"}'):
            await send("toolCallPrepare", argumentsText=piece)
        arguments = {"path": "a file"}
        await send("toolCallRun", **{"arguments": arguments, "manualApproval": True, **details})
        if await self._decision(call_id) == "chat/toolCallApprove":
            await send("toolCallRunning", arguments=arguments)
            outputs = [{"type": "text", "text": "what is in it"}]
            ended = {"error": False, "outputs": outputs, "totalTimeMs": 1}
            await send("toolCalled", arguments=arguments, **ended)
        else:
            await send("toolCallRejected", arguments=arguments, reason=self.reason)

    async def call_content(
        self, chat_id: str, call_id: str, tool: str, summary: str, type_: str, **members: Any
    ) -> None:
        """Send a content of a call."""
        head = {"type": type_, "id": call_id, "name": tool, "server": "eca", "origin": "native"}
        await self.content(chat_id, "assistant", {**head, "summary": summary, **members})

    async def _decision(self, call_id: str) -> str:
        with anyio.move_on_after(self.patience):
            while True:
                for entry in self.decisions:
                    if entry.params.get("toolCallId") == call_id:
                        return entry.method
                await self.changed.wait()
        return ""

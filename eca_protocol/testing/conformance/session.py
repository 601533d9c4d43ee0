"""A client session at a server: its handshake, the server's announcements, its chats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.message_session import UNSET, MessageSession
from eca_protocol.testing.conformance.model import AnswersWith, bare_name
from eca_protocol.testing.conformance.target import merged
from eca_protocol.testing.conformance.verdicts import NotApplicable
from eca_protocol.testing.members import at, list_at, object_at

__all__ = ["UNSET", "ClientSession"]

_START_SECONDS: Final = 30.0


class ClientSession(MessageSession):
    """A client's session at a server; `initialized` is the whole answer to `initialize`."""

    def initialize_params(self, **more: Any) -> dict[str, Any]:
        """Return the params of `initialize` with the server's workspace, and more members."""
        return {**self.target.initialize_params(self.root), **more}

    async def initialize(self, **more: Any) -> Mapping[str, Any]:
        """Send `initialize` with more members; return the whole answer."""
        return await self.ask("initialize", self.initialize_params(**more), seconds=_START_SECONDS)

    async def handshake(self, initialize: Mapping[str, Any] | None = None) -> None:
        """Send `initialize` and `initialized`, and wait a moment for the announcements."""
        params = merged(self.initialize_params(), initialize or {})
        self.initialized = await self.ask("initialize", params, seconds=_START_SECONDS)
        await self.notify("initialized", self.target.personality.initialized)
        if self.edition > Revision.DRAFT:
            with anyio.move_on_after(self.wire.introduction_seconds):
                while not self.is_introduced and self.process.may_write:
                    await self.process.changed.wait()

    @property
    def is_introduced(self) -> bool:
        """True once the server has announced its settings and its native tools."""
        methods = {received.method for received in self.wire.recorder.messages}
        return "config/updated" in methods and self._native is not None

    @property
    def config(self) -> dict[str, Any]:
        """`chat` of all `config/updated` so far, the later over the earlier."""
        chat: dict[str, Any] = {}
        for received in self.wire.recorder.messages:
            if received.method == "config/updated":
                chat |= object_at(received.params, "chat")
        return chat

    @property
    def _native(self) -> Mapping[str, Any] | None:
        """The params of the last announcement of native tools."""
        for received in reversed(self.wire.recorder.messages):
            params = received.params
            if received.method == "tool/serverUpdated" and (
                params.get("type") == "native" or str(params.get("name")).lower() == "eca"
            ):
                return params
        return None

    @property
    def native_tools(self) -> Mapping[str, Mapping[str, Any]]:
        """The native tools by name, as they were announced last."""
        tools = list_at(self._native, "tools")
        return {tool["name"]: tool for tool in tools if isinstance(at(tool, "name"), str)}

    def tool(self, kind: str) -> str:
        """Return the name of a native tool ("read file", "shell command", ...).

        A tool that is offered to the model counts even if it was not announced, which breaks W-11c
        only. In the draft, whose servers announce no tools, return the name without a prefix.

        Raises:
            NotApplicable: the server has none.
        """
        is_wanted = kind.replace(" ", "_")
        if self.edition is Revision.DRAFT:
            return is_wanted
        for name in (*self.native_tools, *sorted(self.model.offered_tools)):
            if bare_name(name) == is_wanted:
                return name
        raise NotApplicable(
            f"the server neither announces a tool {is_wanted!r} nor offers it to the model"
        )

    def chat(self, *script: AnswersWith, id: str | None = UNSET) -> ChatSession:  # noqa: A002
        """Create a chat with its script.

        Args:
            script: the model's replies, in order; a short text follows them.
            id: the chat's id; None: the first prompt has none, the server names the chat.
        """
        model = self.model.chat(script, listed=lambda: tuple(self.native_tools))
        named = f"chat-{model.marker.strip('[]')}" if id is UNSET else id
        if named is not None:
            self.wire.claim_chat(named, self)
        self.models.append(model)
        return ChatSession(self, model, named)

    async def take_turn(self, prompt: str, *script: AnswersWith, **params: Any) -> ChatSession:
        """Create a chat with its script, prompt it, and wait for the end of the turn."""
        chat = self.chat(*script)
        await chat.take_turn(prompt, **params)
        return chat

    async def take_approved_turn(self, prompt: str, *script: AnswersWith) -> ChatSession:
        """Prompt a new chat with its script, and approve each call until the turn has finished."""
        chat = self.chat(*script)
        await chat.prompt(prompt)
        await self.approve_all(chat)
        return chat

    async def approve_all(self, chat: ChatSession) -> None:
        """Approve each call until the turn has finished; wait ten seconds for each."""
        ended, approved = chat.ends, set[str]()

        def unapproved() -> list[str]:
            announced = [str(run.get("id")) for run in chat.runs]
            return [call for call in announced if call not in approved]

        while chat.ends == ended:
            await self.until_holds(
                lambda: unapproved() or chat.ends > ended,
                seconds=10,
                expected="the end of the turn, or a call",
            )
            for call in unapproved():
                approved.add(call)
                await chat.approve(call)

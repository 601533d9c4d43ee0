"""A chat of a client session: its prompts, its contents, and its scripted model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.model import ChatModel
from eca_protocol.testing.conformance.recorder import ReceivedMessage

__all__ = ["ChatSession"]


class ChatSession:
    """A chat.

    Attributes:
        id: None until the server has named it.
        prompts: the exact text of each prompt.
    """

    def __init__(self, session: MessageSession, model: ChatModel, id_: str | None) -> None:
        self.session = session
        self.model = model
        self.id: str | None = id_
        self.prompts: list[str] = model.prompts
        self._answered: set[str] = set()  # ids of calls
        self._is_stopped = False

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The chat's `chat/contentReceived` messages, in order."""
        return [
            received
            for received in self.session.messages
            if received.method == "chat/contentReceived" and received.chat_id == self.id
        ]

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The params of each message."""
        return [received.params for received in self.messages]

    def of(self, type_: str) -> list[Mapping[str, Any]]:
        """Return the contents of that type."""
        return [
            received.content for received in self.messages if received.content.get("type") == type_
        ]

    @property
    def assistant_text(self) -> str:
        """All text of the assistant, joined."""
        return "".join(
            str(received.content.get("text"))
            for received in self.messages
            if received.content.get("type") == "text" and received.params.get("role") == "assistant"
        )

    def with_marker(self, text: str) -> str:
        """Return a prompt with the marker by which the model recognizes the chat."""
        return f"{text} {self.model.marker}"

    async def send_prompt(self, text: str, *, marker: bool = True, **params: Any) -> Any:
        """Send a prompt without waiting; return the request's id.

        Args:
            text: the prompt; the chat's marker is appended.
            marker: False omits the marker, where an earlier prompt of the chat has it.
            params: additional members of the params, or replacements.
        """
        message = self.with_marker(text) if marker else text
        self.prompts.append(message)
        self._is_stopped = False
        members_sent: dict[str, Any] = {"message": message, **params}
        if self.id is not None:
            members_sent.setdefault("chatId", self.id)
        return await self.session.request("chat/prompt", members_sent)

    async def prompt(
        self, text: str, *, seconds: float = 5, marker: bool = True, **params: Any
    ) -> Mapping[str, Any]:
        """Send a prompt; return the whole answer. See `send_prompt`.

        If the answer names another chat, this object follows it.
        """
        request = await self.send_prompt(text, marker=marker, **params)
        answer = await self.session.answer(request, seconds=seconds)
        result = answer.get("result")
        if isinstance(result, Mapping) and isinstance(result.get("chatId"), str):
            self.id = result["chatId"]
        return answer

    @property
    def ends(self) -> int:
        """The number of turns that have ended; two `finished` in a row count once."""
        return sum(map(self._end_detector(), self.contents))

    def _end_detector(self) -> Callable[[Mapping[str, Any]], bool]:
        """Return a function that tells of each content's params whether a turn ends with it."""
        is_draft, continues = self.session.edition is Revision.DRAFT, False

        def ends_one(params: Mapping[str, Any]) -> bool:
            nonlocal continues
            content = params.get("content")
            if is_draft or not isinstance(content, Mapping):
                return params.get("isComplete") is True
            if content.get("state") == "finished":
                was_running, continues = continues, False
                return was_running
            continues = continues or content.get("type") != "metadata"
            return False

        return ends_one

    async def finished(
        self, n: int = 1, *, seconds: float = 5, shows: str | None = None
    ) -> ReceivedMessage:
        """Wait for the end of the nth turn; two `finished` in a row count once.

        A server that has not asked the scripted model calls tools as it likes: those calls are
        approved meanwhile.
        """
        deadline = anyio.current_time() + seconds
        while True:
            ends_one, count = self._end_detector(), 0

            def is_wanted(message: Mapping[str, Any]) -> bool:
                nonlocal count
                params = self._content_params(message)
                count += params is not None and ends_one(params)  # noqa: B023 - used in this round
                return count == n or self._waiting_call(params) is not None

            received = await self.session.until(
                is_wanted,
                seconds=max(0.0, deadline - anyio.current_time()),
                shows=shows,
                expected=f"the end of turn {n}",
            )
            call_id = self._waiting_call(received.params)
            if call_id is None:
                return received
            await self.approve(call_id)

    def _waiting_call(self, params: Mapping[str, Any] | None) -> str | None:
        """Return the id of a call by the server's own choice that waits for the user, or None."""
        content = params.get("content") if params else None
        if not isinstance(content, Mapping) or self.model.requests or self._is_stopped:
            return None
        call_id = content.get("id")
        waits = content.get("type") == "toolCallRun" and content.get("manualApproval") is True
        is_new = isinstance(call_id, str) and call_id not in self._answered
        return call_id if waits and is_new else None

    def _content_params(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        params = message.get("params")
        if message.get("method") != "chat/contentReceived" or not isinstance(params, Mapping):
            return None
        return params if params.get("chatId") == self.id else None

    async def content(
        self,
        type_: str,
        *,
        n: int = 1,
        seconds: float = 5,
        shows: str | None = None,
        expected: str = "",
        **members: Any,
    ) -> ReceivedMessage:
        """Wait for the nth content of that type with these members."""
        count: list[int] = []

        def is_wanted(message: Mapping[str, Any]) -> bool:
            params = self._content_params(message)
            content = None if params is None else params.get("content")
            if params is None or not isinstance(content, Mapping) or content.get("type") != type_:
                return False
            if not members.items() <= {**params, **content}.items():
                return False
            count.append(1)
            return len(count) == n

        which = "".join(f", {name} {value!r}" for name, value in members.items())
        return await self.session.until(
            is_wanted,
            seconds=seconds,
            shows=shows,
            expected=expected or f"content {n} of type {type_!r}{which}",
        )

    async def stop(self) -> None:
        """Stop the running turn."""
        self._is_stopped = True
        await self.session.notify("chat/promptStop", {"chatId": self.id})

    async def approve(self, call_id: str, **more: Any) -> None:
        """Approve a tool call."""
        await self._decide("chat/toolCallApprove", call_id, more)

    async def reject(self, call_id: str, **more: Any) -> None:
        """Reject a tool call."""
        await self._decide("chat/toolCallReject", call_id, more)

    async def _decide(self, method: str, call_id: str, more: Mapping[str, Any]) -> None:
        self._answered.add(call_id)
        await self.session.notify(method, {"chatId": self.id, "toolCallId": call_id, **more})

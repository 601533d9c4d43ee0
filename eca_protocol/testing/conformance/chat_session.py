"""A chat of a client session: its prompts, its contents, and its scripted model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.model import ChatModel
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import at

__all__ = ["ChatSession", "comes"]

Content = Mapping[str, Any]

CALL_ENDS: Final = ("toolCalled", "toolCallRejected")
"""The types of content that close a call."""


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

    def _has(self, received: ReceivedMessage) -> bool:
        return received.method == "chat/contentReceived" and received.chat_id == self.id

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The chat's `chat/contentReceived` messages, in order."""
        return list(filter(self._has, self.session.messages))

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The params of each message."""
        return [received.params for received in self.messages]

    def of(self, *types: str) -> list[Content]:
        """Return the contents of these types, or all, in order."""
        contents = [received.content for received in self.messages]
        return [each for each in contents if not types or each.get("type") in types]

    @property
    def kinds(self) -> list[str]:
        """The types of the contents; the end of a turn is `finished`."""
        return [
            "finished" if each.get("state") == "finished" else str(each.get("type"))
            for each in self.of()
        ]

    @property
    def runs(self) -> list[Content]:
        """The first `toolCallRun` of each call, in order."""
        return _first_of_each_call(self.of("toolCallRun"))

    @property
    def call_ends(self) -> list[Content]:
        """The first content that closes each call, in order."""
        return _first_of_each_call(self.of(*CALL_ENDS))

    def text(self, role: str) -> str:
        """Return the joined texts of `user`, `assistant`, or `system`, which all others are."""
        return "".join(
            str(received.content.get("text"))
            for received in self.messages
            if received.content.get("type") == "text" and received.role == role
        )

    @property
    def assistant_text(self) -> str:
        """All text of the assistant, joined."""
        return self.text("assistant")

    async def send_prompt(self, text: str, *, marker: bool = True, **params: Any) -> Any:
        """Send a prompt without waiting; return the request's id.

        Args:
            text: the prompt; the chat's marker is appended.
            marker: False omits the marker, where an earlier prompt of the chat has it.
            params: additional members of the params, or replacements.
        """
        message = self.model.with_marker(text) if marker else text
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
        if isinstance(named := at(answer, "result", "chatId"), str):
            self.id = named
        return answer

    async def take_turn(self, text: str, *, seconds: float = 5, **params: Any) -> None:
        """Send a prompt, and wait for the end of its turn."""
        ended = self.ends
        await self.prompt(text, **params)
        await self.finished(ended + 1, seconds=seconds)

    @property
    def ends(self) -> int:
        """The number of turns that have ended; two `finished` in a row count once."""
        return sum(map(self._end_detector(), self.messages))

    def _end_detector(self) -> Callable[[ReceivedMessage], bool]:
        """Return a function that tells of each message whether a turn ends with it."""
        is_draft, continues = self.session.edition is Revision.DRAFT, False

        def ends_one(received: ReceivedMessage) -> bool:
            nonlocal continues
            content = received.params.get("content")
            if is_draft or not isinstance(content, Mapping):
                return received.params.get("isComplete") is True
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

            def is_wanted(received: ReceivedMessage) -> bool:
                nonlocal count
                count += self._has(received) and ends_one(received)  # noqa: B023 - of this round
                return count == n or self._waiting_call(received) is not None

            received = await self.session.until(
                is_wanted,
                seconds=max(0.0, deadline - anyio.current_time()),
                shows=shows,
                expected=f"the end of turn {n}",
            )
            call_id = self._waiting_call(received)
            if call_id is None:
                return received
            await self.approve(call_id)

    async def finishes(self, turns: int = 1, *, seconds: float = 5) -> bool:
        """Return whether that many turns end."""
        return await comes(self.finished(turns, seconds=seconds))

    def _waiting_call(self, received: ReceivedMessage) -> str | None:
        """Return the id of a call by the server's own choice that waits for the user, or None."""
        if not self._has(received) or self.model.requests or self._is_stopped:
            return None
        call_id = received.content.get("id")
        waits = received.content.get("type") == "toolCallRun" and (
            received.content.get("manualApproval") is True
        )
        is_new = isinstance(call_id, str) and call_id not in self._answered
        return call_id if waits and is_new else None

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
        count = 0

        def is_wanted(received: ReceivedMessage) -> bool:
            nonlocal count
            if not self._has(received) or received.content.get("type") != type_:
                return False
            count += members.items() <= {**received.params, **received.content}.items()
            return count == n

        which = "".join(f", {name} {value!r}" for name, value in members.items())
        expected = expected or f"content {n} of type {type_!r}{which}"
        return await self.session.until(is_wanted, seconds=seconds, shows=shows, expected=expected)

    async def comes(self, type_: str, **members: Any) -> bool:
        """Return whether a content of a type with these members comes within two seconds."""
        return await comes(self.content(type_, seconds=2, **members))

    async def next_run(self, n: int = 1) -> Content:
        """Return the nth call's `toolCallRun`."""
        await self.session.until_holds(
            lambda: len(self.runs) >= n, expected=f"toolCallRun of call {n}"
        )
        return self.runs[n - 1]

    async def next_end(self, n: int = 1, *, shows: str | None = None) -> Content:
        """Return the content that closes the nth call."""
        await self.session.until_holds(
            lambda: len(self.call_ends) >= n, shows=shows, expected=f"the end of call {n}"
        )
        return self.call_ends[n - 1]

    async def stop(self) -> None:
        """Stop the running turn."""
        self._is_stopped = True
        await self.session.notify("chat/promptStop", {"chatId": self.id})

    async def approve(self, call_id: str, **more: Any) -> None:
        """Approve a tool call."""
        self._answered.add(call_id)
        named = {"chatId": self.id, "toolCallId": call_id}
        await self.session.notify("chat/toolCallApprove", {**named, **more})

    async def reject(self, call_id: str) -> None:
        """Reject a tool call."""
        self._answered.add(call_id)
        await self.session.notify("chat/toolCallReject", {"chatId": self.id, "toolCallId": call_id})


async def comes(waiting: Awaitable[object]) -> bool:
    """Return whether what is awaited comes in time."""
    try:
        await waiting
    except Unmet:
        return False
    return True


def _first_of_each_call(contents: list[Content]) -> list[Content]:
    return list({str(each.get("id")): each for each in reversed(contents)}.values())[::-1]

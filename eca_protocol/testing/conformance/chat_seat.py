"""One chat of a case: what is prompted, what comes, and the model behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.model import ChatModel

if TYPE_CHECKING:
    from eca_protocol.testing.conformance.seat import Seat
    from eca_protocol.testing.conformance.wire import Heard

__all__ = ["ChatSeat"]


class ChatSeat:
    """A chat.

    Attributes:
        seat: the client whose chat it is.
        model: the requests for this chat, and the gates in its replies.
        id: None until the server has named it.
        prompted: the exact text of each prompt.
    """

    def __init__(self, seat: Seat, model: ChatModel, id_: str | None) -> None:
        self.seat = seat
        self.model = model
        self.id = id_
        self.prompted = model.prompted

    @property
    def heard(self) -> list[Heard]:
        """Each `chat/contentReceived` of this chat, in order."""
        return [
            heard
            for heard in self.seat.heard
            if heard.method == "chat/contentReceived" and heard.chat_id == self.id
        ]

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The params of each of them."""
        return [heard.params for heard in self.heard]

    def of(self, type_: str) -> list[Mapping[str, Any]]:
        """The contents of that type."""
        return [heard.content for heard in self.heard if heard.content.get("type") == type_]

    @property
    def said(self) -> str:
        """All text of the assistant's, joined."""
        return "".join(
            str(heard.content.get("text"))
            for heard in self.heard
            if heard.content.get("type") == "text" and heard.params.get("role") == "assistant"
        )

    def worded(self, text: str) -> str:
        """A text of a prompt with the word by which the model knows the chat."""
        return f"{text} {self.model.word}"

    async def send_prompt(self, text: str, *, word: bool = True, **params: Any) -> Any:
        """Send a prompt and do not wait; the request's id.

        Args:
            text: what is said; the chat's word is put behind it.
            word: False leaves that away: where an earlier prompt of this chat has it already.
            params: more members of the params, or others in place of ours.

        Raises:
            Stuck: the server takes no more.
        """
        message = self.worded(text) if word else text
        self.prompted.append(message)
        given: dict[str, Any] = {"message": message, **params}
        if self.id is not None:
            given.setdefault("chatId", self.id)
        return await self.seat.request("chat/prompt", given)

    async def prompt(
        self, text: str, *, seconds: float = 5, word: bool = True, **params: Any
    ) -> Mapping[str, Any]:
        """Send a prompt; its answer, whole. See `send_prompt`.

        If that names another chat, this is the chat from then on.

        Raises:
            Stuck: there is no answer.
        """
        request = await self.send_prompt(text, word=word, **params)
        answer = await self.seat.answer(request, seconds=seconds)
        result = answer.get("result")
        if isinstance(result, Mapping) and isinstance(result.get("chatId"), str):
            self.id = result["chatId"]
        return answer

    @property
    def ends(self) -> int:
        """How many turns have ended; `finished` twice in a row is one end."""
        return sum(map(self._ended_by(), self.contents))

    def _ended_by(self) -> Callable[[Mapping[str, Any]], bool]:
        """Tells of the params of each content, one after the other, whether they end a turn."""
        is_draft, goes_on = self.seat.edition is Revision.DRAFT, False

        def ends_one(params: Mapping[str, Any]) -> bool:
            nonlocal goes_on
            content = params.get("content")
            if is_draft or not isinstance(content, Mapping):
                return params.get("isComplete") is True
            if content.get("state") == "finished":
                was_going_on, goes_on = goes_on, False
                return was_going_on
            goes_on = goes_on or content.get("type") != "metadata"
            return False

        return ends_one

    async def finished(self, n: int = 1, *, seconds: float = 5, shows: str | None = None) -> Heard:
        """The end of the nth turn; `finished` twice in a row is one end.

        Raises:
            Stuck: it did not come.
        """
        ends_one, came = self._ended_by(), 0

        def is_wanted(message: Mapping[str, Any]) -> bool:
            nonlocal came
            params = self._told_in(message)
            came += params is not None and ends_one(params)
            return came == n

        return await self.seat.until(
            is_wanted, seconds=seconds, shows=shows, expected=f"the end of turn {n}"
        )

    def _told_in(self, message: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The params of a message, if it is a content of this chat."""
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
    ) -> Heard:
        """The nth content of that type with these members.

        Raises:
            Stuck: it did not come.
        """
        came: list[int] = []

        def is_wanted(message: Mapping[str, Any]) -> bool:
            params = self._told_in(message)
            content = None if params is None else params.get("content")
            if params is None or not isinstance(content, Mapping) or content.get("type") != type_:
                return False
            if not members.items() <= {**params, **content}.items():
                return False
            came.append(1)
            return len(came) == n

        which = "".join(f", {name} {value!r}" for name, value in members.items())
        return await self.seat.until(
            is_wanted,
            seconds=seconds,
            shows=shows,
            expected=expected or f"content {n} of type {type_!r}{which}",
        )

    async def stop(self) -> None:
        """Stop what runs.

        Raises:
            Stuck: the server takes no more.
        """
        await self.seat.tell("chat/promptStop", {"chatId": self.id})

    async def approve(self, call_id: str, **more: Any) -> None:
        """Approve a tool call.

        Raises:
            Stuck: the server takes no more.
        """
        params = {"chatId": self.id, "toolCallId": call_id, **more}
        await self.seat.tell("chat/toolCallApprove", params)

    async def reject(self, call_id: str, **more: Any) -> None:
        """Reject a tool call.

        Raises:
            Stuck: the server takes no more.
        """
        params = {"chatId": self.id, "toolCallId": call_id, **more}
        await self.seat.tell("chat/toolCallReject", params)

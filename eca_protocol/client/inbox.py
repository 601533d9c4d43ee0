"""The contents of one turn, from their arrival until they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.calls import PendingCall
from eca_protocol.client.approvals import WaitingCalls
from eca_protocol.client.sizes import size_of
from eca_protocol.errors import DeadlineExceeded, ECAError

CONTENT_WEIGHT = 512
"""The bytes by which a content counts in addition to its values."""


@attrs.define(eq=False)
class Inbox:
    """The unread contents of one turn.

    Attributes:
        size: the approximate size of the unread contents, in bytes.
        call: our `chat/prompt`; None before it is sent.
        error: raised by the reader after the last content.
        has_content: the server has sent a content of this turn.
        has_ended: the turn has ended, with or without an error.
        is_stopped: our side has stopped the turn.
        questions: the number of unanswered questions to the user.
        waiting_calls: the tool calls that wait for an approval.
    """

    _resume_reading: Callable[[], None]
    _keep_reading: Callable[[], AbstractContextManager[None]]
    _follows_calls: bool = attrs.field(kw_only=True)
    _decides_calls: bool = attrs.field(kw_only=True)
    size: int = 0
    call: PendingCall[m.ChatPromptResponse] | None = None
    error: ECAError | None = None
    has_content: bool = False
    has_ended: bool = False
    is_stopped: bool = False
    questions: int = 0
    waiting_calls: WaitingCalls = attrs.field(factory=WaitingCalls)
    _contents: deque[m.ChatContentReceivedParams] = attrs.field(factory=deque)
    _arrived: anyio.Event = attrs.field(factory=anyio.Event)
    _is_abandoned: bool = False

    @property
    def has_begun(self) -> bool:
        """True if the server has sent an answer or a content for this turn."""
        is_answered = self.call is not None and self.call.is_answered
        return self.has_content or is_answered or self._is_abandoned

    @property
    def awaits_user(self) -> bool:
        """True while the server waits for a decision or an answer of our user."""
        return not self.is_stopped and (self.questions > 0 or self.waiting_calls.are_open)

    def wake(self) -> None:
        """Let the reader look for changes, and begin its limit of the silence anew."""
        self._arrived.set()

    def deliver(self, received: m.ChatContentReceivedParams) -> None:
        """Append a content."""
        self._follow_call(received, is_due=False)
        if not isinstance(received.content, m.ChatUsageContent | m.ChatMetadataContent):
            self.has_content = True
        if self._is_abandoned:
            return
        self._contents.append(received)
        self.size += _weight(received.content)
        self._arrived.set()

    def deliver_of_subagent(self, received: m.ChatContentReceivedParams) -> None:
        """Take a content of a subagent's chat: its calls wait for an approval, too."""
        self._follow_call(received, is_due=self._decides_calls)
        self.wake()

    def _follow_call(self, received: m.ChatContentReceivedParams, *, is_due: bool) -> None:
        if not self._follows_calls:
            return
        match received.content:
            case m.ChatToolCallRunContent(manual_approval=True) as call if not self.is_stopped:
                self.waiting_calls.add(received.chat_id, call, is_due=is_due)
            case (
                m.ChatToolCallRunningContent()
                | m.ChatToolCalledContent()
                | m.ChatToolCallRejectedContent()
            ) as call:
                self.waiting_calls.close(received.chat_id, call.id)

    def stop(self) -> None:
        """Note that our side has stopped the turn: no call needs a decision any longer."""
        self.is_stopped = True
        self.waiting_calls.clear()
        self.wake()

    def finish(self, error: ECAError | None) -> None:
        """Mark the turn as ended."""
        self.has_ended = True
        self.error = self.error or error
        self.waiting_calls.clear()
        self._arrived.set()

    def interrupt(self, error: ECAError) -> None:
        """Raise an error from the reader, which then stops the turn."""
        self.error = self.error or error
        self._arrived.set()

    def abandon(self) -> None:
        """Drop the unread contents, and those that follow."""
        self._is_abandoned = True
        self._contents.clear()
        self.size = 0
        self._resume_reading()

    async def next(self, seconds: float | None) -> m.ChatContentReceivedParams | None:
        """Return the next content; None at the end of the turn, or if a call is due.

        Raises:
            DeadlineExceeded: no content came for `seconds`, while the user was not asked.
        """
        while not self._contents:
            if self.error is not None:
                raise self.error
            if self.has_ended or self.waiting_calls.due is not None:
                return None
            if self._arrived.is_set():  # otherwise another task waits for this event
                self._arrived = anyio.Event()
            limit = None if self.awaits_user else seconds
            with anyio.move_on_after(limit) as scope, self._keep_reading():
                await self._arrived.wait()
            if scope.cancelled_caught and seconds is not None:
                what = "the next content of the turn (option idle_deadline)"
                raise DeadlineExceeded(what, seconds)
        received = self._contents.popleft()
        self.size -= _weight(received.content)
        self._resume_reading()
        if self._decides_calls and isinstance(received.content, m.ChatToolCallRunContent):
            self.waiting_calls.mark_due(received.chat_id, received.content.id)
        return received


def _weight(content: m.ChatContent) -> int:
    if isinstance(content, m.ChatTextContent | m.ChatReasonTextContent):
        return CONTENT_WEIGHT + len(content.text)
    if isinstance(content, m.ChatImageContent):
        return CONTENT_WEIGHT + len(content.base64)
    if isinstance(content, m.ChatToolCallPrepareContent):
        return CONTENT_WEIGHT + len(content.arguments_text)
    return CONTENT_WEIGHT + size_of(content)

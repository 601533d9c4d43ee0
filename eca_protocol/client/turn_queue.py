"""The turns of one chat: one runs, and the others wait for its end."""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable

import anyio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.calls import PendingCall
from eca_protocol.client.approvals import ApprovalDecision, Rejection
from eca_protocol.client.inbox import Inbox
from eca_protocol.client.session import Session
from eca_protocol.endpoint import CallAnswered
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    ECAError,
    LocalProtocolError,
)


class TurnQueue:
    """The turns of one chat.

    The inbox of a turn lives as long as the turn has a reader.
    """

    def __init__(self, session: Session) -> None:
        self.title: str | None = None
        self.usage: m.ChatUsageContent | None = None
        self._session = session
        self._inbox: weakref.ref[Inbox] | None = None
        self._idle = anyio.Event()
        self._idle.set()
        self._is_stopped = False
        self._waits: list[anyio.CancelScope] = []  # of turns that wait for the previous turn
        self._order = anyio.Lock()  # a task that waits for an event has no place in a queue

    @property
    def is_idle(self) -> bool:
        """True if no turn runs."""
        return self._idle.is_set()

    @property
    def inbox(self) -> Inbox | None:
        """The inbox of the latest turn, unless nothing reads it."""
        return None if self._inbox is None else self._inbox()

    async def wait_until_idle(self) -> None:
        """Wait for the end of the turns that came first, as long as the running one makes progress.

        Raises:
            DeadlineExceeded: it sent no content for `idle_deadline` seconds, while the user was not
                asked.
        """
        wait = anyio.CancelScope(deadline=self._idle_until())
        self._waits.append(wait)
        try:
            with wait, self._session.keep_reading():
                async with self._order:
                    while not self._idle.is_set():
                        await self._idle.wait()
        finally:
            self._waits.remove(wait)
        if wait.cancelled_caught:
            seconds = self._session.idle_deadline or 0.0
            raise DeadlineExceeded("the next content of the previous turn", seconds)

    def start(self, inbox: Inbox) -> None:
        """Make a turn the running one."""
        self._idle = anyio.Event()
        self._is_stopped = False
        session = self._session
        if (previous := self.inbox) is not None:
            session._inboxes.discard(previous)
        session._inboxes.add(inbox)
        self._inbox = weakref.ref(
            inbox, lambda _: session.call_in_finalizer(session.resume_reading)
        )

    def follow(self, call: PendingCall[m.ChatPromptResponse]) -> None:
        """End the running turn if its prompt is refused, even if no task waits for the answer."""
        idle = self._idle

        def on_answer(answer: CallAnswered) -> None:
            if answer.error is not None and self._idle is idle:
                self.fail("the server refused the prompt")

        call.on_answer = on_answer

    def stop(self) -> None:
        """Note that our side has stopped the running turn."""
        self._is_stopped = True
        if (inbox := self.inbox) is not None:
            inbox.stop()
        self._extend_waits()

    def receive(self, received: m.ChatContentReceivedParams) -> bool:
        """Take a content from the server; return False if it belongs to none of our turns."""
        content = received.content
        if isinstance(content, m.ChatMetadataContent):
            self.title = content.title
        elif isinstance(content, m.ChatUsageContent):
            self.usage = content
        if self._idle.is_set():
            return False
        self._decide_at_once(received)
        inbox = self.inbox
        if isinstance(content, m.ChatProgressContent) and content.state == "finished":
            if inbox is not None and not inbox.has_begun:
                return False  # a second end of the previous turn; some servers send one (W-60)
            if inbox is not None:
                inbox.deliver(received)
            self.finish()
        elif inbox is not None:
            inbox.deliver(received)
        self._extend_waits()
        return True

    def receive_of_subagent(self, received: m.ChatContentReceivedParams) -> None:
        """Take a content of a subagent of the running turn."""
        if self._idle.is_set():
            return
        self._decide_at_once(received)
        if (inbox := self.inbox) is not None:
            inbox.deliver_of_subagent(received)
        self._extend_waits()

    def begin_question(self) -> Callable[[], None]:
        """Suspend the limit of the running turn's silence; return the function that ends that."""
        inbox = self.inbox

        def count(change: int) -> None:
            if inbox is not None:
                inbox.questions += change
                inbox.wake()
            self._extend_waits()

        count(1)
        return lambda: count(-1)

    def _decide_at_once(self, received: m.ChatContentReceivedParams) -> None:
        """Answer a call that needs approval if the client has one decision for all calls."""
        decision, content = self._session.on_approval, received.content
        if not isinstance(decision, str) or decision == "manual" or self._is_stopped:
            return
        if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
            with contextlib.suppress(LocalProtocolError, ConnectionClosed):  # shutting down
                answer_call(self._session, received.chat_id, content.id, decision)

    def close_call(self, chat_id: str, call_id: str) -> None:
        """Note that the program has answered a waiting call."""
        if (inbox := self.inbox) is not None:
            inbox.waiting_calls.close(chat_id, call_id)
            inbox.wake()
        self._extend_waits()

    def finish(self) -> None:
        """End the running turn."""
        if (inbox := self.inbox) is not None:
            inbox.finish(None)
        self._idle.set()

    def fail(self, reason: str) -> None:
        """End the running turn with an error: the connection has ended."""
        inbox = self.inbox
        if inbox is not None and not self._idle.is_set():
            inbox.finish(ConnectionClosed(f"the turn was not finished: {reason}"))
        self._idle.set()

    def interrupt(self, error: ECAError) -> None:
        """Raise an error from the running turn, which continues on the server."""
        if not self._idle.is_set() and (inbox := self.inbox) is not None:
            inbox.interrupt(error)

    def _extend_waits(self) -> None:
        for wait in self._waits:
            wait.deadline = self._idle_until()

    def _idle_until(self) -> float:
        seconds, inbox = self._session.idle_deadline, self.inbox
        if seconds is None or (inbox is not None and inbox.awaits_user):
            return math.inf
        return self._session._now() + seconds


def answer_call(session: Session, chat_id: str, call_id: str, decision: ApprovalDecision) -> None:
    """Send a decision about a tool call; the reason of a rejection goes to the running turn."""
    if decision in {"allow", "allow_session"}:
        save: m.ToolCallApprovalSave | None = "session" if decision == "allow_session" else None
        approval = m.ChatToolCallApproveParams(chat_id=chat_id, tool_call_id=call_id, save=save)
        session.notify(methods.CHAT_TOOL_CALL_APPROVE, approval)
        return
    if isinstance(decision, Rejection) and decision.reason:
        reason = m.ChatPromptSteerParams(chat_id=chat_id, message=decision.reason)
        session.notify(methods.CHAT_PROMPT_STEER, reason)
    rejection = m.ChatToolCallRejectParams(chat_id=chat_id, tool_call_id=call_id)
    session.notify(methods.CHAT_TOOL_CALL_REJECT, rejection)

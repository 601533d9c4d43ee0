"""Decisions about tool calls that wait for the user's approval.

A function decides a call when the reader of its turn asks for the next content: the program has
then seen the call and may have answered it by itself. One decision for all calls is sent when the
call arrives.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeAlias

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.errors import ApprovalNeeded, LocalProtocolError


@attrs.frozen
class Rejection:
    """A rejection with a reason, which is sent to the model with `chat/promptSteer`.

    An edition without that message, and an empty reason, reject without one.
    """

    reason: str = ""


ApprovalDecision: TypeAlias = Literal["allow", "allow_session", "reject"] | Rejection
"""Run the call; run it and later calls of the tool in this session; do not run it."""

ApprovalHandler: TypeAlias = (
    "Callable[[m.ChatToolCallRunContent], ApprovalDecision | Awaitable[ApprovalDecision]]"
)

OnApproval: TypeAlias = "ApprovalHandler | Literal['allow', 'reject', 'manual'] | None"
"""A function of the call, or one decision for all; see `connect`."""

_DECISIONS: Final = ("allow", "allow_session", "reject")
_SHORT_FORMS: Final = ("allow", "reject", "manual")


@attrs.define
class WaitingCall:
    """A tool call that waits for its approval.

    Attributes:
        chat_id: the chat to answer in: a subagent has its own.
        content: the call.
        is_due: the program has read the call.
        scope: the wait for the handler; cancelled when the call is closed.
    """

    chat_id: str
    content: m.ChatToolCallRunContent
    is_due: bool
    scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)


class WaitingCalls:
    """The calls of one turn that wait for their approval."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], WaitingCall] = {}

    def add(self, chat_id: str, content: m.ChatToolCallRunContent, *, is_due: bool) -> None:
        """Add a call."""
        call = WaitingCall(chat_id, content, is_due=is_due)
        self._calls[chat_id, content.id] = call

    def mark_due(self, chat_id: str, call_id: str) -> None:
        """Note that the program has read a call."""
        if (call := self._calls.get((chat_id, call_id))) is not None:
            call.is_due = True

    def close(self, chat_id: str, call_id: str) -> None:
        """Remove a call that does not wait any longer."""
        if (call := self._calls.pop((chat_id, call_id), None)) is not None:
            call.scope.cancel()

    def clear(self) -> None:
        """Remove all calls."""
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.scope.cancel()

    @property
    def are_open(self) -> bool:
        """True if a call waits."""
        return bool(self._calls)

    @property
    def due(self) -> WaitingCall | None:
        """A call that the program has read and whose decision has not started."""
        return next((call for call in self._calls.values() if call.is_due), None)


def check_handler(handler: OnApproval) -> None:
    """Refuse a value that is neither a function nor a short form.

    Raises:
        LocalProtocolError: the value is neither.
    """
    if handler is not None and not callable(handler) and handler not in _SHORT_FORMS:
        raise LocalProtocolError(
            f"on_approval: expected a function or one of {_listed(_SHORT_FORMS)}, got {handler!r}"
        )


async def decide(handler: OnApproval, call: WaitingCall) -> ApprovalDecision | None:
    """Return the decision of a function about a call; None if the call was closed meanwhile.

    Raises:
        ApprovalNeeded: there is no function.
        LocalProtocolError: the function returned no decision.
    """
    if not callable(handler):
        raise _approval_needed(call.content)
    call.is_due = False  # for other readers of the turn
    decision: object = None
    with call.scope:
        decision = handler(call.content)
        if inspect.isawaitable(decision):
            decision = await decision
    if call.scope.cancel_called:
        return None
    if decision in _DECISIONS or isinstance(decision, Rejection):
        return decision
    raise LocalProtocolError(
        f"on_approval: expected {_listed(_DECISIONS)} or a Rejection, got {decision!r}"
    )


def _approval_needed(call: m.ChatToolCallRunContent) -> ApprovalNeeded:
    name = f"{call.server}/{call.name}" if call.server else call.name
    summary = f" ({call.summary})" if call.summary else ""
    return ApprovalNeeded(
        f"the tool call {name}{summary} needs approval: pass on_approval to connect "
        '("allow", "reject", or a function of the call), or answer the call with '
        "chat.approve(call.id) or chat.reject(call.id) before you read the next content",
        call,
    )


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))

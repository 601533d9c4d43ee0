"""The user's decisions on tool calls, and the approvals for the session (W-31, W-34)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import trio

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler

if TYPE_CHECKING:
    from eca_server.agent.chat import Chats
    from eca_server.agent.chat.tool_call import ToolCall
    from eca_server.agent.mcp.server import Server
    from eca_server.agent.tools.approval import Memo
    from eca_server.client.session import Session


class Approvals:
    """The approvals for the session.

    Attributes:
        memos: the calls the user approved for the session.
    """

    def __init__(self) -> None:
        self.memos: set[Memo] = set()
        self._approved_as: dict[tuple[str, str], tuple[object, float]] = {}

    def follow(self, server: Server) -> None:
        """Withdraw the approvals of a server's tools whose description has changed.

        Of removed tools only approved ones are remembered, which limits the memory.
        """
        listed = set()
        for tool in server.tools:
            key = server.name, tool.name
            listed.add(key)
            if key not in self._approved_as or self._approved_as[key][0] != tool:
                self._approved_as[key] = tool, trio.current_time()
                self.memos -= {memo for memo in self.memos if (memo.server, memo.tool) == key}
        needed = listed | {(memo.server, memo.tool) for memo in self.memos}
        for key in [each for each in self._approved_as if each[0] == server.name]:
            if key not in needed:
                del self._approved_as[key]

    def remember(self, call: ToolCall) -> None:
        """Store the approval of a call for the session, unless its tool changed meanwhile."""
        for memo in call.memos:
            _, since = self._approved_as.get((memo.server, memo.tool), (None, -math.inf))
            if since <= call.asked_at:
                self.memos.add(memo)

    def forget(self, server: str) -> None:
        """Withdraw the approvals of a removed server's tools."""
        self.memos -= {memo for memo in self.memos if memo.server == server}


def make_handlers(session: Session, chats: Chats, approvals: Approvals) -> Mapping[str, Handler]:
    """Return the handlers of the user's decisions."""

    def approve(params: m.ChatToolCallApproveParams) -> None:
        call = chats.call(params.chat_id, params.tool_call_id)
        if call is None or session.has_sent_text_since(call.asked_at):
            return
        if call.approve() and params.save == "session":
            approvals.remember(call)

    def reject(params: m.ChatToolCallRejectParams) -> None:
        call = chats.call(params.chat_id, params.tool_call_id)
        if call is not None:
            call.reject()

    return methods.handlers(
        methods.CHAT_TOOL_CALL_APPROVE.handled_by(approve),
        methods.CHAT_TOOL_CALL_REJECT.handled_by(reject),
    )

"""The user's decisions on tool calls, and the approvals for the session (W-31, W-34)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler

if TYPE_CHECKING:
    from eca_server.agent.chat import Chats
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
        self._approved_as: dict[tuple[str, str], object] = {}

    def follow(self, server: Server) -> None:
        """Withdraw the approvals of a server's tools whose description has changed.

        Of removed tools only approved ones are remembered, which limits the memory.
        """
        listed = set()
        for tool in server.tools:
            key = server.name, tool.name
            listed.add(key)
            if self._approved_as.setdefault(key, tool) != tool:
                self._approved_as[key] = tool
                self.memos -= {memo for memo in self.memos if (memo.server, memo.tool) == key}
        needed = listed | {(memo.server, memo.tool) for memo in self.memos}
        for key in [each for each in self._approved_as if each[0] == server.name]:
            if key not in needed:
                del self._approved_as[key]

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
            approvals.memos.update(call.memos)

    def reject(params: m.ChatToolCallRejectParams) -> None:
        call = chats.call(params.chat_id, params.tool_call_id)
        if call is not None:
            call.reject()

    return dict(
        (
            methods.CHAT_TOOL_CALL_APPROVE.handled_by(approve),
            methods.CHAT_TOOL_CALL_REJECT.handled_by(reject),
        )
    )

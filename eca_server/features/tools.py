"""Tools towards the client: what there is, and its word on calls that wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eca_protocol import messages as m
from eca_server.tools.approval import NATIVE, policy_of
from eca_server.tools.toolbox import PREFIX

if TYPE_CHECKING:
    from eca_protocol.peer import Handler
    from eca_server.features.connection import Connection
    from eca_server.tools.tool import Tool

__all__ = ["announce_tools", "handlers_of"]


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The handlers of approvals (rulings W-31, W-34)."""

    def approve(params: m.ChatToolCallApproveParams) -> None:
        chat = connection.chats.get(params.chat_id)
        call = chat.call(params.tool_call_id) if chat is not None else None
        if call is not None and call.approve() and params.save == "session" and call.memo:
            connection.memos.add(call.memo)

    def reject(params: m.ChatToolCallRejectParams) -> None:
        chat = connection.chats.get(params.chat_id)
        call = chat.call(params.tool_call_id) if chat is not None else None
        if call is not None:
            call.reject()

    return {"chat/toolCallApprove": approve, "chat/toolCallReject": reject}


def announce_tools(connection: Connection, behavior: str) -> None:
    """Tell the client of the native tools, and which the behaviour disables, if it is news."""
    native = connection.tools()
    toolbox = native.toolbox(policy_of(connection.config, behavior))
    params = m.EcaServerUpdatedParams(
        name="ECA",
        status="running",
        tools=tuple(
            _announced(
                tool,
                disabled=toolbox.find(NATIVE, PREFIX + tool.name) is None,
                brief=connection.session.profile.brief_tools,
            )
            for tool in native.tools
        ),
    )
    if params != connection.told.tools:
        connection.told.tools = params
        connection.session.notify("tool/serverUpdated", params)


def _announced(tool: Tool, *, disabled: bool, brief: bool) -> m.ServerTool:
    return m.ServerTool(
        name=PREFIX + tool.name,
        description=tool.description[:BRIEF] if brief else tool.description,
        parameters={"type": "object"} if brief else tool.parameters,
        disabled=disabled,
    )


BRIEF = 80
"""Characters of a tool's description for clients that read little at a time."""

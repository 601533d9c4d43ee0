"""Tools for the client: announcements, and decisions on calls that need approval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eca_protocol import messages as m
from eca_server.features.subagents import subagent_tools
from eca_server.skills import SKILL_TOOL
from eca_server.tools.approval import NATIVE, policy_of
from eca_server.tools.search_tools import CallTool, SearchTools
from eca_server.tools.toolbox import PREFIX

if TYPE_CHECKING:
    from eca_protocol.peer import Handler
    from eca_server.features.connection import Connection
    from eca_server.session import Session

__all__ = ["announce_tools", "announced", "make_handlers"]


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of approvals (rulings W-31, W-34)."""

    def approve(params: m.ChatToolCallApproveParams) -> None:
        call = connection.chats.call(params.chat_id, params.tool_call_id)
        if call is not None and call.approve() and params.save == "session":
            connection.memos.update(call.memos)

    def reject(params: m.ChatToolCallRejectParams) -> None:
        call = connection.chats.call(params.chat_id, params.tool_call_id)
        if call is not None:
            call.reject()

    return {"chat/toolCallApprove": approve, "chat/toolCallReject": reject}


def announce_tools(connection: Connection, behavior: str) -> None:
    """Announce the native tools, and those that the behaviour disables, if they changed."""
    native = connection.tools(behavior=behavior, more=subagent_tools(connection, behavior))
    if not connection.has_skills:
        native = native.without(SKILL_TOOL)
    if connection.uses_mcp and connection.config.mcp_tool_search:
        native = native.adding([SearchTools(), CallTool()])
    toolbox = native.toolbox(policy_of(connection.config, behavior))
    prefix = PREFIX if connection.session.profile.prefixes_tools else ""
    params = m.EcaServerUpdatedParams(
        name="ECA",
        status="running",
        tools=tuple(
            announced(
                connection.session,
                name=prefix + tool.name,
                description=tool.description,
                parameters=tool.parameters,
                disabled=toolbox.find(NATIVE, PREFIX + tool.name) is None,
            )
            for tool in native.tools
        ),
    )
    if params != connection.announced.tools:
        connection.announced.tools = params
        connection.session.notify("tool/serverUpdated", params)
    if connection.uses_mcp:
        from eca_server.features.mcp import announce_servers  # noqa: PLC0415 - only where needed

        announce_servers(connection)


def announced(
    session: Session, *, name: str, description: str, parameters: Any, disabled: bool
) -> m.ServerTool:
    """Return the announcement of a tool."""
    brief = session.profile.brief_tools
    return m.ServerTool(
        name=name,
        description=description[:BRIEF] if brief else description,
        parameters={"type": "object"} if brief else parameters,
        disabled=disabled,
    )


BRIEF = 80
"""Limit of a tool's description for clients with small reads, in characters."""

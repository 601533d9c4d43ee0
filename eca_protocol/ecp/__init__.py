"""ECP, the Evaluation Context Protocol: agents that can be evaluated, and their evaluators.

An author serves a function, a class or an object (`serve_stdio`, `serve_http`); an evaluator talks
to it (`connect_agent`). Nothing is imported until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_protocol.ecp.authoring import Agent, agent, as_agent, on_initialize, on_reset, on_step
    from eca_protocol.ecp.chats import chat_agent
    from eca_protocol.ecp.evaluating import AgentConnection, AgentLimits, connect_agent
    from eca_protocol.ecp.faults import AgentFault
    from eca_protocol.ecp.messages import InitializeResult, Result, ToolCall, Usage
    from eca_protocol.ecp.methods import ECP, PROTOCOL_VERSION
    from eca_protocol.ecp.serving import (
        run_conversation,
        run_stdio,
        serve_http,
        serve_stdio,
        serving_http,
    )

_ROOMS = {
    "authoring": ("Agent", "agent", "as_agent", "on_initialize", "on_reset", "on_step"),
    "chats": ("chat_agent",),
    "evaluating": ("AgentConnection", "AgentLimits", "connect_agent"),
    "faults": ("AgentFault",),
    "messages": ("InitializeResult", "Result", "ToolCall", "Usage"),
    "methods": ("ECP", "PROTOCOL_VERSION"),
    "serving": ("run_conversation", "run_stdio", "serve_http", "serve_stdio", "serving_http"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [
    "ECP",
    "PROTOCOL_VERSION",
    "Agent",
    "AgentConnection",
    "AgentFault",
    "AgentLimits",
    "InitializeResult",
    "Result",
    "ToolCall",
    "Usage",
    "agent",
    "as_agent",
    "chat_agent",
    "connect_agent",
    "on_initialize",
    "on_reset",
    "on_step",
    "run_conversation",
    "run_stdio",
    "serve_http",
    "serve_stdio",
    "serving_http",
]


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

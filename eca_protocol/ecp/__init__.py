"""The Evaluation Context Protocol (ECP): agents that can be evaluated, and their evaluators.

An author serves a function, a class or an object (`serve_stdio`, `serve_http`); an evaluator talks
to it (`connect_agent`). Modules are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_protocol.ecp.authoring import Agent, agent, as_agent, on_initialize, on_reset, on_step
    from eca_protocol.ecp.chats import chat_agent
    from eca_protocol.ecp.connecting import connect_agent
    from eca_protocol.ecp.connection import AgentConnection, AgentLimits
    from eca_protocol.ecp.errors import AgentError
    from eca_protocol.ecp.messages import InitializeResult, Result, ToolCall, Usage
    from eca_protocol.ecp.methods import ECP, PROTOCOL_VERSION
    from eca_protocol.ecp.serving import (
        run_conversation,
        run_stdio,
        serve_http,
        serve_stdio,
        serving_http,
    )

_MODULES = {
    "authoring": "Agent agent as_agent on_initialize on_reset on_step",
    "chats": "chat_agent",
    "connecting": "connect_agent",
    "connection": "AgentConnection AgentLimits",
    "errors": "AgentError",
    "messages": "InitializeResult Result ToolCall Usage",
    "methods": "ECP PROTOCOL_VERSION",
    "serving": "run_conversation run_stdio serve_http serve_stdio serving_http",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ECP",
    "PROTOCOL_VERSION",
    "Agent",
    "AgentConnection",
    "AgentError",
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


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

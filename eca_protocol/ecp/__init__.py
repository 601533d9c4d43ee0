"""The Evaluation Context Protocol (ECP): agents that can be evaluated, and their evaluators.

An author serves a function, a class or an object (`serve_stdio`, `serve_http`); an evaluator talks
to it (`connect_agent`). Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.ecp.authoring import Agent as Agent
    from eca_protocol.ecp.authoring import agent as agent
    from eca_protocol.ecp.authoring import as_agent as as_agent
    from eca_protocol.ecp.authoring import on_initialize as on_initialize
    from eca_protocol.ecp.authoring import on_reset as on_reset
    from eca_protocol.ecp.authoring import on_step as on_step
    from eca_protocol.ecp.chats import chat_agent as chat_agent
    from eca_protocol.ecp.connection import AgentConnection as AgentConnection
    from eca_protocol.ecp.connection import AgentLimits as AgentLimits
    from eca_protocol.ecp.connection import connect_agent as connect_agent
    from eca_protocol.ecp.errors import AgentError as AgentError
    from eca_protocol.ecp.messages import InitializeResult as InitializeResult
    from eca_protocol.ecp.messages import Result as Result
    from eca_protocol.ecp.messages import ToolCall as ToolCall
    from eca_protocol.ecp.messages import Usage as Usage
    from eca_protocol.ecp.methods import ECP as ECP
    from eca_protocol.ecp.methods import PROTOCOL_VERSION as PROTOCOL_VERSION
    from eca_protocol.ecp.serving import run_conversation as run_conversation
    from eca_protocol.ecp.serving import run_stdio as run_stdio
    from eca_protocol.ecp.serving import serve_http as serve_http
    from eca_protocol.ecp.serving import serve_stdio as serve_stdio
    from eca_protocol.ecp.serving import serving_http as serving_http

_MODULES = {
    "authoring": "Agent agent as_agent on_initialize on_reset on_step",
    "chats": "chat_agent",
    "connection": "AgentConnection AgentLimits connect_agent",
    "errors": "AgentError",
    "messages": "InitializeResult Result ToolCall Usage",
    "methods": "ECP PROTOCOL_VERSION",
    "serving": "run_conversation run_stdio serve_http serve_stdio serving_http",
}
export(globals(), _MODULES)

"""The ECA protocol for Python: framing, JSON-RPC, typed messages, an async peer and a client.

Each name is imported at its first use: `import eca_protocol` loads no async library and no HTTP.
The message models are in `eca_protocol.messages`, the testing kit in `eca_protocol.testing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eca_protocol import messages, methods, sync
    from eca_protocol.client import (
        SERVER_COMMAND,
        ApprovalDecision,
        Chat,
        Client,
        Rejection,
        Turn,
        connect,
    )
    from eca_protocol.codec import Codec, Departure, explain
    from eca_protocol.draft import codec_for
    from eca_protocol.endpoint import Dialect, Endpoint, Method, Table
    from eca_protocol.errors import (
        AnswerNeeded,
        ApprovalNeeded,
        ConnectionClosed,
        DeadlineExceeded,
        DecodeError,
        ECAError,
        HTTPError,
        HTTPTimeout,
        InvalidJSON,
        LocalProtocolError,
        ProtocolError,
        RemoteProtocolError,
        RequestFailed,
        RPCError,
        StartFailed,
        TurnFailed,
    )
    from eca_protocol.fold import Fold
    from eca_protocol.framing import (
        ContentLengthDecoder,
        FrameError,
        LineDecoder,
        encode_frame,
        encode_line,
    )
    from eca_protocol.jsonrpc import ErrorCode, ErrorResponse, Notification, Request, Response
    from eca_protocol.lifecycle import LifecycleGate
    from eca_protocol.message_texts import dumps, loads
    from eca_protocol.message_transport import MessageTransport, StreamTransport
    from eca_protocol.methods import ECA
    from eca_protocol.outbox import WriteShape
    from eca_protocol.peer import End, Peer
    from eca_protocol.process import spawn
    from eca_protocol.revisions import Revision
    from eca_protocol.server.chat import ServerChat
    from eca_protocol.server.server import Server
    from eca_protocol.server.values import ChatMessage, ContextQuery, Prompt, ToolResult
    from eca_protocol.streams import FdTransport, Transport, memory_pair, owned_stdio

_EXPORTS = {
    "client": "SERVER_COMMAND ApprovalDecision Chat Client Rejection Turn connect",
    "codec": "Codec Departure explain",
    "message_texts": "dumps loads",
    "draft": "codec_for",
    "endpoint": "Dialect Endpoint Method Table",
    "errors": (
        "AnswerNeeded ApprovalNeeded ConnectionClosed DeadlineExceeded DecodeError ECAError "
        "HTTPError HTTPTimeout InvalidJSON LocalProtocolError ProtocolError RPCError "
        "RemoteProtocolError RequestFailed StartFailed TurnFailed"
    ),
    "fold": "Fold",
    "framing": "ContentLengthDecoder FrameError LineDecoder encode_frame encode_line",
    "jsonrpc": "ErrorCode ErrorResponse Notification Request Response",
    "lifecycle": "LifecycleGate",
    "message_transport": "MessageTransport StreamTransport",
    "methods": "ECA",
    "outbox": "WriteShape",
    "peer": "End Peer",
    "process": "spawn",
    "revisions": "Revision",
    "server.chat": "ServerChat",
    "server.values": "ChatMessage ContextQuery Prompt ToolResult",
    "server.server": "Server",
    "streams": "FdTransport Transport memory_pair owned_stdio",
}
_MODULES = ("messages", "methods", "sync")
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "ECA",
    "SERVER_COMMAND",
    "AnswerNeeded",
    "ApprovalDecision",
    "ApprovalNeeded",
    "Chat",
    "ChatMessage",
    "Client",
    "Codec",
    "ConnectionClosed",
    "ContentLengthDecoder",
    "ContextQuery",
    "DeadlineExceeded",
    "DecodeError",
    "Departure",
    "Dialect",
    "ECAError",
    "End",
    "Endpoint",
    "ErrorCode",
    "ErrorResponse",
    "FdTransport",
    "Fold",
    "FrameError",
    "HTTPError",
    "HTTPTimeout",
    "InvalidJSON",
    "LifecycleGate",
    "LineDecoder",
    "LocalProtocolError",
    "MessageTransport",
    "Method",
    "Notification",
    "Peer",
    "Prompt",
    "ProtocolError",
    "RPCError",
    "Rejection",
    "RemoteProtocolError",
    "Request",
    "RequestFailed",
    "Response",
    "Revision",
    "Server",
    "ServerChat",
    "StartFailed",
    "StreamTransport",
    "Table",
    "ToolResult",
    "Transport",
    "Turn",
    "TurnFailed",
    "WriteShape",
    "codec_for",
    "connect",
    "dumps",
    "encode_frame",
    "encode_line",
    "explain",
    "loads",
    "memory_pair",
    "messages",
    "methods",
    "owned_stdio",
    "spawn",
    "sync",
]


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The ECA protocol for Python: framing, JSON-RPC, typed messages, an async peer and a client.

Each name is imported at its first use: `import eca_protocol` loads no async library and no HTTP.
The message models are in `eca_protocol.messages`, the testing kit in `eca_protocol.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol import messages as messages
    from eca_protocol import methods as methods
    from eca_protocol import sync as sync
    from eca_protocol.client import SERVER_COMMAND as SERVER_COMMAND
    from eca_protocol.client import ApprovalDecision as ApprovalDecision
    from eca_protocol.client import Chat as Chat
    from eca_protocol.client import Client as Client
    from eca_protocol.client import Rejection as Rejection
    from eca_protocol.client import Turn as Turn
    from eca_protocol.client import connect as connect
    from eca_protocol.codec import Codec as Codec
    from eca_protocol.codec import Departure as Departure
    from eca_protocol.codec import explain as explain
    from eca_protocol.draft import codec_for as codec_for
    from eca_protocol.endpoint import Dialect as Dialect
    from eca_protocol.endpoint import Endpoint as Endpoint
    from eca_protocol.endpoint import Method as Method
    from eca_protocol.endpoint import Table as Table
    from eca_protocol.errors import *  # noqa: F403 - each of its names is exported
    from eca_protocol.fold import Fold as Fold
    from eca_protocol.framing import ContentLengthDecoder as ContentLengthDecoder
    from eca_protocol.framing import FrameError as FrameError
    from eca_protocol.framing import LineDecoder as LineDecoder
    from eca_protocol.framing import encode_frame as encode_frame
    from eca_protocol.framing import encode_line as encode_line
    from eca_protocol.jsonrpc import ErrorCode as ErrorCode
    from eca_protocol.jsonrpc import ErrorResponse as ErrorResponse
    from eca_protocol.jsonrpc import Notification as Notification
    from eca_protocol.jsonrpc import Request as Request
    from eca_protocol.jsonrpc import Response as Response
    from eca_protocol.lifecycle import LifecycleGate as LifecycleGate
    from eca_protocol.message_texts import dumps as dumps
    from eca_protocol.message_texts import loads as loads
    from eca_protocol.message_transport import MessageTransport as MessageTransport
    from eca_protocol.message_transport import StreamTransport as StreamTransport
    from eca_protocol.methods import ECA as ECA
    from eca_protocol.outbox import WriteShape as WriteShape
    from eca_protocol.peer import End as End
    from eca_protocol.peer import Peer as Peer
    from eca_protocol.process import spawn as spawn
    from eca_protocol.revisions import Revision as Revision
    from eca_protocol.server.chat import ServerChat as ServerChat
    from eca_protocol.server.server import Server as Server
    from eca_protocol.server.values import ChatMessage as ChatMessage
    from eca_protocol.server.values import ContextQuery as ContextQuery
    from eca_protocol.server.values import Prompt as Prompt
    from eca_protocol.server.values import ToolResult as ToolResult
    from eca_protocol.streams import FdTransport as FdTransport
    from eca_protocol.streams import Transport as Transport
    from eca_protocol.streams import memory_pair as memory_pair
    from eca_protocol.streams import owned_stdio as owned_stdio

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
export(globals(), _EXPORTS, _MODULES)

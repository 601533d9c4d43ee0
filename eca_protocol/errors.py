"""Every exception this package raises on purpose, and nothing else.

Two roots matter to a caller. `LocalProtocolError`: you did it. `RemoteProtocolError`: they did
it; it carries the reply the fault deserves and whether the byte stream can go on.

    ECAError
    ├── ProtocolError
    │   ├── LocalProtocolError          our side used the protocol wrongly; state is unchanged
    │   └── RemoteProtocolError         the other side did; .code .request_id .fatal
    │       ├── InvalidJSON             (also a ValueError) .position
    │       └── DecodeError             a message that does not fit its type: .path .expected .got
    ├── RPCError                        a JSON-RPC error: .code .message .data; handlers raise it
    │   └── RequestFailed               the other side answered our request with it
    ├── ConnectionClosed                the other side is gone; .reason
    ├── StartFailed                     a server or agent could not be started
    ├── DeadlineExceeded                (also a TimeoutError) nothing came in time: .seconds
    └── HTTPError                       an HTTP exchange failed below the status line: .kind
        └── HTTPTimeout                 nothing came in time: .timer .seconds
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "ConnectionClosed",
    "DeadlineExceeded",
    "DecodeError",
    "ECAError",
    "HTTPError",
    "HTTPTimeout",
    "InvalidJSON",
    "LocalProtocolError",
    "ProtocolError",
    "RPCError",
    "RemoteProtocolError",
    "RequestFailed",
    "StartFailed",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800


class ECAError(Exception):
    """Root of every exception this package raises on purpose."""


class ProtocolError(ECAError):
    """A rule of the wire was broken; see the two subclasses for by whom."""


class LocalProtocolError(ProtocolError):
    """The caller asked for something the protocol does not allow; nothing was changed."""


class RemoteProtocolError(ProtocolError):
    """The other side broke a rule.

    Attributes:
        code: the JSON-RPC error code the fault deserves.
        request_id: the id to answer with; None is answered as `id: null`.
        fatal: whether the byte stream is beyond use after it.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int = INVALID_REQUEST,
        request_id: int | str | None = None,
        fatal: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.request_id = request_id
        self.fatal = fatal


class InvalidJSON(RemoteProtocolError, ValueError):
    """Text that is not the JSON this package accepts; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message, code=PARSE_ERROR)
        self.position = position


class DecodeError(RemoteProtocolError):
    """A message that is JSON but does not fit its type.

    Attributes:
        path: where, as a reader would write it: `params.contexts[2].linesRange.start`.
        expected: what the type asks for, in words.
        got: what came, shortened.
        revision: the connection's, where its edition has no such thing at all.
    """

    def __init__(self, *, path: str, expected: str, got: str, revision: str | None = None) -> None:
        foreign = f" (revision {revision}, spoken here, has no such thing)" if revision else ""
        super().__init__(f"{path}: expected {expected}, got {got}{foreign}", code=INVALID_PARAMS)
        self.revision = revision
        self.path = path
        self.expected = expected
        self.got = got


class RPCError(ECAError):
    """A JSON-RPC error object. A handler raises it to answer its request with exactly this."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class RequestFailed(RPCError):
    """The other side answered our request with an error.

    Unlike a plain `RPCError` it is never passed on as the answer to somebody else's request.
    `code` is None-safe: servers that leave it out or send text are read as -32603.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, method: str = "") -> None:
        super().__init__(code, message, data)
        self.method = method


class ConnectionClosed(ECAError):
    """The other side is gone, or we closed; what was pending will never be answered."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StartFailed(ECAError):
    """A command could not be started, or ended before it said anything."""


class DeadlineExceeded(ECAError, TimeoutError):
    """Nothing came within `seconds`; `what` says what was waited for."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: nothing within {seconds:g} s")
        self.what = what
        self.seconds = seconds


HTTPErrorKind = Literal[
    "connect", "tls", "proxy", "timeout", "broken", "protocol", "config", "resources"
]
"""`resources`: this process has no file descriptors left."""


class HTTPError(ECAError):
    """An HTTP exchange failed below the status line; `kind` says how, the text says why."""

    def __init__(self, kind: HTTPErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class HTTPTimeout(HTTPError):
    """A deadline of an HTTP exchange passed; `timer` says which, `seconds` how long it was."""

    def __init__(
        self,
        timer: Literal["connect", "write", "first_byte", "idle"],
        seconds: float,
        message: str,
    ) -> None:
        super().__init__("timeout", message)
        self.timer = timer
        self.seconds = seconds

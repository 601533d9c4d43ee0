"""The exceptions that this package raises on purpose.

Two roots matter to a caller. `LocalProtocolError` is the caller's own mistake.
`RemoteProtocolError` is the other side's; it carries the error code of the reply and whether the
byte stream can continue.

    ECAError
    ├── ProtocolError
    │   ├── LocalProtocolError          our side broke the protocol; no state has changed
    │   └── RemoteProtocolError         the other side broke it; .code .request_id .fatal
    │       ├── InvalidJSON             (also a ValueError) .position
    │       └── DecodeError             a message that does not fit its type: .path .expected .got
    ├── RPCError                        a JSON-RPC error: .code .message .data; handlers raise it
    │   └── RequestFailed               the other side answered our request with an error
    ├── ApprovalNeeded                  a tool call needs an approval that is not given: .call
    ├── AnswerNeeded                    the server's question to the user has no answer: .question
    ├── TurnFailed                      a turn ended with the server's reason, without an answer
    ├── ConnectionClosed                the connection has ended; .reason
    ├── StartFailed                     a server or agent could not be started
    ├── DeadlineExceeded                (also a TimeoutError) no message arrived in time: .seconds
    └── HTTPError                       an HTTP exchange failed below the status line: .kind
                                        .never_connected
        └── HTTPTimeout                 no data arrived in time: .timer .seconds
"""

from __future__ import annotations

import errno
from typing import Any, Literal

__all__ = [
    "AnswerNeeded",
    "ApprovalNeeded",
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
    "TurnFailed",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_NOT_INITIALIZED = -32002
REQUEST_CANCELLED = -32800

_EXHAUSTED = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors of a machine without a free thread, process, open file or memory."""


def describe_internal_error(error: BaseException) -> str:
    """Return a description of an unexpected error for the user, without internal details."""
    if isinstance(error, ImportError):  # of a part that is imported at its first use
        return (
            "a part of the program cannot be loaded. It was probably upgraded or removed while "
            "it ran: restart it"
        )
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return f"the system is at a limit: {error.strerror}"
    return "internal error"


class ECAError(Exception):
    """The root of every exception that this package raises on purpose.

    A process pool can pickle it, with its attributes.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        # By default the constructor is called with `args`, which is only the message.
        return _restored, (type(self), self.args), self.__dict__


def _restored(error_type: type[ECAError], args: tuple[Any, ...]) -> ECAError:
    error = error_type.__new__(error_type)
    error.args = args
    return error


class ProtocolError(ECAError):
    """A breach of the wire protocol; the subclass tells which side broke it."""


class LocalProtocolError(ProtocolError):
    """A request of the caller that the protocol does not allow; no state has changed."""


class RemoteProtocolError(ProtocolError):
    """A breach of the protocol by the other side.

    Attributes:
        code: the JSON-RPC error code of the reply.
        request_id: the id of the reply; None is written as `id: null`.
        fatal: the byte stream cannot be read any further.
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
    """A text that is not accepted as JSON; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message, code=PARSE_ERROR)
        self.position = position


class DecodeError(RemoteProtocolError):
    """A message that is JSON but does not fit its type.

    Attributes:
        path: the place in the message: `params.contexts[2].linesRange.start`.
        expected: a description of the expected value.
        got: the received value, shortened.
        revision: the connection's edition, if that edition has no such member.
    """

    def __init__(self, *, path: str, expected: str, got: str, revision: str | None = None) -> None:
        foreign = f" (not in revision {revision} of this connection)" if revision else ""
        super().__init__(f"{path}: expected {expected}, got {got}{foreign}", code=INVALID_PARAMS)
        self.revision = revision
        self.path = path
        self.expected = expected
        self.got = got


class RPCError(ECAError):
    """A JSON-RPC error object; a handler raises it to answer its request with this error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


def internal_error(method: str, error: BaseException) -> RPCError:
    """Return the answer to a request whose handler failed."""
    return RPCError(INTERNAL_ERROR, f"{method} failed: {describe_internal_error(error)}")


class RequestFailed(RPCError):
    """The other side's error response to our request.

    Unlike a plain `RPCError` it is never forwarded as the answer to a request that we handle.
    `code` is always an integer: a missing or non-integer code is read as -32603.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, method: str = "") -> None:
        super().__init__(code, message, data)
        self.method = method


class ApprovalNeeded(ECAError):
    """A tool call that waits for an approval which the program does not give.

    Attributes:
        call: the waiting call, a `ChatToolCallRunContent`.
    """

    def __init__(self, message: str, call: Any) -> None:
        super().__init__(message)
        self.call = call


class AnswerNeeded(ECAError):
    """A question to the user which the program does not answer.

    Attributes:
        question: the server's question, a `ChatAskQuestionParams`.
    """

    def __init__(self, message: str, question: Any) -> None:
        super().__init__(message)
        self.question = question


class TurnFailed(ECAError):
    """A turn without an answer; the message is the server's text with the reason, if any."""


class ConnectionClosed(ECAError):
    """The end of the connection, by either side; pending requests stay unanswered."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StartFailed(ECAError):
    """A command that could not be started, or that ended before its first message."""


class DeadlineExceeded(ECAError, TimeoutError):
    """A wait that took longer than `seconds`; `what` names the awaited event."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"timed out after {seconds:g} s waiting for {what}")
        self.what = what
        self.seconds = seconds


HTTPErrorKind = Literal[
    "connect", "tls", "proxy", "timeout", "broken", "protocol", "config", "resources"
]
"""The kinds of `HTTPError`; `resources`: this process has no file descriptors left."""


class HTTPError(ECAError):
    """An HTTP exchange that failed below the status line; the message names the cause."""

    def __init__(self, kind: HTTPErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def never_connected(self) -> bool:
        """True if there was no connection, so that nothing was sent."""
        return self.kind == "connect"


class HTTPTimeout(HTTPError):
    """An HTTP exchange whose deadline `timer` of `seconds` has passed."""

    def __init__(
        self,
        timer: Literal["connect", "write", "first_byte", "idle"],
        seconds: float,
        message: str,
    ) -> None:
        super().__init__("timeout", message)
        self.timer = timer
        self.seconds = seconds

    @property
    def never_connected(self) -> bool:
        """True if there was no connection, so that nothing was sent."""
        return self.timer == "connect"

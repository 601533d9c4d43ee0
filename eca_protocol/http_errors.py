"""How long an HTTP exchange may wait, and what it means where the HTTP library gives one up.

The rule it keeps: the class of what the library raises tells what happened; its words are asked
only where the class does not tell.
"""

from __future__ import annotations

import errno
import os
from types import ModuleType

import attrs

from eca_protocol.errors import HTTPError, HTTPErrorKind, HTTPTimeout
from eca_protocol.tls import explain_tls_error

__all__ = ["NO_DESCRIPTORS", "Deadlines", "idle_timeout", "is_out_of_descriptors", "to_http_error"]

NO_DESCRIPTORS = (
    "this process has no file descriptors left (too many open files): close chats or MCP servers, "
    "or start it with a higher limit (`ulimit -n`)"
)


@attrs.frozen(kw_only=True)
class Deadlines:
    """How long one request may wait, in seconds; `math.inf` waits for ever."""

    connect: float = 10
    """For each of: the TCP connection, the TLS handshake."""
    write: float = 30
    """For each write of the request to be taken."""
    first_byte: float = 60
    """From the start of the request to the status line and headers."""
    idle: float = 120
    """Between two pieces of the body."""


_LIBRARY_ERRORS: tuple[tuple[str, HTTPErrorKind, str], ...] = (
    ("ConnectError", "connect", "cannot connect"),
    ("ProxyError", "proxy", "the proxy refused"),
    ("RemoteProtocolError", "protocol", "not an HTTP answer"),
    ("LocalProtocolError", "config", "not a request that can be sent"),
    ("UnsupportedProtocol", "config", "not a URL that can be asked"),
    ("InvalidURL", "config", "not a URL that can be asked"),
    ("TransportError", "broken", "the connection was lost"),
)
"""What the library raises and what it means; the first class that fits decides."""


def to_http_error(library: ModuleType, error: Exception, deadlines: Deadlines) -> HTTPError | None:
    """The fault that an exception of the HTTP library means; None for what is not its."""
    if isinstance(error, library.TimeoutException):
        return _timeout_error(library, error, deadlines)
    if isinstance(error, UnicodeError):
        return HTTPError("config", f"not the name of a host: {error}")
    lost = (library.TransportError, OSError)  # the latter: httpcore lets that of asyncio's TLS pass
    for name, kind, words in _LIBRARY_ERRORS:
        if isinstance(error, lost if kind == "broken" else getattr(library, name)):
            return _error_of_kind(error, kind, words)
    return None


def _error_of_kind(error: Exception, kind: HTTPErrorKind, words: str) -> HTTPError:
    text = str(error) or type(error).__name__
    if kind in {"connect", "broken"} and is_out_of_descriptors(error):
        return HTTPError("resources", f"cannot connect: {NO_DESCRIPTORS}")
    if trouble := explain_tls_error(error, is_connecting=kind == "connect"):
        return HTTPError("tls", f"TLS failed: {trouble}")
    if kind == "protocol" and ("disconnected" in text or "closed" in text):
        return HTTPError("broken", f"the connection was lost: {text}")
    return HTTPError(kind, f"{words}: {text}")


def is_out_of_descriptors(error: BaseException) -> bool:
    """Return whether an error came about because no file can be opened.

    The name service hides the reason ("Name or service not known"), so opening a file is tried.
    """
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        return True
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as fault:
        return fault.errno in {errno.EMFILE, errno.ENFILE}
    return False


def _timeout_error(library: ModuleType, error: Exception, deadlines: Deadlines) -> HTTPTimeout:
    if isinstance(error, library.ConnectTimeout):
        seconds = deadlines.connect
        return HTTPTimeout("connect", seconds, f"no connection within {seconds:g} s")
    if isinstance(error, library.WriteTimeout):
        seconds = deadlines.write
        return HTTPTimeout("write", seconds, f"the request was not taken within {seconds:g} s")
    return idle_timeout(deadlines.idle)


def idle_timeout(idle: float) -> HTTPTimeout:
    """The fault of an answer of which nothing more came in time."""
    return HTTPTimeout("idle", idle, f"no byte of the answer came for {idle:g} s")

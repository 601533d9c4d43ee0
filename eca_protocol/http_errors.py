"""The deadlines of an HTTP exchange, its invalid headers, and errors of the HTTP library.

The class of an exception decides; its message is used only where the class is ambiguous.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

import attrs

from eca_protocol.errors import HTTPError, HTTPErrorKind, HTTPTimeout
from eca_protocol.proxies import PROXY_LOGIN
from eca_protocol.tls import explain_tls_error, is_answered_in_plain_text, is_cut_off

__all__ = [
    "NO_DESCRIPTORS",
    "Deadlines",
    "checked_headers",
    "connect_timeout",
    "file_errors_explained",
    "idle_timeout",
    "is_out_of_descriptors",
    "proxy_errors_explained",
    "to_http_error",
]

NO_DESCRIPTORS = (
    "this process has no file descriptors left (too many open files): close chats or MCP servers, "
    "or start it with a higher limit (`ulimit -n`)"
)

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")


@attrs.frozen(kw_only=True)
class Deadlines:
    """The limits of one request's waits, in seconds; `math.inf`: no limit."""

    connect: float = 10
    """The limit of the TCP connection, of the TLS handshake, and of opening a proxy's tunnel."""
    write: float = 30
    """The limit of each write of the request, whose body is written in small pieces."""
    first_byte: float = 60
    """The limit until the body is begun, and from its end to the status line and headers."""
    idle: float = 120
    """The limit between two chunks of the body."""


_LIBRARY_ERRORS: tuple[tuple[str, HTTPErrorKind, str], ...] = (
    ("ConnectError", "connect", "cannot connect"),
    ("ProxyError", "proxy", "the proxy refused"),
    ("RemoteProtocolError", "protocol", "not an HTTP response"),
    ("LocalProtocolError", "config", "not a valid request"),
    ("UnsupportedProtocol", "config", "not a valid URL"),
    ("InvalidURL", "config", "not a valid URL"),
    ("TransportError", "broken", "the connection was lost"),
)
"""The library's exceptions with their kind and message; the first matching class decides."""


def to_http_error(
    library: ModuleType, error: Exception, deadlines: Deadlines, *, target: str = ""
) -> HTTPError | None:
    """Translate an exception of the HTTP library; return None for any other exception.

    `target`: the address that a connection was made to, with its port.
    """
    if isinstance(error, library.TimeoutException):
        return _timeout_error(library, error, deadlines)
    if isinstance(error, UnicodeError):
        return HTTPError("config", f"not a valid host name: {error}")
    if type(error).__module__.startswith("socksio."):  # httpcore passes on its errors
        return HTTPError("proxy", f"the SOCKS proxy's reply is not valid: {error}")
    broken = (library.TransportError, OSError)  # httpcore passes on OSError from asyncio's TLS
    for name, kind, message in _LIBRARY_ERRORS:
        if isinstance(error, broken if kind == "broken" else getattr(library, name)):
            return _error_of_kind(error, kind, message, target)
    return None


def _error_of_kind(error: Exception, kind: HTTPErrorKind, message: str, target: str) -> HTTPError:
    text = str(error) or type(error).__name__
    if kind in {"connect", "broken"} and is_out_of_descriptors(error):
        return HTTPError("resources", f"cannot connect: {NO_DESCRIPTORS}")
    if kind == "connect" and is_answered_in_plain_text(error):
        return HTTPError("config", "the server or proxy speaks HTTP without TLS: use http://")
    if kind == "connect" and is_cut_off(error):  # a new attempt may succeed
        return HTTPError("connect", "cannot connect: the TLS handshake was cut off")
    if trouble := explain_tls_error(error, is_connecting=kind == "connect"):
        return HTTPError("tls", f"TLS failed: {trouble}")
    match kind:
        case "connect" if reason := _reason(error):
            message, text = f"{message} to {target}" if target else message, reason
        case "broken":
            text = _reason(error) or str(error)
        case "proxy" if text.startswith("407"):
            kind, message, text = "config", "the proxy requires a login", PROXY_LOGIN
        case "protocol" if text == "illegal request line":  # so h11 calls a control character
            kind, message, text = "config", "the server expects TLS", "use https://"
        case "protocol" if "complete message body" in text:  # an answer without its end
            kind, message, text = "broken", "the connection was lost", ""
        case "protocol" if "disconnected" in text or "closed" in text:
            kind, message = "broken", "the connection was lost"
    return HTTPError(kind, f"{message}: {text}" if text else message)


def _reason(error: BaseException | None) -> str | None:
    """Return the system's reason for a failed connection; None: it gave none."""
    while error is not None:
        causes = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
        if any(isinstance(each, ConnectionRefusedError) for each in causes):
            return "connection refused"
        for each in causes:
            if isinstance(each, socket.gaierror):
                return each.strerror
            if isinstance(each, ssl.SSLError):  # its number is OpenSSL's
                return str(each)
            if isinstance(each, OSError) and each.errno is not None:
                return os.strerror(each.errno)
        error = error.__cause__
    return None


@contextmanager
def file_errors_explained() -> Iterator[None]:
    """Raise an `HTTPError` for errors of files: a first request imports modules and reads some."""
    try:
        yield
    except OSError as error:
        why = NO_DESCRIPTORS if is_out_of_descriptors(error) else error
        raise HTTPError("resources", f"cannot connect: {why}") from error


@contextmanager
def proxy_errors_explained(proxy: str | None) -> Iterator[None]:
    """Name the proxy in an error of its connection, which the user may not know to be in use."""
    try:
        yield
    except HTTPTimeout as error:
        if proxy is None:
            raise
        message = _with_proxy(error, is_connecting=error.timer == "connect")
        raise HTTPTimeout(error.timer, error.seconds, message) from error
    except HTTPError as error:
        if proxy is None or error.kind not in {"connect", "broken", "tls"}:
            raise
        message = _with_proxy(error, is_connecting=error.kind == "connect")
        raise HTTPError(error.kind, message) from error


def _with_proxy(error: HTTPError, *, is_connecting: bool) -> str:
    return f"{'' if is_connecting else 'through '}the proxy of the environment: {error}"


def is_out_of_descriptors(error: BaseException) -> bool:
    """Return True if an error was caused by a lack of file descriptors.

    The name service hides the cause ("Name or service not known"), so a file is opened as a test.
    """
    if isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}:
        return True
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as open_error:
        return open_error.errno in {errno.EMFILE, errno.ENFILE}
    return False


def _timeout_error(library: ModuleType, error: Exception, deadlines: Deadlines) -> HTTPTimeout:
    if isinstance(error, library.ConnectTimeout):
        return connect_timeout(deadlines.connect)
    if isinstance(error, library.WriteTimeout):
        seconds = deadlines.write
        return HTTPTimeout("write", seconds, f"the request was not sent within {seconds:g} s")
    return idle_timeout(deadlines.idle)


def connect_timeout(seconds: float) -> HTTPTimeout:
    """Return the error for a connection that was not made in time."""
    return HTTPTimeout("connect", seconds, f"no connection within {seconds:g} s")


def idle_timeout(idle: float) -> HTTPTimeout:
    """Return the error for a response that made no progress in time."""
    return HTTPTimeout("idle", idle, f"no byte of the answer came for {idle:g} s")


def checked_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers by their names in lower case, without white space around their values.

    Raises:
        HTTPError: a header cannot be sent; the message does not show its value.
    """
    checked = {}
    for name, raw in headers.items():
        value = raw.strip()
        if not _NAME.fullmatch(name):
            raise HTTPError("config", f"header {name!r}: expected a header name")
        if not _VALUE.fullmatch(value):
            odd = next(char for char in value if not _VALUE.fullmatch(char))
            raise HTTPError(
                "config", f"header {name}: expected printable ASCII, got U+{ord(odd):04X} in it"
            )
        checked[name.lower()] = value
    return checked

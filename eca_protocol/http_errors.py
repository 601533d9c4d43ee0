"""The errors of HTTP exchanges, in the user's terms.

The class of an exception decides; its message is used only where the class is ambiguous.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias

from eca_protocol.errors import HTTPError, HTTPErrorKind, HTTPTimeout
from eca_protocol.tls import explain_tls_error, is_answered_in_plain_text, is_cut_off

__all__ = [
    "CLOSED_UNANSWERED",
    "NO_DESCRIPTORS",
    "explained",
    "file_errors_explained",
    "invalid_url",
    "is_out_of_descriptors",
    "proxy_errors_explained",
    "timed_out",
]

Timer: TypeAlias = Literal["connect", "write", "first_byte", "idle"]

CLOSED_UNANSWERED = "the connection was lost: Server disconnected without sending a response."

NO_DESCRIPTORS = (
    "this process has no file descriptors left (too many open files): close chats or MCP servers, "
    "or start it with a higher limit (`ulimit -n`)"
)

_TIMEOUTS: Mapping[Timer, str] = {
    "connect": "no connection within {:g} s",
    "write": "the request was not sent within {:g} s",
    "first_byte": "no answer began within {:g} s",
    "idle": "no byte of the answer came for {:g} s",
}

_MESSAGES: Mapping[HTTPErrorKind, str] = {
    "connect": "cannot connect",
    "protocol": "not an HTTP response",
    "config": "not a valid request",
    "broken": "the connection was lost",
}


def explained(error: Exception, kind: HTTPErrorKind, target: str = "") -> HTTPError:
    """Return the error of a failed exchange.

    `target`: the address that a connection was made to, with its port.
    """
    message, text = _MESSAGES[kind], str(error) or type(error).__name__
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
        case "protocol" if text == "illegal request line":  # so h11 calls a control character
            kind, message, text = "config", "the server expects TLS", "use https://"
        case "protocol" if "complete message body" in text:  # an answer without its end
            kind, message, text = "broken", "the connection was lost", ""
        case "protocol" if "closed" in text:  # within a line
            kind, message = "broken", "the connection was lost"
    return HTTPError(kind, f"{message}: {text}" if text else message)


def invalid_url(error: Exception) -> HTTPError:
    """Return the error for a URL that cannot be parsed.

    A message that quotes the port or the `netloc` is not used: the beginning of a password with an
    unescaped slash is taken for the port.
    """
    text = str(error)
    if text.startswith(("Invalid port", "Port ", "netloc")):
        text = "expected a port from 1 to 65535; a / or # in a password is written %2F or %23"
    return HTTPError("config", f"not a valid URL: {text}")


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


def timed_out(timer: Timer, seconds: float) -> HTTPTimeout:
    """Return the error for a deadline that has passed."""
    return HTTPTimeout(timer, seconds, _TIMEOUTS[timer].format(seconds))

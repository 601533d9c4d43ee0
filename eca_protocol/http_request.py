"""A request of the HTTP client: its deadlines, its headers, the connections that may serve it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import attrs

from eca_protocol.errors import HTTPError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eca_protocol.tls import ClientCertificate

__all__ = ["ConnectionConfig", "Deadlines", "HTTPRequest", "checked_headers"]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
"""The methods whose requests name the length of an empty body too."""


@attrs.frozen(kw_only=True)
class ConnectionConfig:
    """The properties on which requests must agree to share connections."""

    secure: bool
    proxy: str | None = attrs.field(repr=False)  # with its login
    ca_file: str | None
    certificate: ClientCertificate | None


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


@attrs.frozen(kw_only=True)
class HTTPRequest:
    """A request; `HTTPClient.stream` describes its members."""

    method: str
    url: str = attrs.field(repr=False)
    headers: Mapping[str, str] = attrs.field(repr=False)
    content: bytes = attrs.field(repr=False)
    deadlines: Deadlines
    address: str | None
    resend: bool

    def framed_headers(self, host: str, added: Mapping[str, str]) -> dict[str, str]:
        """Return the headers, `Host` and added ones first, with the length of the body.

        Raises:
            HTTPError: a given header contradicts the length.
        """
        headers, size = self.headers, str(len(self.content))
        if headers.get("content-length", size) != size or "transfer-encoding" in headers:
            raise HTTPError("config", "not a valid request: its headers name a different framing")
        framed = {"host": headers["host"]} if "host" in headers else {"Host": host}
        framed |= {name: added[name] for name in added if name.lower() not in headers}
        has_length = "content-length" in headers
        if not self.content and self.method in _WITH_BODY and not has_length:
            framed["Content-Length"] = "0"
        framed |= headers
        if self.address is not None:
            framed["connection"] = "close"  # it must not be reused for the bare address
        if self.content and not has_length:
            framed["Content-Length"] = size
        return framed


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

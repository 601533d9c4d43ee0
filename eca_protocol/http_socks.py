"""The handshake of SOCKS5, by which a proxy connects to a server, whose name it resolves.

The package socksio is optional: this module is imported only for such a proxy.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
from anyio.abc import ByteStream
from socksio import (
    ProtocolError,
    SOCKS5AuthMethod,
    SOCKS5AuthMethodsRequest,
    SOCKS5Command,
    SOCKS5CommandRequest,
    SOCKS5Connection,
    SOCKS5ReplyCode,
    SOCKS5UsernamePasswordRequest,
)

from eca_protocol.errors import HTTPError, HTTPErrorKind
from eca_protocol.http_errors import explained
from eca_protocol.proxies import PROXY_LOGIN

__all__ = ["open_tunnel"]

_REASONS = {
    SOCKS5ReplyCode.GENERAL_SERVER_FAILURE: "general SOCKS server failure",
    SOCKS5ReplyCode.TTL_EXPIRED: "TTL expired",
}
"""The reasons that their names do not say."""

_NO_LOGIN = "takes no user name and password: remove them from the proxy variable (HTTPS_PROXY)"


async def open_tunnel(
    stream: ByteStream, host: str, port: int, *, name: str, login: tuple[str, str] | None
) -> None:
    """Let the proxy connect its end of a stream to a server; `name` is the proxy's in errors.

    Raises:
        HTTPError: it refuses, its reply is not valid, or the connection broke.
    """
    try:
        kind, refusal = await _refusal(stream, host, port, login)
    except ProtocolError as error:
        raise HTTPError("proxy", f"the SOCKS proxy's reply is not valid: {error}") from error
    except OverflowError as error:
        text = "SOCKS takes host names, user names and passwords of up to 255 bytes"
        raise HTTPError("config", text) from error
    except anyio.BrokenResourceError as error:
        raise explained(error, "broken") from error
    if refusal:
        raise HTTPError(kind, f"the SOCKS proxy {name} {refusal}")


async def _refusal(
    stream: ByteStream, host: str, port: int, login: tuple[str, str] | None
) -> tuple[HTTPErrorKind, str]:
    """Return the kind of a refusal of the proxy, and why; without a reason it has connected."""
    socks = SOCKS5Connection()

    async def ask(request: Any, size: int) -> Any:
        socks.send(request)
        await stream.send(socks.data_to_send())
        reply = await _receive(stream, size)
        if len(reply) > 4:  # an address has begun, behind which there is a port
            sizes = {1: 4, 3: 1 + reply[4], 4: 16}
            reply += await _receive(stream, sizes.get(reply[3], -1) + 1)
        return socks.receive_data(reply)

    method = SOCKS5AuthMethod.USERNAME_PASSWORD if login else SOCKS5AuthMethod.NO_AUTH_REQUIRED
    chosen = (await ask(SOCKS5AuthMethodsRequest([method]), 2)).method
    if chosen != method:
        return "config", f"requires a login: {PROXY_LOGIN}" if login is None else _NO_LOGIN
    if login is not None:
        user, password = (each.encode() for each in login)
        if not (await ask(SOCKS5UsernamePasswordRequest(user, password), 2)).success:
            return "config", f"refused the user name or the password: {PROXY_LOGIN}"
    target = SOCKS5CommandRequest.from_address(SOCKS5Command.CONNECT, (host, port))
    code: SOCKS5ReplyCode = (await ask(target, 5)).reply_code
    if code == SOCKS5ReplyCode.SUCCEEDED:
        return "proxy", ""
    reason = _REASONS.get(code, code.name.lower().replace("_", " "))
    return "proxy", f"could not connect: {reason}"


async def _receive(stream: ByteStream, size: int) -> bytes:
    """Return bytes of that number, or fewer ones if the proxy has closed the connection."""
    received = b""
    with suppress(anyio.EndOfStream):
        while len(received) < size:
            received += await stream.receive(size - len(received))
    return received

"""Requests through SOCKS5 proxies: the handshake, its failures, and the connections behind it."""

import errno
import math
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
import trustme

from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.proxies import PROXY_LOGIN
from tests.eca_protocol.http_peers import (
    Traffic,
    ask,
    failure,
    join,
    listening,
    read_head,
    remove_proxies,
    server,
    tls,
    trust,
)

pytestmark = pytest.mark.anyio

NAME = "model.example"
CONNECT_MESSAGE = bytes((5, 1, 0, 3, len(NAME))) + NAME.encode() + (80).to_bytes(2, "big")
"""The request to connect to port 80 of the host."""

CONNECTED = b"\5\0\0\1\0\0\0\0\0\0"
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
INVALID = ("proxy", "the SOCKS proxy's reply is not valid: Malformed reply")
LOGIN = "us%40r:p%20w"
LOGIN_REQUIRED = ("config", f"requires a login: {PROXY_LOGIN}")
WRONG_LOGIN = ("config", f"refused the user name or the password: {PROXY_LOGIN}")
NO_LOGIN = (
    "config",
    "takes no user name and password: remove them from the proxy variable (HTTPS_PROXY)",
)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_proxies(monkeypatch)


async def receive(stream: anyio.abc.ByteStream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        received += await stream.receive(size - len(received))
    return received


@asynccontextmanager
async def scripted(*replies: bytes, is_open: bool = False) -> AsyncIterator[Traffic]:
    """Run a proxy that answers each message with the next bytes, one by one, and then closes.

    `is_open`: it does so once the client has closed.
    """

    async def serve(stream: anyio.abc.ByteStream) -> None:
        for each in replies:
            traffic.heads.append((await stream.receive()).hex(" "))
            for number in each:
                await stream.send(bytes([number]))
                await anyio.lowlevel.checkpoint()
        while is_open:
            await stream.receive()

    async with listening(serve) as traffic:
        yield traffic


@asynccontextmanager
async def socks(leads_to: int) -> AsyncIterator[Traffic]:
    """Run a proxy with a login that connects every host to the same server on this machine."""

    async def serve(stream: anyio.abc.ByteStream) -> None:
        assert await receive(stream, 3) == b"\5\1\2"
        await stream.send(b"\5\2")
        assert await receive(stream, 10) == b"\1\4us@r\3p w"
        await stream.send(b"\1\0")
        request = await receive(stream, 5)
        assert request[:3] == b"\5\1\0"
        size = {1: 4, 3: 1 + request[4], 4: 16}[request[3]]
        request += await receive(stream, size - 1 + 2)
        traffic.heads.append(request[3:].hex(" "))
        async with await anyio.connect_tcp("127.0.0.1", leads_to) as far:
            await stream.send(CONNECTED)
            await join(stream, far)

    async with listening(serve) as traffic:
        yield traffic


async def refusal(
    way: Traffic, monkeypatch: pytest.MonkeyPatch, login: str = ""
) -> tuple[str, str]:
    """Return the kind of the error of a request through a proxy, and its text."""
    monkeypatch.setenv("ALL_PROXY", f"socks5://{login}@127.0.0.1:{way.port}")
    error = await failure(f"http://{NAME}/")
    return error.kind, str(error)


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize(
    ("host", "address"),
    [
        (NAME, f"03 {len(NAME):02x} {NAME.encode().hex(' ')}"),
        ("192.0.2.7", "01 c0 00 02 07"),
        ("[2001:db8::1]", "04 20 01 0d b8" + " 00" * 11 + " 01"),
        ("b\u00fccher.example", "03 15 " + b"xn--bcher-kva.example".hex(" ")),
    ],
)
async def test_the_proxy_resolves_names_and_gets_addresses_as_such(
    monkeypatch, scheme, host, address
):
    async with server() as traffic, socks(traffic.port) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", f"{scheme}://{LOGIN}@127.0.0.1:{way.port}")
        for _ in range(3):
            assert await ask(f"http://{host}:8080/path?q", client) == b"hello"
    assert way.heads == [f"{address} 1f 90"], "one connection serves all requests"
    assert all(head.startswith("GET /path?q HTTP/1.1\r\n") for head in traffic.heads)
    assert not any("proxy-auth" in head.lower() for head in traffic.heads)


async def test_https_goes_through_the_proxy_over_one_connection(monkeypatch, tmp_path):
    authority = trustme.CA()
    trust(authority, tmp_path / "authority.pem", monkeypatch)
    async with (
        server(tls(authority, NAME)) as traffic,
        socks(traffic.port) as way,
        HTTPClient() as client,
    ):
        monkeypatch.setenv("ALL_PROXY", f"socks5://{LOGIN}@127.0.0.1:{way.port}")
        for _ in range(3):
            assert await ask(f"https://{NAME}/", client) == b"hello"
        error = await failure("https://other.example/", client)
    assert (way.connections, len(traffic.heads)) == (2, 3)
    assert error.kind == "tls"
    assert str(error).startswith("through the proxy of the environment: TLS failed")


@pytest.mark.parametrize(
    "address",
    [b"\1\x7f\0\0\1", b"\3\4host", b"\3\0", b"\4" + bytes(16)],
    ids=["4", "name", "", "6"],
)
async def test_a_reply_may_come_in_pieces_and_name_any_address(monkeypatch, address):
    connected = b"\5\0\0" + address + b"\0\x50"
    async with scripted(b"\5\0", connected, HELLO) as way:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{way.port}")
        assert await ask(f"http://{NAME}/") == b"hello"
    assert way.heads[:2] == ["05 01 00", CONNECT_MESSAGE.hex(" ")]


@pytest.mark.parametrize(
    ("login", "replies", "expected"),
    [
        (LOGIN, [b"\5\2", b"\1\1"], WRONG_LOGIN),
        (LOGIN, [b"\5\2", b"\1"], WRONG_LOGIN),
        (LOGIN, [b"\5\xff"], NO_LOGIN),
        (LOGIN, [b"\5\0"], NO_LOGIN),
        ("", [b"\5\2"], LOGIN_REQUIRED),
        ("", [b"\5\xff"], LOGIN_REQUIRED),
        (
            "",
            [b"\5\0", b"\5\1" + CONNECTED[2:]],
            ("proxy", "could not connect: general SOCKS server failure"),
        ),
        (
            "",
            [b"\5\0", b"\5\4" + CONNECTED[2:]],
            ("proxy", "could not connect: host unreachable"),
        ),
        ("", [b"\5\0", b"\5\6" + CONNECTED[2:]], ("proxy", "could not connect: TTL expired")),
    ],
)
async def test_a_refusal_is_named_with_the_proxy(monkeypatch, login, replies, expected):
    kind, reason = expected
    async with scripted(*replies) as way:
        text = f"the SOCKS proxy 127.0.0.1:{way.port} {reason}"
        assert await refusal(way, monkeypatch, login) == (kind, text)


@pytest.mark.parametrize(
    "replies",
    [
        [b""],
        [b"\5"],
        [b"no"],
        [b"\5\0", b""],
        [b"\5\0", b"\5\1"],
        [b"\5\0", b"\5\0\0\1\0"],
        [b"\5\0", b"\5\0\0\2\0"],
        [b"\5\0", b"\5\x63" + CONNECTED[2:]],
        [b"\5\0", b"HTTP/1.1 400 No\r\n\r\n"],
        [b"\5\0", b"\5\0\0\3\1\xff\0\0"],
    ],
)
async def test_a_reply_that_is_cut_or_not_valid_is_named(monkeypatch, replies):
    async with scripted(*replies) as way:
        assert await refusal(way, monkeypatch) == INVALID


@pytest.mark.parametrize(
    "replies", [[], [b"\5\2"], [b"\5\2", b"\1\0"], [b"\5\2", b"\1\0", b"\5\0\0"]]
)
async def test_a_proxy_that_falls_silent_is_a_failed_connection(monkeypatch, replies):
    deadlines = Deadlines(connect=0.2, first_byte=math.inf)
    async with scripted(*replies, is_open=True) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", f"socks5://{LOGIN}@127.0.0.1:{way.port}")
        error = await failure(f"http://{NAME}/", client, deadlines=deadlines)
        assert str(error) == "the proxy of the environment: no connection within 0.2 s"
        await way.until_closed()


async def test_an_answer_may_take_longer_than_the_connection(monkeypatch):
    async def answer_late(stream: anyio.abc.ByteStream) -> None:
        for sent in (b"\5\0", CONNECTED):
            await stream.receive()
            await stream.send(sent)
        await read_head(stream)
        await anyio.sleep(0.3)
        await stream.send(HELLO)

    async with listening(answer_late) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", f"socks5://127.0.0.1:{way.port}")
        url = f"http://{NAME}/"
        assert await ask(url, client, deadlines=Deadlines(connect=0.1)) == b"hello"


async def test_a_proxy_that_resets_is_named(monkeypatch):
    async def reset(stream: anyio.abc.ByteStream) -> None:
        await stream.receive()
        linger = struct.pack("ii", 1, 0)
        raw = stream.extra(anyio.abc.SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async with listening(reset) as way:
        lost = f"the connection was lost: {os.strerror(errno.ECONNRESET)}"
        expected = ("broken", f"through the proxy of the environment: {lost}")
        assert await refusal(way, monkeypatch) == expected


@pytest.mark.parametrize(
    ("proxy", "host"), [("127.0.0.1:{}", "n" * 256), (f"{'u' * 256}@127.0.0.1:{{}}", NAME)]
)
async def test_names_that_socks_cannot_send_are_an_error_of_the_configuration(
    monkeypatch, proxy, host
):
    login = "@" in proxy
    async with scripted(b"\5\2" if login else b"\5\0") as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", f"socks5://{proxy.format(way.port)}")
        error = await failure(f"http://{host}/", client)
    assert error.kind == "config"
    assert "255 bytes" in str(error)


async def test_a_cancelled_request_leaves_no_connection_wherever_it_is(monkeypatch):
    async with server() as traffic, socks(traffic.port) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", f"socks5://{LOGIN}@127.0.0.1:{way.port}")
        assert await ask(f"http://{NAME}/", client) == b"hello"
        (pool,) = client._pools.values()
        await pool.aclose()
        for ticks in range(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask, f"http://{NAME}/", client)
                for _ in range(ticks):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
            assert pool.connections == []  # since the pool is closed
        await way.until_closed()


async def test_bytes_behind_the_reply_are_the_servers(monkeypatch):
    async with scripted(b"\5\0", CONNECTED + b"SSH-2.0-x\r\n\r\n") as way:
        kind, message = await refusal(way, monkeypatch)
    assert kind == "protocol"
    assert "SSH-2.0-x" in message


async def test_a_reply_with_an_unknown_type_of_address_is_refused_at_once(monkeypatch):
    async with scripted(b"\5\0", b"\5\0\0\2\0", is_open=True) as way:
        assert await refusal(way, monkeypatch) == INVALID

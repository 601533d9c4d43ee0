"""The route of a request: proxies, certificates of both sides, an address in place of a name."""

import errno
import math
import os
import resource
import socket
import ssl
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
import pytest
import trustme
from anyio.streams.tls import TLSStream
from cryptography.hazmat.primitives import serialization

from eca_protocol.errors import HTTPError
from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.proxies import PROXY_LOGIN
from eca_protocol.tls import ClientCertificate, make_context
from tests.eca_protocol.http_peers import (
    answering,
    ask,
    failure,
    listening,
    mutual_tls,
    proxy,
    read_head,
    remove_proxies,
    server,
    tls,
    trust,
)

pytestmark = pytest.mark.anyio

NAME = "model.example"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    remove_proxies(monkeypatch)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process trust the authority."""
    trust(authority, tmp_path / "authority.pem", monkeypatch)


async def test_an_authority_may_be_trusted_beside_the_usual_ones(authority, tmp_path):
    bundle = tmp_path / "more.pem"
    authority.cert_pem.write_to_path(str(bundle))
    async with server(tls(authority, "127.0.0.1")) as traffic, HTTPClient() as client:
        url = f"https://127.0.0.1:{traffic.port}/"
        for ca_file, is_trusted in ((None, False), (str(bundle), True), (None, False)):
            client.ca_file = ca_file
            if is_trusted:
                assert await ask(url, client) == b"hello"
            else:
                assert (await failure(url, client)).kind == "tls"
    assert len(traffic.heads) == 1


async def test_a_host_that_tls_cannot_check_is_an_error_of_the_configuration():
    async with server() as traffic:
        url = f"https://.{NAME}:{traffic.port}/"
        error = await failure(url, address="127.0.0.1")
    assert error.kind == "config"
    assert str(error).startswith("not a valid host name: ")


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_file_without_certificates_is_named(tmp_path, content):
    bundle = tmp_path / "more.pem"
    if content is not None:
        bundle.write_text(content)
    async with HTTPClient() as client:
        client.ca_file = str(bundle)
        error = await failure("https://127.0.0.1:1/", client)
    assert error.kind == "config"
    assert "more.pem cannot be loaded" in str(error)


async def test_http_goes_through_the_proxy_with_its_credentials(monkeypatch):
    async with server() as traffic, proxy(traffic.port) as way:
        monkeypatch.setenv("http_proxy", f"http://user:word@127.0.0.1:{way.port}")
        assert await ask(f"http://{NAME}/path") == b"hello"
    [head] = way.heads
    assert head.startswith(f"GET http://{NAME}/path HTTP/1.1")
    assert "proxy-authorization: basic dxnlcjp3b3jk" in head.lower()


EMPTY = b"content-length: 0\r\n\r\n"
LOST = (
    "through the proxy of the environment: the connection was lost: "
    "Server disconnected without sending a response."
)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"HTTP/1.1 403 \x9b2JNo\r\n" + EMPTY, "proxy", "the proxy refused: 403 2JNo"),
        (b"HTTP/1.1 407 No\r\n" + EMPTY, "config", f"the proxy requires a login: {PROXY_LOGIN}"),
        (b"", "broken", LOST),
        (b"HTTP/1.1 200", "broken", LOST),
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named(monkeypatch, answer, kind, message):
    async with answering(answer) as way:
        monkeypatch.setenv("ALL_PROXY", way.url)
        error = await failure(f"https://{NAME}/")
    assert (error.kind, str(error)) == (kind, message)


async def test_a_tunnel_whose_tls_fails_leaves_no_connection(monkeypatch):
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", way.url)
        assert (await failure(f"https://{NAME}/", client)).kind == "connect"
        (pool,) = client._pools.values()
        assert pool.connections == []


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_a_proxy_that_is_down_is_named(monkeypatch, scheme):
    async with listening(read_head) as way:
        pass
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{way.port}")
    error = await failure(f"https://{NAME}/")
    refused = f"cannot connect to 127.0.0.1:{way.port}: connection refused"
    assert (error.kind, str(error)) == ("connect", f"the proxy of the environment: {refused}")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Deadlines(first_byte=0.2),
            "through the proxy of the environment: no answer began within 0.2 s",
        ),
        (
            Deadlines(connect=0.2, first_byte=math.inf),
            "the proxy of the environment: no connection within 0.2 s",
        ),
    ],
)
async def test_a_proxy_that_falls_silent_is_named_and_its_connection_closed(
    monkeypatch, limits, message
):
    async def keep_silent(stream: anyio.abc.ByteStream) -> None:
        while True:
            await stream.receive()

    async with listening(keep_silent) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", way.url)
        error = await failure(f"https://{NAME}/", client, deadlines=limits)
        await way.until_closed()
    assert (error.kind, str(error)) == ("timeout", message)


async def test_a_certificate_behind_a_proxy_may_be_the_proxys(authority, monkeypatch):
    async with server(tls(authority, NAME)) as traffic, proxy(traffic.port) as way:
        monkeypatch.setenv("ALL_PROXY", way.url)
        error = await failure(f"https://{NAME}/")
    assert error.kind == "tls"
    assert str(error).startswith("through the proxy of the environment: TLS failed")


@pytest.mark.parametrize(("variable", "is_added"), [(None, True), ("SSL_CERT_FILE", False)])
def test_the_systems_authorities_are_trusted_unless_a_variable_names_others(
    monkeypatch, tmp_path, variable, is_added
):
    class Context(ssl.SSLContext):
        has_defaults = False

        def load_default_certs(self, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
            Context.has_defaults = True

    if variable is not None:
        monkeypatch.setenv(variable, str(tmp_path))
    make_context(lambda: Context(ssl.PROTOCOL_TLS_CLIENT), None)
    assert Context.has_defaults is is_added


@pytest.mark.usefixtures("trusted")
async def test_https_goes_through_a_tunnel_and_the_proxy_reads_none_of_it(authority, monkeypatch):
    async with server(tls(authority, NAME)) as traffic, proxy(traffic.port) as way:
        monkeypatch.setenv("ALL_PROXY", way.url)
        assert await ask(f"https://{NAME}/path?key=1", address="192.0.2.1") == b"hello"
    [head] = way.heads
    assert head.startswith(f"CONNECT {NAME}:443 "), "the name, and not the address"
    assert "path" not in head
    assert traffic.heads[0].startswith("GET /path?key=1 ")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [False, True])
async def test_a_connection_through_a_proxy_serves_the_next_request(authority, monkeypatch, secure):
    context = tls(authority, NAME) if secure else None
    async with server(context) as traffic, proxy(traffic.port) as way, HTTPClient() as client:
        monkeypatch.setenv("ALL_PROXY", way.url)
        for _ in range(3):
            assert await ask(f"http{'s' if secure else ''}://{NAME}/", client) == b"hello"
    assert len(traffic.heads) == 3
    assert way.connections == 1


@pytest.mark.parametrize(
    "address",
    ["http://", "socks5://", "socks5://:1080", "socks5h://h:99999", "socks5://h:0", "socks4://h"],
)
async def test_an_address_that_is_no_proxys_is_named(monkeypatch, address):
    monkeypatch.setenv("ALL_PROXY", address)
    error = await failure(f"http://{NAME}/")
    expected = "ALL_PROXY is not a proxy address: expected http://HOST:PORT"
    assert (error.kind, str(error)) == ("config", expected)


async def test_what_no_proxy_names_and_this_machine_are_asked_directly(monkeypatch):
    async with server() as traffic, proxy(traffic.port) as way:
        monkeypatch.setenv("HTTP_PROXY", way.url)
        assert await ask(traffic.url) == b"hello"
        monkeypatch.setenv("NO_PROXY", NAME)
        url = f"http://{NAME}:{traffic.port}/"
        assert await ask(url, address="127.0.0.1") == b"hello"
        assert way.heads == []
        monkeypatch.setenv("NO_PROXY", "other.example")
        assert await ask(url) == b"hello"
        assert len(way.heads) == 1


@pytest.mark.usefixtures("trusted")
async def test_an_address_is_asked_in_the_name_of_the_urls_host(authority):
    async with server(tls(authority, NAME)) as traffic, HTTPClient() as client:
        url = f"https://{NAME}:{traffic.port}/path"
        assert await ask(url, client, address="127.0.0.1") == b"hello"
        head = traffic.heads[0].lower()
        assert head.startswith("get /path ")
        assert f"host: {NAME}:{traffic.port}\r\n" in head
        url = f"https://other.example:{traffic.port}/"
        assert (await failure(url, client, address="127.0.0.1")).kind == "tls"
        assert len(traffic.heads) == 1


async def test_connections_to_an_address_are_not_shared_between_names():
    async with server() as traffic, HTTPClient() as client:
        for name in ("one.example", "two.example"):
            url = f"http://{name}:{traffic.port}/"
            assert await ask(url, client, address="127.0.0.1") == b"hello"
        assert traffic.connections == 2


@pytest.mark.usefixtures("trusted")
async def test_a_proxy_may_be_asked_over_tls(authority, monkeypatch):
    async with server(tls(authority, "127.0.0.1")) as traffic:
        monkeypatch.setenv("HTTP_PROXY", f"https://127.0.0.1:{traffic.port}")
        assert await ask(f"http://{NAME}/") == b"hello"
    assert traffic.heads[0].startswith(f"GET http://{NAME}/ ")


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(("size", "is_late"), [(64, False), (2**14, False), (64, True)])
async def test_an_unasked_response_never_answers_the_next_request(authority, secure, size, is_late):
    """Send a second response in a TLS record that is received but not decrypted (2**14 bytes)."""

    def response(text: str) -> bytes:
        head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\nx-fill: "
        fill = "x" * (size - len(head) - 4 - len(text))
        return f"{head}{fill}\r\n\r\n{text}".encode()

    served = 0

    async def answer(stream: anyio.abc.ByteStream) -> None:
        nonlocal served
        while True:
            await read_head(stream)
            served += 1
            first = response(f"answer {served}")
            second = b"" if served == 1 else response("unasked")
            for piece in (first, second) if is_late else (first + second,):
                await stream.send(piece)
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()

    context = tls(authority, "127.0.0.1") if secure else None
    async with listening(answer, context) as traffic, HTTPClient() as client:
        url = f"{'https' if secure else 'http'}://127.0.0.1:{traffic.port}/"

        async def expect_answer() -> None:
            assert (await ask(url, client)).startswith(b"answer")

        if not is_late:
            for _ in range(3):
                await expect_answer()
            (pool,) = client._pools.values()
            assert pool.connections == []
        served = 0
        await expect_answer()
        async with anyio.create_task_group() as tasks:
            for _ in range(10):  # one of them gets the idle connection
                tasks.start_soon(expect_answer)


@pytest.mark.usefixtures("trusted")
async def test_a_tls_connection_stays_open_between_requests(authority):
    async with server(tls(authority, "127.0.0.1")) as peer, HTTPClient() as client:
        for _ in range(3):
            assert await ask(f"https://127.0.0.1:{peer.port}/", client) == b"hello"
    assert peer.connections == 1


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("size", [0, 9_000_000])
async def test_a_damaged_tls_record_is_named_as_the_reason(authority, size):
    async def answer(stream: anyio.abc.ByteStream) -> None:
        await read_head(stream)
        await stream.transport_stream.send(b"\x17\x03\x03\0\x30" + bytes(48))
        while True:
            await stream.transport_stream.receive()

    async with listening(answer, tls(authority, "127.0.0.1")) as peer:
        error = await failure(f"https://127.0.0.1:{peer.port}/", method="POST", content=bytes(size))
    assert error.kind == "broken"
    assert str(error).startswith("the connection was lost: [SSL: DECRYPTION_FAILED")


def self_signed(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of a server with a self-signed certificate."""
    own = trustme.CA()
    (folder / "own.pem").write_bytes(own.private_key_pem.bytes() + own.cert_pem.bytes())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "own.pem")
    return context


def expired(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    past = datetime.now(UTC) - timedelta(days=1)
    authority.issue_cert("127.0.0.1", not_after=past).configure_cert(context)
    return context


@pytest.mark.usefixtures("trusted")
async def test_errors_of_a_certificate_are_distinguished(authority, tmp_path):
    for context, words in (
        (self_signed(tmp_path), "is self-signed: add it"),
        (expired(authority), "has expired: renew it"),
        (tls(authority, "other.example"), "is for a different host"),
        (tls(trustme.CA(), "127.0.0.1"), "is from an unknown authority"),
    ):
        async with server(context) as peer:
            error = await failure(f"https://127.0.0.1:{peer.port}/")
        assert error.kind == "tls"
        assert words in str(error)


class Joining(anyio.abc.ByteStream):
    """A stream that sends what was written since `held` was set in one piece."""

    def __init__(self, stream: anyio.abc.ByteStream) -> None:
        self._stream = stream
        self.held: bytes | None = None

    async def send(self, item: bytes) -> None:
        if self.held is None:
            await self._stream.send(item)
        else:
            self.held += item

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


@pytest.mark.usefixtures("trusted")
async def test_bytes_behind_a_response_close_the_connection_also_within_the_tls_of_a_proxy(
    authority, monkeypatch
):
    response = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    contexts = [tls(authority, name) for name in ("127.0.0.1", NAME)]

    async def answer(stream: anyio.abc.ByteStream) -> None:
        joining = Joining(stream)
        options: Any = {"server_side": True, "standard_compatible": False}
        outer = await TLSStream.wrap(joining, ssl_context=contexts[0], **options)
        await read_head(outer)
        await outer.send(b"HTTP/1.1 200 OK\r\n\r\n")
        inner = await TLSStream.wrap(outer, ssl_context=contexts[1], **options)
        while True:
            await read_head(inner)
            joining.held = b""
            await inner.send(response + b"hello")
            await inner.send(response + b"wrong")
            data, joining.held = joining.held, None
            await joining.send(data)

    async with listening(answer) as traffic, HTTPClient() as client:
        monkeypatch.setenv("HTTPS_PROXY", f"https://127.0.0.1:{traffic.port}")
        assert [await ask(f"https://{NAME}/", client) for _ in range(2)] == [b"hello"] * 2
        assert traffic.connections == 2


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "https://127.0.0.1:1/"])
async def test_a_process_without_file_descriptors_is_reported(url):
    async with HTTPClient() as client:
        assert "cannot connect" in str(await failure("http://127.0.0.1:1/", client))
        lowest, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as held:
            held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (lowest, most))
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
            with suppress(OSError):
                while True:
                    held.callback(os.close, os.dup(0))
            error = await failure(url, client)
    assert error.kind == "resources"
    assert "no file descriptors left" in str(error)


async def test_a_first_request_without_file_descriptors_says_so_too(monkeypatch):
    def refuse() -> None:
        raise OSError(errno.EMFILE, "Too many open files", "urllib/request.py")

    monkeypatch.setattr("urllib.request.getproxies", refuse)
    error = await failure("http://127.0.0.1:1/")
    assert error.kind == "resources"
    assert "no file descriptors left" in str(error)


PASSPHRASE = "plänted passphrase"


@pytest.fixture(scope="module")
def files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a certificate, its key plain and encrypted, and an invalid file."""
    folder = tmp_path_factory.mktemp("files")
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    mine, other = authority.issue_cert("me@example.org"), authority.issue_cert("other.example")
    mine.cert_chain_pems[0].write_to_path(str(folder / "me.pem"))
    mine.private_key_pem.write_to_path(str(folder / "me.key"))
    mine.private_key_and_cert_chain_pem.write_to_path(str(folder / "both.pem"))
    other.private_key_pem.write_to_path(str(folder / "other.key"))
    key = serialization.load_pem_private_key(mine.private_key_pem.bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSPHRASE.encode()),
    )
    (folder / "encrypted.key").write_bytes(encrypted)
    (folder / "text.pem").write_text("no certificate")
    for kind in ("CERTIFICATE", "PRIVATE KEY"):
        block = f"-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"
        (folder / f"damaged {kind}.pem").write_text(block)
    return folder


def bare_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def test_it_is_shown_by_requests_that_may_and_by_no_other(authority, files):
    async with (
        server(mutual_tls(authority, "127.0.0.1")) as demanding,
        server(tls(authority, "127.0.0.1")) as other,
        HTTPClient() as client,
    ):
        client.ca_file = str(files / "authority.pem")
        client.client_certificate = ClientCertificate(
            certificate=str(files / "me.pem"),
            key=str(files / "encrypted.key"),
            passphrase=PASSPHRASE,
        )
        url = f"https://127.0.0.1:{demanding.port}/"
        assert await ask(url, client, shows_certificate=True) == b"hello"
        await failure(url, client, shows_certificate=False)
        assert len(demanding.heads) == 1
        client.client_certificate = ClientCertificate(certificate=str(files / "gone.pem"))
        url = f"https://127.0.0.1:{other.port}/"
        assert await ask(url, client, shows_certificate=False) == b"hello"
        error = await failure(url, client, shows_certificate=True)
        assert "gone.pem: No such file" in str(error)


async def test_a_server_that_wants_one_is_understood(authority, files):
    context = mutual_tls(authority, "127.0.0.1")

    def refuse(listener: socket.socket) -> None:
        plain, _ = listener.accept()
        connection = context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with connection:
            with suppress(ssl.SSLError):
                connection.do_handshake()
            with suppress(ConnectionError):  # an earlier close would cut off its alert
                while socket.socket.recv(connection, 4096):
                    pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with HTTPClient() as client, anyio.create_task_group() as tasks:
            client.ca_file = str(files / "authority.pem")
            tasks.start_soon(anyio.to_thread.run_sync, refuse, listener)
            url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
            error = await failure(url, client, shows_certificate=True)
    assert error.kind == "tls"
    assert "wants a client certificate" in str(error)


def test_certificate_and_key_may_be_in_one_file(files):
    both = ClientCertificate(certificate=str(files / "both.pem"))
    assert make_context(bare_context, None, both)


DAMAGED = "damaged CERTIFICATE.pem", "damaged PRIVATE KEY.pem"


@pytest.mark.parametrize(
    ("certificate", "key", "passphrase", "advice"),
    [
        ("gone.pem", "me.key", None, "the client certificate cannot be read from .*/gone.pem: No "),
        ("me.pem", "gone.key", None, "the key of the client .* read from .*/gone.key: No such fil"),
        ("", "me.key", None, "the client certificate cannot be read from .*: Is a directory"),
        ("text.pem", "me.key", None, "expected the client certificate in PEM in .*/text.pem"),
        ("me.pem", None, None, "expected the key of .* in PEM in .*/me.pem, found none there"),
        ("me.pem", "other.key", None, "other.key does not fit the client .*/me.pem: name the two"),
        ("me.pem", "encrypted.key", None, "the key in .*/encrypted.key is encrypted: give its pas"),
        ("me.pem", "encrypted.key", "planted", "passphrase does not open the key in .*/encrypted."),
        (DAMAGED[0], "me.key", None, "in .*/damaged CERTIFICATE.pem with the key in"),
        ("me.pem", DAMAGED[1], None, "key in .*/damaged PRIVATE KEY.pem cannot be l"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_to_do(files, certificate, key, passphrase, advice):
    client = ClientCertificate(
        certificate=str(files / certificate), key=key and str(files / key), passphrase=passphrase
    )
    assert "planted" not in repr(client)
    with pytest.raises(HTTPError, match=advice) as caught:
        make_context(bare_context, None, client)
    assert caught.value.kind == "config"
    assert "planted" not in f"{caught.value} {caught.value.__cause__}"

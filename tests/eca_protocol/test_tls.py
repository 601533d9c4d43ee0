"""Client certificates: the requests that show one, and the errors of invalid ones."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient
from eca_protocol.tls import ClientCertificate, make_context
from tests.eca_protocol.http_peers import mutual_tls, server, tls

PASSPHRASE = "plänted passphrase"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


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


async def ask(client: HTTPClient, url: str, *, shows_certificate: bool) -> bytes:
    async with client.stream("GET", url, shows_certificate=shows_certificate) as response:
        return await response.read()


@pytest.mark.anyio
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
        assert await ask(client, url, shows_certificate=True) == b"hello"
        with pytest.raises(HTTPError):
            await ask(client, url, shows_certificate=False)
        assert len(demanding.heads) == 1
        client.client_certificate = ClientCertificate(certificate=str(files / "gone.pem"))
        url = f"https://127.0.0.1:{other.port}/"
        assert await ask(client, url, shows_certificate=False) == b"hello"
        with pytest.raises(HTTPError, match=r"gone\.pem: No such file"):
            await ask(client, url, shows_certificate=True)


@pytest.mark.anyio
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
            with pytest.raises(HTTPError, match="wants a client certificate") as caught:
                await ask(client, url, shows_certificate=True)
    assert caught.value.kind == "tls"


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

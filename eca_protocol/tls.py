"""TLS of HTTPS requests: the trusted authorities and the client certificate.

A file that cannot be used is named in an error before the request is sent. No message contains a
passphrase, and none is asked for on the terminal. Loading the default authorities takes
milliseconds: make a context in a worker thread, and reuse it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import attrs

from eca_protocol.errors import HTTPError

__all__ = [
    "ClientCertificate",
    "TLSObject",
    "explain_tls_error",
    "is_answered_in_plain_text",
    "is_cut_off",
    "make_context",
]

_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The variables of the trusted authorities."""

_MAX_PEM = 2**20  # bytes of a file that are searched for a certificate or key


@attrs.frozen(kw_only=True)
class ClientCertificate:
    """A client certificate, for servers that demand one (mutual TLS).

    Attributes:
        certificate: a PEM file with the certificate and any intermediate certificates.
        key: a PEM file with the private key; None: the file of the certificate.
        passphrase: the passphrase of an encrypted key.
    """

    certificate: str
    key: str | None = None
    passphrase: str | None = attrs.field(default=None, repr=False)


class TLSObject(ssl.SSLObject):
    """A TLS connection that knows if received bytes are unread, and takes more of them."""

    _received: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, *args: Any, **options: Any) -> Self:
        tls_object: Self = super()._create(incoming, *args, **options)  # type: ignore[misc]
        tls_object._received = incoming
        return tls_object

    @property
    def has_unread_bytes(self) -> bool:
        """True if bytes of the peer, decrypted or not, were received and not read."""
        return self.pending() > 0 or self._received.pending > 0

    def add(self, received: bytes) -> None:
        """Add bytes that were received from the peer."""
        self._received.write(received)


def make_context(
    make_default: Callable[[], ssl.SSLContext],
    ca_file: str | None,
    certificate: ClientCertificate | None = None,
) -> ssl.SSLContext:
    """Make the TLS context of a connection.

    Args:
        make_default: makes a context that trusts the authorities of `SSL_CERT_FILE` or
            `SSL_CERT_DIR`. Without these variables it trusts packaged authorities, to which those
            of the system are added: a company may have installed its own.
        ca_file: certificates of additional trusted authorities.
        certificate: sent to every server that demands one, after the server's own was checked.

    Raises:
        HTTPError: of the kind `config`: a certificate cannot be loaded; the message names it.
    """
    for variable in _VARIABLES:
        path = os.environ.get(variable)
        if path and not Path(path).exists():
            raise HTTPError("config", f"{variable} names {path}, which does not exist")
    try:
        context = make_default()
        if not any(map(os.environ.get, _VARIABLES)):
            context.load_default_certs()
    except ssl.SSLError as error:
        raise HTTPError("config", f"certificates cannot be loaded: {error}") from error
    context.sslobject_class = TLSObject
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            message = f"the certificates in {ca_file} cannot be loaded: {error}"
            raise HTTPError("config", message) from error
    if certificate is not None:
        _load(certificate, context)
    return context


def _load(certificate: ClientCertificate, context: ssl.SSLContext) -> None:
    key = certificate.key or certificate.certificate
    _check_pem("client certificate", certificate.certificate, b"CERTIFICATE-----")
    _check_pem("key of the client certificate", key, b"PRIVATE KEY-----")
    is_encrypted = False

    def passphrase() -> str:
        nonlocal is_encrypted
        is_encrypted = True
        return certificate.passphrase or ""

    try:
        # Without the function OpenSSL asks on the terminal, and waits.
        context.load_cert_chain(certificate.certificate, certificate.key, passphrase)
    except (OSError, ValueError) as error:
        raise HTTPError(
            "config", _explain_load_error(error, certificate, key, is_encrypted)
        ) from error


def _explain_load_error(
    error: Exception, certificate: ClientCertificate, key: str, is_encrypted: bool
) -> str:
    """Explain why a client certificate and its key, which both exist, cannot be used."""
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        pair = f"the key in {key} does not fit the client certificate in {certificate.certificate}"
        return f"{pair}: name the two that belong together"
    if not is_encrypted:
        pair = f"the client certificate in {certificate.certificate} with the key in {key}"
        return f"{pair} cannot be loaded: {error}"
    if certificate.passphrase is None:
        return f"the key in {key} is encrypted: give its passphrase"
    return f"the passphrase does not open the key in {key}: correct the passphrase"


def _check_pem(what: str, path: str, mark: bytes) -> None:
    """Check that a file can be read and contains a PEM block of that kind."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_PEM)
    except (OSError, ValueError) as error:
        trouble = getattr(error, "strerror", None) or error
        raise HTTPError("config", f"the {what} cannot be read from {path}: {trouble}") from error
    if mark not in content:
        raise HTTPError("config", f"expected the {what} in PEM in {path}, found none there")


_EXPIRED = "the server's certificate has expired: renew it, or correct the clock of this machine"
_OTHER_HOST = "the server's certificate is for a different host: correct the host of the url"
_SELF_SIGNED = "the server's certificate is self-signed: add it to the trusted certificates"
_UNKNOWN_AUTHORITY = (
    "the server's certificate is from an unknown authority: add that to the trusted certificates"
)
_UNTRUSTED = {
    9: "the server's certificate is not valid yet: correct the clock of this machine",
    10: _EXPIRED,
    18: _SELF_SIGNED,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
    62: _OTHER_HOST,
    64: _OTHER_HOST,
}
"""Messages for the user, by OpenSSL's verify codes (`X509_V_ERR_*`)."""


def is_answered_in_plain_text(error: Exception) -> bool:
    """Return whether TLS failed because the server answered without it, as one for HTTP does."""
    cause = _ssl_error(error)
    return cause is not None and cause.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")


def is_cut_off(error: Exception) -> bool:
    """Return whether TLS failed only because the connection was closed, as a firewall does."""
    return isinstance(_ssl_error(error), ssl.SSLEOFError | ssl.SSLZeroReturnError)


def explain_tls_error(error: Exception, *, is_connecting: bool) -> str | None:
    """Explain why TLS ended a connection; return None for any other cause.

    In TLS 1.3 a server may refuse the client after the client has finished the handshake.
    """
    cause = _ssl_error(error)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        advice = _UNTRUSTED.get(cause.verify_code)
        return advice or f"the server's certificate is not trusted: {cause.verify_message}"
    alert = (cause.reason or "").partition("ALERT_")[2]
    if alert == "CERTIFICATE_REQUIRED":
        return "the server wants a client certificate, and none was shown"
    if "CERTIFICATE" in alert or alert == "UNKNOWN_CA":
        refusal = alert.replace("_", " ").lower()
        return f"the server refused the client certificate ({refusal})"
    return (str(error) or str(cause) or type(error).__name__) if is_connecting else None


def _ssl_error(error: Exception) -> ssl.SSLError | None:
    cause: BaseException | None = error
    while cause is not None:
        # A wait for bytes is no error; their reading may have failed.
        if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLWantReadError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None

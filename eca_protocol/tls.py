"""Whom an HTTPS request trusts, and who we are to a server that asks.

The rules it keeps: a file that cannot be used is a fault that names it, before anything is sent; a
passphrase stands in no text; nobody is asked for one on the terminal. Loading the usual authorities
takes milliseconds: whoever makes a context does it in a worker thread and keeps it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import attrs

from eca_protocol.errors import HTTPError

__all__ = ["ClientCertificate", "TLSObject", "explain_tls_error", "make_context"]

_LONGEST = 2**20  # bytes of a file in which a certificate or key is looked for


@attrs.frozen(kw_only=True)
class ClientCertificate:
    """What proves who we are to a server that asks for it (mutual TLS).

    Attributes:
        certificate: a PEM file: the certificate, then those that lead to its authority, if any.
        key: a PEM file with its private key; None: that stands in the same file.
        passphrase: what the key is encrypted with, if it is.
    """

    certificate: str
    key: str | None = None
    passphrase: str | None = attrs.field(default=None, repr=False)


class TLSObject(ssl.SSLObject):
    """The TLS side of a connection, which knows of records that were received and not read."""

    _received: ssl.MemoryBIO

    @classmethod
    def _create(cls, incoming: ssl.MemoryBIO, *args: Any, **options: Any) -> Self:
        made: Self = super()._create(incoming, *args, **options)  # type: ignore[misc]
        made._received = incoming
        return made

    @property
    def has_unread_bytes(self) -> bool:
        """Whether there are bytes of the peer, decrypted or not, that no read has returned."""
        return self.pending() > 0 or self._received.pending > 0


def make_context(
    usual: Callable[[], ssl.SSLContext],
    ca_file: str | None,
    certificate: ClientCertificate | None = None,
) -> ssl.SSLContext:
    """What a connection is secured with.

    Args:
        usual: makes a context that trusts those that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or
            if neither is set, the usual authorities.
        ca_file: certificates of authorities that are trusted beside those.
        certificate: shown to every server that asks for one, once it has shown its own.

    Raises:
        HTTPError: of the kind `config`: certificates cannot be loaded; the text says which.
    """
    _check_variables()
    try:
        context = usual()
    except ssl.SSLError as error:
        raise HTTPError("config", f"certificates cannot be loaded: {error}") from error
    context.sslobject_class = TLSObject
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            words = f"the certificates in {ca_file} cannot be loaded: {error}"
            raise HTTPError("config", words) from error
    if certificate is not None:
        _load(certificate, context)
    return context


def _check_variables() -> None:
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path = os.environ.get(variable)
        if path and not Path(path).exists():
            raise HTTPError("config", f"{variable} names {path}, which does not exist")


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
        # Without the function OpenSSL asks whoever sits at the terminal, and waits.
        context.load_cert_chain(certificate.certificate, certificate.key, passphrase)
    except (OSError, ValueError) as error:
        raise HTTPError("config", _words(error, certificate, key, is_encrypted)) from error


def _words(error: Exception, certificate: ClientCertificate, key: str, is_encrypted: bool) -> str:
    """Why a client certificate and its key, which both are there, cannot be used."""
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        pair = f"the key in {key} does not fit the client certificate in {certificate.certificate}"
        return f"{pair}: name the two that belong together"
    if not is_encrypted:
        pair = f"the client certificate in {certificate.certificate} with the key in {key}"
        return f"{pair} cannot be loaded: {error}"
    if certificate.passphrase is None:
        return f"the key in {key} is encrypted: give its passphrase"
    return f"the passphrase given for the key in {key} does not open it: correct it"


def _check_pem(what: str, path: str, mark: bytes) -> None:
    """See that a file can be read and has a PEM block of that kind."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LONGEST)
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
"""OpenSSL's verify codes (`X509_V_ERR_*`), and what they mean for the user."""


def explain_tls_error(error: Exception, *, is_connecting: bool) -> str | None:
    """Why TLS ended a connection; None: something else did.

    Since TLS 1.3 a server refuses a client when that believes the connection made.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
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

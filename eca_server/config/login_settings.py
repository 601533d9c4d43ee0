"""The settings of logins and of the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from eca_server.config.reading import COUNT, NAME, PATH, SECRET, setting
from eca_server.secret import Secret

if TYPE_CHECKING:
    from eca_protocol.tls import ClientCertificate


@attrs.frozen(kw_only=True, repr=False)
class Auth:
    """`providers.<name>.auth`: the OAuth login of `/login`, for a provider without a pasted key.

    There are no defaults for a vendor that admits only its own programs: using such a client id is
    the user's decision.

    Attributes:
        client_id: the OAuth client id.
        url: the address of the user's own installation (GitHub Enterprise).
        authorize_url: the authorization endpoint; with `tokenUrl`, for a login in the browser.
        device_url: the device authorization endpoint; with `tokenUrl`, for a login by a code on
            another device.
        token_url: the token endpoint.
        scope: the requested scope.
        redirect_port: the port of the redirect URL, if only one is allowed; 0: any.
        redirect_path: the path of the redirect URL.
    """

    client_id: str | None = setting(NAME)
    url: str | None = setting(NAME)
    authorize_url: str | None = setting(NAME)
    device_url: str | None = setting(NAME)
    token_url: str | None = setting(NAME)
    scope: str | None = setting(NAME)
    redirect_port: int = setting(COUNT, default=0)
    redirect_path: str = setting(NAME, default="/callback")


@attrs.frozen(kw_only=True, repr=False)
class Network:
    """`network`: the TLS certificates of connections.

    The client certificate identifies the user. It is offered to addresses that the user chose:
    providers, MCP servers (but not their redirects) and the login pages of both. It is never
    offered to web pages, whose addresses a model or a text may have chosen, nor to the model
    catalogue. Each setting but `caCertFile` can also come from an environment variable, as in the
    upstream server; the configuration wins.

    Attributes:
        ca_cert_file: a file of certificate authorities to trust besides the system's.
        client_cert: the file of the client certificate (`ECA_CLIENT_CERT`).
        client_key: the file of its private key (`ECA_CLIENT_KEY`), if it is a separate file.
        client_key_passphrase: the passphrase of the key (`ECA_CLIENT_KEY_PASSPHRASE`).
    """

    ca_cert_file: str | None = setting(PATH)
    client_cert: str | None = setting(PATH)
    client_key: str | None = setting(PATH)
    client_key_passphrase: Secret | None = setting(SECRET)

    def client_certificate(self, environ: Mapping[str, str]) -> ClientCertificate | None:
        """Return the client certificate, or None if none is configured."""
        key = self.client_key or environ.get("ECA_CLIENT_KEY") or None
        # A key alone is loaded as a file of both, which reports the missing certificate.
        certificate = self.client_cert or environ.get("ECA_CLIENT_CERT") or key
        passphrase = self.passphrase(environ)
        if not certificate:
            return None
        from eca_protocol.tls import ClientCertificate  # noqa: PLC0415 - few users have one

        return ClientCertificate(
            certificate=certificate,
            key=key,
            passphrase=None if passphrase is None else passphrase.reveal(),
        )

    def passphrase(self, environ: Mapping[str, str]) -> Secret | None:
        """Return the passphrase of the private key, or None."""
        variable = environ.get("ECA_CLIENT_KEY_PASSPHRASE")
        return self.client_key_passphrase or (Secret(variable) if variable else None)

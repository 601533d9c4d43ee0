"""The part of the configuration that is about logins and about the way to the network."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from eca_protocol.tls import ClientCertificate
from eca_server.config.reading import COUNT, NAME, PATH, SECRET, setting
from eca_server.secret import Secret

__all__ = ["Auth", "Network"]


@attrs.frozen(kw_only=True)
class Auth:
    """`providers.<name>.auth`: how `/login` gets a token, by OAuth, where no key is pasted.

    A provider whose vendor lets only its own programs in has nothing here by default: whose name
    this server gives is the user's decision.

    Attributes:
        client_id: the public name of the program that logs in.
        url: of an installation of the user's own (GitHub Enterprise).
        authorize_url: where the browser is sent; with `token_url` it makes a login in the browser.
        device_url: where a code for another device is had; with `token_url` likewise.
        token_url: where codes are exchanged for tokens.
        scope: what is asked for.
        redirect_port: the port that the browser comes back to, if only one is allowed; 0: any.
        redirect_path: the path that it comes back to.
    """

    client_id: str | None = attrs.field(default=None, metadata=setting(NAME, "clientId"))
    url: str | None = attrs.field(default=None, metadata=setting(NAME, "url"))
    authorize_url: str | None = attrs.field(default=None, metadata=setting(NAME, "authorizeUrl"))
    device_url: str | None = attrs.field(default=None, metadata=setting(NAME, "deviceUrl"))
    token_url: str | None = attrs.field(default=None, metadata=setting(NAME, "tokenUrl"))
    scope: str | None = attrs.field(default=None, metadata=setting(NAME, "scope"))
    redirect_port: int = attrs.field(default=0, metadata=setting(COUNT, "redirectPort"))
    redirect_path: str = attrs.field(default="/callback", metadata=setting(NAME, "redirectPath"))


@attrs.frozen(kw_only=True)
class Network:
    """`network`: what every connection needs.

    The client certificate tells who the user is. It is shown, to whoever asks for it, where the
    user's own choice leads: to providers, to MCP servers (but not where they redirect), to where
    one logs in at either. It is not shown to web pages, whose addresses a model or a text may have
    chosen, nor where the catalogue of models is fetched. Each of its settings stands in an
    environment variable, too, as the upstream server has them; the configuration comes first.

    Attributes:
        ca_cert_file: certificates of authorities that are trusted beside the usual ones.
        client_cert: the client certificate (`ECA_CLIENT_CERT`).
        client_key: its private key (`ECA_CLIENT_KEY`), if that stands in a file of its own.
        client_key_passphrase: what the key is encrypted with (`ECA_CLIENT_KEY_PASSPHRASE`).
    """

    ca_cert_file: str | None = attrs.field(default=None, metadata=setting(PATH, "caCertFile"))
    client_cert: str | None = attrs.field(default=None, metadata=setting(PATH, "clientCert"))
    client_key: str | None = attrs.field(default=None, metadata=setting(PATH, "clientKey"))
    client_key_passphrase: Secret | None = attrs.field(
        default=None, metadata=setting(SECRET, "clientKeyPassphrase")
    )

    def client_certificate(self, environ: Mapping[str, str]) -> ClientCertificate | None:
        """What is shown to servers that ask; None: nothing is configured."""
        key = self.client_key or environ.get("ECA_CLIENT_KEY") or None
        # A key alone is looked at as if its file held both, and found to hold no certificate.
        certificate = self.client_cert or environ.get("ECA_CLIENT_CERT") or key
        passphrase = self.passphrase(environ)
        return certificate and ClientCertificate(
            certificate=certificate,
            key=key,
            passphrase=None if passphrase is None else passphrase.reveal(),
        )

    def passphrase(self, environ: Mapping[str, str]) -> Secret | None:
        """What the key is encrypted with, if it is."""
        variable = environ.get("ECA_CLIENT_KEY_PASSPHRASE")
        return self.client_key_passphrase or (Secret(variable) if variable else None)

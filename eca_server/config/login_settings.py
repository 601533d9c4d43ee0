"""The part of the configuration that is about logins and about the way to the network."""

from __future__ import annotations

import attrs

from eca_server.config.reading import COUNT, NAME, PATH, setting

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

    Attributes:
        ca_cert_file: certificates of authorities that are trusted beside the usual ones.
    """

    ca_cert_file: str | None = attrs.field(default=None, metadata=setting(PATH, "caCertFile"))

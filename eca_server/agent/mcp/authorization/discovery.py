"""Discovery of a server's authorization server, from a refusal to its endpoints.

By RFC 9728 (protected resource), RFC 8414 (authorization server), RFC 7591 (registration). Rules:
every request uses `https`, or goes to this machine if the MCP server is on it; a document must name
itself as it was requested; no redirect is followed; the user's certificate is shown only to the
origin of the MCP server.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import attrs

from eca_protocol import json
from eca_protocol.http import HTTPClient
from eca_server.models.credentials.oauth import (
    Authentication,
    Client,
    OAuthError,
    ask,
    checked_page,
    is_on_this_machine,
    secret_in,
)
from eca_server.origins import is_same_origin
from eca_server.secret import mask

_log = logging.getLogger("eca_server.agent.mcp")

_BEARER: Final = re.compile(r"(?i)(?:^|,)\s*bearer\b")
_PARAMETER: Final = re.compile(r'(?<![\w-])([\w-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s,"]+))')
_PROTECTED: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_BASIC: Final = "client_secret_basic"  # the default (RFC 8414)
_POST: Final = "client_secret_post"
_ADVICE: Final = "set `clientId`, or a key in `headers`"  # without a registration


@attrs.frozen(kw_only=True)
class BearerChallenge:
    """The bearer challenge of a refusal (`WWW-Authenticate`).

    Attributes:
        scopes: the scopes that the token must have.
        error: the reason why the token was refused.
    """

    metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None


@attrs.frozen(kw_only=True)
class ProtectedResource:
    """The resource that tokens grant access to.

    Attributes:
        identifier: its name at the authorization server.
        scopes: its supported scopes, if it lists them.
        is_described: true if this is its own metadata; else the default of MCP 2025-03-26.
    """

    identifier: str
    issuer: str
    scopes: tuple[str, ...] = ()
    is_described: bool = True


@attrs.frozen(kw_only=True)
class AuthorizationServer:
    """The authorization server of a resource.

    Attributes:
        issuer: its name, byte for byte.
        registration_url: the registration endpoint; None: it has none.
        scopes: its supported scopes, if it lists them.
        authentication: the method by which a client sends its secret.
        is_open_to_public: true if it accepts clients without a secret, as far as is known.
        reads_documents: true if it accepts the URL of a metadata document as a client's id.
        names_itself: true if it sends its issuer with the redirect (RFC 9207).
    """

    issuer: str
    authorize_url: str
    token_url: str
    registration_url: str | None = None
    scopes: tuple[str, ...] = ()
    authentication: Authentication = "client_secret_basic"
    is_open_to_public: bool = True
    reads_documents: bool = False
    names_itself: bool = False


def parse_bearer_challenge(header: str) -> BearerChallenge:
    """Parse the bearer challenge of `WWW-Authenticate`, which may have several challenges."""
    bearer = _BEARER.search(header)
    fields: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(header[bearer.end() :] if bearer else ""):
        fields.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    return BearerChallenge(
        metadata_url=fields.get("resource_metadata"),
        scopes=tuple(fields.get("scope", "").split()),
        error=fields.get("error"),
    )


def canonical_url(url: str) -> str:
    """Return the canonical form of a server's URL for authorization servers, without the user."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    whole = parts._replace(scheme=parts.scheme.lower(), netloc=host, fragment="")
    return whole.geturl().rstrip("/")


async def find_resource(http: HTTPClient, url: str, demand: BearerChallenge) -> ProtectedResource:
    """Read the metadata of a server as a protected resource.

    Raises:
        OAuthError: the metadata is that of a different resource, or invalid.
        ValueError: the metadata has an invalid URL.
        HTTPError: the server cannot be reached.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    places = [urljoin(url, _PROTECTED + path), urljoin(url, _PROTECTED)]
    document = await _first(http, [demand.metadata_url] if demand.metadata_url else places, url)
    if document is None:
        return ProtectedResource(
            identifier=canonical_url(url),
            issuer=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            is_described=False,
        )
    identifier = _text(document, "resource") or canonical_url(url)
    if not _covers(identifier, url):
        raise OAuthError(f"its metadata describes a different resource: {mask(identifier)}")
    issuers = _texts(document, "authorization_servers")
    if not issuers:
        raise OAuthError("its metadata names no authorization server")
    return ProtectedResource(
        identifier=identifier, issuer=issuers[0], scopes=_texts(document, "scopes_supported")
    )


def _covers(identifier: str, url: str) -> bool:
    """Return whether a resource's URL is the server's, or a prefix of it."""
    if not is_same_origin(canonical_url(identifier), canonical_url(url)):
        return False
    inside, outside = urlsplit(url).path.rstrip("/"), urlsplit(identifier).path.rstrip("/")
    return inside == outside or inside.startswith(f"{outside}/")


async def find_authorization_server(
    http: HTTPClient, resource: ProtectedResource, url: str
) -> AuthorizationServer:
    """Read the metadata of a resource's authorization server.

    `url`: the MCP server's URL; decides whether requests may go to this machine.

    Raises:
        OAuthError: the metadata is that of a different server, or invalid.
        ValueError: the metadata has an invalid URL.
        HTTPError: the authorization server cannot be reached.
    """
    issuer = resource.issuer
    path = urlsplit(issuer).path.rstrip("/")
    places = [urljoin(issuer, _OAUTH + path), urljoin(issuer, _OPENID + path)]
    if path:
        places.append(urljoin(issuer, path + _OPENID))
    document = await _first(http, places, url)
    if document is None:
        if resource.is_described:
            raise OAuthError(f"the authorization server {mask(issuer)} has no metadata")
        document = {"issuer": issuer} | {
            f"{name}_endpoint": urljoin(issuer, f"/{endpoint}")
            for name, endpoint in (
                ("authorization", "authorize"),
                ("token", "token"),
                ("registration", "register"),
            )
        }
    named = _text(document, "issuer")
    if named is None or named.removesuffix("/") != issuer.removesuffix("/"):
        raise OAuthError(f"the metadata of {mask(issuer)} names a different authorization server")
    methods = _texts(document, "code_challenge_methods_supported")
    if methods and "S256" not in methods:
        raise OAuthError("the authorization server does not support PKCE with S256")
    if not methods:  # as in the official clients: many servers that support it name none
        _log.warning("%s does not say that it supports PKCE; it is used all the same", mask(issuer))
    auth_methods = _texts(document, "token_endpoint_auth_methods_supported")
    registration_url = _text(document, "registration_endpoint")
    return AuthorizationServer(
        issuer=named,
        authorize_url=checked_page(_endpoint(document, "authorization_endpoint", url)),
        token_url=_endpoint(document, "token_endpoint", url),
        registration_url=registration_url and _allowed(registration_url, url),
        scopes=_texts(document, "scopes_supported"),
        authentication=_POST if _POST in auth_methods and _BASIC not in auth_methods else _BASIC,
        is_open_to_public=not auth_methods or "none" in auth_methods,
        reads_documents=document.get("client_id_metadata_document_supported") is True,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


async def register(
    http: HTTPClient,
    server: AuthorizationServer,
    *,
    name: str,
    redirect: str,
    resource: str,
    scope: str,
) -> Client:
    """Register this program with an authorization server.

    Raises:
        OAuthError: the server refuses it.
        HTTPError: the server cannot be reached.
    """
    if server.registration_url is None:
        raise OAuthError(f"its authorization server does not support registration: {_ADVICE}")
    request = {
        "client_name": name,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none" if server.is_open_to_public else server.authentication,
        "application_type": "native",
        **({"scope": scope} if scope else {}),
    }
    try:
        answer = await ask(
            http,
            "POST",
            server.registration_url,
            headers={"content-type": "application/json"},
            content=json.dumps(request),
            shows_certificate=is_same_origin(server.registration_url, resource),
        )
    except OAuthError as error:
        raise OAuthError(f"the registration was refused ({error}): {_ADVICE}") from error
    client_id = _text(answer, "client_id")
    if client_id is None:
        raise OAuthError(f"the registration was answered without a client_id: {_ADVICE}")
    secret = secret_in(answer, "client_secret") if answer.get("client_secret") else None
    agreed = answer.get("token_endpoint_auth_method")
    return Client(
        id=client_id,
        token_url=server.token_url,
        secret=secret,
        authentication=agreed if agreed in (_BASIC, _POST) else server.authentication,
        resource=resource,
    )


async def _first(http: HTTPClient, places: list[str], url: str) -> Mapping[str, Any] | None:
    for place in places:
        try:
            return await ask(
                http,
                "GET",
                _allowed(place, url),
                headers={},
                shows_certificate=is_same_origin(place, url),
            )
        except OAuthError as error:
            if error.status is None or (error.status >= 500):
                raise
    return None


def _endpoint(document: Mapping[str, Any], name: str, url: str) -> str:
    endpoint = _text(document, name)
    if endpoint is None:
        raise OAuthError(f"the metadata of the authorization server has no {name}")
    return _allowed(endpoint, url)


def _allowed(place: str, url: str) -> str:
    """Return a URL from metadata if it is allowed: `https`, or local for a local MCP server."""
    parts = urlsplit(place)
    is_open = parts.scheme == "http" and is_on_this_machine(place) and is_on_this_machine(url)
    if parts.scheme != "https" and not is_open:
        raise OAuthError(f"expected an https URL for a login, got {mask(place)}")
    return place


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = document.get(name)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()

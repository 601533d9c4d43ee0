"""Whom to ask for a token: from a server's refusal to the endpoints of its authorization server.

By RFC 9728 (protected resource), RFC 8414 (authorization server), RFC 7591 (registration). The
rules it keeps: everything is asked over `https`, or of this machine if the server itself is on it;
what a document says of itself must be what it was asked as; no redirect is followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import attrs

from eca_protocol import json
from eca_protocol.http import HTTPClient
from eca_server.credentials.oauth import (
    Authentication,
    Client,
    OAuthError,
    ask,
    is_on_this_machine,
    secret_in,
)
from eca_server.mcp.http_endpoint import is_same_origin
from eca_server.secret import mask

__all__ = [
    "AuthorizationServer",
    "Demand",
    "Resource",
    "canonical",
    "demand_in",
    "find_authorization_server",
    "find_resource",
    "register",
]

_ABSENT: Final = range(400, 500)
_BEARER: Final = re.compile(r"(?i)(?:^|,)\s*bearer\b")
_PARAMETER: Final = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_PROTECTED: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"
_BASIC: Final = "client_secret_basic"  # what is meant where nothing is said (RFC 8414)
_POST: Final = "client_secret_post"


@attrs.frozen(kw_only=True)
class Demand:
    """What a refusal says of the token that is wanted (`WWW-Authenticate`).

    Attributes:
        metadata_url: where the resource is described.
        scopes: what the token must be for.
        error: why the one that came is refused.
    """

    metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None


@attrs.frozen(kw_only=True)
class Resource:
    """What the tokens are for.

    Attributes:
        identifier: its name with the authorization server.
        issuer: the authorization server.
        scopes: all that there are, if it tells.
        is_described: it has told all this; else it is the guess of MCP 2025-03-26.
    """

    identifier: str
    issuer: str
    scopes: tuple[str, ...] = ()
    is_described: bool = True


@attrs.frozen(kw_only=True)
class AuthorizationServer:
    """Who gives the tokens out.

    Attributes:
        issuer: its name, byte for byte.
        authorize_url: where the browser is sent.
        token_url: where codes are exchanged.
        registration_url: where programs introduce themselves; None: nowhere.
        scopes: those that it knows, if it tells.
        authentication: where a client's secret has to stand.
        is_open_to_public: it takes clients without a secret, as far as is known.
        reads_documents: it takes the URL of a metadata document as a client's id.
        names_itself: it promises to say who it is when it sends the browser back (RFC 9207).
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


def demand_in(header: str) -> Demand:
    """What stands in `WWW-Authenticate`, of however many challenges."""
    bearer = _BEARER.search(header)
    fields: dict[str, str] = {}
    for name, quoted, plain in _PARAMETER.findall(header[bearer.end() :] if bearer else ""):
        fields.setdefault(name.lower(), re.sub(r"\\(.)", r"\1", quoted) or plain)
    return Demand(
        metadata_url=fields.get("resource_metadata"),
        scopes=tuple(fields.get("scope", "").split()),
        error=fields.get("error"),
    )


def canonical(url: str) -> str:
    """A server's URL as authorization servers are told it."""
    parts = urlsplit(url)
    whole = parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), fragment="")
    return whole.geturl().rstrip("/")


async def find_resource(http: HTTPClient, url: str, demand: Demand) -> Resource:
    """What a server says of itself as something that tokens are for.

    Raises:
        OAuthError: it says that it is another one, or something that cannot be used.
        ValueError: what it tells as a URL is none.
        HTTPError: it cannot be reached.
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    places = [urljoin(url, _PROTECTED + path), urljoin(url, _PROTECTED)]
    document = await _first(http, [demand.metadata_url] if demand.metadata_url else places, url)
    if document is None:
        return Resource(
            identifier=canonical(url),
            issuer=f"{parts.scheme}://{parts.netloc}",
            is_described=False,
        )
    identifier = _text(document, "resource") or canonical(url)
    if not _covers(identifier, url):
        raise OAuthError(f"its metadata is that of another resource: {mask(identifier)}")
    issuers = _texts(document, "authorization_servers")
    if not issuers:
        raise OAuthError("its metadata names no authorization server")
    return Resource(
        identifier=identifier, issuer=issuers[0], scopes=_texts(document, "scopes_supported")
    )


def _covers(identifier: str, url: str) -> bool:
    """Whether a resource is the server, or what the server's path is a part of."""
    if not is_same_origin(canonical(identifier), canonical(url)):
        return False
    inside, outside = urlsplit(url).path.rstrip("/"), urlsplit(identifier).path.rstrip("/")
    return inside == outside or inside.startswith(f"{outside}/")


async def find_authorization_server(
    http: HTTPClient, resource: Resource, url: str
) -> AuthorizationServer:
    """What the authorization server of a resource says of itself.

    Args:
        http: how it is asked.
        resource: whose it is.
        url: the server's; it tells whether this machine may be asked.

    Raises:
        OAuthError: it is none that can be used, or says that it is another one.
        ValueError: what it tells as a URL is none.
        HTTPError: it cannot be reached.
    """
    issuer = resource.issuer
    path = urlsplit(issuer).path.rstrip("/")
    places = [urljoin(issuer, _OAUTH + path), urljoin(issuer, _OPENID + path)]
    if path:
        places.append(urljoin(issuer, path + _OPENID))
    document = await _first(http, places, url)
    if document is None:
        if resource.is_described:
            raise OAuthError(f"the authorization server {mask(issuer)} does not describe itself")
        document = {"issuer": issuer} | {
            f"{what}_endpoint": urljoin(issuer, f"/{place}")
            for what, place in (
                ("authorization", "authorize"),
                ("token", "token"),
                ("registration", "register"),
            )
        }
    named = _text(document, "issuer")
    if named is None or named.removesuffix("/") != issuer.removesuffix("/"):
        raise OAuthError(f"the authorization server {mask(issuer)} says that it is another one")
    methods = _texts(document, "code_challenge_methods_supported")
    if methods and "S256" not in methods:
        raise OAuthError("the authorization server does not know PKCE with S256")
    ways = _texts(document, "token_endpoint_auth_methods_supported")
    registration_url = _text(document, "registration_endpoint")
    return AuthorizationServer(
        issuer=named,
        authorize_url=_endpoint(document, "authorization_endpoint", url),
        token_url=_endpoint(document, "token_endpoint", url),
        registration_url=registration_url and _allowed(registration_url, url),
        scopes=_texts(document, "scopes_supported"),
        authentication=_POST if _POST in ways and _BASIC not in ways else _BASIC,
        is_open_to_public=not ways or "none" in ways,
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
    """An introduction of this program to an authorization server.

    Raises:
        OAuthError: it takes none.
        HTTPError: it cannot be reached.
    """
    if server.registration_url is None:
        raise OAuthError("its authorization server takes no registrations: set `clientId`")
    wanted = {
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
            content=json.dumps(wanted),
        )
    except OAuthError as fault:
        raise OAuthError(f"the registration was refused ({fault}): set `clientId`") from fault
    client_id = _text(answer, "client_id")
    if client_id is None:
        raise OAuthError("the registration was answered without a client_id: set `clientId`")
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
    """The first document that there is."""
    for place in places:
        try:
            return await ask(http, "GET", _allowed(place, url), headers={})
        except OAuthError as fault:
            if fault.status is None or (fault.status >= 500):
                raise
    return None


def _endpoint(document: Mapping[str, Any], name: str, url: str) -> str:
    found = _text(document, name)
    if found is None:
        raise OAuthError(f"the authorization server names no {name}")
    return _allowed(found, url)


def _allowed(place: str, url: str) -> str:
    """A URL that a server has led us to; this machine is open only to servers that are on it."""
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

"""Web pages as text for a prompt.

The rules of this module: time and size are limited, and only text is accepted. No address of the
user's own network is requested, whatever a name resolves to and wherever a page redirects, unless
that is allowed: a link in a prompt may come from a third party. The request goes to the checked
address, so that the name cannot resolve to a different one in between. With a proxy from the
environment, the proxy resolves names.
"""

from __future__ import annotations

import codecs
import ipaddress
import re
import socket
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import attrs
import trio

from eca_protocol.errors import ECAError, HTTPError
from eca_protocol.http import Deadlines, HTTPClient
from eca_server.agent.context.html_text import Page, html_to_text
from eca_server.workspace.errors import NotText
from eca_server.workspace.reading import decode

_LARGEST = 2 * 2**20  # bytes of a page
_REDIRECTS = 5
_LONGEST_URL = 8_000  # characters
_DEADLINES = Deadlines(connect=10, write=10, first_byte=15, idle=10)
_BRIEF = attrs.evolve(_DEADLINES, connect=2)  # if there is a different address
_HEADERS = {"accept": "text/html, application/xhtml+xml, text/*, application/json, */*;q=0.1"}
_MOVED = frozenset({301, 302, 303, 307, 308})
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|toml|javascript)|image/svg\+xml")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w-]+)""", re.IGNORECASE)
_CHARSETS = re.compile(r"ascii|utf-(?:8|16).*|iso.*|cp\d+|koi8.*|gb.*|big5.*|euc.*|shift.*|mac.*")

# Complete, since `ipaddress` calls some of these ranges global, depending on the version of Python.
_NOT_PUBLIC_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",  # this network; the machine itself on Linux
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; metadata of some clouds
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's host, reachable from every virtual machine
            "169.254.0.0/16",  # link-local; metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; metadata of Oracle's cloud
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "2001::/23",  # protocol assignments, Teredo among them
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})


class PageError(ECAError):
    """A page that cannot or must not be fetched; the message says why."""


async def fetch_page(
    url: str, *, http: HTTPClient, allow_private: bool = False, seconds: float = 20.0
) -> Page:
    """Fetch the text of a web page; follow redirects.

    Args:
        url: `http` or `https`.
        http: the client.
        allow_private: allow addresses of this machine and of private networks.
        seconds: the limit in total, redirects included.

    Raises:
        PageError: the page is missing, is not text, is too large, or is not allowed.
    """
    with trio.move_on_after(seconds):
        try:
            return await _follow(url, http, allow_private)
        except HTTPError as error:
            raise PageError(str(error)) from error
    raise PageError(f"it took longer than {seconds:g} s")


async def _follow(url: str, http: HTTPClient, allow_private: bool) -> Page:
    for _ in range(_REDIRECTS + 1):
        hop = await _checked(url, allow_private)
        answer = await _ask(hop, url, http)
        if isinstance(answer, Page):
            return answer
        url = _joined(url, answer)
    raise PageError(f"it redirects more than {_REDIRECTS} times")


@attrs.frozen(kw_only=True)
class _Hop:
    """A URL, and the checked addresses of its host."""

    url: str
    addresses: tuple[str, ...]


async def _ask(hop: _Hop, url: str, http: HTTPClient) -> Page | str:
    """Return a page, or the location of a redirect, from the first address that is reachable."""
    *others, last = hop.addresses
    for address in others:
        try:
            return await _ask_address(address, hop, url, http, _BRIEF)
        except HTTPError as error:
            if not error.never_connected:
                raise
    return await _ask_address(last, hop, url, http, _DEADLINES)


async def _ask_address(
    address: str, hop: _Hop, url: str, http: HTTPClient, deadlines: Deadlines
) -> Page | str:
    async with http.stream(
        "GET", hop.url, headers=_HEADERS, deadlines=deadlines, address=address
    ) as response:
        location = response.headers.get("location")
        if response.status in _MOVED and location is not None:
            return location
        _check_status(response.status)
        content_type = response.headers.get("content-type", "")
        data = await response.read(_LARGEST + 1)  # one byte more shows that the page is larger
        return await trio.to_thread.run_sync(partial(_read, data, content_type, url))


async def _checked(url: str, allow_private: bool) -> _Hop:
    """Resolve a URL's host and check its addresses."""
    if len(url) > _LONGEST_URL:
        raise PageError(f"expected a URL of at most {_LONGEST_URL} characters, got {len(url)}")
    try:
        parts = urlsplit(url)
        if parts.port == 0:
            raise PageError("expected a URL with a port from 1 to 65535, got port 0")
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        is_ipv6 = ":" in (parts.hostname or "")
        name = "" if is_ipv6 else (parts.hostname or "").encode("idna").decode()
    except ValueError as error:
        raise PageError(f"it is not a URL ({error})") from None
    if port is None:
        raise PageError(f"expected an http or https URL, got {parts.scheme or 'no'!r} as scheme")
    if not parts.hostname:
        raise PageError("expected a URL with a host, got none")
    if parts.username is not None:
        raise PageError("expected a URL without a user name, got one with a user name")
    name = name or parts.hostname
    addresses = await _resolve(name, port)
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                raise PageError(f"{name} is {address}, in a private network")
    host = f"[{name}]" if ":" in name else name
    netloc = host if parts.port is None else f"{host}:{port}"
    target = parts._replace(netloc=netloc, fragment="")
    return _Hop(url=urlunsplit(target), addresses=_first_of_each_family(addresses))


def _first_of_each_family(addresses: list[str]) -> tuple[str, ...]:
    """Return the first address, and the first of the other family: only one may be routed."""
    families: dict[bool, str] = {}
    for address in addresses:
        families.setdefault(":" in address, address)
    return tuple(families.values())


async def _resolve(name: str, port: int) -> list[str]:
    try:
        infos = await trio.socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise PageError(f"the host {name!r} cannot be found") from None
    return [str(address[0]) for *_, address in infos]


def _check_status(status: int) -> None:
    if status != HTTPStatus.OK:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else ""
        raise PageError(f"the server answered {status} {phrase}".rstrip())


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise PageError("it redirects to an invalid URL") from None


def _read(data: bytes, content_type: str, url: str) -> Page:
    """Return the text of a body; in a worker thread."""
    page = _page_of(data[:_LARGEST], content_type, url)
    if len(data) <= _LARGEST:
        return page
    mark = f"... cut, the page is larger than {_LARGEST >> 20} MiB ..."
    return attrs.evolve(page, text=f"{page.text}\n{mark}")


def _page_of(data: bytes, content_type: str, url: str) -> Page:
    kind, _, parameters = content_type.lower().partition(";")
    kind = kind.strip()
    if kind in _HTML:
        text = _decoded(data, parameters, _META_CHARSET.search(data[:2048]))
        return html_to_text(text, url=url, checkpoint=trio.from_thread.check_cancelled)
    if _TEXT.fullmatch(kind):
        return Page(title="", text=_decoded(data, parameters, None))
    if kind:
        raise PageError(f"expected a text, got {kind!r}")
    try:
        return Page(title="", text=decode(data).text)
    except NotText:
        raise PageError("expected a text, got something without a type") from None


def _decoded(data: bytes, parameters: str, meta: re.Match[bytes] | None) -> str:
    named = re.search(r"""charset\s*=\s*["']?([\w.:-]+)""", parameters)
    name = named[1] if named else meta[1].decode() if meta else "utf-8"
    try:
        charset = codecs.lookup(name).name
    except LookupError:
        charset = "utf-8"
    if data.startswith(codecs.BOM_UTF8) or not _CHARSETS.fullmatch(charset):
        charset = "utf-8"
    return data.removeprefix(codecs.BOM_UTF8).decode(charset, errors="replace")


def is_public(address: str) -> bool:
    """Return True if an address from `getaddrinfo` belongs to the public internet.

    An address with an embedded one (IPv4-mapped, NAT64, ISATAP) is judged by the embedded address.
    If the user's network translates the address (6to4, Teredo, local NAT64), it is not public.
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address):
        return not any(ip in network for network in _NOT_PUBLIC_4)
    embedded = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip.ipv4_mapped is not None or ip in _NAT64:
        return is_public(str(embedded))
    if ip not in _GLOBAL_UNICAST or any(ip in network for network in _NOT_PUBLIC_6):
        return False
    return (int(ip) >> 32) & 0xFFFFFFFF not in _ISATAP or is_public(str(embedded))

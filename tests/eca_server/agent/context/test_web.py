import gzip
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
import trustme

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, serve
from eca_protocol.tls import ClientCertificate
from eca_server.agent.context.html_text import Page
from eca_server.agent.context.web import PageError, fetch_page, is_public
from tests.eca_protocol.http_peers import server, tls, trust

Answers = dict[str, Callable[[Responder], object]]


def answer(body: bytes | str, content_type: str | None, **headers: str):
    data = body.encode() if isinstance(body, str) else body
    named = {"content-type": content_type} if content_type is not None else {}
    return lambda responder: responder.respond(200, data, {**named, **headers})


def redirect(location: str, status: int = 302):
    return lambda responder: responder.respond(status, b"", {"location": location})


@asynccontextmanager
async def site(pages: Answers) -> AsyncIterator[HTTPServer]:
    async def handle(request: HTTPRequest, responder: Responder) -> None:
        page = pages.get(request.path)
        await (page(responder) if page else responder.respond(404))

    async with serve(handle) as server:
        yield server


async def fetched(pages: Answers, path: str = "/", **options: Any) -> Page:
    async with site(pages) as server, HTTPClient() as http:
        return await fetch_page(server.url + path, http=http, allow_private=True, **options)


async def fault_of(url: str, *, allow_private: bool = False) -> str:
    async with HTTPClient() as http:
        with pytest.raises(PageError) as caught:
            await fetch_page(url, http=http, allow_private=allow_private)
    return str(caught.value)


class Names(trio.abc.HostnameResolver):
    """A fake resolver of host names."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # noqa: A002
        addresses = self.known.get(host.decode() if isinstance(host, bytes) else host)
        if addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, type, 6, "", (each, port))
            for each in addresses
        ]

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError("unexpected call of the resolver")


@pytest.fixture
async def names() -> dict[str, list[str]]:
    """Return a resolver with the names of the tests."""
    resolver = Names()
    trio.socket.set_custom_hostname_resolver(resolver)
    return resolver.known


LINKED = "World [x](SITE/x)"


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("<b>", "text/plain", "<b>"),
        ('{"a": 1}', "application/json", '{"a": 1}'),
        ("{}", "application/problem+json; charset=utf-8", "{}"),
        ("# Head", "text/markdown", "# Head"),
        ("zwölf".encode("latin-1"), "text/plain; charset=iso-8859-1", "zwölf"),
        ("zwölf".encode("latin-1"), "TEXT/HTML; charset='ISO-8859-1'", "zwölf"),
        ("<meta charset=windows-1252>„a“".encode("cp1252"), "text/html", "„a“"),
        ("<meta charset=utf-8>€".encode(), "text/html", "€"),
        (b"\xef\xbb\xbfa", "text/plain; charset=latin-1", "a"),
        ("é".encode(), "text/plain; charset=punycode", "é"),
        ("é".encode(), "text/plain; charset=rot13", "é"),
        ("é".encode(), "text/plain; charset=no-such-thing", "é"),
        (b"a\xffb", "text/plain", "a\ufffdb"),
        ("plain", None, "plain"),
        ("<title>Hello</title><p>World <a href='/x'>x</a>", "text/html; charset=utf-8", LINKED),
    ],
)
async def test_texts_are_taken_as_they_are(body, content_type, text):
    async with site({"/": answer(body, content_type)}) as server, HTTPClient() as http:
        page = await fetch_page(server.url + "/", http=http, allow_private=True)
    assert page.text == text.replace("SITE", server.url)
    assert page.title == ("Hello" if text == LINKED else "")


async def test_an_address_family_that_cannot_be_reached_is_passed_over(names):
    names["localhost"] = ["::1", "::2", "127.0.0.1"]
    async with site({"/": answer("Hi", "text/plain")}) as server, HTTPClient() as http:
        port = urlsplit(server.url).port
        page = await fetch_page(f"http://localhost:{port}/", http=http, allow_private=True)
    assert page.text == "Hi"


async def hang(responder: Responder) -> None:
    await trio.sleep_forever()


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (answer(b"\x89PNG", "image/png"), "expected a text, got 'image/png'"),
        (answer(b"PK\x03", "application/octet-stream"), "got 'application/octet-stream'"),
        (answer(b"\0\1", None), "something without a type"),
        (lambda responder: responder.respond(404), "the server answered 404 Not Found"),
        (hang, r"it took longer than 0\.2 s"),
        (lambda responder: responder.reset(), "the connection was lost"),
        (redirect("/"), "it redirects more than 5 times"),
        (redirect("file:///etc/passwd"), "URL"),
        (redirect("ftp://example.org/"), "URL"),
        (redirect("http://[bad"), "URL"),
        (redirect("javascript:1"), "URL"),
        (redirect("//user@x/"), "URL"),
    ],
)
async def test_a_page_that_cannot_be_had_or_is_no_text_is_refused(page, why):
    with pytest.raises(PageError, match=why):
        await fetched({"/": page}, seconds=0.2 if page is hang else 15)


async def test_a_compressed_page_is_read_and_one_of_endless_size_is_cut():
    body = gzip.compress(b"hello")
    page = await fetched({"/": answer(body, "text/plain", **{"content-encoding": "gzip"})})
    assert page.text == "hello"

    async def endless(responder: Responder) -> None:
        await responder.start(200, {"content-type": "text/plain"})
        while True:
            await responder.send(b"x" * 65_536)

    page = await fetched({"/": endless})
    assert len(page.text) < 2.1 * 2**20
    assert page.text.endswith("\n... cut, the page is larger than 2 MiB ...")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_followed_and_links_start_where_they_end(status):
    pages = {
        "/a": redirect("b/c?d", status),
        "/b/c": redirect("/b/e", status),
        "/b/e": answer("<a href=d>x</a>", "text/html"),
    }
    assert urlsplit((await fetched(pages, "/a")).text.removeprefix("[x](")).path == "/b/d)"


NO_URLS = [
    *("file:///etc/passwd", "ftp://example.org/", "example.org", "", "http://", "http:///path"),
    *(
        "http://[::1",
        "http://example.org:port/",
        "http://example.org:99999/",
        "http://example.org:0/",
        "http://a..b/",
    ),
    *("http://user:word@example.org/", f"http://{'x' * 64}.org/", "javascript:alert(1)"),
    *(f"http://example.org/{'x' * 8_000}", "gopher://127.0.0.1/"),
]
PRIVATE = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "10.0.0.1", "172.16.9.9"),
    *("192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1", "255.255.255.255", "[::1]"),
    *("[::]", "[fe80::1]", "[fd00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "localhost"),
]


async def test_what_is_no_web_address_is_refused(names):
    for url in NO_URLS:
        assert "URL" in await fault_of(url, allow_private=True), url


async def test_no_private_address_is_asked():
    for host in PRIVATE:
        for scheme in ("http", "https"):
            assert "in a private network" in await fault_of(f"{scheme}://{host}/"), host


NOT_PUBLIC = [
    *("0.0.0.0", "0.1.2.3", "100.100.100.200", "168.63.129.16", "192.0.0.9", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "198.19.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.251"),
    *("233.252.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:0:7f00:1", "::ffff:192.0.0.192"),
    *("64:ff9b::10.0.0.1", "64:ff9b::c000:c0", "64:ff9b:1::1", "64:ff9b:1:ffff::8.8.8.8"),
    *("100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:20::1"),
    *("2001:db8::1", "2002:808:808::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1"),
    *("fd00:ec2::254", "fe80::1", "fe80::1%1", "fec0::1", "feff::1", "ff02::fb", "ff0e::1"),
    *("2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:7f00:1"),
]
PUBLIC = ["93.184.216.34", "1.1.1.1", "192.0.1.1", "100.128.0.1", "223.255.255.255"]
PUBLIC += ["2606:4700::1111", "2a00:1450::1", "2001:4860:4860::8888", "::ffff:1.1.1.1"]
PUBLIC += ["64:ff9b::1.1.1.1", "2606:4700::5efe:1.1.1.1", "2606:4700::7f00:1"]


async def test_only_addresses_of_the_internet_are_public_and_a_name_may_have_no_other(names):
    assert all(is_public(address) for address in PUBLIC)
    for address in NOT_PUBLIC:
        assert not is_public(address), address
        names["page.example"] = ["93.184.216.34", address]
        assert f"page.example is {address}" in await fault_of("http://page.example/")
    assert await fault_of("http://nowhere.example/") == (
        "the host 'nowhere.example' cannot be found"
    )


async def test_a_redirect_to_a_private_address_is_not_followed(names, monkeypatch):
    reached = []

    def secret(responder: Responder) -> object:
        reached.append("secret")
        return responder.respond(200, b"secret", {"content-type": "text/plain"})

    async with site({"/secret": secret}) as server, HTTPClient() as http:
        port = urlsplit(server.url).port
        names["public.example"] = ["127.0.0.1"]
        calls = []

        def only_the_first(address: str) -> bool:
            calls.append(address)
            return len(calls) == 1  # the first hop is allowed here, so that there is one

        monkeypatch.setattr("eca_server.agent.context.web.is_public", only_the_first)

        async def handle(request: HTTPRequest, responder: Responder) -> None:
            await responder.respond(302, b"", {"location": f"http://127.0.0.1:{port}/secret"})

        async with serve(handle, allowed_hosts=None) as front:
            url = f"http://public.example:{front.port}/"
            with pytest.raises(PageError, match=r"127\.0\.0\.1 is 127\.0\.0\.1, in a private"):
                await fetch_page(url, http=http)
    assert reached == []


async def test_the_address_that_was_checked_is_the_one_that_is_asked(names):
    hosts = []

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        hosts.append(request.headers["host"])
        await responder.respond(200, b"here", {"content-type": "text/plain"})

    names["bücher.example".encode("idna").decode()] = ["127.0.0.1"]
    async with serve(handle, allowed_hosts=None) as server, HTTPClient() as http:
        url = f"http://bücher.example:{server.port}/#part"
        page = await fetch_page(url, http=http, allow_private=True)
    assert page.text == "here"
    assert hosts == [f"xn--bcher-kva.example:{server.port}"]


async def test_an_address_that_changes_after_the_check_is_not_asked_nor_a_wrong_certificate_taken(
    names, tmp_path, monkeypatch
):
    authority = trustme.CA()
    trust(authority, tmp_path / "authority.pem", monkeypatch)
    context = tls(authority, "page.example")
    async with server(context, "text/plain") as listener, HTTPClient() as http:
        # No page is shown who the user is: a file that is not there would be a fault.
        http.client_certificate = ClientCertificate(certificate="gone.pem")
        names["page.example"] = OnlyOnce(["127.0.0.1"])
        url = f"https://page.example:{listener.port}/"
        assert (await fetch_page(url, http=http, allow_private=True)).text == "hello"
        names["other.example"] = OnlyOnce(["127.0.0.1"])
        with pytest.raises(PageError, match="TLS failed"):
            await fetch_page(url.replace("page", "other"), http=http, allow_private=True)


class OnlyOnce(list):
    """Addresses that are empty at the second lookup."""

    def __iter__(self):
        addresses = self[:]
        self.clear()
        return iter(addresses)

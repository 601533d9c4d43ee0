"""The HTTP client against real loopback servers, on both async libraries."""

import errno
import gzip
import os
import re
import socket
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import pytest
import trio

import eca_protocol
import eca_server
from eca_protocol import http, http_request, http_transport
from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.http_errors import explained
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, serve
from eca_protocol.testing.provider import Provider, Reply, close, hang, raw, reply, reset, wait
from tests.eca_protocol import http_peers
from tests.eca_protocol.http_peers import listening
from tests.lazy import imported_by
from tests.promises import TooSlow
from tests.scripted_http import ScriptedHTTPClient

pytestmark = pytest.mark.anyio


body_of, failure = (partial(each, method="POST") for each in (http_peers.ask, http_peers.failure))


@asynccontextmanager
async def asking(script) -> AsyncIterator[tuple[Provider, HTTPClient, str]]:
    async with Provider(script) as provider, HTTPClient() as client:
        yield provider, client, provider.url + "/chat/completions"


async def test_an_answer_has_a_status_headers_and_a_body_that_comes_in_chunks():
    async with asking([reply("Hi", headers={"X-Mark": "1"})]) as (provider, client, url):
        async with client.stream("POST", url, content=b'{"model":"m"}') as response:
            assert (response.status, response.headers["x-mark"]) == (200, "1")
            assert response.url == url
            body = b"".join([chunk async for chunk in response.chunks()])
        assert b'"content":"Hi"' in body
        assert provider.requests[0].body == {"model": "m"}
        assert provider.requests[0].headers["accept-encoding"] == "identity"


async def test_a_connection_is_reused_when_the_body_was_read_to_its_end():
    async with asking([reply("1"), reply("2")]) as (provider, client, url):
        for _ in range(2):
            await body_of(url, client)
            assert provider.open_connections == 1


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        (Reply(before_headers=[reset()]), "broken"),
        (Reply(before_headers=[close()]), "broken"),
        (Reply(before_headers=[raw("SSH-2.0-no\r\n\r\n"), close()]), "protocol"),
        (reply("half", reset()), "broken"),
        (reply("half", close()), "broken"),
        (reply(raw("no gzip"), headers={"content-encoding": "gzip"}), "protocol"),
    ],
)
async def test_a_broken_exchange_is_an_error_of_its_kind(script, kind):
    async with asking([script]) as (_, client, url):
        assert (await failure(url, client)).kind == kind


async def test_the_error_of_an_answer_without_its_end_is_short():
    for length in ({"content-length": "9999"}, {}):
        async with asking([reply("half", close(), headers=length)]) as (_, client, url):
            assert str(await failure(url, client)) == "the connection was lost"
    async with asking([reply("half", reset())]) as (_, client, url):
        text = str(await failure(url, client))
        assert text == f"the connection was lost: {os.strerror(errno.ECONNRESET)}"


def test_the_reason_of_an_error_is_none_that_the_caller_handles():
    error = anyio.BrokenResourceError("lost")
    error.__context__ = OSError(errno.EBADF, "handled")
    assert str(explained(error, "broken")) == "the connection was lost: lost"


@pytest.mark.parametrize(
    ("host", "error", "reason"),
    [
        ("127.0.0.1", None, "connection refused"),
        ("[::1]", socket.gaierror(socket.EAI_NONAME, "No such name"), "No such name"),
        ("a.test", OSError(errno.ENETUNREACH, "internal"), os.strerror(errno.ENETUNREACH)),
    ],
)
async def test_a_failed_connection_is_named_by_its_address_and_the_systems_reason(
    host, error, reason, free_port, monkeypatch
):
    async def fail(*_: object, **_options: object) -> None:
        raise error

    async with HTTPClient() as client:
        if error is not None:
            monkeypatch.setattr(trio, "open_tcp_stream", fail)
            monkeypatch.setattr(anyio, "connect_tcp", fail)
        text = str(await failure(f"http://{host}:{free_port}/", client))
    assert text == f"cannot connect to {host}:{free_port}: {reason}"


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:{free_port}/", "connect"),
        ("http://.a../", "connect config"),  # depends on the async library
        (f"http://{64 * 'a'}/", "connect config"),
        ("", "config"),
        ("no-scheme/v1", "config"),
        ("ftp://127.0.0.1/", "config"),
        ("ws://127.0.0.1:{free_port}/", "config"),
        ("WSS://127.0.0.1:{free_port}/", "config"),
        ("http://127.0.0.1:65536/", "config"),
        ("http://127.0.0.1:-1/", "config"),
        ("http://127.0.0.1:0/", "config"),
        ("http://[::1/", "config"),
        ("http://xn--a/", "config"),
        ("http://user:pass/word@127.0.0.1/", "config"),
    ],
)
async def test_a_url_that_cannot_be_asked_is_an_error_of_its_kind(url, kind, free_port):
    async with HTTPClient() as client:
        error = await failure(url.replace("{free_port}", str(free_port)), client)
        assert error.kind in kind.split()
    assert "the HTTP client is closed" in str(await failure("http://127.0.0.1:1/", client))


@pytest.mark.parametrize("password", ["secret", "654321"])
@pytest.mark.parametrize("proxies", [{}, {"ALL_PROXY": "http://127.0.0.1:1"}])
async def test_no_error_shows_a_part_of_a_password_that_looks_like_a_port(
    monkeypatch, proxies, password
):
    for variable, value in proxies.items():
        monkeypatch.setenv(variable, value)
    async with HTTPClient() as client:
        error = await failure(f"http://user:{password}/word@example.test/", client)
    assert "written %2F" in str(error)
    assert password not in "".join(traceback.format_exception(error))


async def test_no_error_shows_a_part_of_a_proxys_password_that_looks_like_a_port(monkeypatch):
    monkeypatch.setenv("ALL_PROXY", "http://user:secret/word@127.0.0.1:1")
    async with HTTPClient() as client:
        error = await failure("http://example.test/", client)
    assert "secret" not in "".join(traceback.format_exception(error))


async def test_no_repr_shows_a_login_or_a_key():
    url = "http://user:secret@example.test/?key=secret"
    request = http_request.HTTPRequest(
        method="GET",
        url=url,
        headers={"authorization": "secret"},
        content=b"secret",
        deadlines=Deadlines(),
        address=None,
        resend=True,
    )
    config = http_request.ConnectionConfig(secure=True, proxy=url, ca_file=None, certificate=None)
    assert "secret" not in f"{request} {config}"


async def test_tls_to_a_server_without_it_is_an_error_of_the_configuration():
    async with asking([]) as (_, client, url):
        error = await failure(url.replace("http:", "https:"), client)
    assert error.kind == "config"
    assert "use http://" in str(error)


@pytest.mark.parametrize(
    "answer", [b"", b"\x16\x03\x03\x00\x7a\x02", b"\x15\x03\x03\x00\x02\x01\x00"]
)
async def test_a_tls_handshake_that_is_cut_off_is_an_error_of_the_network(answer):
    async def cut_off(stream: anyio.abc.ByteStream) -> None:
        await stream.receive()
        if answer:
            await stream.send(answer)

    async with listening(cut_off) as traffic, HTTPClient() as client:
        error = await failure(f"https://127.0.0.1:{traffic.port}/", client)
    assert (error.kind, str(error)) == ("connect", "cannot connect: the TLS handshake was cut off")


@pytest.mark.parametrize(
    ("alert", "kind"), [([raw("\x15\x03\x01\x00\x02\x02\x46")], "config"), ([], "broken")]
)
async def test_a_request_without_tls_to_a_server_that_expects_it_is_explained(alert, kind):
    async with asking([Reply(before_headers=[*alert, close()])]) as (_, client, url):
        error = await failure(url, client)
    assert error.kind == kind
    assert "use https://" in str(error)


@pytest.mark.parametrize(
    ("script", "timer"),
    [(Reply(before_headers=[hang()]), "first_byte"), (reply("Hel", hang()), "idle")],
)
async def test_a_deadline_that_passed_is_named_and_closes_the_connection(script, timer):
    async with asking([script]) as (provider, client, url):
        error = await failure(url, client, deadlines=Deadlines(**{timer: 0.05}))
        assert isinstance(error, HTTPTimeout)
        assert (error.timer, error.seconds) == (timer, 0.05)
        requests = provider.requests  # the deadline may come before the provider has read one
        await provider.until(lambda: bool(requests) and requests[0].closed_by_client)


async def test_bytes_of_any_kind_hold_the_idle_deadline_off():
    comments = [raw(": wait\n\n"), *[{"delay": 0.06}, raw(": wait\n\n")] * 10]
    async with asking([reply(*comments, "Hi")]) as (_, client, url):
        try:
            body = await body_of(url, client, deadlines=Deadlines(idle=0.5))
        except HTTPTimeout as error:
            raise TooSlow from error  # 0.06 s became 0.5
        assert b"Hi" in body


async def test_leaving_a_body_halfway_closes_the_connection_and_leaves_no_generator_behind():
    script = [Reply(status=500, body="x" * 500_000), reply("a", hang()), reply("b")]
    async with asking(script) as (provider, client, url):
        async with client.stream("POST", url) as response:
            assert await response.read(limit=1000) == b"x" * 1000
        await provider.until(lambda: provider.open_connections == 0)
        async with client.stream("POST", url) as response:
            async for chunk in response.chunks():
                assert chunk
                break
        await provider.until(lambda: provider.requests[1].closed_by_client)
        assert b'"b"' in await body_of(url, client)


async def test_reading_on_after_the_client_was_closed_is_an_error():
    async with asking([reply("a", hang())]) as (_, client, url), client.stream("POST", url) as body:
        chunks = body.chunks()
        assert await anext(chunks)
        await client.__aexit__()
        with pytest.raises(HTTPError, match="the connection was lost"):
            [each async for each in chunks]


@pytest.mark.parametrize(
    "script", [Reply(before_headers=[wait("here")]), reply("Hel", wait("here"), "lo")]
)
async def test_cancelling_closes_the_connection_wherever_the_request_is(script):
    async with asking([script, reply("next")]) as (provider, client, url):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(body_of, url, client)
            await provider.until(lambda: "here" in provider.reached)
            tasks.cancel_scope.cancel()
        await provider.until(lambda: provider.requests[0].closed_by_client)
        assert b"next" in await body_of(url, client)


async def test_many_requests_cancelled_at_once_leak_no_connection():
    def script(request) -> Reply:
        return reply("last") if request.target.endswith("?last") else reply("Hel", wait("never"))

    async with asking(script) as (provider, client, url):
        for sent in (20, 40):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(body_of, url, client)
                await provider.until(lambda sent=sent: len(provider.requests) == sent)
                tasks.cancel_scope.cancel()
            await provider.until(lambda: provider.open_connections == 0)
        assert sum(request.closed_by_client for request in provider.requests) == 40
        assert b"last" in await body_of(url + "?last", client)


async def test_chunks_that_came_together_starve_no_other_task_and_can_be_stopped():
    chunks = 0
    buffered = ScriptedHTTPClient(lambda _: [b"x"] * 200_000)
    async with buffered as client, anyio.create_task_group() as tasks:

        async def stop() -> None:
            tasks.cancel_scope.cancel()

        async with client.stream("GET", "http://model/") as response:
            tasks.start_soon(stop)
            async for _ in response.chunks():
                chunks += 1
    assert chunks < 100_000


async def test_a_redirect_is_an_answer_and_nothing_follows_it():
    async with Provider([]) as elsewhere:
        moved = Reply(status=307, headers={"location": elsewhere.url + "/chat/completions"})
        secret = {"authorization": "Bearer k"}
        async with (
            asking([moved]) as (_, client, url),
            client.stream("POST", url, headers=secret) as answer,
        ):
            assert answer.status == 307
            assert answer.headers["location"].startswith(elsewhere.url)
        assert elsewhere.requests == elsewhere.other_requests == []


async def test_who_asks_may_be_in_the_url_and_no_cookie_is_stored():
    requests: list[tuple[str | None, ...]] = []

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        names = ("authorization", "host", "cookie")
        requests.append(tuple(request.headers.get(name) for name in names))
        await responder.respond(200, b"", {"set-cookie": "session=1; Path=/"})

    async with serve(handle) as server, HTTPClient() as client:
        host = server.url.removeprefix("http://")
        for _ in range(2):
            await body_of(f"http://me:p%40ss@{host}/", client)
    assert requests == [("Basic bWU6cEBzcw==", host, None)] * 2


async def test_a_compressed_stream_is_read_all_the_same():
    packed = gzip.compress(b"data: hello\n\n")
    encoding = {"content-encoding": "gzip"}
    script = [Reply(steps=[raw(packed), close()], headers=encoding, close_delimited=True)]
    async with asking(script) as (_, client, url):
        assert await body_of(url, client) == b"data: hello\n\n"


async def test_a_refusal_is_read_for_a_limited_time_however_slowly_it_comes(monkeypatch):
    monkeypatch.setattr(http, "EXCERPT_DEADLINE", 0.2)
    steps = [raw("slow"), *[{"delay": 0.05}, raw(".")] * 1000]
    async with asking([Reply(status=401, steps=steps)]) as (provider, client, url):
        async with client.stream("POST", url) as response:
            assert (await response.read_excerpt()).startswith(b"slow")
        await provider.until(lambda: provider.requests[0].closed_by_client)


async def test_a_body_of_several_compressed_members_is_read_to_its_end():
    members = b"".join(gzip.compress(b"data: %d\n\n" % number) for number in range(3))
    encoding = {"content-encoding": "gzip"}
    for rest in (b"", bytes(9)):
        steps = [*(raw(bytes([byte])) for byte in members), raw(rest), close()]
        script = [Reply(steps=steps, headers=encoding, close_delimited=True)]
        async with asking(script) as (_, client, url):
            assert await body_of(url, client) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


@pytest.mark.long(but=1)
async def test_a_body_may_take_longer_to_send_than_a_write_and_the_answer(slow_reader):
    async with HTTPClient() as client:
        deadlines = Deadlines(write=1, first_byte=1)
        try:
            body = await body_of(slow_reader, client, content=bytes(8_000_000), deadlines=deadlines)
        except HTTPTimeout as error:
            raise TooSlow from error  # a write or the answer took a second
    assert body == b"8000000"


@pytest.fixture
def slow_reader():
    """Read each request's body in at least 1.3 s, and answer with its size."""

    def read() -> None:
        connection, _ = listener.accept()
        with connection:
            received = b""
            while b"\r\n\r\n" not in received:
                received += connection.recv(1000)
            size = len(received.partition(b"\r\n\r\n")[2])
            started = time.monotonic()
            while size < 8_000_000 and (piece := connection.recv(2**16)):
                size += len(piece)
                time.sleep(max(0, started + size / 6_000_000 - time.monotonic()))
            with suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n%d" % size)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        thread = threading.Thread(target=read)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join()


async def test_a_request_can_be_cancelled_while_certificates_cannot_be_read(monkeypatch):
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def load(*_: object) -> None:
        begun.set()
        release.wait(5)
        ended.set()

    monkeypatch.setattr("eca_protocol.http.make_pool", load)
    async with HTTPClient() as client, anyio.create_task_group() as tasks:
        tasks.start_soon(body_of, "https://localhost/", client)
        await anyio.to_thread.run_sync(begun.wait)
        tasks.cancel_scope.cancel()
    assert not ended.is_set()
    release.set()


async def test_a_small_chunk_that_decompresses_to_much_arrives_in_pieces():
    body = bytes(20_000_000) + b"the end"
    encoding = {"content-encoding": "gzip"}
    steps = [raw(gzip.compress(body)), close()]
    script = [Reply(steps=steps, headers=encoding, close_delimited=True)]
    async with asking(script) as (_, client, url), client.stream("POST", url) as response:
        pieces = [piece async for piece in response.chunks()]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= 64 * 1024


async def test_header_values_lose_white_space_and_replace_defaults_in_any_case():
    async with asking([reply("Hi")]) as (provider, client, url):
        await body_of(url, client, headers={"Authorization": "Bearer key\n", "User-AGENT": "mine"})
        assert provider.requests[0].headers["authorization"] == "Bearer key"
        assert provider.requests[0].headers["user-agent"] == "mine"


@pytest.mark.parametrize("headers", [{"k": "se\ncret"}, {"k": "secr\u00e9t"}, {"bad name": "x"}])
async def test_a_header_that_cannot_be_sent_is_an_error_that_does_not_show_its_value(headers):
    async with asking([]) as (provider, client, url):
        error = await failure(url, client, headers=headers)
        assert error.kind == "config"
        assert "secr" not in str(error)
        assert provider.requests == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SSL_CERT_FILE", "/nowhere/gone.pem"),
        ("ALL_PROXY", "socks5://user:secret@127.0.0.1:1"),
        ("ALL_PROXY", "nonsense://x"),
    ],
)
async def test_an_unusable_variable_is_named_and_no_secret_in_it(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    monkeypatch.delitem(sys.modules, "eca_protocol.http_socks", raising=False)
    monkeypatch.setitem(sys.modules, "socksio", None)
    async with HTTPClient() as client:
        error = await failure("https://192.0.2.1:1/", client)
    assert error.kind == "config"
    assert name in str(error)
    assert name == "ALL_PROXY" or value in str(error)
    assert "secret" not in str(error)


async def test_a_pooled_connection_that_the_server_drops_is_replaced_silently():
    served: list[int] = []

    async def drops_every_second(_request: HTTPRequest, responder: Responder) -> None:
        served.append(server.connections)
        if len(served) == 2:
            await responder.reset()
        else:
            await responder.respond(200, b"answer")

    server: HTTPServer
    async with serve(drops_every_second) as server, HTTPClient() as client:
        for _ in range(2):
            assert await body_of(server.url, client) == b"answer"
    assert len(served) == 3


@pytest.mark.parametrize("options", [{}, {"resend": False}])
async def test_a_request_that_may_have_run_is_not_sent_again(monkeypatch, options):
    served: list[int] = []

    async def dies_at_the_second(_request: HTTPRequest, responder: Responder) -> None:
        served.append(server.connections)
        if len(served) == 1:
            await responder.respond(200, b"answer")
            return
        if not options:
            await anyio.sleep(0.1)
        await responder.reset()

    if not options:
        monkeypatch.setattr(http_transport, "STALE", 0.05)
    server: HTTPServer
    async with serve(dies_at_the_second) as server, HTTPClient() as client:
        assert await body_of(server.url, client, **options) == b"answer"
        assert (await failure(server.url, client, **options)).kind == "broken"
    assert served == [1, 1]


async def test_a_client_that_is_closed_while_a_request_begins_keeps_nothing_open(monkeypatch):
    class Transport:
        is_closed = False

        async def aclose(self) -> None:
            self.is_closed = True

    made, closed = Transport(), threading.Event()

    def make(*_: object) -> Transport:
        closed.wait(5)
        return made

    monkeypatch.setattr(http, "make_pool", make)
    client = HTTPClient()

    async def ask() -> None:
        assert "is closed" in str(await failure("http://127.0.0.1:9/", client))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        async with client:
            pass
        closed.set()
    assert made.is_closed


@pytest.mark.parametrize("backends", [("asyncio", "asyncio"), ("trio", "trio", "asyncio")])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_is_for_one_event_loop(backends, free_port):
    first, *others = backends
    client, url = HTTPClient(), f"http://127.0.0.1:{free_port}/"

    async def use() -> str:
        return (await failure(url, client)).kind

    assert anyio.run(use, backend=first) == "connect"
    for backend in others:
        assert anyio.run(use, backend=backend) == "config"
        anyio.run(client.__aexit__, backend=backend)


def test_neither_the_module_nor_a_client_loads_httpx():
    modules = imported_by("import eca_protocol.http as h; h.HTTPClient(headers={'a': 'b'})")
    assert "eca_protocol.http" in modules
    assert not modules & {"httpx", "h11", "socksio"}


async def test_the_proxies_are_read_once_and_in_a_worker_thread(monkeypatch, free_port):
    threads = []

    def getproxies() -> dict[str, str]:
        threads.append(threading.get_ident())
        return {}

    monkeypatch.setattr("urllib.request.getproxies", getproxies)
    async with HTTPClient() as client:
        for _ in range(2):
            await failure(f"http://127.0.0.1:{free_port}/", client)
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


def test_httpx_h11_and_socksio_are_named_in_few_modules():
    named: dict[str, set[str]] = {"httpx": set(), "h11": set(), "socksio": set()}
    for package in (eca_protocol, eca_server):
        root = Path(package.__file__).parent
        for path in root.rglob("*.py"):
            for name, places in named.items():
                if re.search(rf"^\s*(import|from) {name}\b", path.read_text(), re.MULTILINE):
                    places.add(str(path.relative_to(root.parent)))
    modules = {
        "httpx": {"eca_protocol/http_transport.py"},
        "h11": {"eca_protocol/http_server.py", "eca_protocol/http_connection.py"},
        "socksio": {"eca_protocol/http_socks.py"},
    }
    assert named == modules


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

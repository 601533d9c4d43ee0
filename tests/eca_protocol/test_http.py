"""The HTTP client against real loopback servers, on both async libraries."""

import gzip
import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx
import pytest

import eca_protocol
import eca_server
from eca_protocol import http
from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http import Deadlines, HTTPClient
from eca_protocol.http_server import HTTPRequest, HTTPServer, Responder, serve
from eca_protocol.testing.provider import Provider, Reply, close, hang, raw, reply, reset, wait

pytestmark = pytest.mark.anyio


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
            async with client.stream("POST", url) as response:
                await response.read()
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
        with pytest.raises(HTTPError) as caught:
            async with client.stream("POST", url) as response:
                await response.read()
        assert caught.value.kind == kind


async def test_a_refused_connection_is_an_error_of_its_kind(free_port):
    async with HTTPClient() as client:
        with pytest.raises(HTTPError) as caught:
            async with client.stream("GET", f"http://127.0.0.1:{free_port}/"):
                raise AssertionError("nobody listens there")
        assert caught.value.kind == "connect"


async def test_a_failed_tls_handshake_is_an_error_of_its_kind():
    async with asking([]) as (_, client, url):
        with pytest.raises(HTTPError) as caught:
            async with client.stream("GET", url.replace("http:", "https:")):
                raise AssertionError("the server speaks no TLS")
        assert caught.value.kind == "tls"


@pytest.mark.parametrize(
    ("script", "timer"),
    [(Reply(before_headers=[hang()]), "first_byte"), (reply("Hel", hang()), "idle")],
)
async def test_a_deadline_that_passed_is_named_and_closes_the_connection(script, timer):
    deadlines = Deadlines(**{timer: 0.05})
    async with asking([script]) as (provider, client, url):
        with pytest.raises(HTTPTimeout) as caught:
            async with client.stream("POST", url, deadlines=deadlines) as response:
                await response.read()
        assert (caught.value.timer, caught.value.seconds) == (timer, 0.05)
        await provider.until(lambda: provider.requests[0].closed_by_client)


async def test_bytes_of_any_kind_hold_the_idle_deadline_off():
    comments = [raw(": wait\n\n"), *[{"delay": 0.02}, raw(": wait\n\n")] * 10]
    idle = Deadlines(idle=0.15)
    async with (
        asking([reply(*comments, "Hi")]) as (_, client, url),
        client.stream("POST", url, deadlines=idle) as response,
    ):
        assert b"Hi" in await response.read()


async def test_a_bounded_read_drops_the_rest_with_the_connection():
    async with asking([Reply(status=500, body="x" * 500_000), reply("Hi")]) as served:
        provider, client, url = served
        async with client.stream("POST", url) as response:
            assert await response.read(limit=1000) == b"x" * 1000
        await provider.until(lambda: provider.open_connections == 0)
        async with client.stream("POST", url) as response:
            assert b"Hi" in await response.read()


async def test_leaving_a_body_halfway_closes_the_connection_and_leaves_no_generator_behind():
    async with asking([reply("a", hang()), reply("b")]) as (provider, client, url):
        async with client.stream("POST", url) as response:
            async for chunk in response.chunks():
                assert chunk
                break
        await provider.until(lambda: provider.requests[0].closed_by_client)
        async with client.stream("POST", url) as response:
            assert b'"b"' in await response.read()


@pytest.mark.parametrize(
    "script", [Reply(before_headers=[wait("here")]), reply("Hel", wait("here"), "lo")]
)
async def test_cancelling_closes_the_connection_wherever_the_request_is(script):
    async with asking([script, reply("next")]) as (provider, client, url):
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                async with client.stream("POST", url) as response:
                    await response.read()

            tasks.start_soon(ask)
            await provider.until(lambda: "here" in provider.reached)
            tasks.cancel_scope.cancel()
        await provider.until(lambda: provider.requests[0].closed_by_client)
        async with client.stream("POST", url) as response:
            assert b"next" in await response.read()


async def test_a_hundred_requests_cancelled_at_once_leak_no_connection():
    def script(request) -> Reply:
        return reply("last") if request.target.endswith("?last") else reply("Hel", wait("never"))

    async with asking(script) as (provider, client, url):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async with client.stream("POST", url) as response:
                        await response.read()

                for _ in range(50):
                    tasks.start_soon(ask)
                await provider.until(lambda: provider.open_connections == 50)
                tasks.cancel_scope.cancel()
            await provider.until(lambda: provider.open_connections == 0)
        assert sum(request.closed_by_client for request in provider.requests) == 100
        async with client.stream("POST", url + "?last") as response:
            assert b"last" in await response.read()


class EndlessBuffer(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
    """A response whose chunks are all buffered: reading never waits."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=self)

    async def __aiter__(self):
        for _ in range(200_000):
            yield b"x"


async def test_chunks_that_came_together_starve_no_other_task_and_can_be_stopped():
    chunks = 0
    async with HTTPClient(transport=EndlessBuffer()) as client, anyio.create_task_group() as tasks:

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


async def test_who_asks_may_be_in_the_url():
    requests: list[tuple[str | None, str]] = []

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        requests.append((request.headers.get("authorization"), request.headers["host"]))
        await responder.respond(200, b"")

    async with serve(handle) as server, HTTPClient() as client:
        host = server.url.removeprefix("http://")
        async with client.stream("GET", f"http://me:p%40ss@{host}/") as response:
            assert response.status == 200
    assert requests == [("Basic bWU6cEBzcw==", host)]


async def test_no_cookie_is_stored():
    requests: list[str | None] = []

    async def gives_a_cookie(request: HTTPRequest, responder: Responder) -> None:
        requests.append(request.headers.get("cookie"))
        await responder.respond(200, b"", {"set-cookie": "session=1; Path=/"})

    async with serve(gives_a_cookie) as server, HTTPClient() as client:
        for _ in range(2):
            async with client.stream("GET", f"{server.url}/") as response:
                await response.read()
    assert requests == [None, None]


async def test_a_compressed_stream_is_read_all_the_same():
    packed = gzip.compress(b"data: hello\n\n")
    encoding = {"content-encoding": "gzip"}
    script = [Reply(steps=[raw(packed), close()], headers=encoding, close_delimited=True)]
    async with asking(script) as (_, client, url), client.stream("POST", url) as response:
        assert await response.read() == b"data: hello\n\n"


async def test_header_values_lose_white_space_and_replace_defaults_in_any_case():
    async with asking([reply("Hi")]) as (provider, client, url):
        headers = {"Authorization": "Bearer key\n", "User-AGENT": "mine"}
        async with client.stream("POST", url, headers=headers) as response:
            await response.read()
        assert provider.requests[0].headers["authorization"] == "Bearer key"
        assert provider.requests[0].headers["user-agent"] == "mine"


@pytest.mark.parametrize("headers", [{"k": "se\ncret"}, {"k": "secr\u00e9t"}, {"bad name": "x"}])
async def test_a_header_that_cannot_be_sent_is_an_error_that_does_not_show_its_value(headers):
    async with asking([]) as (provider, client, url):
        with pytest.raises(HTTPError) as caught:
            async with client.stream("POST", url, headers=headers):
                raise AssertionError("it cannot have been sent")
        assert caught.value.kind == "config"
        assert "secr" not in str(caught.value)
        assert provider.requests == []


@pytest.mark.parametrize("url", ["http://.a../", f"http://{64 * 'a'}/"])
async def test_a_host_that_is_no_name_cannot_be_asked(url):
    async with HTTPClient() as client:
        with pytest.raises(HTTPError):
            async with client.stream("GET", url):
                raise AssertionError("it cannot have been asked")


@pytest.mark.parametrize(
    "url", ["", "no-scheme/v1", "ftp://127.0.0.1/", "http://[::1/", "http://xn--a/"]
)
async def test_a_url_that_cannot_be_asked_is_an_error_of_the_configuration(url):
    async with HTTPClient() as client:
        with pytest.raises(HTTPError) as caught:
            async with client.stream("GET", url):
                raise AssertionError("it cannot have been asked")
        assert caught.value.kind == "config"


async def test_a_missing_certificate_file_is_named_with_its_variable(monkeypatch, tmp_path):
    missing = str(tmp_path / "gone.pem")
    monkeypatch.setenv("SSL_CERT_FILE", missing)
    async with HTTPClient() as client:
        with pytest.raises(HTTPError, match="SSL_CERT_FILE") as caught:
            async with client.stream("GET", "https://127.0.0.1:1/"):
                raise AssertionError("no certificates, no request")
        assert caught.value.kind == "config"
        assert missing in str(caught.value)


@pytest.mark.parametrize("address", ["socks5://user:secret@127.0.0.1:1", "nonsense://x"])
async def test_an_unusable_proxy_is_named_by_its_variable_and_not_by_its_value(
    monkeypatch, address
):
    monkeypatch.setenv("ALL_PROXY", address)
    async with HTTPClient() as client:
        with pytest.raises(HTTPError, match="ALL_PROXY") as caught:
            async with client.stream("GET", "http://192.0.2.1/"):
                raise AssertionError("no proxy, no request")
        assert caught.value.kind == "config"
        assert "secret" not in str(caught.value)


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
            async with client.stream("POST", server.url) as response:
                assert await response.read() == b"answer"
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
        monkeypatch.setattr(http, "STALE", 0.05)
    server: HTTPServer
    async with serve(dies_at_the_second) as server, HTTPClient() as client:
        async with client.stream("POST", server.url, **options) as response:
            assert await response.read() == b"answer"
        with pytest.raises(HTTPError) as caught:
            async with client.stream("POST", server.url, **options):
                raise AssertionError("there is no answer")
    assert caught.value.kind == "broken"
    assert served == [1, 1]


async def test_a_client_that_is_closed_while_a_request_begins_keeps_nothing_open(monkeypatch):
    class Transport(httpx.AsyncBaseTransport):
        is_closed = False

        async def aclose(self) -> None:
            self.is_closed = True

    made, closed = Transport(), threading.Event()

    def make(*_: object) -> Transport:
        closed.wait(5)
        return made

    monkeypatch.setattr(http, "_make_transport", make)
    client = HTTPClient()

    async def ask() -> None:
        with pytest.raises(HTTPError, match="the HTTP client is closed"):
            async with client.stream("GET", "http://127.0.0.1:9/"):
                raise AssertionError("it is closed")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        async with client:
            pass
        closed.set()
    assert made.is_closed


async def test_a_closed_client_sends_nothing():
    async with HTTPClient() as client:
        pass
    with pytest.raises(HTTPError, match="closed"):
        async with client.stream("GET", "http://127.0.0.1:1/"):
            raise AssertionError("it is closed")


def test_neither_the_module_nor_a_client_loads_httpx():
    program = (
        "import sys, eca_protocol.http as http; http.HTTPClient(headers={'a': 'b'});"
        "print([name for name in ('httpx', 'h11', 'httpcore') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_httpx_and_h11_are_each_named_in_one_module():
    named: dict[str, set[str]] = {"httpx": set(), "h11": set()}
    for package in (eca_protocol, eca_server):
        root = Path(package.__file__).parent
        for path in root.rglob("*.py"):
            for name, places in named.items():
                if re.search(rf"^\s*(import|from) {name}\b", path.read_text(), re.MULTILINE):
                    places.add(str(path.relative_to(root.parent)))
    assert named == {"httpx": {"eca_protocol/http.py"}, "h11": {"eca_protocol/http_server.py"}}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

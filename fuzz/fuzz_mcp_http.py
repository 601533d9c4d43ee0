"""A call over MCP is answered for any response of a web server, for any size of chunks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import trio
import trio.testing
from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.http import HTTPClient
    from eca_server.agent.mcp.dialect import LenientReader
    from eca_server.agent.mcp.http_endpoint import HTTPEndpoint
    from eca_server.agent.mcp.server_log import ServerLog
    from eca_server.agent.mcp.streamable_http import StreamableHTTP

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}}
SEPARATOR = b"\x00\xff"
LONG = 1000.0  # seconds of a simulated clock: some tries, half a minute apart


def check(data: bytes) -> None:
    """Check `data`: responses of a server: status, content type, a line end, body."""
    whole = answered(data, lambda body: [body])
    assert answered(data, cut) == whole
    if len(data) < 300:
        assert answered(data, bytewise) == whole


def answered(data: bytes, pieces: Callable[[bytes], list[bytes]]) -> list[Any]:
    """Return the server's messages up to the answer to the call, or the reason of the end."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(call, iter(data.split(SEPARATOR)), pieces, clock=clock)


async def call(answers: Iterator[bytes], pieces: Callable[[bytes], list[bytes]]) -> list[Any]:
    http = cast("HTTPClient", Client(answers, pieces))
    endpoint = HTTPEndpoint("https://h.example/mcp", http=http, headers={"x-key": "k"})
    noise: list[bytes] = []
    reader = LenientReader(
        pending=lambda: (CALL["id"],),
        on_noise=lambda frame, why: noise.append(frame),
        on_oversized=lambda why: None,
    )
    messages: list[Any] = []
    done = trio.Event()

    def take(arrived: list[Any]) -> None:
        if not done.is_set():
            messages.extend(arrived)
            if any(map(is_answer, arrived)):
                done.set()

    transport = StreamableHTTP(endpoint, ServerLog("s")).messages(reader.read, take)

    async def watch_end() -> None:
        await transport.receive()
        if not done.is_set():
            messages.append(str(await transport.error()))
            done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.run)
        nursery.start_soon(watch_end)
        try:
            with trio.fail_after(LONG):
                transport.send(CALL)
                await done.wait()
        finally:
            await transport.aclose()
    assert messages[-1] != "None"
    return [*messages, *noise]


def is_answer(message: dict[str, Any]) -> bool:
    return "method" not in message and message.get("id") in (1, "1")


class Answer:
    """A response of the HTTP client."""

    def __init__(self, head: bytes, pieces: list[bytes]) -> None:
        status, _, kind = head.decode("latin-1").partition(" ")
        self.status = int(status) if status in {"202", "307", "401", "404", "500"} else 200
        self.headers = {"content-type": kind, "location": kind, "retry-after": kind}
        self._pieces = pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece

    async def read_excerpt(self) -> bytes:
        return b"".join(self._pieces)


class Client:
    """An HTTP client whose responses are the input."""

    def __init__(self, answers: Iterator[bytes], pieces: Callable[[bytes], list[bytes]]) -> None:
        self._answers = answers
        self._pieces = pieces

    @asynccontextmanager
    async def stream(self, _method: str, _url: str, **_others: Any) -> AsyncIterator[Answer]:
        head, _, body = next(self._answers, b"500 \n").partition(b"\n")
        yield Answer(head, self._pieces(body))


if __name__ == "__main__":
    main("mcp_http", check)

"""Helpers for the tests of Peer: a bare codec and table, and the other end of a connection."""

import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import anyio

from eca_protocol import json
from eca_protocol.endpoint import Method, Table
from eca_protocol.errors import DecodeError
from eca_protocol.framing import CONTENT_LENGTH, Framing
from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Handler, Peer
from eca_protocol.streams import Transport, memory_pair

TABLE = Table(
    [
        Method(name="add", kind="request", direction="both"),
        Method(name="wait", kind="request", direction="both"),
        Method(name="log", kind="notification", direction="both"),
        Method(name="flood", kind="notification", direction="both"),
    ]
)


class Bare:
    """A codec that leaves JSON values as they are, and refuses params that are an array."""

    def decode_params(self, method: str, raw: Any) -> Any:
        if isinstance(raw, list):
            raise DecodeError(path="params", expected="an object", got="an array")
        return raw

    def decode_result(self, method: str, raw: Any) -> Any:
        return raw

    def encode_params(self, method: str, params: Any) -> Any:
        return params

    def encode_result(self, method: str, result: Any) -> Any:
        return result

    def incoming(self, method: str, raw: Any) -> Sequence[tuple[str, Any]]:
        return ((method, self.decode_params(method, raw)),)

    def outgoing(self, method: str, params: Any) -> Sequence[tuple[str, Any]]:
        return ((method, params),)


class Wire:
    """The other end of a connection, which writes, reads and stores raw messages.

    Attributes:
        received: every message that came.
    """

    def __init__(self, transport: Transport, framing: Framing = CONTENT_LENGTH) -> None:
        self.transport = transport
        self.received: list[Any] = []
        self._framing = framing
        self._decoder = framing.decoder()
        self._unread: deque[bytes] = deque()

    async def send(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Write messages or raw bytes in one piece."""
        pieces = [
            message if isinstance(message, bytes) else self._framing.encode(json.dumps(message))
            for message in messages
        ]
        await self.transport.send(b"".join(pieces))

    async def receive(self) -> Any:
        """Return the next message; None at the end of the stream."""
        while not self._unread:
            data = await self.transport.receive()
            if not data:
                return None
            for frame in self._decoder.feed(data):
                self._unread.append(frame)
        message = json.loads(self._unread.popleft())
        self.received.append(message)
        return message

    async def rest(self) -> list[Any]:
        """Return all messages until the end of the stream."""
        messages = []
        while (message := await self.receive()) is not None:
            messages.append(message)
        return messages


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut the bytes at these places, counted around their end."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


def request(request_id: Any, method: str = "add", params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str = "log", params: Any = None) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def cancel(request_id: Any) -> dict[str, Any]:
    return notification("$/cancelRequest", {"id": request_id})


def success(request_id: Any, result: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def code_of(answer: Any) -> tuple[Any, int]:
    """Return the id and the code of an error."""
    assert "result" not in answer
    return answer["id"], answer["error"]["code"]


@contextlib.asynccontextmanager
async def conversation(
    handlers: Mapping[str, Handler], *, framing: Framing = CONTENT_LENGTH, **options: Any
) -> AsyncIterator[tuple[Peer, Wire]]:
    """Run a peer with the other end of its connection, for at most 20 seconds."""
    near, far = memory_pair(limit=2**22)
    options = {"side": "server", "table": TABLE, "codec": Bare(), **options}
    peer = Peer(StreamTransport(near, framing=framing), handlers=handlers, **options)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks, peer:
            tasks.start_soon(peer.serve)
            yield peer, Wire(far, framing)

"""The Python ends of the pairs that `bench_peer.py` measures, each run as a process.

`peer_pairs.py ROLE BACKEND ENGINE COUNT`: a client starts its server itself and prints requests
a second; a receiver reads notifications from its stdin, where a sender or a plain file may stand,
and prints how many a second.
"""

import asyncio
import os
import sys
import time
from typing import Any

ROLE, BACKEND, ENGINE, COUNT = *sys.argv[1:4], int(sys.argv[4])
if ENGINE == "stdlib":
    sys.modules["orjson"] = None  # type: ignore[assignment]  # as if it were not installed

import acp.connection  # noqa: E402 - only after the engine is chosen
import acp.stdio  # noqa: E402
import anyio  # noqa: E402

from eca_protocol.codec import Codec  # noqa: E402
from eca_protocol.message_transport import StreamTransport  # noqa: E402
from eca_protocol.messages import ChatContentReceivedParams, ChatTextContent  # noqa: E402
from eca_protocol.methods import ECA  # noqa: E402
from eca_protocol.peer import Peer  # noqa: E402
from eca_protocol.process import spawn  # noqa: E402
from eca_protocol.revisions import Revision  # noqa: E402
from eca_protocol.streams import FdTransport, owned_stdio  # noqa: E402
from tests.eca_protocol.wire import TABLE, Bare  # noqa: E402

BATCH = 1000


def params(n: int) -> dict[str, Any]:
    return {"n": n, "text": "some words of a request"}


async def server() -> None:
    with owned_stdio() as (read_fd, write_fd):
        transport = StreamTransport(FdTransport(read_fd, write_fd))
        handlers = {"add": lambda received: received}
        async with Peer(
            transport, side="server", table=TABLE, codec=Bare(), handlers=handlers
        ) as peer:
            await peer.serve()


async def client() -> None:
    child = spawn([sys.executable, __file__, "server", BACKEND, ENGINE, "0"])
    peer = Peer(
        StreamTransport(child.transport), side="client", table=TABLE, codec=Bare(), handlers={}
    )
    async with anyio.create_task_group() as tasks, peer:
        tasks.start_soon(peer.serve)
        await calls(peer, BATCH)
        start = time.perf_counter()
        await calls(peer, COUNT)
        print(COUNT / (time.perf_counter() - start))
    await child.end()


async def calls(peer: Peer, count: int) -> None:
    for start in range(0, count, BATCH):
        for call in [peer.start_call("add", params(n)) for n in range(start, start + BATCH)]:
            await call.result()


async def receiver() -> None:
    received_count, start = 0, 0.0

    def count(_: object) -> None:
        nonlocal received_count, start
        if not received_count:
            start = time.perf_counter()
        received_count += 1
        if received_count == COUNT:
            peer.close()

    with owned_stdio() as (read_fd, write_fd):
        transport = StreamTransport(FdTransport(read_fd, write_fd))
        codec = Codec(ECA, Revision.R2025_10)
        handlers = {"chat/contentReceived": count}
        async with Peer(
            transport, side="client", table=ECA, codec=codec, handlers=handlers
        ) as peer:
            await peer.serve()
            took = time.perf_counter() - start
    assert received_count == COUNT
    print(COUNT / took)


async def sender() -> None:
    with owned_stdio() as (read_fd, write_fd):
        transport = StreamTransport(FdTransport(read_fd, write_fd))
        codec = Codec(ECA, Revision.R2025_10)
        async with Peer(transport, side="server", table=ECA, codec=codec, handlers={}) as peer:
            for n in range(COUNT):
                content = ChatTextContent(text=f"words {n} of it")
                received = ChatContentReceivedParams(
                    chat_id="chat-1", role="assistant", content=content
                )
                peer.notify("chat/contentReceived", received)
                await transport.drain()
            await peer.serve()


async def echo(_method: str, received: Any, _is_notification: bool) -> Any:
    return received


async def acp_server() -> None:
    reader, writer = await acp.stdio.stdio_streams()
    await acp.connection.Connection(echo, writer, reader, listening=False).main_loop()


async def acp_client() -> None:
    command = [sys.executable, __file__, "acp-server", BACKEND, ENGINE, "0"]
    async with acp.stdio.spawn_stdio_connection(echo, *command, env=os.environ) as (connection, _):
        await acp_calls(connection, BATCH)
        start = time.perf_counter()
        await acp_calls(connection, COUNT)
        print(COUNT / (time.perf_counter() - start))


async def acp_calls(connection: acp.connection.Connection, count: int) -> None:
    for start in range(0, count, BATCH):
        batch = range(start, start + BATCH)
        await asyncio.gather(*(connection.send_request("add", params(n)) for n in batch))


ROLES = {
    "server": server,
    "client": client,
    "receiver": receiver,
    "sender": sender,
    "acp-server": acp_server,
    "acp-client": acp_client,
}

if __name__ == "__main__":
    anyio.run(ROLES[ROLE], backend=BACKEND)

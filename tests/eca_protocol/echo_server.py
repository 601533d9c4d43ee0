"""A tiny server on stdio for tests and benchmarks: `python -m tests.eca_protocol.echo_server`.

`add` returns its params, `wait` never ends, `flood` sends `count` notifications and a last one.
The exit code shows how the connection ended. The async backend is the first argument.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio

from eca_protocol.message_transport import StreamTransport
from eca_protocol.peer import Peer
from eca_protocol.streams import FdTransport, owned_stdio
from tests.eca_protocol.wire import TABLE, Bare

EXIT_CODES = {"eof": 0, "closed": 0, "invalid": 3, "truncated": 4, "broken": 5}


async def serve() -> int:
    async def flood(params: Any) -> int:
        for n in range(params["count"]):
            peer.notify("log", {"n": n, "text": params["text"]})
            await transport.drain()
        return int(params["count"])

    async def wait() -> None:
        await anyio.sleep_forever()

    def add(params: Any) -> Any:
        if params and "count" in params:
            return flood(params)
        return params

    handlers = {"add": add, "wait": lambda _: wait()}
    with owned_stdio() as (read_fd, write_fd):
        print("noise on the standard output")
        transport = StreamTransport(FdTransport(read_fd, write_fd))
        async with Peer(
            transport, side="server", table=TABLE, codec=Bare(), handlers=handlers
        ) as peer:
            end = await peer.serve()
    return EXIT_CODES[end.kind]


if __name__ == "__main__":
    sys.exit(anyio.run(serve, backend=sys.argv[1]))

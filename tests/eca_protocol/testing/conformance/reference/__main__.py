"""The reference server as a process, on its standard streams.

A mutant is run by `--mutant NAME`.
"""

import argparse
import os
import signal
import sys

import anyio

from eca_protocol import json
from eca_protocol.streams import FdTransport, owned_stdio
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server


async def serve_process(parts: Parts) -> int:
    """Serve on the standard streams; signals end the process as W-13 says."""
    with owned_stdio(for_good=True) as (reading, writing):
        config = json.loads(os.environ.get("ECA_CONFIG") or "{}")
        server = parts.server(FdTransport(reading, writing), config, parts)
        async with anyio.create_task_group() as group:
            group.start_soon(_end_on_signals, server)
            code = await server.run()
            group.cancel_scope.cancel()
    return code


async def _end_on_signals(server: Server) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            server.end(0 if server.state == "shutdown" else 128 + number)


def main() -> None:
    parser = argparse.ArgumentParser(description="The reference server.")
    parser.add_argument("--mutant", help="the name of a mutant")
    options = parser.parse_args()
    parts = Parts()
    if options.mutant:
        from tests.eca_protocol.testing.conformance.mutants import MUTANTS  # noqa: PLC0415

        parts = MUTANTS[options.mutant].parts
    sys.exit(anyio.run(serve_process, parts, backend="trio"))


if __name__ == "__main__":
    main()

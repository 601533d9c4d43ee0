"""A server in the process of its client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from eca_protocol.streams import Transport

LEAVE_SECONDS = 10.0
"""The limit of the wait for the server's end after the client has left."""


class ServerTask:
    """A server that runs in a task of the client's."""

    def __init__(
        self, serve: Callable[[Transport], Awaitable[object]], transport: Transport
    ) -> None:
        self.error: Exception | None = None
        self._serve = serve
        self._transport = transport
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Serve the client; close the stream at the end, so that the client notices it."""
        try:
            await self._serve(self._transport)
        except Exception as error:  # noqa: BLE001 - raised by the client's block
            self.error = error
        finally:
            self._ended.set()
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()

    async def wait(self) -> None:
        """Wait for the server's end, at most `LEAVE_SECONDS`."""
        with anyio.move_on_after(LEAVE_SECONDS):
            await self._ended.wait()

"""An HTTP client without a network, whose responses take the time of a mock clock."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio

from eca_protocol.http import HTTPClient
from eca_protocol.http_errors import timed_out
from eca_protocol.http_request import HTTPRequest

Steps = Iterable[bytes | float]
"""The pieces of a body, and seconds of silence as numbers."""


class ScriptedHTTPClient(HTTPClient):
    """A client whose responses are made by a function of the request.

    Args:
        answer: returns the steps of a response.
        before: the seconds before a response begins.
        headers: the headers of each response.
    """

    def __init__(
        self,
        answer: Callable[[HTTPRequest], Steps],
        *,
        before: float = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._answer = answer
        self._before = before
        self._response_headers = headers or {}

    async def _pool_for(self, *_: object) -> tuple[Any, None]:
        return self, None

    async def exchange(self, request: HTTPRequest) -> "ScriptedExchange":
        with anyio.move_on_after(request.deadlines.first_byte):
            await anyio.sleep(self._before)
            return ScriptedExchange(request.url, self._response_headers, self._answer(request))
        raise timed_out("first_byte", request.deadlines.first_byte)

    async def release(self, _: "ScriptedExchange") -> None:
        pass


class ScriptedExchange:
    """A response in memory, with the members of an `HTTPConnection` that are read."""

    status = 200

    def __init__(self, url: str, headers: Mapping[str, str], steps: Steps) -> None:
        self.url, self.headers = url, headers
        self._steps = iter(steps)

    async def read(self, idle: float) -> bytes:
        with anyio.move_on_after(idle):
            for step in self._steps:
                if isinstance(step, bytes):
                    return step
                await anyio.sleep(step)
            return b""
        raise timed_out("idle", idle)

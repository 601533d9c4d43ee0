"""Requests to providers in the debug log: address, size, duration.

The log contains neither content nor secrets: no text of a prompt, an answer or an error, no header,
and only the names of a query. While the log is off, an event costs nothing.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self

from eca_server.models.backend import BackendError, Request
from eca_server.models.events import Event, Finished, Progress, Usage
from eca_server.secret import mask_url

_log = logging.getLogger("eca_server.models")
_numbers = itertools.count(1)


class ExchangeLog:
    """A request and its answer, as a context manager around both.

    Args:
        model: as `provider/model`.
        size: bytes of the body.
        request: the model request; None for other requests (a listing).
    """

    def __init__(
        self, method: str, url: str, *, model: str, size: int, request: Request | None = None
    ) -> None:
        self._is_enabled = _log.isEnabledFor(logging.DEBUG)
        self._started_at = time.perf_counter()
        self._usage = Usage()
        self._ending = "ended"
        self._number = next(_numbers)
        if self._is_enabled:
            counts = request and f"{len(request.messages)} messages, {len(request.tools)} tools, "
            self._write(f"{method} {mask_url(url)} for {model}: {counts or ''}{size} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not self._is_enabled:
            return
        if isinstance(error, BackendError):
            self._ending = f"failed ({error.kind})"
        elif error is not None:
            self._ending = "stopped" if not isinstance(error, Exception) else "failed"
        self._write(f"{self._ending} after {self._elapsed()}{_counted(self._usage)}")

    def log_status(self, status: int) -> None:
        """Log the status of the answer."""
        if self._is_enabled:
            self._write(f"status {status} after {self._elapsed()}")

    def watch(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Return the same events; log the first one and the counts."""
        return self._logged(events) if self._is_enabled else events

    async def _logged(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        has_begun = False
        async with aclosing(events):
            async for event in events:
                if not has_begun and not isinstance(event, Progress):
                    has_begun = True
                    self._write(f"first event after {self._elapsed()}")
                match event:
                    case Usage():
                        self._usage = event
                    case Finished(reason=reason):
                        self._ending = f"finished ({reason})"
                yield event

    def _write(self, words: str) -> None:
        _log.debug("request %d: %s", self._number, words)

    def _elapsed(self) -> str:
        return f"{(time.perf_counter() - self._started_at) * 1000:.0f} ms"


def _counted(usage: Usage) -> str:
    counts = {
        "input": usage.input,
        "from cache": usage.cache_read,
        "to cache": usage.cache_write,
        "output": usage.output,
        "of it reasoning": usage.reasoning,
    }
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)
    return f"; tokens: {listed}" if listed else ""

"""One request to a provider, as `--log-level debug` shows it: where to, how large, how long.

The rule it keeps: neither what was said nor a secret is in it: no text of a prompt, of an answer or
of an error, no header, of a query only the names. Where nobody wants to know, it costs nothing for
each event.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import Self

from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import Event, Finished, Progress, Usage
from eca_server.secret import mask_url

__all__ = ["Exchange"]

_log = logging.getLogger("eca_server.llm")
_numbers = itertools.count(1)


class Exchange:
    """A request and its answer; `with` it, from just before it is sent until it is over.

    Args:
        method: the HTTP method.
        url: where it goes.
        model: who is asked, as `provider/model`.
        size: bytes of the body.
        request: what the model is asked; None where it is something else (a listing).
    """

    def __init__(
        self, method: str, url: str, *, model: str, size: int, request: Request | None = None
    ) -> None:
        self._wanted = _log.isEnabledFor(logging.DEBUG)
        self._began = time.perf_counter()
        self._usage = Usage()
        self._ending = "ended"
        self._number = next(_numbers)
        if self._wanted:
            held = request and f"{len(request.messages)} messages, {len(request.tools)} tools, "
            self._tell(f"{method} {mask_url(url)} for {model}: {held or ''}{size} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if not self._wanted:
            return
        if isinstance(error, BackendError):
            self._ending = f"failed ({error.kind})"
        elif error is not None:
            self._ending = "stopped" if not isinstance(error, Exception) else "failed"
        self._tell(f"{self._ending} after {self._elapsed()}{_counted(self._usage)}")

    def answered(self, status: int) -> None:
        """The answer begins."""
        if self._wanted:
            self._tell(f"status {status} after {self._elapsed()}")

    def watched(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """The same events; their first and their counts are noted."""
        return self._noted(events) if self._wanted else events

    async def _noted(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        seen = False
        async with aclosing(events):
            async for event in events:
                if not seen and not isinstance(event, Progress):
                    seen = True
                    self._tell(f"first event after {self._elapsed()}")
                match event:
                    case Usage():
                        self._usage = event
                    case Finished(reason=reason):
                        self._ending = f"finished ({reason})"
                yield event

    def _tell(self, words: str) -> None:
        _log.debug("request %d: %s", self._number, words)

    def _elapsed(self) -> str:
        return f"{(time.perf_counter() - self._began) * 1000:.0f} ms"


def _counted(usage: Usage) -> str:
    counts = {
        "input": usage.input,
        "from cache": usage.cache_read,
        "to cache": usage.cache_write,
        "output": usage.output,
        "of it reasoning": usage.reasoning,
    }
    told = ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)
    return f"; tokens: {told}" if told else ""

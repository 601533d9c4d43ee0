"""The timed reading of a streamed answer.

- Besides the HTTP client's deadlines, the time of bytes without progress is limited.
- A body is read to its end, or its connection is closed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

import trio

from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPResponse
from eca_server.models.answer_body import AnswerBody
from eca_server.models.backend import BackendError
from eca_server.models.errors import error_from_fault
from eca_server.models.events import Event, Progress, Started, Usage

TAIL = 20.0
"""Seconds of silence after content and a finish reason that also end an answer.

Only a server that sends no end mark and keeps the connection open needs it; pings count as silence.
A server with several choices, or with a reason in each piece, may pause before further calls.
"""
DRAIN = 0.5
"""Seconds for the end of the body after that mark; reading it saves the connection."""

_NO_CONTENT = (Started, Progress, Usage)
"""Events without content of the model."""


async def read_answer(
    response: HTTPResponse, body: AnswerBody, *, no_progress: float
) -> AsyncGenerator[Event, None]:
    """Yield the events of an answer, to its end mark or the end of its bytes.

    Raises:
        BackendError: the answer failed or is incomplete.
    """
    progress_at = trio.current_time()
    idle, has_begun = response.idle, False
    chunks = response.chunks()
    try:
        async for chunk in chunks:
            had_finished = body.decoder.finish_seen
            progressed = has_content = False
            for event in body.feed(chunk):
                progressed = progressed or not isinstance(event, Progress)
                has_content = has_content or not isinstance(event, _NO_CONTENT)
                yield event
            if body.decoder.done:
                break
            has_begun = has_begun or has_content
            is_over = body.decoder.finish_seen and has_begun
            is_ping = not progressed and chunk.lstrip().startswith(b":")
            if is_over and not is_ping:
                response.idle = idle if had_finished and has_content else min(idle, TAIL)
            now = trio.current_time()
            if progressed or (is_over and not had_finished):
                progress_at = now
            silence = now - progress_at
            if is_over and silence >= response.idle:
                break
            if not is_over and silence > no_progress:
                message = f"the answer made no progress for {no_progress:g} s"
                raise BackendError("timeout", message, retryable=True)
            if is_ping:
                yield Progress("ping")
    except HTTPError as fault:
        if not body.decoder.finish_seen:
            error = error_from_fault(fault)
            broke_off = fault.kind == "broken" or has_begun
            kind = "premature_stop" if broke_off else error.kind
            raise BackendError(kind, error.message, retryable=error.retryable) from fault
    for event in body.close():
        yield event
    await _drain(chunks)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    with trio.move_on_after(DRAIN):
        try:
            async for _ in chunks:
                pass
        except HTTPError:
            return  # the answer is complete; only the connection was lost

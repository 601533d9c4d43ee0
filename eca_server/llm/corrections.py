"""A call that its own provider cannot read: the model is told so, and asked once more.

The rule it keeps: nothing that was shown is asked for again; thoughts are no answer yet, they stay
as they are and the model thinks anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import (
    Event,
    Note,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    Usage,
)
from eca_server.llm.history import Message, TextPart
from eca_server.llm.http_backend import Amended, HTTPBackend

__all__ = ["CorrectingBackend"]

_AGAIN = "The model wrote a tool call that cannot be read; it was asked once more."
_CORRECTION = (
    "Your last answer could not be read: it held a malformed function call. Answer again. Call "
    "only the functions that are declared, each by its plain name and with JSON arguments."
)
_THOUGHTS = (ReasoningStarted, ReasoningDelta, ReasoningFinished)
_NOT_AN_ANSWER = (Started, Progress, Usage, *_THOUGHTS)


class CorrectingBackend(HTTPBackend):
    """A backend whose provider says so when it cannot read what its model wrote."""

    mistakes: ClassVar[frozenset[str]] = frozenset()
    """Codes of the errors that are the model's."""

    def amended(self, request: Request, error: BackendError) -> Amended | None:
        """As `HTTPBackend.amended`: with a word on the mistake."""
        if error.code not in self.mistakes:
            return None
        written = _written(error)
        words = f"{_CORRECTION}\n\nWhat you wrote:\n\n{written}" if written else _CORRECTION
        correction = Message(role="user", parts=(TextPart(words),))
        messages = [*request.messages, correction]
        return Amended(request=attrs.evolve(request, messages=messages), note=_AGAIN)

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        started = shown = False
        thoughts: dict[str, bool] = {}  # whether they are at their end
        try:
            async with aclosing(super()._events(request)) as events:
                async for event in events:
                    started = started or isinstance(event, Started)
                    shown = shown or not isinstance(event, _NOT_AN_ANSWER)
                    if isinstance(event, _THOUGHTS):
                        thoughts[event.key] = isinstance(event, ReasoningFinished)
                    yield event
        except BackendError as error:
            is_mistake = error.code in self.mistakes
            instead = self.amended(request, error) if is_mistake and not shown else None
            if instead is None:
                raise
        else:
            return
        for key, is_over in thoughts.items():
            if not is_over:
                yield ReasoningFinished(key=key)
        if instead.note is not None:
            yield Note(instead.note)
        async with aclosing(super()._events(instead.request)) as events:
            async for event in events:
                if isinstance(event, _THOUGHTS) and event.key in thoughts:
                    yield attrs.evolve(event, key=f"{event.key}_again")
                elif not (started and isinstance(event, Started)):
                    yield event


def _written(error: BackendError) -> str | None:
    """What the model wrote, where the provider quotes it."""
    try:
        payload: Any = json.loads(error.raw)
    except InvalidJSON:
        return None
    details = payload.get("error") if isinstance(payload, dict) else None
    written = details.get("failed_generation") if isinstance(details, dict) else None
    return written if isinstance(written, str) else None

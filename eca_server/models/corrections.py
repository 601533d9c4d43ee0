"""One more try after a tool call that its own provider cannot read.

An answer is never requested again once a part of it was shown. Reasoning does not count: it stays,
and the model reasons anew.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

import attrs
from typing_extensions import override

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.json_members import object_in, text_in
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import (
    Event,
    Note,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    Started,
    Usage,
)
from eca_server.models.history import Message, TextPart
from eca_server.models.http_backend import AmendedRequest, HTTPBackend

_NOTE = "The model wrote an unreadable tool call; it was asked to answer once more."
_CORRECTION = (
    "Your last answer contained a malformed function call and could not be read. Answer again. "
    "Call only declared functions, each by its exact name, with JSON arguments."
)
_THOUGHTS = (ReasoningStarted, ReasoningDelta, ReasoningFinished)
_NOT_AN_ANSWER = (Started, Progress, Usage, *_THOUGHTS)


class CorrectingBackend(HTTPBackend):
    """A backend whose provider reports an unreadable answer of its model."""

    model_error_codes: ClassVar[frozenset[str]] = frozenset()
    """The codes of errors that the model has caused."""

    @override
    def amend(self, request: Request, error: BackendError) -> AmendedRequest | None:
        """Append a correction for the model."""
        if error.code not in self.model_error_codes:
            return None
        written = _written(error)
        text = f"{_CORRECTION}\n\nYour output was:\n\n{written}" if written else _CORRECTION
        correction = Message(role="user", parts=(TextPart(text),))
        messages = [*request.messages, correction]
        return AmendedRequest(request=attrs.evolve(request, messages=messages), note=_NOTE)

    @override
    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        started = shown = False
        thoughts: dict[str, bool] = {}  # whether each has ended
        try:
            async with aclosing(super()._events(request)) as events:
                async for event in events:
                    started = started or isinstance(event, Started)
                    shown = shown or not isinstance(event, _NOT_AN_ANSWER)
                    if isinstance(event, _THOUGHTS):
                        thoughts[event.key] = isinstance(event, ReasoningFinished)
                    yield event
        except BackendError as error:
            is_mistake = error.code in self.model_error_codes
            replacement = self.amend(request, error) if is_mistake and not shown else None
            if replacement is None:
                raise
        else:
            return
        for key, is_over in thoughts.items():
            if not is_over:
                yield ReasoningFinished(key=key)
        if replacement.note is not None:
            yield Note(replacement.note)
        async with aclosing(super()._events(replacement.request)) as events:
            async for event in events:
                if isinstance(event, _THOUGHTS) and event.key in thoughts:
                    yield attrs.evolve(event, key=f"{event.key}_again")
                elif not (started and isinstance(event, Started)):
                    yield event


def _written(error: BackendError) -> str | None:
    """Return the model's output, if the provider quotes it."""
    try:
        payload: Any = json.loads(error.raw)
    except InvalidJSON:
        return None
    return text_in(object_in(payload, "error"), "failed_generation") or None

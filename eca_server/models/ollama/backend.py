"""The backend for Ollama's own API.

A model's capabilities are asked at its first use, never before. A model that is not in memory is
reported as loading. A missing capability is left out of all further requests, and the user is
notified once per chat.

Input is never truncated silently: by default Ollama drops the oldest messages, tools and
instructions included; each request tells it to refuse instead.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import attrs
import trio
from typing_extensions import override

from eca_server.models.backend import BackendError, ModelInfo, Request
from eca_server.models.calls import function_tool
from eca_server.models.encoding import HistoryEncoder
from eca_server.models.estimate import request_tokens
from eca_server.models.events import Event, Note, Progress, Usage
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.ollama.context import ContextSize
from eca_server.models.ollama.decoder import OllamaDecoder
from eca_server.models.ollama.messages import OllamaWriter
from eca_server.models.ollama.models import (
    ModelDetails,
    loaded_context,
    read_details,
    read_installed,
)
from eca_server.models.reasoning import EFFORTS

METADATA_SECONDS = 5.0
"""The deadline of optional requests, in seconds."""

IN_MEMORY_SECONDS = 240.0
"""Seconds after an answer in which the model stays in memory; Ollama's default is 300."""

_UNABLE = re.compile(r"does not support (.*)", re.DOTALL)
_NO_PICTURES = re.compile(r"image input is not supported|does not support (images|vision)")
_NO_TOOLS = "This model does not support tools; the chat continues without them."
_NO_THOUGHTS = "This model does not reason before it answers; the chat continues without reasoning."


class Ollama(HTTPBackend):
    """A model behind a server that speaks Ollama's own API.

    Args:
        settings: the arguments of `HTTPBackend`; `options` in the extra payload extend ours.
    """

    path = "/api/chat"
    framing = "lines"
    headers: Mapping[str, str] = {"accept": "application/x-ndjson"}
    droppable = ("think",)
    models_path = "/api/tags"

    def __init__(self, **settings: Any) -> None:
        extra = dict(settings.get("extra_payload") or {})
        options = extra.pop("options", None)
        self._options: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
        super().__init__(**{**settings, "extra_payload": extra})
        self._limit = self.capabilities.context
        self._details: ModelDetails | None = None
        self._context = self._sized(ModelDetails(), None)
        self._in_memory_until = 0.0
        self._thinks: bool | None = None
        self._efforts: tuple[str, ...] = ()
        self._shown_notes: set[tuple[str | None, str]] = set()
        self._encoder = self._new_histories()

    @override
    def write(self, request: Request) -> dict[str, Any]:
        instructions = [{"role": "system", "content": request.system}]
        defaults = {"num_ctx": self._context.size, "num_predict": request.max_output_tokens}
        options = {**defaults, **self._options}  # a null of the user's removes ours
        payload: dict[str, Any] = {
            "model": self.wire_model,
            "messages": self._encoder.written(
                request.messages, before=instructions if request.system.strip() else ()
            ),
            "stream": True,
            "truncate": False,
            "shift": False,
            "options": {k: v for k, v in options.items() if v is not None},
        }
        if self.capabilities.tools and request.tools:
            payload["tools"] = [function_tool(tool) for tool in request.tools]
        think = think_value(request.reasoning_effort, thinks=self._thinks, efforts=self._efforts)
        if think is not None:
            payload["think"] = think
        return payload

    @override
    def decoder(self, request: Request) -> OllamaDecoder:
        return OllamaDecoder(
            context=self._context.size,
            tags=self.think_tags,
            may_be_empty=request.ends_with_results,
        )

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        return list(read_installed(listed))

    @override
    def leave_out(self, request: Request, error: BackendError, payload: Mapping[str, Any]) -> bool:
        """Also adapt to a missing capability, and enlarge a context that is too small."""
        message = error.message
        unable = _UNABLE.search(message)
        if unable and "tools" in unable[1] and "tools" in payload:
            self._adapt(tools=False)
        elif unable and "thinking" in unable[1] and "think" in payload:
            self._thinks = False
        elif self.capabilities.images and _NO_PICTURES.search(message):
            self._adapt(images=False)
        elif error.status == 400 and "think" in message and isinstance(payload.get("think"), str):
            self._efforts = ()
        elif error.kind == "context_overflow" and self._context.grow():
            pass
        else:
            return super().leave_out(request, error, payload)
        return True

    async def options(self) -> Mapping[str, Any]:
        """Return the options of all requests: with other options the model would be loaded anew."""
        if self._details is None:
            await self._inspect()
        options = {"num_ctx": self._context.size, **self._options}
        return {name: value for name, value in options.items() if value is not None}

    @override
    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        in_memory = await self._inspect()
        tokens, size = request_tokens(request), self._context.size
        self._context.fit(tokens, request.max_output_tokens)
        if not in_memory or self._context.size != size:
            yield Progress("loading")
        is_notified = False
        async with aclosing(super()._events(request)) as events:
            async for event in events:
                if not is_notified:
                    is_notified = True
                    for note in self._new_notes(request):
                        yield Note(note)
                if isinstance(event, Usage) and event.input is not None:
                    self._context.record(tokens, event.input)
                yield event
        self._in_memory_until = trio.current_time() + IN_MEMORY_SECONDS

    async def _inspect(self) -> bool:
        """Learn about the model, at most once; return whether it is in memory."""
        if self._details is not None and trio.current_time() < self._in_memory_until:
            return True
        running = await self._query("/api/ps")
        loaded = loaded_context(running, self.wire_model)
        if self._details is None:
            shown = await self._query("/api/show", {"model": self.wire_model})
            if shown is not None:
                self._details = read_details(shown)
                self._learn(self._details, loaded)
            most = self._context.limit
            self._adapt(context=most, output=self.capabilities.output or most)
        return running is None or loaded is not None

    def _learn(self, shown: ModelDetails, loaded: int | None) -> None:
        self._context = self._sized(shown, loaded)
        self._thinks = shown.thinking
        self._efforts = shown.efforts
        listed = {"tools": shown.tools, "images": shown.images, "reasoning": shown.thinking}
        self._adapt(**{name: value for name, value in listed.items() if value is not None})

    def _sized(self, shown: ModelDetails, loaded: int | None) -> ContextSize:
        if isinstance(chosen := self._options.get("num_ctx"), int):
            shown = attrs.evolve(shown, chosen=chosen)
        return ContextSize(shown, limit=self._limit, loaded=loaded)

    async def _query(self, path: str, payload: Mapping[str, Any] | None = None) -> Any:
        """Ask the server about its models; None: no answer, or none in time."""
        with trio.move_on_after(METADATA_SECONDS):
            try:
                return await (self.get(path) if payload is None else self.post(path, payload))
            except BackendError as error:
                if error.kind == "network":
                    raise
        return None

    def _adapt(self, **abilities: Any) -> None:
        before, self.capabilities = self.capabilities, attrs.evolve(self.capabilities, **abilities)
        if before != self.capabilities:
            self._encoder = self._new_histories()

    def _new_histories(self) -> HistoryEncoder:
        known = self.capabilities
        return HistoryEncoder(OllamaWriter(tools=known.tools, images=known.images), self.origin)

    def _new_notes(self, request: Request) -> Iterator[str]:
        """Yield the notes that the chat's user has not seen yet."""
        effort = request.reasoning_effort
        unable = {
            _NO_TOOLS: bool(request.tools) and not self.capabilities.tools,
            _NO_THOUGHTS: effort not in (None, "none") and self._thinks is False,
        }
        for note, is_so in unable.items():
            if is_so and (request.cache_key, note) not in self._shown_notes:
                self._shown_notes.add((request.cache_key, note))
                yield note


def think_value(
    effort: str | None, *, thinks: bool | None, efforts: Sequence[str]
) -> bool | str | None:
    """Return the value of `think` for a reasoning effort; None: the field is omitted.

    Args:
        effort: the requested effort.
        thinks: whether the model reasons; None: unknown.
        efforts: its efforts, from lowest to highest; empty: reasoning is on or off.
    """
    if effort is None or thinks is False:
        return None
    if not efforts:
        return effort != "none"
    if effort in efforts or effort not in ("none", *EFFORTS):
        return effort
    requested = EFFORTS.index(effort) if effort in EFFORTS else -1
    below = [each for each in efforts if EFFORTS.index(each) <= requested]
    return below[-1] if below else efforts[0]

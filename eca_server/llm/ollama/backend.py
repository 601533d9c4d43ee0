"""The backend for Ollama's own API.

The rules it keeps, beside those of all backends: what a model can do is asked when it is first
used, never before; a model that is not in memory is said to be loading; what it turns out not to
be able to do is left out from then on, and the user is told once a chat.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

import attrs
import trio

from eca_server.llm.backend import BackendError, ModelInfo, Request
from eca_server.llm.estimate import tokens_asked
from eca_server.llm.events import Event, Note, Progress, Usage
from eca_server.llm.http_backend import HTTPBackend
from eca_server.llm.ollama.context import ContextSize
from eca_server.llm.ollama.decoder import OllamaDecoder
from eca_server.llm.ollama.messages import OllamaWriter
from eca_server.llm.ollama.models import Shown, loaded_context, read_installed, read_shown
from eca_server.llm.ollama.request import think_value, write_request
from eca_server.llm.written import Histories

__all__ = ["Ollama"]

PATIENCE = 5.0
"""Seconds for what is good to know and not needed."""

AWAKE = 240.0
"""Seconds after an answer in which the model is still in memory; Ollama keeps it for 300."""

_UNABLE = re.compile(r"does not support (.*)", re.DOTALL)
_NO_PICTURES = re.compile(r"image input is not supported|does not support (images|vision)")
_NO_TOOLS = "This model calls no tools; it goes on without."
_NO_THOUGHTS = "This model does not think before it answers; it goes on without."


class Ollama(HTTPBackend):
    """A model behind a server that speaks Ollama's own API.

    Args:
        settings: as for every `HTTPBackend`; but `options` in the extra payload are added to ours.
    """

    path = "/api/chat"
    framing = "lines"
    headers: ClassVar[Mapping[str, str]] = {"accept": "application/x-ndjson"}
    droppable = ("think",)
    models_path = "/api/tags"

    def __init__(self, **settings: Any) -> None:
        extra = dict(settings.get("extra_payload") or {})
        options = extra.pop("options", None)
        self._options: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
        super().__init__(**{**settings, "extra_payload": extra})
        self._limit = self.capabilities.context
        self._shown: Shown | None = None
        self._context = self._sized(Shown(), None)
        self._awake_until = 0.0
        self._thinks: bool | None = None
        self._efforts: tuple[str, ...] = ()
        self._told: set[tuple[str | None, str]] = set()
        self._histories = self._new_histories()

    def write(self, request: Request) -> dict[str, Any]:
        """As `HTTPBackend.write`."""
        instructions = {"role": "system", "content": request.system}
        if not self.capabilities.tools:
            request = attrs.evolve(request, tools=())
        return write_request(
            request,
            messages=self._histories.written(
                request.messages, before=[instructions] if request.system.strip() else []
            ),
            wire_model=self.wire_model,
            think=think_value(request.reasoning_effort, thinks=self._thinks, efforts=self._efforts),
            context=self._context.size,
            options=self._options,
        )

    def decoder(self, request: Request, headers: Mapping[str, str]) -> OllamaDecoder:
        """As `HTTPBackend.decoder`."""
        last = request.messages[-1] if request.messages else None
        return OllamaDecoder(
            context=self._context.size,
            tags=self.think_tags,
            may_be_empty=last is not None and last.role == "tool",
        )

    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        """As `HTTPBackend.read_models`."""
        return list(read_installed(listed))

    def leave_out(self, request: Request, error: BackendError, payload: Mapping[str, Any]) -> bool:
        """As `HTTPBackend.leave_out`; a context that is too small is made larger."""
        words = error.message
        unable = _UNABLE.search(words)
        if unable and "tools" in unable[1] and "tools" in payload:
            self._adapt(tools=False)
        elif unable and "thinking" in unable[1] and "think" in payload:
            self._thinks = False
        elif self.capabilities.images and _NO_PICTURES.search(words):
            self._adapt(images=False)
        elif error.status == 400 and "think" in words and isinstance(payload.get("think"), str):
            self._efforts = ()
        elif error.kind == "context_overflow" and self._context.grow():
            pass
        else:
            return super().leave_out(request, error, payload)
        return True

    async def options(self) -> Mapping[str, Any]:
        """Those of all requests: with others the model would be loaded anew."""
        if self._shown is None:
            await self._look()
        options = {"num_ctx": self._context.size, **self._options}
        return {name: value for name, value in options.items() if value is not None}

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        in_memory = await self._look()
        tokens, size = tokens_asked(request), self._context.size
        self._context.fit(tokens, request.max_output_tokens)
        if not in_memory or self._context.size != size:
            yield Progress("loading")
        told = False
        async with aclosing(super()._events(request)) as events:
            async for event in events:
                if not told:
                    told = True
                    for words in self._new_words(request):
                        yield Note(words)
                if isinstance(event, Usage) and event.input is not None:
                    self._context.told(tokens, event.input)
                yield event
        self._awake_until = trio.current_time() + AWAKE

    async def _look(self) -> bool:
        """Finds out what there is to know of the model; whether it is in memory."""
        if self._shown is not None and trio.current_time() < self._awake_until:
            return True
        running = await self._ask("/api/ps")
        loaded = loaded_context(running, self.wire_model)
        if self._shown is None:
            shown = await self._ask("/api/show", {"model": self.wire_model})
            if shown is not None:
                self._shown = read_shown(shown)
                self._learn(self._shown, loaded)
            most = self._context.limit
            self._adapt(context=most, output=self.capabilities.output or most)
        return running is None or loaded is not None

    def _learn(self, shown: Shown, loaded: int | None) -> None:
        self._context = self._sized(shown, loaded)
        self._thinks = shown.thinking
        self._efforts = shown.efforts
        known = {"tools": shown.tools, "images": shown.images, "reasoning": shown.thinking}
        self._adapt(**{name: value for name, value in known.items() if value is not None})

    def _sized(self, shown: Shown, loaded: int | None) -> ContextSize:
        if isinstance(chosen := self._options.get("num_ctx"), int):
            shown = attrs.evolve(shown, chosen=chosen)
        return ContextSize(shown, limit=self._limit, loaded=loaded)

    async def _ask(self, path: str, payload: Mapping[str, Any] | None = None) -> Any:
        """What the server says of its models; None: it does not (in time)."""
        with trio.move_on_after(PATIENCE):
            try:
                return await (self.get(path) if payload is None else self.post(path, payload))
            except BackendError as error:
                if error.kind == "network":
                    raise
        return None

    def _adapt(self, **abilities: Any) -> None:
        before, self.capabilities = self.capabilities, attrs.evolve(self.capabilities, **abilities)
        if before != self.capabilities:
            self._histories = self._new_histories()

    def _new_histories(self) -> Histories:
        can = self.capabilities
        return Histories(OllamaWriter(self.origin, tools=can.tools, images=can.images))

    def _new_words(self, request: Request) -> Iterator[str]:
        """What the user of a chat is told once."""
        effort = request.reasoning_effort
        unable = {
            _NO_TOOLS: bool(request.tools) and not self.capabilities.tools,
            _NO_THOUGHTS: effort not in (None, "none") and self._thinks is False,
        }
        for words, is_so in unable.items():
            if is_so and (request.cache_key, words) not in self._told:
                self._told.add((request.cache_key, words))
                yield words

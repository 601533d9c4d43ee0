"""Text for the gap between two others, by the endpoints that models trained for it have.

The rule it keeps: only what is certain stands here: a provider's own endpoint for the models that
its documentation names, and models that are known by name to be trained for it. Who has none, or
refuses, is asked through its chat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from eca_server.llm.backend import Backend, BackendError
from eca_server.llm.http_backend import HTTPBackend
from eca_server.llm.known_providers import KNOWN_PROVIDERS
from eca_server.llm.ollama import Ollama

__all__ = ["FillIn", "fill_in_of", "is_unable"]

_CODERS: Final = re.compile(
    r"codestral|code-?gemma|code-?llama|deepseek-coder|granite.*code|qwen[\d.]*-?coder|"
    r"stable-?code|starcoder"
)
_WITHOUT: Final = {"llama-cpp", "mistral"}
"""Who has `/completions` without a suffix, or has none."""
_UNABLE: Final = {400, 401, 403, 404, 405, 422, 501}
"""What an endpoint answers that does not exist, takes no suffix, or wants a key of its own."""


@attrs.frozen(kw_only=True)
class _Way:
    """How one kind of endpoint is asked, and where its answer stands."""

    path: str
    payload: Callable[[str, str, int], Mapping[str, Any]]
    text: Callable[[Any], Any]


def _completion(before: str, after: str, most_tokens: int) -> Mapping[str, Any]:
    return {"prompt": before, "suffix": after, "max_tokens": most_tokens, "temperature": 0}


def _generation(before: str, after: str, most_tokens: int) -> Mapping[str, Any]:
    options = {"num_predict": most_tokens, "temperature": 0}
    suffix = after or "\n"  # without one the text before would be a message to chat about
    return {"prompt": before, "suffix": suffix, "stream": False, "options": options}


_COMPLETIONS: Final = _Way(
    path="/completions",
    payload=_completion,
    text=lambda answer: answer["choices"][0]["text"],
)
_MISTRAL: Final = _Way(
    path="/fim/completions",
    payload=_completion,
    text=lambda answer: answer["choices"][0]["message"]["content"],
)
_OLLAMA: Final = _Way(
    path="/api/generate", payload=_generation, text=lambda answer: answer["response"]
)


@attrs.frozen(kw_only=True)
class FillIn:
    """A model that fills gaps."""

    backend: HTTPBackend
    way: _Way

    async def text(self, before: str, after: str, *, most_tokens: int) -> str:
        """What stands between two texts.

        Raises:
            BackendError: there is no answer; `is_unable` tells whether there will ever be one.
        """
        asked = self.way.payload(before, after, most_tokens)
        if isinstance(self.backend, Ollama):
            asked = {**asked, "options": {**await self.backend.options(), **asked["options"]}}
        answer = await self.backend.post(self.way.path, {"model": self.backend.wire_model, **asked})
        try:
            text = self.way.text(answer)
        except (IndexError, KeyError, TypeError):
            text = None
        if not isinstance(text, str):
            raise BackendError("protocol", "the answer holds no text for the gap")
        return text


def fill_in_of(backend: Backend) -> FillIn | None:
    """The way a model fills gaps, if it is known to have one."""
    if not isinstance(backend, HTTPBackend):
        return None
    way = _way(backend.origin.api, backend.server, backend.wire_model.lower())
    return None if way is None else FillIn(backend=backend, way=way)


def is_unable(error: BackendError) -> bool:
    """Whether an error means that the model fills no gaps for us: its chat may answer still."""
    return error.status in _UNABLE or error.kind == "protocol"


def _way(api: str, server: str, model: str) -> _Way | None:
    if api == "ollama":
        return _OLLAMA
    is_mistrals = server == "mistral" or server not in KNOWN_PROVIDERS  # Codestral has its own host
    if is_mistrals and "codestral" in model:
        return _MISTRAL
    if server == "deepseek":
        return attrs.evolve(_COMPLETIONS, path="/beta/completions")
    if api == "openai-chat" and server not in _WITHOUT and _CODERS.search(model):
        return _COMPLETIONS
    return None

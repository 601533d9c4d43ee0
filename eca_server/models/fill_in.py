"""Completion of a gap between two texts, by endpoints for fill-in-the-middle models.

Only documented combinations are listed: a provider's own endpoint with its models, and models that
are known by name to be trained for it. For other models the caller uses the chat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from eca_server.models.backend import Backend, BackendError
from eca_server.models.http_backend import HTTPBackend
from eca_server.models.known_providers import KNOWN_PROVIDERS
from eca_server.models.ollama.backend import Ollama

_CODERS: Final = re.compile(
    r"codestral|code-?gemma|code-?llama|deepseek-coder|granite.*code|qwen[\d.]*-?coder|"
    r"stable-?code|starcoder"
)
_WITHOUT: Final = {"llama-cpp", "mistral"}
"""Servers whose `/completions` takes no suffix, or does not exist."""
_UNSUPPORTED: Final = {400, 401, 403, 404, 405, 422, 501}
"""Statuses of an endpoint that does not exist, takes no suffix, or needs a key of its own."""


@attrs.frozen(kw_only=True)
class _Route:
    """The request and the answer of one kind of endpoint."""

    path: str
    payload: Callable[[str, str, int], Mapping[str, Any]]
    text: Callable[[Any], Any]


def _completion(before: str, after: str, most_tokens: int) -> Mapping[str, Any]:
    return {"prompt": before, "suffix": after, "max_tokens": most_tokens, "temperature": 0}


def _generation(before: str, after: str, most_tokens: int) -> Mapping[str, Any]:
    options = {"num_predict": most_tokens, "temperature": 0}
    suffix = after or "\n"  # without a suffix, the server takes the prompt as a chat message
    return {"prompt": before, "suffix": suffix, "stream": False, "options": options}


def _completed(answer: Any) -> Any:
    """Return the text of a completion; None from llama.cpp, which ignores the suffix."""
    return None if "timings" in answer else answer["choices"][0]["text"]


_COMPLETIONS: Final = _Route(path="/completions", payload=_completion, text=_completed)
_MISTRAL: Final = _Route(
    path="/fim/completions",
    payload=_completion,
    text=lambda answer: answer["choices"][0]["message"]["content"],
)
_OLLAMA: Final = _Route(
    path="/api/generate", payload=_generation, text=lambda answer: answer["response"]
)


async def fill_in(backend: Backend, before: str, after: str, *, most_tokens: int) -> str | None:
    """Return the text between two texts; None: the model is not known to fill gaps.

    Raises:
        BackendError: there is no answer; `is_unsupported` says whether a retry can have one.
    """
    if not isinstance(backend, HTTPBackend):
        return None
    route = _route(backend.origin.api, backend.server, backend.wire_model.lower())
    if route is None:
        return None
    payload = route.payload(before, after, most_tokens)
    if isinstance(backend, Ollama):
        payload = {**payload, "options": {**await backend.options(), **payload["options"]}}
    answer = await backend.post(route.path, {"model": backend.wire_model, **payload})
    try:
        text = route.text(answer)
    except (IndexError, KeyError, TypeError):
        text = None
    if not isinstance(text, str):
        raise BackendError("protocol", "the answer contains no text for the gap")
    return text


def is_unsupported(error: BackendError) -> bool:
    """Return whether an error means that the endpoint cannot fill gaps; the chat may still work."""
    return error.status in _UNSUPPORTED or error.kind == "protocol"


def _route(api: str, server: str, model: str) -> _Route | None:
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

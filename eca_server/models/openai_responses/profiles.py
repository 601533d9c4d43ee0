"""The options of servers that speak Responses: data.

A field is sent only to servers that are known to accept it. A field that a server still refuses by
name is left out of further requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs


@attrs.frozen(kw_only=True)
class Profile:
    """The options of one server.

    Attributes:
        encrypted_reasoning: whether it returns reasoning in a form that can be sent back.
        summary: the requested summary of the reasoning; None: the field is unknown.
        cache_key: whether it accepts `prompt_cache_key`.
        images_in_results: whether the output of a call may be a list, which can contain images.
        typed_messages: whether earlier answers must be items of a type, with a list as content.
        extra: fields of every request.
        headers: headers of every request, by names in lower case.
    """

    encrypted_reasoning: bool = False
    summary: str | None = None
    cache_key: bool = False
    images_in_results: bool = False
    typed_messages: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


_AS_OPENAI = Profile(
    encrypted_reasoning=True,
    summary="auto",
    cache_key=True,
    images_in_results=True,
    extra={"truncation": "disabled"},
)

PROFILES: Mapping[str, Profile] = {
    "openai": attrs.evolve(
        _AS_OPENAI,
        extra={"truncation": "disabled", "stream_options": {"include_obfuscation": False}},
    ),
    "azure": _AS_OPENAI,
    "openrouter": attrs.evolve(_AS_OPENAI, headers={"x-title": "ECA for Python"}),
    "xai": Profile(encrypted_reasoning=True, cache_key=True),
    "llama-cpp": Profile(typed_messages=True),
}
"""By the name of the provider; all others (Groq, LM Studio, vLLM, ...) get `Profile()`."""

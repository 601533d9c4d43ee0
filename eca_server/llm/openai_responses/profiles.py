"""How servers that speak Responses differ in what they take: data, nothing else.

What a server is not known to take is not sent to it; what it refuses all the same, by its name, is
dropped and remembered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["PROFILES", "Profile"]


@attrs.frozen(kw_only=True)
class Profile:
    """What one server takes.

    Attributes:
        encrypted_reasoning: whether its reasoning can be asked for in a form to be sent back.
        summary: which summary of the reasoning is asked for; None: the field is not known.
        cache_key: whether it takes `prompt_cache_key`.
        pictures_in_results: whether the output of a call may be a list, so that it can hold
            pictures.
        extra: fields of every request.
        headers: headers of every request.
    """

    encrypted_reasoning: bool = False
    summary: str | None = None
    cache_key: bool = False
    pictures_in_results: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


_AS_OPENAI = Profile(
    encrypted_reasoning=True,
    summary="auto",
    cache_key=True,
    pictures_in_results=True,
    extra={"truncation": "disabled"},
)

PROFILES: Mapping[str, Profile] = {
    "openai": attrs.evolve(
        _AS_OPENAI,
        extra={"truncation": "disabled", "stream_options": {"include_obfuscation": False}},
    ),
    "azure": _AS_OPENAI,
    "openrouter": attrs.evolve(_AS_OPENAI, headers={"X-Title": "ECA for Python"}),
    "xai": Profile(encrypted_reasoning=True, cache_key=True),
}
"""By the name of the provider; everybody else (Groq, LM Studio, vLLM, ...) gets `Profile()`."""

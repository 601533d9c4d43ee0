"""How servers that speak Chat Completions differ in what they take: data, nothing else.

The reader takes every dialect from everybody; only the writer needs to know whom it writes to.
What a server is not known to take is not sent to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

__all__ = ["PROFILES", "Profile"]


@attrs.frozen(kw_only=True)
class Profile:
    """What one server takes.

    Attributes:
        max_tokens_field: the name of the output limit.
        system_role: the role of the instructions.
        stream_options: what is sent as `stream_options`; None: the field is refused.
        reasoning_back: whether reasoning is sent back in the field that it came in.
        effort: how the reasoning effort is asked for: its own field, OpenRouter's object, not.
        think_tags: where inline reasoning may begin, as `ChatDecoder` takes it.
        tool_choice_required: whether `tool_choice: required` is taken.
        short_call_ids: ids of calls must be nine letters and digits.
        files: whether documents (PDF) can be given to it.
        null_content: whether a message that only calls tools has null as its text, not "".
        extra: fields of every request.
        headers: headers of every request.
    """

    max_tokens_field: str = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    stream_options: Mapping[str, Any] | None = attrs.field(factory=lambda: {"include_usage": True})
    reasoning_back: bool = False
    effort: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    think_tags: Literal["auto", "open", "off"] = "auto"
    tool_choice_required: bool = True
    short_call_ids: bool = False
    files: bool = False
    null_content: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


_LOCAL = Profile(short_call_ids=True)
"""Templates of Mistral's models are strict about ids wherever they run; no other template is."""

PROFILES: Mapping[str, Profile] = {
    "openai": Profile(
        max_tokens_field="max_completion_tokens",
        stream_options={"include_usage": True, "include_obfuscation": False},
        think_tags="off",
        files=True,
        null_content=True,
    ),
    "openrouter": Profile(
        reasoning_back=True,
        effort="reasoning",
        files=True,
        headers={"X-Title": "ECA for Python"},
    ),
    "deepseek": Profile(reasoning_back=True, tool_choice_required=False),
    "z-ai": Profile(
        stream_options=None,
        reasoning_back=True,
        effort="none",
        tool_choice_required=False,
        extra={"tool_stream": True},
    ),
    "moonshot": Profile(reasoning_back=True, tool_choice_required=False),
    "mistral": Profile(stream_options=None, reasoning_back=True, short_call_ids=True),
    "github-copilot": Profile(reasoning_back=True, think_tags="off"),
    "groq": Profile(max_tokens_field="max_completion_tokens"),
    "azure": Profile(max_tokens_field="max_completion_tokens", think_tags="off", null_content=True),
    "lmstudio": _LOCAL,
    "llama-cpp": _LOCAL,
    "vllm": _LOCAL,
}
"""By the name of the known provider; everybody else (LiteLLM, xAI, ...) gets `Profile()`."""

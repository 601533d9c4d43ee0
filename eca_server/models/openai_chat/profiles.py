"""The options of servers that speak Chat Completions: data.

The decoder accepts every dialect from every server; only requests depend on the server. A field is
sent only to servers that are known to accept it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs


@attrs.frozen(kw_only=True)
class Profile:
    """The options of one server.

    Attributes:
        max_tokens_field: the name of the output limit.
        stream_options: the value of `stream_options`; None: the field is refused.
        reasoning_back: whether reasoning is sent back in the field that it came in.
        reasoning_required: whether each answer must have a `reasoning_content`.
        effort: the form of the reasoning effort: its own field, OpenRouter's object, or none.
        think_tags: the place of inline reasoning, as for `ChatDecoder`.
        short_call_ids: ids of calls must have nine letters and digits.
        files: whether documents (PDF) are accepted.
        null_content: whether a message with calls only has null as its text, not "".
        extra: fields of every request.
    """

    max_tokens_field: str = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    stream_options: Mapping[str, Any] | None = attrs.field(factory=lambda: {"include_usage": True})
    reasoning_back: bool = False
    reasoning_required: bool = False
    effort: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    think_tags: Literal["auto", "open", "off"] = "auto"
    tool_choice_required: bool = True
    short_call_ids: bool = False
    files: bool = False
    null_content: bool = False
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


_LOCAL = Profile(short_call_ids=True)
"""Templates of Mistral's models require short ids on any server; no other template does."""

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
"""By the name of the known provider; all others (LiteLLM, xAI, ...) get `Profile()`."""

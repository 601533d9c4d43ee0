"""The options of servers that speak Chat Completions: data.

The decoder accepts every dialect from every server; only requests depend on the server. A field is
sent only to servers that are known to accept it, or that demand it in a refusal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs

from eca_server.models.backend import BackendError
from eca_server.models.reasoning import demands_reasoning


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
        answered_results: between the results of calls and a user message there must be an answer.
        files: whether documents (PDF) are accepted.
        null_content: whether a message with calls only has null as its text, not "", of which
            gateways to Claude make a text; some servers of local models refuse null.
        extra: fields of every request.
        headers: headers of every request, by names in lower case.
    """

    max_tokens_field: str = "max_tokens"
    stream_options: Mapping[str, Any] | None = attrs.field(factory=lambda: {"include_usage": True})
    reasoning_back: bool = False
    reasoning_required: bool = False
    effort: Literal["reasoning_effort", "reasoning", "none"] = "reasoning_effort"
    think_tags: Literal["auto", "open", "off"] = "auto"
    short_call_ids: bool = False
    answered_results: bool = False
    files: bool = False
    null_content: bool = True
    extra: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)


_LOCAL = Profile(reasoning_back=True, short_call_ids=True, null_content=False)
"""The options of servers that write the prompt by the model's own template.

Templates of Mistral's models require short ids; no other template does. Models that think between
calls (gpt-oss, Qwen 3, MiniMax) need their reasoning back; templates of others leave it out.
"""

PROFILES: Mapping[str, Profile] = {
    "openai": Profile(
        max_tokens_field="max_completion_tokens",
        stream_options={"include_usage": True, "include_obfuscation": False},
        think_tags="off",
        files=True,
    ),
    "openrouter": Profile(
        reasoning_back=True,
        effort="reasoning",
        files=True,
        headers={"x-title": "ECA for Python"},
    ),
    "deepseek": Profile(reasoning_back=True),
    "z-ai": Profile(
        stream_options=None, reasoning_back=True, effort="none", extra={"tool_stream": True}
    ),
    "moonshot": Profile(reasoning_back=True),
    "mistral": Profile(
        stream_options=None, reasoning_back=True, short_call_ids=True, answered_results=True
    ),
    "github-copilot": Profile(reasoning_back=True, think_tags="off", null_content=False),
    "groq": Profile(max_tokens_field="max_completion_tokens"),
    "azure": Profile(max_tokens_field="max_completion_tokens", think_tags="off"),
    "lmstudio": _LOCAL,
    "llama-cpp": _LOCAL,
    "vllm": _LOCAL,
}
"""By the name of the known provider; all others (LiteLLM, xAI, ...) get `Profile()`."""

_SHORT_IDS = re.compile(r"tool call ids?\b.{0,120}\blength (of )?9\b", re.IGNORECASE | re.DOTALL)
_ANSWERED_RESULTS = re.compile(
    r"unexpected role .{0,2}user.{0,2} after role .{0,2}tool|roles must alternate", re.IGNORECASE
)
_TEXT_CONTENT = re.compile(
    r"content\b.{0,60}\b((must|should) be (a )?(valid )?string|null|none)\b",
    re.IGNORECASE | re.DOTALL,
)


def profile_after(error: BackendError, profile: Profile) -> Profile | None:
    """Return the options that a refusal demands; None: it demands nothing new."""
    refusal = f"{error.message} {error.raw}"
    if _SHORT_IDS.search(refusal):
        demanded = attrs.evolve(profile, short_call_ids=True)
    elif _ANSWERED_RESULTS.search(refusal):
        demanded = attrs.evolve(profile, answered_results=True)
    elif _TEXT_CONTENT.search(refusal):
        demanded = attrs.evolve(profile, null_content=False)
    elif demands_reasoning(error):
        demanded = attrs.evolve(profile, reasoning_back=True, reasoning_required=True)
    else:
        return None
    return None if demanded == profile else demanded

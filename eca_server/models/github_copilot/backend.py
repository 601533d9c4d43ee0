"""The backend for GitHub Copilot: Chat Completions, and the list of models with their APIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from eca_server.json_members import count_in, flag_in, object_in
from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts
from eca_server.models.openai_chat.backend import OpenAIChat

_APIS: Final = (
    ("/chat/completions", None),
    ("/responses", "openai-responses"),
    ("/v1/messages", "anthropic"),
)
"""The endpoints of a model; the first supported one counts."""


class GitHubCopilot(OpenAIChat):
    """A model of Copilot that speaks Chat Completions; other models have backends of other APIs."""

    @override
    def read_models(self, listed: Any) -> Sequence[ModelInfo]:
        return read_models(listed)


def read_models(listed: Any) -> Sequence[ModelInfo]:
    """Return the chat models that the user has enabled.

    Raises:
        KeyError: a model has no name.
        TypeError: the value is no listing.
    """
    return [_model(model) for model in listed["data"] if _is_offered(model)]


def _is_offered(model: Mapping[str, Any]) -> bool:
    kind = object_in(model, "capabilities").get("type", "chat")
    state = object_in(model, "policy").get("state", "enabled")
    shown = model.get("model_picker_enabled") is not False
    return shown and kind == "chat" and state == "enabled" and _endpoint(model) is not None


def _model(model: Mapping[str, Any]) -> ModelInfo:
    listed = object_in(model, "capabilities")
    limits, supports = object_in(listed, "limits"), object_in(listed, "supports")
    output = count_in(limits, "max_output_tokens")
    prompt = count_in(limits, "max_prompt_tokens")
    # The prompt has its own limit, which is lower than the window without the answer.
    context = (
        count_in(limits, "max_context_window_tokens") if prompt is None else prompt + (output or 0)
    )
    efforts = supports.get("reasoning_effort")
    endpoint = _endpoint(model)
    return ModelInfo(
        name=str(model["id"]),
        facts=ModelFacts(
            tools=flag_in(supports, "tool_calls"),
            images=flag_in(supports, "vision"),
            reasoning=bool(efforts or supports.get("thinking")) or None,
            context=context,
            output=output,
            efforts=tuple(map(str, efforts)) if isinstance(efforts, list) else None,
        ),
        api=endpoint[1] if endpoint else None,
    )


def _endpoint(model: Mapping[str, Any]) -> tuple[str, str | None] | None:
    supported = model.get("supported_endpoints")
    if not isinstance(supported, list) or not supported:
        return _APIS[0]
    return next((each for each in _APIS if each[0] in supported), None)

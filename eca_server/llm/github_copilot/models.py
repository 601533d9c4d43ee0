"""Models as listed by Copilot: which are enabled, their limits, the API of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eca_server.llm.backend import ModelInfo
from eca_server.llm.facts import ModelFacts

__all__ = ["read_models"]

_APIS: Final = (
    ("/chat/completions", None),
    ("/responses", "openai-responses"),
    ("/v1/messages", "anthropic"),
)
"""The endpoints of a model; the first supported one counts."""


def read_models(listed: Any) -> Sequence[ModelInfo]:
    """Return the chat models that the user has enabled.

    Raises:
        KeyError: a model has no name.
        TypeError: the value is no listing.
    """
    return [_model(model) for model in listed["data"] if _is_offered(model)]


def _is_offered(model: Mapping[str, Any]) -> bool:
    kind = _object(model, "capabilities").get("type", "chat")
    state = _object(model, "policy").get("state", "enabled")
    shown = model.get("model_picker_enabled") is not False
    return shown and kind == "chat" and state == "enabled" and _endpoint(model) is not None


def _model(model: Mapping[str, Any]) -> ModelInfo:
    listed = _object(model, "capabilities")
    limits, supports = _object(listed, "limits"), _object(listed, "supports")
    output = _count(limits.get("max_output_tokens"))
    prompt = _count(limits.get("max_prompt_tokens"))
    # The prompt has its own limit, which is lower than the window without the answer.
    context = (
        _count(limits.get("max_context_window_tokens"))
        if prompt is None
        else prompt + (output or 0)
    )
    efforts = supports.get("reasoning_effort")
    endpoint = _endpoint(model)
    return ModelInfo(
        name=str(model["id"]),
        facts=ModelFacts(
            tools=_flag(supports.get("tool_calls")),
            images=_flag(supports.get("vision")),
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


def _object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    return value if isinstance(value, Mapping) else {}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count and isinstance(value, int) else None

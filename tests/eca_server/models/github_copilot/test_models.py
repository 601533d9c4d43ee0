"""Copilot's list of models, as we offer it."""

from __future__ import annotations

from typing import Any

import pytest

from eca_server.models.github_copilot.models import read_models


def model(**fields: Any) -> dict[str, Any]:
    capabilities = {
        "type": "chat",
        "limits": {
            "max_prompt_tokens": 90_000,
            "max_context_window_tokens": 128_000,
            "max_output_tokens": 16_000,
        },
        "supports": {"tool_calls": True, "vision": False, "reasoning_effort": ["low", "high"]},
    }
    return {"id": "m", "model_picker_enabled": True, "capabilities": capabilities, **fields}


def test_limits_and_abilities_are_read() -> None:
    [result] = read_models({"data": [model()]})
    facts = result.facts
    assert (result.name, result.api) == ("m", None)
    assert (facts.context, facts.output) == (106_000, 16_000)
    assert (facts.tools, facts.images, facts.reasoning) == (True, False, True)
    assert facts.efforts == ("low", "high")


@pytest.mark.parametrize(
    ("endpoints", "api"),
    [
        (["/responses", "/chat/completions"], None),
        (["/responses"], "openai-responses"),
        (["/v1/messages"], "anthropic"),
        (["/responses", "/v1/messages"], "openai-responses"),
        ([], None),
        (None, None),
    ],
)
def test_a_model_is_asked_by_an_api_that_it_has(endpoints, api) -> None:
    [result] = read_models({"data": [model(supported_endpoints=endpoints)]})
    assert result.api == api


@pytest.mark.parametrize(
    "fields",
    [
        {"model_picker_enabled": False},
        {"policy": {"state": "disabled"}},
        {"policy": {"state": "unconfigured"}},
        {"capabilities": {"type": "embeddings"}},
        {"supported_endpoints": ["/other"]},
    ],
)
def test_what_the_user_cannot_chat_with_is_not_offered(fields) -> None:
    assert read_models({"data": [model(**fields)]}) == []


def test_a_model_without_any_details_is_offered() -> None:
    [result] = read_models({"data": [{"id": "m", "policy": {"state": "enabled"}}]})
    assert (result.facts.context, result.facts.tools) == (None, None)

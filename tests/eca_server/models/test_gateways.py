"""Errors as gateways pass them on: captured from LiteLLM, Portkey and claude-code-router."""

import json

import pytest

from eca_protocol.testing.provider import Reply
from eca_server.models.backend import BackendError
from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.errors import error_from_response, error_in_payload, user_message
from tests.eca_server.models.reading import ask, talking

LITELLM_END = (
    "\n\nLiteLLM: model group 'oa' failed with the error above. No fallback was attempted."
)
QUOTA = "You exceeded your current quota, please check your plan and billing details."
FILTERED = "The response was filtered due to the prompt triggering content management policy."
BAD_KEY = {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}
NO_QUOTA = {"error": {"message": QUOTA, "type": "insufficient_quota", "code": "insufficient_quota"}}
ANTHROPIC = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down"}}
GOOGLE = {
    "error": {
        "code": 429,
        "message": f"{QUOTA} Please retry in 7.3s.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]}],
    }
}


def quoted(cause: object) -> str:
    return json.dumps(cause)


def traced(cause: object) -> str:
    text = f"Error from provider(up,up: 401): {json.dumps(cause)}"
    return f"{text}Error: {text}\n    at qn (dist/cli.js:582:7451)"


def litellm(message: str, kind: str = "throttling_error", code: str = "429") -> object:
    return {"error": {"message": message + LITELLM_END, "type": kind, "param": None, "code": code}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "shown"),
    [
        (
            429,
            litellm(f"litellm.RateLimitError: AnthropicException - b'{quoted(ANTHROPIC)}'"),
            "rate_limit",
            "litellm.RateLimitError: AnthropicException - Slow down",
        ),
        (
            429,
            litellm(f"litellm: OpenAIException - {quoted(NO_QUOTA)}", "rate_limit_error"),
            "quota",
            f"litellm: OpenAIException - {QUOTA}",
        ),
        (
            429,
            litellm(f"geminiException - {quoted(GOOGLE)}", "None"),
            "rate_limit",
            f"geminiException - {QUOTA} Please retry in 7.3s.",
        ),
        (
            429,
            {"error": {"message": f"google error: {QUOTA} Please retry in 7.3s."}},
            "rate_limit",
            f"google error: {QUOTA} Please retry in 7.3s.",
        ),
        (400, litellm(FILTERED, "invalid_request_error", "400"), "content_filter", FILTERED),
        (
            400,
            {"error": {"message": "<title>413 Request Entity Too Large</title>", "code": "400"}},
            "request_too_large",
            "413 Request Entity Too Large",
        ),
        (
            400,
            {
                "error": {
                    "message": "/responses: Invalid model name passed in model=x",
                    "code": "400",
                }
            },
            "model_not_found",
            "Invalid model name passed in model=x",
        ),
        (
            400,
            {"error": {"message": "No connected db.", "type": "no_db_connection", "code": "400"}},
            "auth",
            "the key was refused: No connected db",
        ),
        (
            401,
            {"error": {"message": "No access", "type": "key_model_access_denied", "code": "401"}},
            "permission",
            "the key may not do this: No access",
        ),
        (
            401,
            {"error": {"message": traced(BAD_KEY), "type": "api_error", "code": "provider_error"}},
            "auth",
            "Error from provider(up,up: 401): Incorrect API key",
        ),
        (
            400,
            {"error": {"message": "No such provider", "type": "api_error"}},
            "invalid_request",
            "No such provider",
        ),
        (
            404,
            {
                "error": {
                    "message": "No provider\n    at qn (dist/cli.js:582:7451)\n    at <anonymous>"
                }
            },
            "invalid_request",
            "No provider",
        ),
        (
            500,
            {"error": {"message": "Overloaded\nTraceback (most recent call last):\n  dist/cli.js"}},
            "overloaded",
            "Overloaded",
        ),
        (
            400,
            {"error": {"message": "Bad value: {'a': 1} and {broken", "type": "t"}},
            "invalid_request",
            "Bad value: {'a': 1} and {broken",
        ),
        (
            400,
            {"error": {"message": f"Bad value: {quoted({'role': 'user'})}"}},
            "invalid_request",
            'Bad value: {"role": "user"}',
        ),
    ],
)
def test_an_error_that_a_gateway_quotes_has_its_own_class_and_text(status, body, kind, shown):
    error = error_from_response(status, {}, json.dumps(body).encode())
    assert (error.kind, error.retryable) == (kind, kind in TRANSIENT)
    text = user_message(error, provider="p", model="m")
    assert shown.rstrip(".") in text
    assert "dist/cli.js" not in text


@pytest.mark.parametrize(
    "body",
    [
        '{"detail": "Not Found"}',
        '{"message": "Route POST:/v1/x not found", "error": "Not Found", "statusCode": 404}',
        '{"error": {"message": "Invalid URL (POST /v1/x)", "type": "invalid_request_error"}}',
        "<html><title>404 Not Found</title><h1>404 Not Found</h1></html>",
        "<html><title>Error</title><pre>Cannot POST /v1/x</pre></html>",
        '{"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}',
        "404 page not found",
        "404: Not Found",
        "Not Found",
    ],
)
async def test_a_path_that_a_server_does_not_have_is_an_error_of_the_url(body):
    missing = Reply(status=404, headers={"content-type": "text/html"}, body=body)
    async with talking("openai-chat", [missing]) as (provider, backend):
        with pytest.raises(BackendError) as caught:
            await ask(backend)
    assert (caught.value.kind, caught.value.retryable) == ("configuration", False)
    assert f"nothing is at {provider.url}/chat/completions: " in caught.value.message


def test_an_error_object_as_the_text_of_a_streamed_error_is_read():
    cause = {"message": "Overloaded upstream", "type": "overloaded_error", "code": None}
    event = {"type": "error", "message": {"type": "api_error", "message": json.dumps(cause)}}
    error = error_in_payload(event, failed=True)
    assert error is not None
    assert (error.kind, error.message) == ("overloaded", "Overloaded upstream")

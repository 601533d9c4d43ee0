"""Errors as providers send them, and as gateways pass them on: their class, text and wait.

Those of LiteLLM, Portkey and claude-code-router were captured.
"""

import json

import pytest

from eca_protocol.testing.provider import Reply
from eca_server.models.backend import BackendError
from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.errors import error_from_response, error_in_payload, user_message
from tests.eca_server.models.reading import ask, talking


def _openai(message, code=None, kind="invalid_request_error"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _anthropic(kind, message, **more):
    return {"type": "error", "error": {"type": kind, "message": message, **more}}


def _invalid(message, **more):
    return _anthropic("invalid_request_error", message, **more)


def _google(code, status, message, *details):
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


_OVER = "You exceeded your current quota, please check your plan and billing details."


def _google_invalid(message, *details):
    return _google(400, "INVALID_ARGUMENT", message, *details)


def _quota(*periods):
    ids = [f"GenerateRequestsPer{each}PerProjectPerModel-FreeTier" for each in periods]
    return {"violations": [{"quotaId": each} for each in ids]}


def _exhausted(period):
    return _google(429, "RESOURCE_EXHAUSTED", _OVER, _quota(period), {"retryDelay": "17s"})


def _litellm(message, kind="throttling_error", code="429"):
    end = "LiteLLM: model group 'oa' failed with the error above. No fallback was attempted."
    return _openai(f"{message}\n\n{end}", code, kind)


def _traced(cause):
    text = f"Error from provider(up,up: 401): {json.dumps(cause)}"
    return f"{text}Error: {text}\n    at qn (dist/cli.js:582:7451)"


_SLOW = json.dumps(_anthropic("rate_limit_error", "Slow down"))
_NO_QUOTA = json.dumps(_openai(_OVER, "insufficient_quota", "insufficient_quota"))
_SOON = f"{_OVER} Please retry in 7.3s."
_SPENT = json.dumps(_google(429, "RESOURCE_EXHAUSTED", _SOON, _quota("Minute")))
_BAD_KEY = _openai("Incorrect API key", "invalid_api_key")
_POLICY = "The response was filtered due to the prompt triggering content management policy."
_TOO_LARGE = "413 Request Entity Too Large"
_NO_PROVIDER = "No provider\n    at qn (dist/cli.js:582:7451)\n    at <anonymous>"
_CRASHED = "Overloaded\nTraceback (most recent call last):\n  dist/cli.js"
_PER_MINUTE = "on tokens per min (TPM): Limit 30000, Requested 40000."
_LONG = "This model's maximum context length is 8192 tokens. However, you requested about 9000"

_DETAIL = [{"loc": ["body", "stop"], "msg": "Extra inputs are not permitted"}]
_NESTED = {"detail": [{"loc": ["a", 1], "msg": "m"}]}
_INNER = json.dumps({"error": {"message": "inner"}})
FULL, NO_MODEL, UNABLE = "context_overflow", "model_not_found", "unsupported_feature"
FILTERED, NO_IMAGE, LARGE = "content_filter", "invalid_image", "request_too_large"
LIMITED, BUSY, INVALID = "rate_limit", "overloaded", "invalid_request"
ANSWERS = {
    "OpenAI": [
        (401, _openai("Incorrect API key provided: x.", "invalid_api_key"), "auth"),
        (429, _openai("You exceeded your current quota", "insufficient_quota"), "quota"),
        (429, _openai("m", "credit_balance_exhausted", "insufficient_quota"), "quota"),
        (429, _openai("m", kind="insufficient_quota"), "quota"),
        (429, {"error": {"type": "usage_limit_reached", "message": "m", "resets_at": 1}}, "quota"),
        (429, _openai(f"Rate limit reached {_PER_MINUTE}", "rate_limit_exceeded"), LIMITED),
        (429, _openai(f"Request too large {_PER_MINUTE}", "rate_limit_exceeded", "tokens"), FULL),
        (429, _openai("m", "slow_down", "slow_down"), BUSY),
        (503, _openai("m", "server_is_overloaded", "service_unavailable_error"), BUSY),
        (500, _openai("The server had an error", None, "server_error"), BUSY),
        (400, _openai(_LONG, "context_length_exceeded"), FULL),
        (404, _openai("The model `x` does not exist or you do not have access to it."), NO_MODEL),
        (400, _openai("Unsupported parameter: 'max_tokens'", "unsupported_parameter"), UNABLE),
        (400, _openai("m", "invalid_image_format"), NO_IMAGE),
        (400, _openai("m", "invalid_image"), NO_IMAGE),
        (400, _openai("m", "invalid_prompt"), FILTERED),
    ],
    "Azure": [
        (401, {"error": {"code": "401", "message": "Access denied"}}, "auth"),
        (404, {"error": {"code": "DeploymentNotFound", "message": "m"}}, NO_MODEL),
        (400, {"error": {"code": "content_filter", "message": "m", "param": "prompt"}}, FILTERED),
    ],
    "GitHub Models": [
        (
            413,
            {"error": {"code": "tokens_limit_reached", "message": "Max size: 8000 tokens"}},
            FULL,
        ),
        (
            400,
            {"error": {"code": "unavailable_model", "message": "Unavailable model: x"}},
            NO_MODEL,
        ),
    ],
    "Cloudflare": [
        (400, {"errors": [{"message": "m", "code": 5007}], "success": False}, INVALID, "m (s"),
        (429, {"errors": [{"message": "m", "code": 3036}], "result": None}, LIMITED, "m (s"),
        (413, {"errors": [{"message": "tokens exceeded this model context window limit"}]}, FULL),
    ],
    "MiniMax": [
        (500, _anthropic("api_error", "insufficient balance (1008)"), "quota"),
        (429, _openai("insufficient balance (1008)", kind="insufficient_balance_error"), "quota"),
    ],
    "MiMo": [
        (400, {"error": {"code": "400", "message": "m", "param": "The prompt is too long"}}, FULL)
    ],
    "Moonshot": [
        (429, _openai("check your plan", kind="exceeded_current_quota_error"), "quota"),
        (429, _openai("try again later", kind="engine_overloaded_error"), BUSY),
    ],
    "Anthropic": [
        (401, _anthropic("authentication_error", "invalid x-api-key"), "auth"),
        (403, _anthropic("permission_error", "m"), "permission"),
        (402, _anthropic("billing_error", "m"), "quota"),
        (400, _invalid("Your credit balance is too low"), "quota"),
        (400, _invalid("m", details={"error_code": "enforced_spend_limit_reached"}), "quota"),
        (429, _anthropic("rate_limit_error", "50,000 input tokens per minute"), LIMITED),
        (529, _anthropic("overloaded_error", "Overloaded"), BUSY),
        (500, _anthropic("api_error", "Internal server error"), BUSY),
        (504, _anthropic("timeout_error", "m"), "timeout"),
        (404, _anthropic("not_found_error", "model: claude-x"), NO_MODEL),
        (413, _anthropic("request_too_large", "m"), LARGE),
        (400, _invalid("source.base64: image exceeds 5 MB maximum"), NO_IMAGE),
        (400, _invalid("messages: at least one is required"), "invalid_request"),
        (400, _invalid("You have reached your specified API usage limits."), "quota"),
    ],
    "Google": [
        (400, _google_invalid("m", {"reason": "API_KEY_INVALID"}), "auth"),
        (403, _google(403, "PERMISSION_DENIED", "m"), "permission"),
        (429, _exhausted("Day"), "quota"),
        (429, _exhausted("Minute"), LIMITED),
        (503, [_google(503, "UNAVAILABLE", "The model is overloaded.")], BUSY),
        (500, _google(500, "INTERNAL", "m"), BUSY),
        (504, _google(504, "DEADLINE_EXCEEDED", "m"), BUSY),
        (404, _google(404, "NOT_FOUND", "models/x is not found"), NO_MODEL),
        (400, _google_invalid("Unable to process input image."), NO_IMAGE),
        (400, _google_invalid("Request payload size exceeds the limit: 20 bytes."), LARGE),
        (400, _google_invalid("Function calling is not enabled for models/x"), UNABLE),
        (400, _google_invalid("contents is required"), "invalid_request"),
        (429, _google(429, "RESOURCE_EXHAUSTED", _OVER), "quota"),
        (429, _google(429, "RESOURCE_EXHAUSTED", _OVER, _quota("Minute", "Day")), "quota"),
    ],
    "Ollama": [
        (401, {"error": "unauthorized"}, "auth"),
        (403, {"error": "ollama cloud is disabled"}, "permission"),
        (429, {"error": "you've reached your hourly usage limit"}, LIMITED),
        (429, {"error": "you (x) have reached your weekly usage limit, upgrade"}, "quota"),
        (400, {"error": "the prompt is longer than the context length currently available"}, FULL),
        (404, {"error": "model 'x' not found, try pulling it first"}, NO_MODEL, "model 'x'"),
        (400, {"error": "registry.ollama.ai/library/x does not support tools"}, UNABLE),
        (503, {"error": "server busy, maximum pending requests exceeded"}, BUSY),
        (500, {"error": "llama runner process has terminated: signal: killed"}, BUSY),
    ],
    "Copilot": [
        (401, "unauthorized: token expired", "auth"),
        (403, {"message": "token expired"}, "auth"),
        (403, {"message": "no access"}, "permission"),
        (402, {"error": {"message": "m", "code": "quota_exceeded"}}, "quota"),
        (422, {"error": {"message": "m", "code": "content_filter"}}, FILTERED),
        (400, {"error": {"message": "m", "code": "model_not_supported"}}, NO_MODEL),
        (400, _openai("m", "model_max_prompt_tokens_exceeded"), FULL),
    ],
    "OpenRouter": [
        (402, {"error": {"code": 402, "message": "Insufficient credits"}}, "quota"),
        (403, {"error": {"code": 403, "message": "requires moderation, was flagged"}}, FILTERED),
        (429, {"error": {"code": 429, "message": "exceeded: free-models-per-day"}}, "quota"),
        (408, {"error": {"code": 408, "message": "timed out"}}, BUSY),
        (502, {"error": {"code": 502, "message": "Provider returned error"}}, BUSY),
        (404, {"error": {"message": "No endpoints found that support tool use"}}, UNABLE),
    ],
    "Mistral": [(401, {"message": "Unauthorized", "request_id": "r"}, "auth")],
    "Groq": [
        (413, _openai(f"Request too large {_PER_MINUTE}", "rate_limit_exceeded", "tokens"), FULL),
        (498, _openai("capacity exceeded"), BUSY),
    ],
    "DeepSeek": [
        (402, _openai("Insufficient Balance", "invalid_request_error", "unknown"), "quota")
    ],
    "z.ai": [
        (429, {"error": {"code": "1113", "message": "in arrears"}}, "quota"),
        (429, {"error": {"code": "1302", "message": "high concurrency"}}, LIMITED),
        (429, {"error": {"code": "1305", "message": "m"}}, BUSY),
        (400, {"error": {"code": "1261", "message": "m"}}, FULL),
    ],
    "llama.cpp": [
        (503, _openai("Loading model", 503, "unavailable_error"), BUSY),
        (500, _openai("tools param requires --jinja flag", 500, "server_error"), "configuration"),
        (400, _openai("m", 400, "exceed_context_size_error"), FULL),
        (500, _openai("Context size has been exceeded.", 500, "server_error"), FULL),
    ],
    "vLLM": [
        (400, {"object": "error", "message": _LONG, "type": "BadRequestError", "code": 400}, FULL),
        (400, _openai("The decoder prompt is longer than the maximum model length of 8."), FULL),
    ],
    "LiteLLM": [
        (400, _openai("litellm.ContextWindowExceededError: m", "400"), FULL),
        (400, _openai("Budget has been exceeded!", "400", "budget_exceeded"), "quota"),
        (401, _openai("Authentication Error", "401", "auth_error"), "auth"),
        (
            429,
            _litellm(f"litellm.RateLimitError: AnthropicException - b'{_SLOW}'"),
            *(LIMITED, "litellm.RateLimitError: AnthropicException - Slow down"),
        ),
        (
            429,
            _litellm(f"litellm: OpenAIException - {_NO_QUOTA}", "rate_limit_error"),
            *("quota", f"litellm: OpenAIException - {_OVER}"),
        ),
        (
            429,
            _litellm(f"geminiException - {_SPENT}", "None"),
            *(LIMITED, f"geminiException - {_SOON}"),
        ),
        (400, _litellm(_POLICY, "invalid_request_error", "400"), FILTERED, _POLICY),
        (400, _openai("/responses: Invalid model name passed in model=x", "400"), NO_MODEL),
        (
            400,
            _openai("No connected db.", "400", "no_db_connection"),
            *("auth", "the key was refused: No connected db"),
        ),
        (
            401,
            _openai("No access", "401", "key_model_access_denied"),
            *("permission", "the key may not do this: No access"),
        ),
    ],
    "Portkey": [
        (429, {"error": {"message": f"google error: {_SOON}"}}, LIMITED, f"google error: {_SOON}"),
        (400, _openai(f"<title>{_TOO_LARGE}</title>", "400"), LARGE, _TOO_LARGE),
        (
            400,
            _openai("Bad value: {'a': 1} and {broken", kind="t"),
            INVALID,
            "{'a': 1} and {broken",
        ),
        (400, _openai('Bad value: {"role": "user"}'), INVALID, 'Bad value: {"role": "user"}'),
    ],
    "claude-code-router": [
        (
            401,
            _openai(_traced(_BAD_KEY), "provider_error", "api_error"),
            *("auth", "Error from provider(up,up: 401): Incorrect API key"),
        ),
        (400, _openai("No such provider", kind="api_error"), INVALID, "No such provider"),
        (404, {"error": {"message": _NO_PROVIDER}}, INVALID, "No provider"),
        (500, {"error": {"message": _CRASHED}}, BUSY, "Overloaded"),
    ],
    "xAI": [
        (400, {"code": "Client", "error": "This model's maximum prompt length is 8"}, FULL),
        (403, {"code": "Caller", "error": "Your team doesn't have any credits yet."}, "quota"),
    ],
    "DashScope": [
        (400, _openai("m", "data_inspection_failed"), FILTERED),
        (400, _openai("Access denied", "Arrearage"), "quota"),
    ],
    "any server": [
        (400, {"error": {"message": "m", "type": None, "code": None}}, INVALID, "m"),
        (400, {"error": {"code": 400, "message": "API key not valid"}}, "auth", "API key not v"),
        (400, [{"error": {"code": 400, "message": "m", "status": "X"}}], INVALID, "m"),
        (402, {"error": {"message": "m", "metadata": {"raw": "why"}}}, "quota", "m: why"),
        (422, {"object": "error", "message": _NESTED}, INVALID, "a.1: m"),
        (422, {"detail": _DETAIL}, UNABLE, "body.stop: Extra"),
        (403, {"message": "m", "documentation_url": "u"}, "permission", "m"),
        (403, "<html><title>Blocked</title></html>", "network", "Blocked"),
        (500, "plain words\nmore", BUSY, "plain words"),
        (503, "", BUSY, "503"),
        (500, {"error": {"code": 500, "message": _INNER}}, BUSY, "inner"),
        (413, "", LARGE, "413"),
        (307, "", "network", "redirects to nowhere"),
        (511, "<html><title>Log in</title></html>", "network", "Log in"),
        (407, "<html><title>Denied</title></html>", "configuration", "the proxy requires a login"),
        (403, {"message": "You have exceeded a rate limit"}, LIMITED, "exceeded"),
        (418, "\u2615", INVALID, "\u2615"),
        (502, "<html><title>502 Bad Gateway</title></html>", BUSY),
        (524, "<html><title>A timeout occurred</title></html>", BUSY),
    ],
}


@pytest.mark.parametrize(
    ("provider", "status", "body", "kind", "shown"),
    [(name, *row[:3], "".join(row[3:])) for name, rows in ANSWERS.items() for row in rows],
)
def test_what_a_provider_says_has_its_class_and_its_text(provider, status, body, kind, shown):
    text = body if isinstance(body, str) else json.dumps(body)
    error = error_from_response(status, {"x-request-id": "r1"}, text.encode())
    is_transient = kind in TRANSIENT and kind != "network"  # a page of the network stays
    assert (error.kind, error.retryable, error.status) == (kind, is_transient, status)
    assert error.request_id == "r1"
    assert not shown or "{" in shown or "{" not in error.message
    if provider == "Anthropic":
        assert error.code == body["error"]["type"] or "details" in body["error"]
    message = user_message(error, provider=provider, model="m")
    assert message.startswith(f"{provider}/m: ")
    assert shown.rstrip(".") in message
    assert "dist/cli.js" not in message


@pytest.mark.parametrize(
    ("header", "status", "code", "retryable"),
    [
        ("false", 500, None, False),
        ("true", 400, None, True),
        ("TRUE", 400, None, True),
        ("perhaps", 500, None, True),
        ("true", 429, "insufficient_quota", False),
        ("true", 400, "context_length_exceeded", False),
    ],
)
def test_a_provider_says_itself_whether_to_try_again_but_where_it_is_hopeless(
    header, status, code, retryable
):
    body = json.dumps(_openai("m", code)).encode()
    error = error_from_response(status, {"x-should-retry": header}, body)
    assert error.retryable == retryable


@pytest.mark.parametrize(
    ("status", "body", "seconds", "phrase"),
    [
        (429, {"error": {"message": "Please try again in 90s"}}, 90, "wait 90 s."),
        (429, {"error": {"message": "Please try again in 12m"}}, 720, "wait 12 min."),
        (429, {"error": {"message": "try again in 5h10m", "code": "1308"}}, 18600, "wait 5 h."),
        (429, {"error": {"message": "try again in 240h"}}, 864_000, "wait 10 days."),
        (429, {"error": {"message": "try again in 9000000h"}}, 32_400_000_000, "a year."),
        (429, [_google(429, "X", "Please retry in 2.5s.")], 2.5, "Try again"),
        (429, _exhausted("Minute"), 17, "Try again"),
        (429, _exhausted("Day"), 17, "details (status 429). Trying again does not help"),
    ],
)
def test_a_wait_is_written_as_a_person_says_it(status, body, seconds, phrase):
    error = error_from_response(status, {}, json.dumps(body).encode())
    assert error.retry_after == seconds
    assert phrase in user_message(error, provider="p", model="m")


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
    assert (error.kind, error.message) == ("overloaded", "Overloaded upstream")

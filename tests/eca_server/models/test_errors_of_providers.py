"""The errors of each provider, in its spelling, and their classes."""

import json

import pytest

from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.errors import error_from_response, user_message


def _openai(message, code=None, kind="invalid_request_error"):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _anthropic(kind, message, **more):
    return {"type": "error", "error": {"type": kind, "message": message, **more}}


def _google(code, status, message, *details):
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


_OVER = "You exceeded your current quota, please check your plan and billing details."


def _quota(*periods):
    ids = [f"GenerateRequestsPer{each}PerProjectPerModel-FreeTier" for each in periods]
    return {"violations": [{"quotaId": each} for each in ids]}


def _exhausted(period):
    return _google(429, "RESOURCE_EXHAUSTED", _OVER, _quota(period), {"retryDelay": "17s"})


_PER_MINUTE = "on tokens per min (TPM): Limit 30000, Requested 40000."
_LONG = "This model's maximum context length is 8192 tokens. However, you requested about 9000"

ANSWERS = {
    "OpenAI": [
        (401, _openai("Incorrect API key provided: x.", "invalid_api_key"), "auth"),
        (429, _openai("You exceeded your current quota", "insufficient_quota"), "quota"),
        (429, _openai("m", "credit_balance_exhausted", "insufficient_quota"), "quota"),
        (429, _openai("m", kind="insufficient_quota"), "quota"),
        (429, {"error": {"type": "usage_limit_reached", "message": "m", "resets_at": 1}}, "quota"),
        (429, _openai(f"Rate limit reached {_PER_MINUTE}", "rate_limit_exceeded"), "rate_limit"),
        (429, _openai(f"Request too large {_PER_MINUTE}", "rate_limit_exceeded", "tokens"),
         "context_overflow"),
        (429, _openai("m", "slow_down", "slow_down"), "overloaded"),
        (503, _openai("m", "server_is_overloaded", "service_unavailable_error"), "overloaded"),
        (500, _openai("The server had an error", None, "server_error"), "overloaded"),
        (400, _openai(_LONG, "context_length_exceeded"), "context_overflow"),
        (400, _openai("Your input exceeds the context window of this model"), "context_overflow"),
        (404, _openai("The model `x` does not exist or you do not have access to it."),
         "model_not_found"),
        (400, _openai("Unsupported parameter: 'max_tokens'", "unsupported_parameter"),
         "unsupported_feature"),
        (400, _openai("m", "invalid_image_format"), "invalid_image"),
        (400, _openai("m", "invalid_image"), "invalid_image"),
        (400, _openai("m", "invalid_prompt"), "content_filter"),
    ],
    "Azure": [
        (401, {"error": {"code": "401", "message": "Access denied"}}, "auth"),
        (404, {"error": {"code": "DeploymentNotFound", "message": "m"}}, "model_not_found"),
        (429, {"error": {"code": "429", "message": "exceeded token rate limit"}}, "rate_limit"),
        (400, {"error": {"code": "content_filter", "message": "m", "param": "prompt"}},
         "content_filter"),
    ],
    "Anthropic": [
        (401, _anthropic("authentication_error", "invalid x-api-key"), "auth"),
        (403, _anthropic("permission_error", "m"), "permission"),
        (402, _anthropic("billing_error", "m"), "quota"),
        (400, _anthropic("invalid_request_error", "Your credit balance is too low"), "quota"),
        (400, _anthropic("invalid_request_error", "m",
                         details={"error_code": "enforced_spend_limit_reached"}), "quota"),
        (429, _anthropic("rate_limit_error", "your limit of 50,000 input tokens per minute"),
         "rate_limit"),
        (529, _anthropic("overloaded_error", "Overloaded"), "overloaded"),
        (500, _anthropic("api_error", "Internal server error"), "overloaded"),
        (504, _anthropic("timeout_error", "m"), "timeout"),
        (404, _anthropic("not_found_error", "model: claude-x"), "model_not_found"),
        (413, _anthropic("request_too_large", "m"), "request_too_large"),
        (400, _anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
         "context_overflow"),
        (400, _anthropic("invalid_request_error",
                         "input length and `max_tokens` exceed context limit: 7 + 2 > 8"),
         "context_overflow"),
        (400, _anthropic("invalid_request_error", "source.base64: image exceeds 5 MB maximum"),
         "invalid_image"),
        (400, _anthropic("invalid_request_error", "messages: at least one is required"),
         "invalid_request"),
    ],
    "Google": [
        (400, _google(400, "INVALID_ARGUMENT", "m", {"reason": "API_KEY_INVALID"}), "auth"),
        (403, _google(403, "PERMISSION_DENIED", "m"), "permission"),
        (429, _exhausted("Day"), "quota"),
        (429, _exhausted("Minute"), "rate_limit"),
        (503, [_google(503, "UNAVAILABLE", "The model is overloaded.")], "overloaded"),
        (500, _google(500, "INTERNAL", "m"), "overloaded"),
        (504, _google(504, "DEADLINE_EXCEEDED", "m"), "overloaded"),
        (404, _google(404, "NOT_FOUND", "models/x is not found"), "model_not_found"),
        (400, _google(400, "INVALID_ARGUMENT",
                      "The input token count (9) exceeds the maximum number of tokens (8)."),
         "context_overflow"),
        (400, _google(400, "INVALID_ARGUMENT", "Unable to process input image."), "invalid_image"),
        (400, _google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20 bytes."),
         "request_too_large"),
        (400, _google(400, "INVALID_ARGUMENT", "Function calling is not enabled for models/x"),
         "unsupported_feature"),
        (400, _google(400, "INVALID_ARGUMENT", "contents is required"), "invalid_request"),
        (429, _google(429, "RESOURCE_EXHAUSTED", _OVER), "quota"),
        (429, _google(429, "RESOURCE_EXHAUSTED", _OVER, _quota("Minute", "Day")), "quota"),
    ],
    "Ollama": [
        (401, {"error": "unauthorized"}, "auth"),
        (403, {"error": "ollama cloud is disabled"}, "permission"),
        (429, {"error": "you've reached your hourly usage limit"}, "rate_limit"),
        (400, {"error": "the prompt is longer than the context length currently available"},
         "context_overflow"),
        (404, {"error": "model 'x' not found, try pulling it first"}, "model_not_found"),
        (400, {"error": "registry.ollama.ai/library/x does not support tools"},
         "unsupported_feature"),
        (400, {"error": "input length exceeds the context length"}, "context_overflow"),
        (503, {"error": "server busy, maximum pending requests exceeded"}, "overloaded"),
        (500, {"error": "llama runner process has terminated: signal: killed"}, "overloaded"),
    ],
    "Copilot": [
        (401, "unauthorized: token expired", "auth"),
        (403, {"message": "token expired"}, "auth"),
        (403, {"message": "no access"}, "permission"),
        (402, {"error": {"message": "m", "code": "quota_exceeded"}}, "quota"),
        (422, {"error": {"message": "m", "code": "content_filter"}}, "content_filter"),
        (400, {"error": {"message": "m", "code": "model_not_supported"}}, "model_not_found"),
        (400, _openai("m", "model_max_prompt_tokens_exceeded"), "context_overflow"),
    ],
    "OpenRouter": [
        (402, {"error": {"code": 402, "message": "Insufficient credits"}}, "quota"),
        (403, {"error": {"code": 403, "message": "requires moderation, was flagged"}},
         "content_filter"),
        (429, {"error": {"code": 429, "message": "exceeded: free-models-per-day"}}, "quota"),
        (408, {"error": {"code": 408, "message": "timed out"}}, "overloaded"),
        (502, {"error": {"code": 502, "message": "Provider returned error"}}, "overloaded"),
        (404, {"error": {"code": 404, "message": "No endpoints found that support tool use"}},
         "unsupported_feature"),
        (400, {"error": {"code": 400, "message": _LONG}}, "context_overflow"),
    ],
    "Mistral": [
        (401, {"message": "Unauthorized", "request_id": "r"}, "auth"),
        (400, {"object": "error", "code": "3051",
               "message": "Prompt contains 9 tokens, too large for model with 8 maximum"},
         "context_overflow"),
    ],
    "Groq": [
        (413, _openai(f"Request too large {_PER_MINUTE}", "rate_limit_exceeded", "tokens"),
         "context_overflow"),
        (400, _openai("Please reduce the length of the messages"), "context_overflow"),
        (498, _openai("capacity exceeded"), "overloaded"),
    ],
    "DeepSeek": [
        (402, _openai("Insufficient Balance", "invalid_request_error", "unknown"), "quota"),
        (400, _openai(_LONG, "invalid_request_error"), "context_overflow"),
    ],
    "z.ai": [
        (429, {"error": {"code": "1113", "message": "in arrears"}}, "quota"),
        (429, {"error": {"code": "1302", "message": "high concurrency"}}, "rate_limit"),
        (429, {"error": {"code": "1305", "message": "m"}}, "overloaded"),
        (400, {"error": {"code": "1261", "message": "m"}}, "context_overflow"),
    ],
    "llama.cpp": [
        (503, _openai("Loading model", 503, "unavailable_error"), "overloaded"),
        (400, _openai("m", 400, "exceed_context_size_error"), "context_overflow"),
        (500, _openai("Context size has been exceeded.", 500, "server_error"), "context_overflow"),
    ],
    "LM Studio": [
        (400, {"error": "Trying to keep the first 9 tokens when context the overflows"},
         "context_overflow"),
    ],
    "vLLM": [
        (400, {"object": "error", "message": _LONG, "type": "BadRequestError", "code": 400},
         "context_overflow"),
        (400, _openai("The decoder prompt is longer than the maximum model length of 8."),
         "context_overflow"),
    ],
    "LiteLLM": [
        (400, _openai("litellm.ContextWindowExceededError: m", "400"), "context_overflow"),
        (400, _openai("Budget has been exceeded!", "400", "budget_exceeded"), "quota"),
        (401, _openai("Authentication Error", "401", "auth_error"), "auth"),
    ],
    "xAI": [
        (400, {"code": "Client specified an invalid argument",
               "error": "This model's maximum prompt length is 8"}, "context_overflow"),
    ],
    "DashScope": [
        (400, _openai("Range of input length should be [1, 8]"), "context_overflow"),
        (400, _openai("m", "data_inspection_failed"), "content_filter"),
    ],
    "what lies between": [
        (407, "", "configuration"),
        (502, "<html><title>502 Bad Gateway</title></html>", "overloaded"),
        (524, "<html><title>A timeout occurred</title></html>", "overloaded"),
    ],
}  # fmt: skip

ROWS = [(provider, *answer) for provider, answers in ANSWERS.items() for answer in answers]


@pytest.mark.parametrize(("provider", "status", "body", "kind"), ROWS)
def test_what_a_provider_says_has_its_class(provider, status, body, kind):
    text = body if isinstance(body, str) else json.dumps(body)
    error = error_from_response(status, {}, text.encode())
    assert (error.kind, error.retryable, error.status) == (kind, kind in TRANSIENT, status)
    if provider == "Anthropic":
        assert error.code == body["error"]["type"] or "details" in body["error"]
    assert user_message(error, provider=provider, model="m").startswith(f"{provider}/m: ")


@pytest.mark.parametrize(
    ("told", "status", "code", "retryable"),
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
    told, status, code, retryable
):
    body = json.dumps(_openai("m", code)).encode()
    error = error_from_response(status, {"x-should-retry": told}, body)
    assert error.retryable == retryable


@pytest.mark.parametrize(
    ("status", "body", "seconds", "said"),
    [
        (429, {"error": {"message": "Please try again in 90s"}}, 90, "wait 90 s."),
        (429, {"error": {"message": "Please try again in 12m"}}, 720, "wait 12 min."),
        (429, {"error": {"message": "try again in 5h10m", "code": "1308"}}, 18600, "wait 5 h."),
        (429, [_google(429, "X", "Please retry in 2.5s.")], 2.5, "Try again"),
        (429, _exhausted("Minute"), 17, "Try again"),
        (429, _exhausted("Day"), 17, "details (status 429). Trying again does not help"),
    ],
)
def test_a_wait_is_written_as_a_person_says_it(status, body, seconds, said):
    error = error_from_response(status, {}, json.dumps(body).encode())
    assert error.retry_after == seconds
    assert said in user_message(error, provider="p", model="m")

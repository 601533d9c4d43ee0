"""Errors in every form and spelling of providers, by class; and their texts for the user."""

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_server.models.backend import BackendError, ErrorKind
from eca_server.models.error_kinds import TRANSIENT, classify
from eca_server.models.errors import (
    error_from_fault,
    error_from_page,
    error_from_response,
    error_in_payload,
    user_message,
)
from eca_server.secret import Secret


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000",
        "Your input exceeds the context window of this model",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "The input token count (5) exceeds the maximum number of tokens allowed (4)",
        "the request exceeds the available context size",
        "Trying to keep the first 9 tokens when context the overflows",
        "Please reduce the length of the messages",
        "Prompt contains 9 tokens, too large for model with 8 maximum context length",
        "input length exceeds the context length",
        "Input is too long for requested model.",
        "prompt token count of 9 exceeds the limit of 8",
        "Range of input length should be [1, 8]",
        "Prompt length (9) exceeds maximum input length (8)",
        "tokens in request more than max tokens allowed",
        "too many tokens",
        "`inputs` tokens + `max_new_tokens` must be <= 8. Given: 9 `inputs` tokens",
        "`inputs` must have less than 8 tokens. Given: 9",
        "length of prompt_tokens (9) must be less than max_seq_len (8).",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "max_tokens is too large: 9. The maximum context length is 9 and there are 5 input tokens",
        "you requested 9000 tokens: reduce the length of the messages or max_tokens",
    ],
)
def test_an_overflow_is_recognized_by_its_message(message):
    assert classify(400, None, message) == "context_overflow"
    assert classify(None, "unheard_of", message) == "context_overflow"


@pytest.mark.parametrize("status", [None, 400, 422, 500])
@pytest.mark.parametrize(
    "message",
    [
        "`max_tokens` must be less than or equal to `32768`: the `context_window` is larger",
        "max_tokens: 200000 exceeds the maximum allowed number of output tokens (8192)",
        "Invalid 'max_output_tokens': max_output_tokens exceeds model limit 32768",
        "max_completion_tokens exceeds the context window",
        "maxOutputTokens exceeds the number of tokens",
        "The thinking budget_tokens exceeds the maximum of 32768",
        "The maximum tokens you requested exceeds the model limit of 4096.",
    ],
)
def test_a_too_large_limit_of_the_answer_is_no_overflow(status, message):
    assert classify(status, None, message) == "invalid_request"


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (429, None, "Limit 10000 tokens per min exceeded", "rate_limit"),
        (429, None, "Request too large for gpt: tokens per min", "context_overflow"),
        (429, "1308", "use limit reached", "quota"),
        (429, "rate_limit_exceeded", "context length of your rate", "rate_limit"),
        (429, None, "token rate limit exceeded", "rate_limit"),
        (404, None, "no such path", "invalid_request"),
        (503, None, "litellm: beyond the maximum context length of 8", "context_overflow"),
        (503, None, "the token limit of this minute was exceeded", "overloaded"),
        (521, None, "", "overloaded"),
        (599, None, "", "overloaded"),
        (None, None, "odd", "unknown"),
    ],
)
def test_structure_counts_before_status_and_status_before_text(status, code, message, kind):
    assert classify(status, code, message) == kind


KEYS = (
    *("error", "code", "message", "detail", "details", "type", "status", "metadata"),
    *("raw", "loc", "msg", "resets_at", "retryDelay", "error_code"),
)


@given(
    st.integers(300, 599),
    st.binary(max_size=80)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode()),
)
def test_whatever_comes_is_an_error_that_can_be_read(status, body):
    error = error_from_response(status, {}, body)
    assert error.message
    assert user_message(error, provider="p", model="m")
    assert error.retry_after is None or error.retry_after >= 0


@pytest.mark.parametrize(
    ("payload", "failed", "is_error"),
    [
        ({"choices": []}, False, False),
        ({"choices": [], "error": None}, False, False),
        ({"choices": [{}], "code": 1, "msg": "x"}, False, False),
        ({"anything": 1}, True, True),
        ({"type": "error"}, False, True),
        ({"base_resp": {"status_code": 0}}, False, False),
        ({"choices": None, "base_resp": {"status_code": 1008}}, False, True),
    ],
)
def test_only_what_is_an_error_is_taken_for_one(payload, failed, is_error):
    assert (error_in_payload(payload, failed=failed) is not None) == is_error


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (HTTPError("connect", "refused"), "network", True),
        (HTTPError("broken", "lost"), "network", True),
        (HTTPError("tls", "bad certificate"), "tls", False),
        (HTTPError("proxy", "407"), "network", True),
        (HTTPError("protocol", "garbage"), "protocol", False),
        (HTTPError("config", "SSL_CERT_FILE"), "configuration", False),
        (HTTPTimeout("idle", 5, "silence"), "timeout", True),
    ],
)
def test_an_error_below_http_has_its_class(fault, kind, retryable):
    error = error_from_fault(fault)
    assert (error.kind, error.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    "leak",
    [
        "sk-proj-abcdefghijkl",
        "AIzaSyABCDEFGHIJKLMN0123456789",
        "ghp_abcdefghijklmnop1234",
        "Bearer abcd1234efgh5678",
    ],
)
def test_no_key_stays_in_an_error(leak):
    for body in (leak, json.dumps({"error": {"message": f"bad key {leak}, sorry"}})):
        error = error_from_response(401, {}, body.encode())
        assert leak.split()[-1] not in f"{error} {error.raw} {error.message}"
        assert leak.split()[-1] not in user_message(error, provider="p", model="m")


LEAK = "sk-proj-abcdefghijkl"
OWN_KEY = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize("key", [LEAK, OWN_KEY])
@pytest.mark.parametrize("shown", range(4, 32, 4))
@pytest.mark.parametrize("limit", [200, 500, 2000])
def test_no_part_of_a_key_stays_where_a_text_is_cut(key, shown, limit):
    text = f"{'x' * (limit - shown - 1)} {key}, sorry"
    metadata = {"error": {"message": "m", "metadata": {"raw": text}}}
    payload = json.dumps(metadata).encode()
    errors = [
        error_from_response(401, {}, text.encode()),
        error_from_response(401, {}, payload),
        error_from_page("text/plain", text.encode()),
        error_from_page("text/html", f"<title>{text}".encode()),
        error_in_payload(metadata),
    ]
    for error in errors:
        error.mask_secrets(Secret(OWN_KEY))
        assert key[:4] not in f"{error} {error.raw} {error.message}"


def test_the_user_reads_who_failed_how_and_what_to_do():
    error = BackendError(
        "rate_limit", "slow down.", status=429, request_id="r1", retry_after=90, retryable=True
    )
    assert user_message(error, provider="groq", model="llama") == (
        "groq/llama: too many requests: slow down (status 429, request r1). "
        "The provider asks to wait 90 s. Try again later."
    )


def test_text_that_names_the_class_is_reported_once() -> None:
    error = BackendError("empty_response", "the model answered nothing; it may be the prompt")
    assert user_message(error, provider="p", model="m") == (
        "p/m: the model answered nothing; it may be the prompt. "
        "Try again, or with a shorter prompt."
    )


def test_a_foreign_certificate_may_be_that_of_a_networks_login_page() -> None:
    error = error_from_fault(HTTPError("tls", "TLS failed: it is self-signed"))
    text = user_message(error, provider="p", model="m")
    assert "If this network requires a login, log in with a browser" in text
    assert "`network.caCertFile`" in text


@pytest.mark.parametrize("kind", get_args(ErrorKind))
def test_every_class_has_its_message(kind):
    text = user_message(BackendError(kind, "said"), provider="p", model="m")
    assert text.startswith("p/m: ")
    assert "said" in text


def test_the_transient_classes_are_classes():
    assert set(get_args(ErrorKind)) >= TRANSIENT


def test_what_a_provider_says_is_shown_without_control_characters():
    error = error_from_response(400, {}, b'{"error": {"message": "bad\\u001b[31m \\u202e input"}}')
    text = user_message(error, provider="p", model="m")
    assert r"bad\x1b[31m \u202e input" in text
    assert text.isprintable()

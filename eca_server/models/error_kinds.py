"""The class of an error, from its status, its code and its text: tables, and their precedence.

A code counts more than a status, and a status more than text, since statuses are unreliable. Only
text that names an overflow overrules a status that means no more than "bad request", or the one
of a gateway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from eca_server.models.backend import ErrorKind

TRANSIENT: frozenset[ErrorKind] = frozenset(
    ("empty_response", "network", "overloaded", "premature_stop", "rate_limit", "timeout")
)
"""The classes that a retry may overcome."""

_CODES: Mapping[ErrorKind, tuple[str, ...]] = {
    "quota": (
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
        "organization_usage_limit_exceeded",
        "usage_limit_reached",
        "billing_error",
        "budget_exceeded",
        "enforced_spend_limit_reached",
        "exceeded_current_quota_error",
        "insufficient_balance_error",
        "arrearage",
        *("1113", "1304", "1308", "1309", "1310"),
    ),
    "auth": (
        "authentication_error",
        "invalid_api_key",
        "api_key_invalid",
        "unauthorized",
        *("no_db_connection", "token_not_found_in_db", "expired_key"),  # of LiteLLM
        *("1000", "1001", "1002", "1003", "1004"),
    ),
    "permission": (
        *("permission_error", "permission_denied"),
        *(f"{who}_model_access_denied" for who in ("key", "team", "user", "org", "project")),
    ),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded", "1302", "1303"),
    "overloaded": (
        "overloaded_error",
        "engine_overloaded_error",
        "server_is_overloaded",
        "service_unavailable_error",
        "slow_down",
        "unavailable",
        "api_error",
        "server_error",
        "internal_server_error",
        *("1234", "1305", "1312"),
    ),
    "timeout": ("timeout_error",),
    "model_not_found": (
        "model_not_found",
        "model_not_supported",
        "unavailable_model",
        "deploymentnotfound",
        "1211",
    ),
    "request_too_large": ("request_too_large",),
    "context_overflow": (
        "context_length_exceeded",
        "exceed_context_size_error",
        "model_max_prompt_tokens_exceeded",
        "tokens_limit_reached",
        "1261",
    ),
    "content_filter": (
        "content_filter",
        "content_policy_violation",
        "invalid_prompt",
        "data_inspection_failed",
        "bio_policy",
        "misalignment_policy_violation",
        "image_content_policy_violation",
        "responsibleaipolicyviolation",
        "1301",
    ),
    "invalid_image": (
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
        "image_file_too_large",
        "image_parse_error",
        "image_too_large",
        "image_too_small",
        "invalid_base64_image",
        "invalid_image",
        "invalid_image_format",
        "invalid_image_mode",
        "invalid_image_url",
        "unsupported_image_media_type",
    ),
    "unsupported_feature": ("unsupported_parameter", "unsupported_value"),
}

_STATUSES: Mapping[ErrorKind, tuple[int, ...]] = {
    "auth": (401,),
    "quota": (402,),
    "permission": (403,),
    "request_too_large": (413,),
    "rate_limit": (429,),
    "configuration": (407,),
    "overloaded": (408, 409, 425, 498, 500, 502, 503, 504, *range(520, 530)),
}

_USED_UP = (
    r"credit balance is too low",
    r"insufficient (account )?(credits|balance|funds)",
    r"(weekly|monthly|api) usage limit",
)
"""Texts on an account, which providers send with any status."""

_EXHAUSTED = (r"per.?day", r"quota.*billing", r"insufficient")
_SHORT_WAIT = (r"per.?minute", r"(try again|retry) in [\d.]+ ?m?s\b")
"""Texts on a quota that is exhausted, unless it is one of the next minute."""

_WORDS: Mapping[ErrorKind, tuple[str, ...]] = {
    "quota": _USED_UP,
    "auth": (r"api key not valid", r"(invalid|incorrect) api key"),
    "request_too_large": (r"payload size exceeds", r"request.(entity.)?too.large"),
    "content_filter": (r"content management policy",),
    "invalid_image": (
        r"image exceeds",
        r"could not process image",
        r"invalid base64",
        r"unsupported image",
        r"unable to process input image",
        r"image.*(too small|too large|below the minimum)",
    ),
    "unsupported_feature": (
        r"does not support (tools|images?|thinking)",
        r"(function calling|developer instruction|thinking) is not (enabled|supported)",
        r"unsupported (parameter|value)",
        r"unknown field",
        r"extra inputs are not permitted",
        r"unrecognized request argument",
        r"no endpoints found that (support|can handle)",
    ),
    "model_not_found": (
        r"model\b.*\bnot (found|exist)",
        r"(no such|unknown) model",
        r"invalid model (id|name)",
        r"model.*does not exist",
    ),
}

_NAMED_CONTEXT = (r"context.?(length|window|size)",)
_OVERFLOW = (
    *_NAMED_CONTEXT,
    r"too many tokens",
    r"tokens in request more than max",
    r"prompt is too long",
    r"input is too long",
    r"maximum (prompt|context) length",
    r"token.{0,80}exceed",
    r"exceed.{0,80}token",
    r"reduce the length",
    r"context the overflows",
    r"longer than the maximum model length",
    r"too large for model",
    r"range of input length",
    r"(prompt|input) length.{0,60}exceed",
    r"max_(seq|model)_len\b",
    r"inputs?` (tokens \+ `max_new_tokens` must be <=|must have less than \d+ tokens)",
)

_OUTPUT_LIMIT = (
    r"\b(max_?(completion_?|output_?)?tokens|budget_?tokens)\b",
    r"maximum tokens you requested",
)
_LONG_INPUT = (r"prompt", r"input", r"messages")
"""Texts on a limit of the answer that is too large by itself, unless they name the input, too."""

_SAY_LITTLE = ("api_error", "internal_server_error", "server_error")
"""Codes of any internal error; llama.cpp sends one with an overflow."""

_FORBIDDEN: Mapping[ErrorKind, tuple[str, ...]] = {
    "auth": (r"token.{0,40}(expired|invalid)", r"(expired|invalid).{0,40}token"),
    "content_filter": (r"moderation", r"flagged"),
    "quota": (r"\bcredits\b", r"spending limit"),
    "rate_limit": (r"rate limit",),
}
"""The class of a status 403 that is no lack of permission."""

_MISCONFIGURED: Mapping[ErrorKind, tuple[str, ...]] = {"configuration": (r"requires --jinja",)}
"""The class of a status 500 that is permanent: llama.cpp was started without support for tools."""

_KIND_OF_CODE = {code: kind for kind, codes in _CODES.items() for code in codes}
_KIND_OF_STATUS = {status: kind for kind, statuses in _STATUSES.items() for status in statuses}


def classify(status: int | None, code: str | None, message: str) -> ErrorKind:
    """Return the class of an error; each argument may be unknown."""
    text = message.lower()
    if "tokens per min" in text:
        # A request beyond the limit per minute never fits, however long the wait.
        return "context_overflow" if "too large" in text else "rate_limit"
    kind = _KIND_OF_CODE.get((code or "").lower()) or _kind_of_quota(code or "")
    if kind and (code or "").lower() not in _SAY_LITTLE:
        return kind
    overflow = _NAMED_CONTEXT if status in (502, 503) else _OVERFLOW  # by gateways: LiteLLM
    if status in (None, 400, 404, 413, 422, 500, 502, 503) and _any(overflow, text):
        is_output_limit = _any(_OUTPUT_LIMIT, text) and not _any(_LONG_INPUT, text)
        return "invalid_request" if is_output_limit else "context_overflow"
    if status == 429 and _any(_EXHAUSTED, text) and not _any(_SHORT_WAIT, text):
        return "quota"
    if status in (None, 400, 429, 500) and _any(_USED_UP, text):
        return "quota"
    if status == 403:
        kind = _kind_of_words(text, _FORBIDDEN)
    elif status == 500:
        kind = _kind_of_words(text, _MISCONFIGURED) or kind
    elif status is not None and status < 500:
        kind = None  # a code that says little says less than the status
    kind = kind or _KIND_OF_STATUS.get(status or 0) or _kind_of_words(text)
    return kind or _kind_of_rest(status, text)


def _kind_of_quota(code: str) -> ErrorKind | None:
    """Return the class of an exhausted quota of Google's, which is named by its period."""
    if "PerDay" in code:
        return "quota"
    return "rate_limit" if "PerMinute" in code else None


def _kind_of_words(
    text: str, meanings: Mapping[ErrorKind, tuple[str, ...]] = _WORDS
) -> ErrorKind | None:
    return next((kind for kind, patterns in meanings.items() if _any(patterns, text)), None)


def _kind_of_rest(status: int | None, text: str) -> ErrorKind:
    if status is None:
        return "unknown"
    if status == 404 and "model" in text:
        return "model_not_found"
    return "overloaded" if status >= 500 else "invalid_request"


def _any(patterns: tuple[str, ...], text: str) -> bool:
    return any(re.search(pattern, text, re.DOTALL) for pattern in patterns)

"""What went wrong with a request, as one `BackendError`, whatever shape it came in.

The rule it keeps: what a provider says in structure counts more than its status, the status more
than words, for statuses lie. The order of decision is `_kind`. Keys never stay in a message: some
providers quote the key they refuse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eca_protocol import json
from eca_protocol.errors import HTTPFault, InvalidJSON
from eca_server.llm.backend import BackendError, ErrorKind
from eca_server.llm.waits import wait_demanded
from eca_server.secret import mask

__all__ = [
    "error_from_fault",
    "error_from_payload",
    "error_from_response",
    "error_in_payload",
]

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")

_QUOTA = [
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "usage_limit_reached",
    "billing_error",
    "enforced_spend_limit_reached",
    "1113",
    "1304",
    "1308",
    "1309",
    "1310",
]

_CODES: Mapping[str, ErrorKind] = {
    **dict.fromkeys(_QUOTA, "quota"),
    **dict.fromkeys(
        [
            "authentication_error",
            "invalid_api_key",
            "api_key_invalid",
            "1000",
            "1001",
            "1002",
            "1003",
            "1004",
            "unauthorized",
        ],
        "auth",
    ),
    **dict.fromkeys(["permission_error", "permission_denied"], "permission"),
    **dict.fromkeys(["rate_limit_error", "rate_limit_exceeded", "1302", "1303"], "rate_limit"),
    **dict.fromkeys(
        [
            "overloaded_error",
            "server_is_overloaded",
            "service_unavailable_error",
            "slow_down",
            "unavailable",
            "api_error",
            "server_error",
            "internal_server_error",
            "1234",
            "1305",
            "1312",
        ],
        "overloaded",
    ),
    **dict.fromkeys(["model_not_found", "1211"], "model_not_found"),
    **dict.fromkeys(["request_too_large"], "request_too_large"),
    **dict.fromkeys(
        [
            "context_length_exceeded",
            "exceed_context_size_error",
            "model_max_prompt_tokens_exceeded",
            "1261",
        ],
        "context_overflow",
    ),
    **dict.fromkeys(
        [
            "content_filter",
            "content_policy_violation",
            "invalid_prompt",
            "data_inspection_failed",
            "1301",
        ],
        "content_filter",
    ),
    **dict.fromkeys(["unsupported_parameter", "unsupported_value"], "unsupported_feature"),
}  # type: ignore[dict-item]  # fromkeys widens the kinds to str

_STATUSES: Mapping[int, ErrorKind] = {
    **dict.fromkeys([401], "auth"),
    **dict.fromkeys([402], "quota"),
    **dict.fromkeys([403], "permission"),
    **dict.fromkeys([413], "request_too_large"),
    **dict.fromkeys([429], "rate_limit"),
    **dict.fromkeys([408, 409, 425, 498, 500, 502, 503, 504, *range(520, 530)], "overloaded"),
}  # type: ignore[dict-item]  # fromkeys widens the kinds to str

_OVERFLOW = re.compile(
    r"context.?(length|window|size)|too many tokens|prompt (is|too) (too )?long|"
    r"input is too long|maximum (prompt|context) length|token\S* .{0,60}exceed|exceed\S* .{0,60}token|"
    r"reduce the length|context the overflows|longer than the maximum model length|"
    r"too large for model|range of input length",
    re.IGNORECASE,
)
_PATTERNS: tuple[tuple[re.Pattern[str], ErrorKind], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)  # type: ignore[misc]  # the tuple widens the kinds
    for pattern, kind in (
        (r"credit balance is too low|insufficient (credits|balance|funds)", "quota"),
        (r"api key not valid|invalid api key|incorrect api key", "auth"),
        (
            r"image exceeds|could not process image|invalid base64|unsupported image",
            "invalid_image",
        ),
        (r"image.*(too small|too large|below the minimum)", "invalid_image"),
        (
            r"does not support (tools|images?|thinking)|unsupported (parameter|value)",
            "unsupported_feature",
        ),
        (
            r"unknown field|extra inputs are not permitted|unrecognized request argument",
            "unsupported_feature",
        ),
        (
            r"model\b.*\bnot (found|exist)|no such model|unknown model|does not exist",
            "model_not_found",
        ),
    )
)
_TPM = re.compile(r"tokens per min", re.IGNORECASE)

_TRANSIENT = frozenset({"overloaded", "rate_limit", "network", "timeout", "premature_stop"})

_FAULT_KINDS: Mapping[str, ErrorKind] = {
    "connect": "network",
    "tls": "network",
    "proxy": "network",
    "broken": "network",
    "timeout": "timeout",
    "protocol": "protocol",
    "config": "configuration",
}
_LASTING_FAULTS = frozenset({"tls", "protocol", "config"})


def error_from_fault(fault: HTTPFault) -> BackendError:
    """The error that a failed exchange is."""
    retryable = fault.kind not in _LASTING_FAULTS
    return BackendError(_FAULT_KINDS[fault.kind], mask(str(fault)), retryable=retryable)


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    """The error that an answer with a status of 300 or more is; `body` may be cut."""
    text = body.decode("utf-8", "replace")
    try:
        payload = json.loads(body)
    except InvalidJSON:
        payload = None
    code, said = _code_and_message(payload)
    message = said or _first_words(text) or f"HTTP status {status} without a word"
    is_page = payload is None and text.lstrip()[:1] == "<"
    if 300 <= status < 400:
        where = headers.get("location", "nowhere")
        message = f"the server redirects to {where}; set that as the provider's url if it is right"
        kind: ErrorKind = "configuration"
    elif status == 403 and is_page:
        kind = "network"  # a proxy or a guard on the way, not the provider
    else:
        kind = _kind(status, code, message)
    retryable = kind in _TRANSIENT and not is_page if status == 403 else kind in _TRANSIENT
    if (told := headers.get("x-should-retry", "").lower()) in ("true", "false"):
        retryable = told == "true"
    ids = (headers[name] for name in _REQUEST_ID_HEADERS if name in headers)
    return BackendError(
        kind,
        mask(message),
        status=status,
        code=code,
        retry_after=wait_demanded(headers, payload, message),
        retryable=retryable,
        request_id=next(ids, None),
        raw=mask(text[:2000]),
    )


def error_in_payload(payload: Any, *, failed: bool = False) -> BackendError | None:
    """The error that stands in a chunk of an answer whose status was 200; None if there is none.

    Args:
        payload: the parsed chunk.
        failed: the event was named `error`, so it is one whatever is in it.
    """
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        got = json.dumps(payload).decode()[:60]
        return BackendError("protocol", f"expected an object in the stream, got {got}")
    groq = payload.get("x_groq")
    if isinstance(groq, dict) and groq.get("error"):
        return error_from_payload({"error": groq["error"]})
    in_answer = "choices" in payload and payload["choices"]
    told = (
        payload.get("error") or payload.get("object") == "error" or payload.get("type") == "error"
    )
    bare = not in_answer and ("detail" in payload or ("code" in payload and "msg" in payload))
    return error_from_payload(payload) if failed or told or bare else None


def error_from_payload(payload: Mapping[str, Any]) -> BackendError:
    """The error that an object is, which came without a status of its own."""
    code, message = _code_and_message(payload)
    status = int(code) if code and re.fullmatch(r"[45]\d\d", code) else None
    kind = _kind(status, code, message or "")
    return BackendError(
        kind,
        mask(message or "the provider reported an error without a word"),
        status=status,
        code=code,
        retry_after=wait_demanded({}, payload, message or ""),
        retryable=kind in _TRANSIENT,
        raw=mask(json.dumps(payload).decode()[:2000]),
    )


def _kind(status: int | None, code: str | None, message: str) -> ErrorKind:
    """Structure first, then the words that overrule a status, then the status, then other words."""
    if _TPM.search(message):
        # A request that is larger than the limit of a minute never fits, however long one waits.
        return "context_overflow" if "too large" in message.lower() else "rate_limit"
    if code and (kind := _CODES.get(code.lower())):
        return kind
    vague = status is None or status in (400, 404, 422, 500)
    if vague and _OVERFLOW.search(message):
        return "context_overflow"
    if status is not None and (kind := _STATUSES.get(status)):
        return "quota" if kind == "rate_limit" and _is_quota(message) else kind
    for pattern, kind in _PATTERNS:
        if pattern.search(message):
            return kind
    if status == 404:
        return "model_not_found" if "model" in message.lower() else "invalid_request"
    if status is None:
        return "unknown"
    return "overloaded" if status >= 500 else "invalid_request"


def _is_quota(message: str) -> bool:
    return (
        re.search(r"per day|perday|quota.*billing|insufficient", message, re.IGNORECASE) is not None
    )


def _code_and_message(payload: Any) -> tuple[str | None, str | None]:
    """Reads every shape of error body that is known."""
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return None, None
    error = payload.get("error")
    inner: Mapping[str, Any] = error if isinstance(error, dict) else payload
    code = None
    for name in ("code", "type", "status"):
        value = inner.get(name)
        specific = isinstance(value, int | str) and value not in ("", "error", 200)
        if specific and (code is None or str(value).lower() in _CODES):
            code = str(value)
    details = inner.get("details")
    if isinstance(details, dict) and isinstance(details.get("error_code"), str):
        code = details["error_code"]
    if isinstance(error, str):
        return code, error
    words = next((inner[name] for name in ("message", "msg", "detail") if inner.get(name)), None)
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        words = f"{words}: {metadata['raw'][:500]}"
    return code, _words(words)


def _words(value: Any) -> str | None:
    """Text, or the texts in FastAPI's lists of complaints."""
    if isinstance(value, dict):
        value = value.get("detail", [value])
    if isinstance(value, list):
        complaints = [
            f"{'.'.join(str(step) for step in item.get('loc', ()))}: {item.get('msg', item)}"
            for item in value
            if isinstance(item, dict)
        ]
        return "; ".join(complaints) or None
    return str(value) if value is not None else None


def _first_words(text: str) -> str:
    """The title of a page, else the first line, at most 200 characters."""
    title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    plain = title.group(1) if title else re.sub(r"<[^>]*>", " ", text)
    return next((line.strip()[:200] for line in plain.splitlines() if line.strip()), "")

"""The `BackendError` for a failed request, whatever its form.

A message contains the provider's own text, without keys, since some providers quote a refused key.
`error_kinds` decides the class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from json import JSONDecoder
from typing import Any

from eca_protocol import json
from eca_protocol.errors import HTTPError, HTTPTimeout, InvalidJSON
from eca_protocol.proxies import PROXY_LOGIN
from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.backend import BackendError, ErrorKind
from eca_server.models.error_kinds import TRANSIENT, classify
from eca_server.models.retry_after import demanded_wait
from eca_server.printable import printable_lines
from eca_server.secret import mask

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id", "cf-ray")

_STACK_TRACE = re.compile(r"\s*\n(?:Traceback \(most recent|\s+at .{1,200}:\d+:\d+\)?\n)")
"""The start of a stack trace of Python or JavaScript, behind the text of a gateway's error."""

_JSON_IN_TEXT = JSONDecoder()

_NO_PATH = re.compile(
    r"^(404:? )?((file|page|resource) )?not found\.?$|^method not allowed"
    r"|route .{1,200} not found|cannot (get|post) /|invalid url|unknown request url",
    re.IGNORECASE,
)
"""Texts of web servers for a path that they do not have."""

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")

_HOPELESS: frozenset[ErrorKind] = frozenset(("auth", "context_overflow", "quota"))
"""Classes that the same request meets again, whatever a header says."""

_FAULTS: Mapping[str, tuple[ErrorKind, bool]] = {
    "connect": ("network", True),
    "broken": ("network", True),
    "proxy": ("network", True),
    "timeout": ("timeout", True),
    "resources": ("resources", True),
    "tls": ("tls", False),
    "protocol": ("protocol", False),
    "config": ("configuration", False),
}
"""The class of each kind of HTTP error, and whether a retry may help."""

_OF_THE_KEY: frozenset[ErrorKind] = frozenset(("auth", "permission"))
"""Classes whose advice is about the key."""

_EXPLANATIONS: Mapping[ErrorKind, tuple[str, str]] = {
    "auth": ("the key was refused", "Check the key of this provider."),
    "configuration": ("the configuration is wrong", "Correct the configuration."),
    "content_filter": ("the provider's filter stopped it", "Rephrase the prompt."),
    "context_overflow": (
        "the conversation is too long",
        "Start a new chat, or shorten the prompt.",
    ),
    "empty_response": ("the model answered nothing", "Try again, or with a shorter prompt."),
    "invalid_image": ("an image was refused", "Send it in a different size or format."),
    "invalid_request": ("the request was refused", ""),
    "model_not_found": ("the provider knows no such model", "Choose a different model."),
    "network": ("the provider cannot be reached", "Check the url and the network."),
    "overloaded": ("the provider is overloaded or failing", "Try again later."),
    "permission": ("the key may not do this", "Check what the key is allowed to do."),
    "premature_stop": ("the answer broke off", "Send the prompt again, or send `continue`."),
    "protocol": ("the answer cannot be read", "Check that the url leads to this kind of API."),
    "quota": ("the credit or plan is used up", "Trying again does not help: check the account."),
    "rate_limit": ("too many requests", "Try again later."),
    "request_too_large": (
        "the request is too large",
        "Leave out images or contexts, or `/compact` the chat.",
    ),
    "resources": ("the request cannot be sent", "Then try again."),
    "timeout": (
        "no answer came in time",
        "Try again later; for a slow model, set longer timeouts (`streamIdleTimeoutSeconds`, ...).",
    ),
    "tls": (
        "the connection cannot be secured",
        "If this network requires a login, log in with a browser, else set `network.caCertFile`.",
    ),
    "unknown": ("the provider reported an error", ""),
    "unsupported_feature": ("the model does not support this", "Choose a different model."),
}
"""The explanation of each class, and what the user can do."""


_SHORT = 120
"""Seconds below which a wait is shown in seconds, and is no sign of an exhausted daily quota."""


def user_message(
    error: BackendError, *, provider: str, model: str, key_source: str | None = None
) -> str:
    """Return the paragraph for the user: the model, the error, the provider's text, the advice.

    `key_source`: where the key was found.
    """
    text = f"{provider}/{model}: {explanation_of(error)}"
    if error.kind not in _OF_THE_KEY or key_source is None or "/login" in error.message:
        return text
    return f"{text} It was found in {key_source}.{_replacement(error, provider, key_source)}"


def _replacement(error: BackendError, provider: str, key_source: str) -> str:
    """Return a sentence on how to replace a refused key."""
    if error.kind != "auth" or key_source.startswith("providers."):  # no login precedes that one
        return ""
    return f" Send `/login {provider}` to store a different one."


def explanation_of(error: BackendError) -> str:
    """Return the same as `user_message`, without the model."""
    explanation, advice = _EXPLANATIONS[error.kind]
    facts = [f"status {error.status}"] if error.status else []
    facts += [f"request {error.request_id}"] if error.request_id else []
    detail = printable_lines(error.message.strip()[:600].rstrip("."))
    if error.retry_after and (error.kind != "quota" or error.retry_after > _SHORT):
        advice = f"The provider asks to wait {_in_units(error.retry_after)}. {advice}"
    aside = f" ({', '.join(facts)})" if facts else ""
    text = detail if detail.startswith(explanation) else f"{explanation}: {detail}"
    return f"{text}{aside}. {advice}".strip()


def _in_units(seconds: float) -> str:
    if seconds < _SHORT:
        return f"{seconds:.0f} s"
    minutes, hours, days = (round(seconds / unit) for unit in (60, 3600, 86_400))
    if minutes < 120:
        return f"{minutes} min"
    if hours < 72:
        return f"{hours} h"
    return f"{days} days" if days < 366 else "more than a year"


def error_from_fault(fault: HTTPError) -> BackendError:
    """Return the error for a failed exchange."""
    kind, retryable = _FAULTS[fault.kind]
    if isinstance(fault, HTTPTimeout) and fault.timer == "connect":
        kind = "network"
    return BackendError(kind, mask(str(fault)), retryable=retryable)


def error_from_response(status: int, headers: Mapping[str, str], body: bytes) -> BackendError:
    """Return the error for an answer with a status of 300 or more; `body` may be truncated."""
    text = body.decode("utf-8", "replace")
    try:
        payload = json.loads(body)
    except InvalidJSON:
        payload = None
    code, provider_text = _code_and_message(payload)
    excerpt = "" if is_binary(body) else _first_words(text)
    message = provider_text or excerpt or f"HTTP status {status} without a text"
    kind = classify(status, code, message)
    retryable = kind in TRANSIENT
    if 300 <= status < 400:
        kind, retryable = "network", False  # a wrong url, or a network with a login page
        message = f"it redirects to {headers.get('location', 'nowhere')}, where nothing was sent"
    elif status == 407:
        message = f"the proxy requires a login: {PROXY_LOGIN}"
    elif status == 511 or (status == 403 and text.lstrip().startswith("<")):
        kind, retryable = "network", False  # from a proxy or firewall, not the provider
    should_retry = headers.get("x-should-retry", "").lower()
    if should_retry == "false" or (should_retry == "true" and kind not in _HOPELESS):
        retryable = should_retry == "true"
    ids = (headers[name] for name in _REQUEST_ID_HEADERS if name in headers)
    return BackendError(
        kind,
        mask(message),
        status=status,
        code=code,
        retry_after=demanded_wait(headers, payload, message, status=status),
        retryable=retryable,
        request_id=next(ids, None),
        raw=mask(text)[:2000],
    )


def is_missing_path(error: BackendError) -> bool:
    """Return whether a web server has refused a path that it does not have."""
    return error.status in (404, 405) and any(map(_NO_PATH.search, (error.message, error.raw)))


def error_from_page(content_type: str, body: bytes) -> BackendError:
    """Return the error for an answer that is not JSON but, say, a page; `body` may be truncated."""
    if is_binary(body):
        kind = content_type[:80] if content_type.isprintable() else ""
        return BackendError(
            "protocol",
            f"expected an answer in JSON, got {kind or 'binary data'}, not text",
        )
    text = body.decode("utf-8", "replace")
    excerpt = _first_words(text) or mask(" ".join(text.split()))[:200]  # some pages are only tags
    guess = " (is it a login page of the network?)" if text.lstrip().startswith("<") else ""
    kind = f"{content_type[:80]}{guess}".strip()
    content = f"{kind}: {excerpt}" if kind else excerpt  # last, since it may end within a key
    return BackendError(
        "protocol", mask(f"expected an answer in JSON, got {content}"), raw=mask(text)[:2000]
    )


def error_in_payload(payload: Any, *, failed: bool = False) -> BackendError | None:
    """Return the error in a chunk of an answer with status 200; None if there is none.

    Args:
        payload: the parsed chunk.
        failed: the event's name is `error`, so the chunk is an error whatever it contains.
    """
    if isinstance(payload, list) and payload and isinstance(payload[0], dict):
        return error_in_payload(payload[0], failed=True)
    if not isinstance(payload, dict):
        got = json.dumps(payload).decode()[:60]
        return BackendError("protocol", f"expected an object in the stream, got {got}")
    minimax, groq = payload.get("base_resp"), payload.get("x_groq")
    if isinstance(minimax, dict) and minimax.get("status_code"):
        return error_from_payload({"error": {"message": minimax.get("status_msg")}})
    if isinstance(groq, dict) and groq.get("error"):
        return error_from_payload({"error": groq["error"]})
    is_named = payload.get("error") or "error" in (payload.get("object"), payload.get("type"))
    is_bare = "detail" in payload or {"code", "msg"} <= payload.keys()
    if failed or is_named or (is_bare and not payload.get("choices")):
        return error_from_payload(payload)
    return None


def error_from_payload(payload: Mapping[str, Any]) -> BackendError:
    """Return the error for an object that came without a status of its own."""
    code, text = _code_and_message(payload)
    message = text or code or "the provider reported an error without a text"
    status = int(code) if code and re.fullmatch(r"[45]\d\d", code) else None
    kind = classify(status, code, message)
    return BackendError(
        kind,
        mask(message),
        status=status,
        code=code,
        retry_after=demanded_wait({}, payload, message),
        retryable=kind in TRANSIENT,
        raw=mask(json.dumps(payload).decode())[:2000],
    )


def _code_and_message(payload: Any) -> tuple[str | None, str | None]:
    """Read the code and the message of an error body, in every known form."""
    if isinstance(payload, list) and payload:
        payload = payload[0]
    if not isinstance(payload, dict):
        return None, None
    error = payload.get("error") or next(iter(list_in(payload, "errors")), None)  # Cloudflare
    inner: Mapping[str, Any] = error if isinstance(error, dict) else payload
    text = next((inner[name] for name in ("message", "msg", "detail") if inner.get(name)), None)
    text = error if text is None and isinstance(error, str) else text
    if isinstance(text, dict) and isinstance(text.get("message"), str):
        return _code_and_message({"error": text})
    if (quoted := _quoted_error(text)) is not None:
        beginning, cause = quoted
        code, message = _code_and_message(cause)
        codes = [code, _code(inner)]
        code = _known(codes) or next(filter(None, codes), None)
        return code, " ".join(filter(None, (beginning, message)))
    message = _words(text)
    if isinstance(param := inner.get("param"), str) and " " in param.strip():
        message = f"{message}: {param}"  # MiMo explains there
    if isinstance(raw := object_in(inner, "metadata").get("raw"), str):
        message = f"{message}: {mask(raw)[:500]}"
    return _code(inner), message


def _code(error: Mapping[str, Any]) -> str | None:
    """Return the most specific of an error's codes: a known one, else the first."""
    codes = _codes(error.get(name) for name in ("code", "type", "status"))
    detail_codes = _codes(_detailed(error.get("details")))
    unknown = (code for code in codes + detail_codes if code != "error")
    return _known(detail_codes + codes) or next(unknown, None)


def _known(codes: Iterable[str | None]) -> str | None:
    """Return the first code that has a class; None: there is none."""
    return next((code for code in codes if code and classify(None, code, "") != "unknown"), None)


def _codes(values: Iterable[Any]) -> list[str]:
    return [str(value) for value in values if isinstance(value, int | str) and value]


def _detailed(details: Any) -> list[Any]:
    """Return the causes in details: Anthropic's code, Google's reasons and exhausted quotas."""
    if isinstance(details, dict):
        return [details.get("error_code")]
    entries = details if isinstance(details, list) else []
    quotas = [
        text_in(each, "quotaId") for entry in entries for each in list_in(entry, "violations")
    ]
    longest_first = sorted(quotas, key=lambda quota: "PerDay" not in quota)
    return [*(text_in(entry, "reason") for entry in entries), *longest_first]


def _quoted_error(text: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the error that a gateway quotes in a text of its own, and the text before it."""
    start = re.search(r"\[?\{", text) if isinstance(text, str) else None
    if start is None:
        return None
    try:
        quoted, _ = _JSON_IN_TEXT.raw_decode(text, start.start())
    except (ValueError, RecursionError):
        return None
    cause = quoted[0] if isinstance(quoted, list) else quoted
    if not isinstance(cause, dict) or not ("error" in cause or {"message", "type"} <= cause.keys()):
        return None
    return re.sub(r"\bb?['\"]$", "", text[: start.start()]).rstrip(), cause


def _words(value: Any) -> str | None:
    """Return a text, or the texts in FastAPI's lists of errors."""
    if isinstance(value, dict):
        value = value.get("detail", [value])
    if isinstance(value, list):
        complaints = [_complaint(item) for item in value if isinstance(item, dict)]
        return "; ".join(complaints) or None
    return _STACK_TRACE.split(str(value), 1)[0] if value is not None else None


def _complaint(item: Mapping[str, Any]) -> str:
    where = item.get("loc")
    path = ".".join(map(str, where)) if isinstance(where, list) else ""
    return f"{path}: {item.get('msg', item)}"


def is_binary(body: bytes) -> bool:
    """Return whether the beginning of a body holds control bytes, as pictures and archives do.

    White space in front does not count: a body that arrives in pieces is read without it.
    """
    return _CONTROL.search(body.lstrip(), 0, 1024) is not None


def _first_words(text: str) -> str:
    """Return the title of a page, else the first line, masked, at most 200 characters."""
    title = re.search(r"<title[^<>]*>(.*?)(?:</title>|\Z)", text, re.IGNORECASE | re.DOTALL)
    plain = title.group(1) if title else re.sub(r"<[^<>]*>", " ", text)
    return next((mask(line.strip())[:200] for line in plain.splitlines() if line.strip()), "")

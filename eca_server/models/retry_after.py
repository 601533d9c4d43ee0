"""The wait that a provider demands, in any of its forms.

An unreadable demand is none; a time in the past is a wait of 0. Times are those of the provider's
clock, which the `Date` of its answer shows.
"""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from eca_server.json_members import list_in, object_in, text_in

_PIECE = (
    r"(\d+(?:\.\d+)?)\s?(ms|milliseconds?|h|hours?|m|min(?:ute)?s?|s|sec(?:ond)?s?)(?![a-z])\s?"
)
_TRY_AGAIN = re.compile(rf"(?:try again|retry) (?:in|after) ((?:{_PIECE})+)", re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}

_LOADING = "loading model"
"""The message of llama.cpp until it has read a model from the disk, which may take a minute."""

LOADING_SECONDS = 10.0
"""The wait before such a server is asked again."""

_PASSED_ON = "llm_provider-"
"""The beginning of the names of a provider's headers that LiteLLM passes on."""

_LIMITS = (
    *(f"x-ratelimit-{{}}-{kind}" for kind in ("requests", "tokens")),
    *(
        f"anthropic-ratelimit-{kind}-{{}}"
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    "x-ratelimit-{}",
)
"""The headers of each rate limit; `remaining` or `reset` is inserted."""


def demanded_wait(
    headers: Mapping[str, str],
    payload: Any,
    message: str,
    *,
    status: int = 429,
    now: datetime | None = None,
) -> float | None:
    """Return the seconds to wait, 0 or more; None: no readable demand.

    Args:
        headers: of the answer, names in lower case.
        payload: the parsed body, if it is JSON.
        message: the provider's message.
        status: the status; rate limits in the headers count only with 429.
        now: the current time in UTC, for an answer without a `Date`.
    """
    behind = {name.removeprefix(_PASSED_ON): text for name, text in headers.items()}
    headers = {**behind, **headers}
    now = _when(headers.get("date")) or now or datetime.now(UTC)
    retry_after = headers.get("retry-after", "")
    first = retry_after.partition(",")[0]  # a gateway may add one of its own; a date has a comma
    candidates = (
        _number(headers.get("retry-after-ms"), scale=0.001),
        _number(first),
        _duration(first),
        _date(retry_after, now),
        _in_payload(payload, now),
        _of_limits(headers, now) if status == 429 else None,
        _duration(match.group(1)) if (match := _TRY_AGAIN.search(message)) else None,
        LOADING_SECONDS if status == 503 and message.lower() == _LOADING else None,
    )
    return next((seconds for seconds in candidates if seconds is not None), None)


def _number(text: str | None, *, scale: float = 1.0) -> float | None:
    try:
        seconds = float(text) * scale if text else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _date(text: str | None, now: datetime) -> float | None:
    when = _when(text)
    return None if when is None else max(0.0, (when - now).total_seconds())


def _when(text: str | None) -> datetime | None:
    """Read a date of HTTP."""
    try:
        when = email.utils.parsedate_to_datetime(text) if text else None
    except (OverflowError, TypeError, ValueError):
        return None
    return when if when is None or when.tzinfo else when.replace(tzinfo=UTC)


def _in_payload(payload: Any, now: datetime) -> float | None:
    if isinstance(payload, list) and payload:
        payload = payload[0]
    error = object_in(payload, "error")
    resets_at = error.get("resets_at")
    if isinstance(resets_at, int | float) and not isinstance(resets_at, bool):
        epoch = _number(str(resets_at))
        return None if epoch is None else max(0.0, epoch - now.timestamp())
    delays = (text_in(detail, "retryDelay") for detail in list_in(error, "details"))
    return next((_duration(delay) for delay in delays if delay), None)


def _of_limits(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the latest reset of the exhausted rate limits."""
    used_up = (limit for limit in _LIMITS if headers.get(limit.format("remaining")) == "0")
    resets = [headers.get(limit.format("reset")) for limit in used_up]
    resets.append(headers.get("anthropic-ratelimit-unified-reset"))
    waits = (_reset(text, now) for text in resets if text)
    return max((seconds for seconds in waits if seconds is not None), default=None)


def _reset(text: str, now: datetime) -> float | None:
    """Read a reset: a duration, seconds, seconds or milliseconds of the epoch, or a date."""
    if (seconds := _number(text)) is not None:
        epoch = seconds / 1000 if seconds > 1e11 else seconds
        return max(0.0, epoch - now.timestamp()) if epoch > 1e9 else epoch
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return _duration(text)
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())


def _duration(text: str) -> float | None:
    """Read a duration in Go's form (`1m2.5s`, `12ms`), or in words (`6 seconds`)."""
    if not re.fullmatch(f"(?:{_PIECE})+", text, re.IGNORECASE):
        return None
    seconds = sum(
        float(number) * (0.001 if unit.startswith(("ms", "mil")) else _UNITS[unit[0]])
        for number, unit in re.findall(_PIECE, text.lower())
    )
    return seconds if math.isfinite(seconds) else None

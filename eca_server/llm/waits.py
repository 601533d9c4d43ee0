"""How long a provider asks us to wait, in whichever of the many ways it says so.

The rule it keeps: what is unreadable is no demand; what lies in the past is a demand of nothing.
"""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["wait_demanded"]

_TRY_AGAIN = re.compile(r"(?:try again|retry) in ((?:\d+(?:\.\d+)?(?:ms|[hms]))+)", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[hms])", re.IGNORECASE)
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def wait_demanded(
    headers: Mapping[str, str], payload: Any, message: str, *, now: datetime | None = None
) -> float | None:
    """Seconds to wait, 0 or more; None when nothing (readable) is demanded.

    Args:
        headers: of the answer, names in lower case.
        payload: the parsed body, if it is JSON.
        message: the provider's words.
        now: the time now, for dates; UTC.
    """
    now = now or datetime.now(UTC)
    candidates = (
        _number(headers.get("retry-after-ms"), scale=0.001),
        _number(headers.get("retry-after")),
        _date(headers.get("retry-after"), now),
        _in_payload(payload, now),
        _bucket(headers, now),
        _duration(match.group(1)) if (match := _TRY_AGAIN.search(message)) else None,
    )
    return next((seconds for seconds in candidates if seconds is not None), None)


def _number(text: str | None, *, scale: float = 1.0) -> float | None:
    try:
        seconds = float(text) * scale if text else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _date(text: str | None, now: datetime) -> float | None:
    try:
        when = email.utils.parsedate_to_datetime(text) if text else None
    except (ValueError, TypeError):
        return None
    if when is None:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now).total_seconds())


def _in_payload(payload: Any, now: datetime) -> float | None:
    if isinstance(payload, list) and payload:
        payload = payload[0]
    error = payload.get("error") if isinstance(payload, dict) else None
    if not isinstance(error, dict):
        return None
    resets_at = error.get("resets_at")
    if isinstance(resets_at, int | float) and not isinstance(resets_at, bool):
        return max(0.0, resets_at - now.timestamp())
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str):
            return _duration(delay)
    return None


def _bucket(headers: Mapping[str, str], now: datetime) -> float | None:
    """The latest reset among the rate limits that are used up."""
    waits = []
    for kind in ("requests", "tokens"):
        if headers.get(f"x-ratelimit-remaining-{kind}") == "0":
            reset = headers.get(f"x-ratelimit-reset-{kind}", "")
            seconds = _duration(reset)
            if seconds is None and (epoch := _number(reset)) is not None:
                epoch = epoch / 1000 if epoch > 1e11 else epoch
                seconds = max(0.0, epoch - now.timestamp()) if epoch > 1e9 else epoch
            waits += [seconds] if seconds is not None else []
    return max(waits, default=None)


def _duration(text: str) -> float | None:
    """A duration as Go writes it: `1m2.5s`, `12ms`."""
    pieces = _DURATION.findall(text)
    if not pieces or "".join(number + unit for number, unit in pieces) != text:
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in pieces)

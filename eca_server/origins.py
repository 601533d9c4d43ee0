"""Origins of URLs: what belongs to one origin is not sent to a different one."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def is_same_origin(one: str, other: str) -> bool:
    """Return whether two URLs have the same scheme, host and port."""
    return one == other or _origin(one) == _origin(other)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url, None, None
    return parts.scheme, parts.hostname, port or _DEFAULT_PORTS.get(parts.scheme)

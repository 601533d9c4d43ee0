"""The address of Ollama, from the variable `OLLAMA_HOST`. No I/O.

The variable is read as Ollama itself reads it. Since it also tells servers where to listen, an
address for all interfaces stands for this machine.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}
_PORT = 11434


def address_of(host: str) -> str | None:
    """Return the base URL for a value of `OLLAMA_HOST`; None: the value is unusable.

    It may lack the scheme, the host or the port: `0.0.0.0`, `:11500`, `[::1]:11434`, `ollama.com`.
    """
    scheme, separator, rest = host.strip().strip("\"'").partition("://")
    if not separator:
        scheme, rest = "http", scheme
        if rest == "ollama.com":
            scheme = "https"
    if not rest.strip("/") or scheme not in _PORTS:
        return None
    where, _, path = rest.partition("/")
    if where.count(":") > 1 and not where.startswith("["):
        where = f"[{where}]"  # an IPv6 address without a port
    try:
        parts = urlsplit(f"{scheme}://{where}")
        name, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError:
        return None
    if port is None:
        port = _PORTS[scheme] if separator or scheme == "https" else _PORT
    base = f"{scheme}://{_reached(name)}:{port}"
    return f"{base}/{path.strip('/')}" if path.strip("/") else base


def _reached(name: str) -> str:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return name
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return str(address) if address.version == 4 else f"[{address}]"

"""The choice of a proxy for a URL from the environment.

The choice depends on the host's name, not on the address it resolves to. Requests to this machine
never use a proxy, on which `localhost` would be a different machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

__all__ = ["PROXY_LOGIN", "explain_proxy_error", "proxy_for"]

_PROXY = re.compile(r"https?://[^/\s]+")

PROXY_LOGIN = (
    "put the right user name and password before the host in the proxy variable (HTTPS_PROXY)"
)
"""The advice for a refusal with status 407, or of a SOCKS proxy."""


def proxy_for(url: str, proxies: Mapping[str, str]) -> str | None:
    """Return the address of the proxy for a URL, or None for a direct connection.

    Args:
        url: an absolute URL.
        proxies: the result of `urllib.request.getproxies`: addresses by `http`, `https` and `all`,
            and under `no` the hosts without a proxy: names (with their subdomains), addresses,
            networks (`10.0.0.0/8`), each optionally with a port, or `*`.
    """
    parts = urlsplit(url)
    host, scheme = (parts.hostname or "").rstrip("."), parts.scheme.lower()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or _is_this_machine(host):
        return None
    port = parts.port or {"http": 80, "https": 443}.get(scheme)
    exempt = proxies.get("no", "").lower().split(",")
    if any(_covers(entry.strip(), host, port) for entry in exempt):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_this_machine(host: str) -> bool:
    address = _address(host)
    if address is not None:
        return address.is_loopback
    return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _covers(entry: str, host: str, port: int | None) -> bool:
    address = _address(host)
    if entry == "*":
        return True
    if address is not None and "/" in entry:
        return _network_has(entry, address)
    if _address(entry) is None and ":" in entry:
        entry, _, entry_port = entry.rpartition(":")
        if entry_port != str(port):
            return False
    if address is not None:
        return address == _address(entry)
    name = entry.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(name) and f".{host}".endswith(f".{name}")


def _network_has(network: str, address: IPv4Address | IPv6Address) -> bool:
    try:
        return address in ip_network(network, strict=False)
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None


def explain_proxy_error(error: Exception) -> str:
    """Explain why a proxy cannot be used, by its variable; a value may contain a password."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    suspects = [
        spelling
        for name in names
        for spelling in (name, name.lower())
        if os.environ.get(spelling) and not _PROXY.match(os.environ[spelling])
    ]
    where = " and ".join(suspects) or "a proxy variable"
    if isinstance(error, ImportError):
        return f"{where} names a SOCKS proxy, which needs the package socksio (httpx[socks])"
    return f"{where} is not a proxy address: expected http://HOST:PORT"

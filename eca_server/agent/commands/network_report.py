"""The proxies and certificates in use, for `/doctor`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Final
from urllib.request import getproxies

from eca_server.config.login_settings import Network
from eca_server.secret import mask_url

_SCHEMES: Final = ("https", "http", "all")
_AUTHORITIES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_LOGIN: Final = re.compile(r"(?s)^([\w+.-]+://)?.*@")
"""The scheme and login of a proxy; a password may have a `/` or `#`, which end it in a URL."""


def describe_network(settings: Network) -> Iterator[str]:
    """Yield a line for each proxy of the environment, and one for the trusted authorities."""
    proxies = getproxies()
    used = [(scheme, proxies[scheme]) for scheme in _SCHEMES if proxies.get(scheme)]
    for scheme, address in used:
        host = _LOGIN.sub(r"\1", address)
        whole = host if "://" in host else f"http://{host}"
        variable = f"{scheme.upper()}_PROXY"
        is_set = os.environ.get(variable) or os.environ.get(variable.lower())
        yield f"proxy ({variable if is_set else 'of the system'}): {mask_url(whole)}"
    if not used:
        yield "proxy: none"
    elif proxies.get("no"):
        yield f"without a proxy (NO_PROXY): {proxies['no']}"
    named = [f"{name} ({os.environ[name]})" for name in _AUTHORITIES if os.environ.get(name)]
    trusted = [f"only those of {' and '.join(named)}" if named else "the usual and the system's"]
    if settings.ca_cert_file is not None:
        trusted.append(f"network.caCertFile ({settings.ca_cert_file})")
    yield f"certificate authorities: {', and '.join(trusted)}"

"""Whom an HTTPS request trusts.

The rule it keeps: a file that cannot be used is a fault that names it, before anything is sent.
Loading the usual authorities takes milliseconds: whoever makes a context does it in a worker thread
and keeps it.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from pathlib import Path

from eca_protocol.errors import HTTPFault

__all__ = ["is_tls_failure", "make_context"]


def make_context(usual: Callable[[], ssl.SSLContext], ca_file: str | None) -> ssl.SSLContext:
    """What a connection is secured with.

    Args:
        usual: makes a context that trusts those that `SSL_CERT_FILE` or `SSL_CERT_DIR` names, or
            if neither is set, the usual authorities.
        ca_file: certificates of authorities that are trusted beside those.

    Raises:
        HTTPFault: of the kind `config`: certificates cannot be loaded; the text says which.
    """
    _check_variables()
    try:
        context = usual()
    except ssl.SSLError as error:
        raise HTTPFault("config", f"certificates cannot be loaded: {error}") from error
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except (OSError, ValueError) as error:
            words = f"the certificates in {ca_file} cannot be loaded: {error}"
            raise HTTPFault("config", words) from error
    return context


def _check_variables() -> None:
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path = os.environ.get(variable)
        if path and not Path(path).exists():
            raise HTTPFault("config", f"{variable} names {path}, which does not exist")


def is_tls_failure(error: BaseException | None) -> bool:
    """Whether TLS is what an error came from."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error is not None

"""Any error response of a provider becomes one readable error without the key."""

from __future__ import annotations

import math

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.errors import InvalidJSON
    from eca_server.models.errors import error_from_response, error_in_payload, user_message
    from eca_server.secret import Secret

KEY = "sk-planted-0123456789abcdef"


def check(data: bytes) -> None:
    """Check `data`: a status and headers, each in a line, a blank line, and the body."""
    head, _, body = data.partition(b"\n\n")
    first, *rows = head.decode("latin-1").split("\n")
    status = int(first) if first.isascii() and first.isdigit() and len(first) == 3 else 400
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (row.partition(":") for row in rows)
    }
    error = error_from_response(status, headers, body)
    assert error.message
    assert error.status == status
    assert error.retry_after is None or 0 <= error.retry_after < math.inf
    shown = error.mask_secrets(Secret(KEY))
    words = user_message(shown, provider="p", model="m")
    assert words
    assert KEY not in f"{shown} {shown.message} {shown.raw} {shown.code} {words}"
    try:
        payload = json.loads(body)
    except InvalidJSON:
        return
    within = error_in_payload(payload, failed=True)
    assert within is None or within.message


if __name__ == "__main__":
    main("refusals", check)

"""Keys that an agent or a manifest let slip do not get into a report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from eca_server.ecp.results import RunReport
from eca_server.secret import Secret, mask

__all__ = ["masked"]

_KEY_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SHORTEST: Final = 6  # characters; a shorter word stands in too many texts
_REDACTED: Final = "[redacted]"
_TEXTS: Final = frozenset({"input", "output", "evaluation_context", "logs", "log", "wanted", "saw"})


def masked(report: RunReport, environment: Mapping[str, str], *, redact: bool) -> RunReport:
    """The report without the values of variables that are named like keys, and key-shaped texts.

    Args:
        report: as it was made.
        environment: where keys may stand.
        redact: whether what was said and answered is left out, too.
    """
    secrets = [
        Secret(value.strip())
        for name, value in environment.items()
        if _KEY_NAME.search(name.upper()) and len(value.strip()) >= _SHORTEST
    ]
    return RunReport.from_json(_masked(report.to_json(), tuple(secrets), redact, ""))


def _masked(value: Any, secrets: tuple[Secret, ...], redact: bool, name: str) -> Any:
    if isinstance(value, str):
        if redact and name in _TEXTS:
            return _REDACTED
        return mask(value, *secrets)
    if isinstance(value, Mapping):
        if redact and name == "tool_calls":
            return {"name": value.get("name"), "arguments": {}}
        return {
            mask(key, *secrets): _masked(item, secrets, redact, key) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_masked(item, secrets, redact, name) for item in value]
    return value

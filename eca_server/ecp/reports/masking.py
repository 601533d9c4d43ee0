"""Keys that an agent or a manifest let slip get into no report, and before nobody's eyes.

Masked is whatever text came from somewhere; the report's own words (a status, an exit reason, the
names of its fields) stay, whatever somebody's password is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from eca_server.ecp.results import RunReport
from eca_server.secret import Secret, mask

__all__ = ["hiding", "masked"]

_KEY_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
_SHORTEST: Final = 6  # characters; a shorter word stands in too many texts
_REDACTED: Final = "[redacted]"
_OWN_WORDS: Final = frozenset({"status", "exit_reason", "agent_status"})
_TEXTS: Final = frozenset(
    {
        *("input", "output", "evaluation_context", "logs", "log", "error"),
        *("wanted", "saw", "reasoning", "reply"),
    }
)

_T = TypeVar("_T")


def masked(report: RunReport, environment: Mapping[str, str], *, redact: bool) -> RunReport:
    """The report without the values of variables that are named like keys, and key-shaped texts.

    Args:
        report: as it was made.
        environment: where keys may stand.
        redact: whether what was said and answered, and every text that may quote it, is left out,
            too.
    """
    masking = _Masking(hiding(environment), redact)
    audit = masking.record(report.audit)
    return attrs.evolve(masking.model(attrs.evolve(report, audit={})), audit=audit)


def hiding(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Masks a text: values of variables that are named like keys, and key-shaped texts."""
    values = {
        value.strip()
        for name, value in environment.items()
        if _KEY_NAME.search(name.upper()) and len(value.strip()) >= _SHORTEST
    }
    secrets = tuple(map(Secret, values))
    return functools.lru_cache(4096)(lambda text: mask(text, *secrets))


class _Masking:
    def __init__(self, hide: Callable[[str], str], redact: bool) -> None:
        self._redact = redact
        self._mask = hide

    def model(self, model: _T) -> _T:
        """One of the report's models, its fields masked."""
        given = {
            field.name: self._value(getattr(model, field.name), field.name)
            for field in attrs.fields(type(model))  # type: ignore[arg-type]  # of an attrs class
            if field.name not in _OWN_WORDS
        }
        return attrs.evolve(model, **given)  # type: ignore[misc]  # likewise

    def record(self, value: Any, name: str = "") -> Any:
        """A part of the audit record, whose keys are ours but for what the agent says of itself."""
        if name in _OWN_WORDS:
            return value
        if name == "agent":
            return self._value(value, name)
        if isinstance(value, Mapping):
            return {key: self.record(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.record(item) for item in value]
        return self._value(value, name)

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            return _REDACTED if self._redact and name in _TEXTS else self._mask(value)
        if isinstance(value, Mapping):
            if self._redact and name == "tool_calls":
                return {"name": self._value(value.get("name"), ""), "arguments": {}}
            return {self._mask(key): self._value(item, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._value(item, name) for item in value)
        return self.model(value) if attrs.has(type(value)) else value

"""Masking of keys in reports and on the terminal.

Every text of an agent or a manifest is masked. The report's own words (a status, an exit reason,
the names of its fields) stay, even if a password is equal to one.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import attrs

from eca_server.ecp.results import RunReport, ScenarioReport
from eca_server.secret import Secret, mask

_KEY_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|_PASS|_PAT)$")
_QUALIFIED_KEY_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)S?_?(?:[0-9]|_[A-Z])")
"""As in `API_KEY_2` and `API_KEY_TEST`, but also in `KEY_PATH`: the value decides."""
_KEY_VALUE: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[\w+=-][^\s:]{15,}")
_SHORTEST: Final = 6  # characters; a shorter value would match too many words
_REDACTED: Final = "[redacted]"
_OWN_WORDS: Final = frozenset({"status", "exit_reason", "agent_status"})
_QUOTED: Final = re.compile(r": .*", re.DOTALL)  # what a scenario's warning quotes of the agent
_TEXTS: Final = frozenset(
    {
        *("input", "output", "evaluation_context", "logs", "log", "error"),
        *("expected", "actual", "reasoning", "reply"),
    }
)

_T = TypeVar("_T")


def mask_report(report: RunReport, environment: Mapping[str, str], *, redact: bool) -> RunReport:
    """Mask the values of variables named like keys, and texts that look like keys.

    `redact`: omit inputs, answers, and every text that may quote them, too.
    """
    masking = _Masking(make_masker(environment), redact)
    audit = masking.record(report.audit)
    return attrs.evolve(masking.model(attrs.evolve(report, audit={})), audit=audit)


def redact_scenario(report: ScenarioReport) -> ScenarioReport:
    """Omit inputs, answers, and every text that may quote them."""
    return _Masking(str, redact=True).model(report)


def make_masker(environment: Mapping[str, str]) -> Callable[[str], str]:
    """Make a function that masks values of variables named like keys, and texts like keys.

    The values are also masked as they are spelled within JSON.
    """
    values = {
        value.strip()
        for name, value in environment.items()
        if _holds_key(name.upper(), value.strip())
    }
    spelled = {
        json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        for value in values
        for is_ascii in (True, False)
    }
    secrets = tuple(map(Secret, values | spelled))
    return functools.lru_cache(4096)(lambda text: mask(text, *secrets))


def _holds_key(name: str, value: str) -> bool:
    if _KEY_NAME.search(name):
        return len(value) >= _SHORTEST
    return bool(_QUALIFIED_KEY_NAME.search(name) and _KEY_VALUE.fullmatch(value))


def mask_beginning(text: str, length: int) -> str:
    """Return this many characters of a text and some more, masked.

    A text is masked before it is cut, since half a key would not be recognized.
    """
    return make_masker(os.environ)(text[: length + 8192])


class _Masking:
    def __init__(self, mask_text: Callable[[str], str], redact: bool) -> None:
        self._redact = redact
        self._mask = mask_text

    def model(self, model: _T) -> _T:
        if self._redact and isinstance(model, ScenarioReport):
            warnings = tuple(_QUOTED.sub("", warning) for warning in model.warnings)
            model = attrs.evolve(model, warnings=warnings)
        masked = {
            field.name: self._value(getattr(model, field.name), field.name)
            for field in attrs.fields(type(model))  # type: ignore[arg-type]  # of an attrs class
            if field.name not in _OWN_WORDS
        }
        return attrs.evolve(model, **masked)  # type: ignore[misc]  # of an attrs class

    def record(self, value: Any, name: str = "") -> Any:
        """Mask a part of the audit record; only the keys below `agent` are masked, too."""
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
            if self._redact and name == "constraints":
                return {}
            if self._redact and name == "tool_calls":
                return {"name": self._value(value.get("name"), ""), "arguments": {}}
            return {self._mask(key): self._value(item, key) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._value(item, name) for item in value)
        return self.model(value) if attrs.has(type(value)) else value

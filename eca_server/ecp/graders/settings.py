"""How checks are made: plain data that travels with the scenarios; keys stay where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

__all__ = ["GraderSettings", "JudgeSettings", "SettingsInvalid", "settings_from"]

_DEFAULT_MODEL: Final = "gpt-4o-mini"


class SettingsInvalid(Exception):
    """An option or variable that makes no sense; the text names it."""


@attrs.frozen(kw_only=True)
class JudgeSettings:
    """Who judges, and how.

    Attributes:
        model: of an OpenAI-compatible API; `provider/model` asks a provider of the server's own.
        temperature: of the judge's answers.
        deadline: seconds for one verdict, repetitions included.
        url: the API's base; None: OpenAI's.
        key_variable: the environment variable its key is in, wherever the check is made.
        cache: a folder of verdicts that are used again; None: none are.
        config_file: of the server, for its own providers.
    """

    model: str = _DEFAULT_MODEL
    temperature: float = 0.0
    deadline: float = 60.0
    url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    cache: str | None = None
    config_file: str | None = None


@attrs.frozen(kw_only=True)
class GraderSettings:
    """How checks are made.

    Attributes:
        allow_empty: whether an empty text is compared; by default it fails every text check.
        nested_subset: whether an object within the arguments of a call may have more members.
        regex_seconds: how long one pattern may be matched.
        judge: who judges.
    """

    allow_empty: bool = False
    nested_subset: bool = False
    regex_seconds: float = 2.0
    judge: JudgeSettings = attrs.field(factory=JudgeSettings)


def settings_from(
    environment: Mapping[str, str],
    *,
    allow_empty: bool = False,
    nested_subset: bool = False,
    judge_cache: str | None = None,
    config_file: str | None = None,
) -> GraderSettings:
    """The settings that options and variables ask for.

    Raises:
        SettingsInvalid: a variable is no number, or out of its range.
    """
    own = "ECP_LLM_JUDGE_API_KEY"
    judge = JudgeSettings(
        model=environment.get("ECP_LLM_JUDGE_MODEL") or _DEFAULT_MODEL,
        temperature=_number(environment, "ECP_LLM_JUDGE_TEMPERATURE", 0.0, low=0.0, high=2.0),
        deadline=_number(environment, "ECP_LLM_JUDGE_TIMEOUT", 60.0, low=0.001, high=86_400.0),
        url=environment.get("OPENAI_BASE_URL") or None,
        key_variable=own if environment.get(own) else "OPENAI_API_KEY",
        cache=judge_cache,
        config_file=config_file,
    )
    empty = environment.get("ECP_TEXT_MATCH_EMPTY", "")
    if empty not in {"", "allow", "fail"}:
        raise SettingsInvalid(f"ECP_TEXT_MATCH_EMPTY: expected allow or fail, got {empty!r:.60}")
    return GraderSettings(
        allow_empty=allow_empty or empty == "allow", nested_subset=nested_subset, judge=judge
    )


def _number(
    environment: Mapping[str, str], name: str, default: float, *, low: float, high: float
) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise SettingsInvalid(
            f"{name}: expected a number from {low:g} to {high:g}, got {text!r:.60}"
        )
    return number

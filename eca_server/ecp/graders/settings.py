"""The graders' settings: plain data that is sent to workers with the scenarios, without keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from eca_server.ecp.manifest.model import Unusable

_DEFAULT_MODEL: Final = "gpt-4o-mini"


@attrs.frozen(kw_only=True)
class JudgeSettings:
    """The settings of the judging model.

    Attributes:
        model: a model of an OpenAI-compatible API, or `provider/model` of the server's providers.
        deadline: seconds for one verdict, retries included.
        url: the API's base URL; None means OpenAI's.
        key_variable: the environment variable with the API's key, on the machine of the check.
        cache: the directory of stored verdicts; None disables the cache.
        config_file: the server's configuration file, for its providers.
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
    """The settings of all graders.

    Attributes:
        allow_empty: compare empty texts; by default an empty text fails every text check.
        nested_subset: allow further members in objects within a call's arguments.
        regex_seconds: the time limit of one pattern.
    """

    allow_empty: bool = False
    nested_subset: bool = False
    regex_seconds: float = 2.0
    judge: JudgeSettings = attrs.field(factory=JudgeSettings)


def read_settings(
    environment: Mapping[str, str],
    *,
    allow_empty: bool = False,
    nested_subset: bool = False,
    judge_cache: str | None = None,
    config_file: str | None = None,
) -> GraderSettings:
    """Read the settings from options and environment variables.

    Raises:
        Unusable: a variable has an invalid value.
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
        raise Unusable(f"ECP_TEXT_MATCH_EMPTY: expected allow or fail, got {empty!r:.60}")
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
        raise Unusable(f"{name}: expected a number from {low:g} to {high:g}, got {text!r:.60}")
    return number

"""The values that JSON Schema 2020-12 allows for the keywords of a schema. Pure functions."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
_LONGEST_PATTERN: Final = 1000
"""Characters of a pattern; `re` compiles half a million a second."""


def valid_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without keywords of a wrong type or range, which restrict nothing.

    Servers write older drafts and mistakes; an API refuses the whole request for one wrong value.
    A boolean bound of draft 4 (`minimum` with `exclusiveMinimum: true`) becomes a number.
    """
    made = dict(schema)
    for bound, exclusive in _BOUNDS:
        if made.get(exclusive) is True and _is_number(made.get(bound)):
            made[exclusive] = made.pop(bound)
    patterns = made.get("patternProperties")
    if isinstance(patterns, Mapping) and not all(map(_is_pattern, patterns)):
        for name in ("patternProperties", "additionalProperties", "unevaluatedProperties"):
            made.pop(name, None)
    return {name: value for name, value in made.items() if _is_valid(name, value)}


def _is_valid(name: str, value: Any) -> bool:
    check = _CHECKS.get(name, object)
    return isinstance(value, check) if isinstance(check, type) else check(value)


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -math.inf < value < math.inf


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN:
        return False
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _are_names_by_name(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_are_names, value.values()))


def _are_names(value: Any) -> bool:
    return (
        isinstance(value, list)
        and all(isinstance(each, str) for each in value)
        and len({*value}) == len(value)
    )


_CHECKS: Final[Mapping[str, type | Callable[[Any], bool]]] = {
    **dict.fromkeys(("title", "description", "format"), str),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), str),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly", "uniqueItems"), bool),
    **dict.fromkeys((name for names in _BOUNDS for name in names), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
    "multipleOf": _is_positive,
    "pattern": _is_pattern,
    "examples": list,
    "dependentRequired": _are_names_by_name,
}
"""The type or the check of each keyword whose value is neither a schema nor free."""

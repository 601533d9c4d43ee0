"""The approximate sizes of received values, for the limits of what is unread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

_CONTAINER: Final = 64
_ITEM: Final = 16


def size_of(value: Any) -> int:
    """Return about how many bytes the texts, objects and arrays in a value take."""
    size, rest = 0, [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            size += _CONTAINER + _ITEM * len(value)
            rest += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            size += _CONTAINER + _ITEM * len(value)
            rest += value
        elif attrs.has(type(value)):
            rest += [getattr(value, field.name) for field in attrs.fields(type(value))]
    return size

"""The editions of the protocol, and the editions in which a name exists.

A field, value, type or method has a `Window`: the editions in which it exists. Outside of its
window a name is read but not written, unless a ruling widens the window (`ruling="W-11"`): then
the name is written in every edition.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping
from typing import Any

import attrs

__all__ = [
    "EVER",
    "Revision",
    "Window",
    "detect",
    "detect_server",
    "forced_revision",
    "mark",
    "parse_revision",
    "window_of",
]


@functools.total_ordering
class Revision(enum.Enum):
    """An edition of the ECA protocol; ordered by age."""

    __hash__ = object.__hash__  # that of `Enum` is slow, as is a comparison of two members

    DRAFT = "2025-06"
    R2025_09 = "2025-09"
    R2025_10 = "2025-10"
    CURRENT = "current"

    def __init__(self, _: str) -> None:
        self.number: int = len(type(self).__members__)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Revision):
            return NotImplemented
        return self.number < other.number


def parse_revision(name: str) -> Revision:
    """Return the revision called `name` (`2025-06`, `2025-09`, `2025-10`, `current`).

    Raises:
        ValueError: no revision has that name; the text lists those that exist.
    """
    try:
        return Revision(name)
    except ValueError:
        known = ", ".join(revision.value for revision in Revision)
        raise ValueError(f"unknown protocol revision {name!r}: expected one of {known}") from None


@attrs.frozen(kw_only=True)
class Window:
    """A range of editions, both ends included; `ruling` widens it for writing."""

    since: Revision = Revision.R2025_09
    until: Revision = Revision.CURRENT
    ruling: str | None = None

    def holds(self, revision: Revision) -> bool:
        """Return True if the text of the edition has the name."""
        return self.since.number <= revision.number <= self.until.number

    def written_in(self, revision: Revision) -> bool:
        """Return True if we write the name in that edition, by its text or a ruling."""
        return self.ruling is not None or self.holds(revision)


EVER = Window()
_KEY = "eca_window"


def mark(
    *,
    since: Revision = Revision.R2025_09,
    until: Revision = Revision.CURRENT,
    ruling: str | None = None,
) -> dict[str, Any]:
    """Return metadata for `attrs.field` with the field's window."""
    return {_KEY: Window(since=since, until=until, ruling=ruling)}


def window_of(metadata: Mapping[Any, Any]) -> Window:
    """Return the window in a field's metadata (see `mark`); without one, all editions."""
    window = metadata.get(_KEY, EVER)
    assert isinstance(window, Window)
    return window


_DRAFT_CAPABILITIES = frozenset({"doc", "edit", "fix"})
_CURRENT_CAPABILITIES = frozenset({"chatCapabilities", "rewrite"})
_CURRENT_EDITOR_CAPABILITIES = frozenset({"definition", "references"})


def detect(initialize_params: object) -> Revision:
    """Return a client's revision from its raw `initialize` params (ruling W-12).

    Raises no exception: invalid members are ignored. The caller handles a forced revision;
    2025-09 is never detected, only forced.
    """
    if not isinstance(initialize_params, Mapping):
        return Revision.R2025_10
    assistant = _mapping(_mapping(initialize_params.get("capabilities")).get("codeAssistant"))
    if _DRAFT_CAPABILITIES & assistant.keys():
        return Revision.DRAFT
    if (
        _CURRENT_CAPABILITIES & assistant.keys()
        or _CURRENT_EDITOR_CAPABILITIES & _mapping(assistant.get("editor")).keys()
        or "chatAgent" in _mapping(initialize_params.get("initializationOptions"))
    ):
        return Revision.CURRENT
    return Revision.R2025_10


def forced_revision(initialize_params: object) -> Revision | None:
    """Return the revision in `initializationOptions.protocolRevision`, or None (W-12).

    Raises:
        ValueError: no revision has that name; the text lists those that exist.
    """
    params = _mapping(initialize_params)
    name = _mapping(params.get("initializationOptions")).get("protocolRevision")
    return parse_revision(name) if isinstance(name, str) else None


def detect_server(variants: object) -> Revision:
    """Return a server's revision from `chat.variants` of its first `config/updated` (W-16).

    Args:
        variants: None if the notification has no variants.

    2025-09 and the draft are never detected, only forced.
    """
    return Revision.R2025_10 if variants is None else Revision.CURRENT


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}

"""`/config`: what is configured, and by which source.

The rules it keeps: a value is shown as it was written, so that what a reference like `${env:KEY}`
stands for is never read; a key, a header and what looks like a key are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from eca_protocol import json
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, told_of_sources, without_keys
from eca_server.config import LoadedConfig
from eca_server.config.problems import dotted
from eca_server.secret import HIDDEN, Secret
from eca_server.tools.files import printable

__all__ = ["CONFIG", "report"]

_Path: TypeAlias = "tuple[str, ...]"

_LONGEST = 400  # characters of one value
_MOST = 300  # values
_REFERENCE = re.compile(r"\$\{\w+:[^{}:]+\}")  # without a default, which may be the secret
_HIDES = re.compile(
    r"(?:.*(?:key|token|secret|password|passphrase|authorization)s?|extraHeaders|extraPayload"
    r"|headers|env)",
    re.IGNORECASE,
)
"""Keys whose texts are secrets, or may be; `keyEnv` is none of them."""


@attrs.frozen
class _Set:
    """A value and the last source that set it."""

    value: object
    source: str


def report(loaded: LoadedConfig, keys: Iterable[Secret]) -> str:
    """What is configured, as Markdown.

    Args:
        loaded: the configuration.
        keys: hidden wherever they stand.
    """
    merged: dict[str, Any] = {}
    for source in loaded.sources:
        value = loaded.values.get(source.name)
        if isinstance(value, Mapping):
            _merge(merged, value, source.name)
    found = list(_leaves(merged, ()))
    withheld = {(each.source, each.key) for each in loaded.withheld}
    lines = [
        f"- `{dotted(path)}`: {_shown(path, each.value)} ({each.source}"
        f"{_withheld(path, each, withheld)})"
        for path, each in sorted(found, key=lambda each: each[0])[:_MOST]
    ]
    if len(found) > _MOST:
        lines.append(f"- and {len(found) - _MOST} more")
    problems = [f"- {problem}" for problem in loaded.problems]
    text = "\n".join(
        [
            *told_of_sources(loaded.sources),
            "",
            *(["Set:", "", *lines] if lines else ["Nothing is set."]),
            *(["", "Problems:", "", *problems] if problems else []),
            "",
            "What is not set has its default; `eca-server config schema` prints all there is.",
        ]
    )
    return without_keys(text, keys)


def _withheld(path: _Path, value: _Set, withheld: Collection[tuple[str, str]]) -> str:
    """Return words for a value that waits for the user's trust in its folder; else nothing."""
    keys = (dotted(path[:length]) for length in range(1, len(path) + 1))
    waits = any((value.source, key) in withheld for key in keys)
    return "; withheld until you accept it with `/trust`" if waits else ""


def _merge(into: dict[str, Any], value: Mapping[str, Any], source: str) -> None:
    """As the configuration is merged: objects deep, all else replaced, a null takes back."""
    for name, member in value.items():
        if member is None:
            into.pop(name, None)
        elif isinstance(member, Mapping):
            if not isinstance(into.get(name), dict):
                into[name] = {}
            _merge(into[name], member, source)
        else:
            into[name] = _Set(member, source)


def _leaves(merged: Mapping[str, Any], path: _Path) -> Iterator[tuple[_Path, _Set]]:
    for name, member in merged.items():
        if isinstance(member, _Set):
            yield (*path, name), member
        else:
            yield from _leaves(member, (*path, name))


def _shown(path: _Path, value: object) -> str:
    shown = _without_secrets(value, hides=any(map(_HIDES.fullmatch, path)))
    text = printable(json.dumps(shown).decode()).replace("`", "'")
    return f"`{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}`"


def _without_secrets(value: object, *, hides: bool) -> object:
    if isinstance(value, str):
        return HIDDEN if hides and not _REFERENCE.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {
            name: _without_secrets(member, hides=hides or bool(_HIDES.fullmatch(name)))
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item, hides=hides) for item in value]
    return value


async def _run(turn: Turn, situation: Situation) -> None:
    turn.say(
        report(situation.loaded, (*situation.models.secrets, *situation.loaded.secrets)),
        role="system",
    )


CONFIG = Command(
    name="config",
    description="What is configured, and by which source.",
    run=_run,
    steering="between requests",
)

"""`/config`: shows the configured values and their sources.

Rules: a value is shown as written, so that a reference like `${env:KEY}` is never resolved; keys,
headers and texts that look like keys are hidden.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from eca_protocol import json
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command, mask_keys, source_lines
from eca_server.agent.tools.files import printable
from eca_server.config.loading import LoadedConfig
from eca_server.config.problems import dotted
from eca_server.secret import HIDDEN, Secret, mask_url

_Path: TypeAlias = "tuple[str, ...]"

_MAX_VALUE = 400  # characters of one value
_MAX_VALUES = 300  # values
_REFERENCE = re.compile(r"\$\{\w+:[^{}:]+\}")  # without a default, which may be the secret
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_SECRET_KEYS = re.compile(
    r"(?:.*(?:key|token|secret|password|passphrase|authorization|header)s?|extraPayload|env)",
    re.IGNORECASE,
)
"""Names of settings whose values are or may be secrets; `keyEnv` is not one of them."""


@attrs.frozen
class _Setting:
    """A value and the last source that set it."""

    value: object
    source: str


def report(loaded: LoadedConfig, keys: Iterable[Secret]) -> str:
    """Return the configured values as Markdown.

    `keys`: secrets that are masked in the whole text.
    """
    merged: dict[str, Any] = {}
    for source in loaded.sources:
        value = loaded.values.get(source.name)
        if isinstance(value, Mapping):
            _merge(merged, value, source.name)
    leaves = list(_leaves(merged, ()))
    withheld = {(each.source, each.key) for each in loaded.withheld}
    lines = [
        f"- `{dotted(path)}`: {_formatted(path, each.value)} ({each.source}"
        f"{_withheld(path, each, withheld)})"
        for path, each in sorted(leaves, key=lambda each: each[0])[:_MAX_VALUES]
    ]
    if len(leaves) > _MAX_VALUES:
        lines.append(f"- and {len(leaves) - _MAX_VALUES} more")
    problems = [f"- {problem}" for problem in loaded.problems]
    text = "\n".join(
        [
            *source_lines(loaded.sources),
            "",
            *(["Settings:", "", *lines] if lines else ["No setting is configured."]),
            *(["", "Problems:", "", *problems] if problems else []),
            "",
            "Other settings have their defaults. Run `eca-server config schema` to list them all.",
        ]
    )
    return mask_keys(text, keys)


def _withheld(path: _Path, value: _Setting, withheld: Collection[tuple[str, str]]) -> str:
    """Return a note for a value that waits for the user's trust in its folder, else ""."""
    keys = (dotted(path[:length]) for length in range(1, len(path) + 1))
    waits = any((value.source, key) in withheld for key in keys)
    return "; withheld until you accept it with `/trust`" if waits else ""


def _merge(into: dict[str, Any], value: Mapping[str, Any], source: str) -> None:
    """Merge as the configuration does: objects deeply, other values replaced, null unsets."""
    for name, member in value.items():
        if member is None:
            into.pop(name, None)
        elif isinstance(member, Mapping):
            if not isinstance(into.get(name), dict):
                into[name] = {}
            _merge(into[name], member, source)
        else:
            into[name] = _Setting(member, source)


def _leaves(merged: Mapping[str, Any], path: _Path) -> Iterator[tuple[_Path, _Setting]]:
    for name, member in merged.items():
        if isinstance(member, _Setting):
            yield (*path, name), member
        else:
            yield from _leaves(member, (*path, name))


def _formatted(path: _Path, value: object) -> str:
    shown = _without_secrets(value, is_secret=any(map(_SECRET_KEYS.fullmatch, path)))
    text = printable(json.dumps(shown).decode()).replace("`", "'")
    return f"`{text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + '...'}`"


def _without_secrets(value: object, *, is_secret: bool) -> object:
    if isinstance(value, str):
        if is_secret and not _REFERENCE.fullmatch(value):
            return HIDDEN
        return mask_url(value) if _ADDRESS.fullmatch(value) else value
    if isinstance(value, Mapping):
        return {
            name: _without_secrets(
                member, is_secret=is_secret or bool(_SECRET_KEYS.fullmatch(name))
            )
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_secrets(item, is_secret=is_secret) for item in value]
    return value


@command("config", steering="between requests")
async def show_config(turn: Turn, context: CommandContext) -> None:
    """Show the configured values and their sources."""
    servers = context.loaded.config.mcp_servers.values()
    keys = [*context.models.secrets, *context.loaded.secrets]
    keys += [secret for server in servers for secret in server.secrets]
    turn.report(report(context.loaded, keys))

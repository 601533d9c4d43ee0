"""Unknown keys, mistyped or misplaced, and suggestions of the key that was probably meant.

A key that ECA reads and this server ignores is unknown, too. The user is warned of it once, with
the consequence in `UPSTREAM_KEYS`; there is no warning if its absence changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from eca_server.config.problems import dotted
from eca_server.config.reading import KeyPath

_UNKNOWN: Final = "unknown key"

_Place: TypeAlias = tuple[KeyPath, Mapping[str, Any]]
"""An object of the configuration: its path, and the keys that its schema names."""

_DEEPEST: Final = 2
"""Objects between a misplaced key and the one that it belongs in."""

_NO_SHELL: Final = "this server chooses the shell; `toolCall.sandbox` confines commands"

UPSTREAM_KEYS: Final[Mapping[str, str | None]] = {
    "$schema": None,
    "chat.autoSyncSystemPrompt": None,
    "chat.defaultTrust": "only the user can set a chat to trusted",
    "chatRetentionDays": "chats are stored until they are deleted",
    "index.repoMap": None,
    "memory": "nothing is remembered across chats; write it into an AGENTS.md",
    "plugins": "no plugin is loaded",
    "providers.*.cacheRetention": "the provider's own duration applies",
    "providers.*.httpClient": None,
    "providers.*.inherit": "write the `api`, `url` and key of this provider as well",
    "providers.*.models.*.defaultVariant": "set the `variant` of an agent instead",
    "providers.*.requiresAuth": None,
    "providers.*.retry.maxAutoContinues": "an interrupted answer is not continued automatically",
    "providers.*.retry.prematureStopMaxRetries": "`retry.maxRetries` applies",
    "providers.*.retryRules": "only known transient errors are retried",
    "pureConfig": "only the editor's initializationOptions can set it",
    "remote": "this server does not listen on the network",
    "retry.maxAutoContinues": "an interrupted answer is not continued automatically",
    "retry.prematureStopMaxRetries": "`retry.maxRetries` applies",
    "toolCall.editorNav": "use `disabledTools` to turn off the editor's tools",
    "toolCall.shellCommand.args": _NO_SHELL,
    "toolCall.shellCommand.path": _NO_SHELL,
    "variantsByModel": "set `variants` on each configured model instead",
    **{
        f"{name}.*.toolCall.{key}": why
        for name in ("agent", "behavior")
        for key, why in (
            ("editorNav", "use `disabledTools` to turn off the editor's tools"),
            ("shellCommand.args", _NO_SHELL),
            ("shellCommand.path", _NO_SHELL),
        )
    },
}
"""The consequence by the dotted key; None: no consequence. A `*` stands for any name."""


def unknown_keys(
    value: object, schema: Mapping[str, Any], path: KeyPath = (), above: Sequence[_Place] = ()
) -> Iterator[tuple[KeyPath, str]]:
    """Yield each key that the schema does not name, with a message for the user.

    `above`: the objects around the value, the outermost first.
    """
    if isinstance(value, Mapping):
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        places = (*above, (path, known))
        for name, member in value.items():
            inside = known.get(name, others)
            if inside is False:
                yield (*path, name), _hint_at(name, places)
            else:
                yield from unknown_keys(member, inside, (*path, name), places)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from unknown_keys(item, schema.get("items", {}), (*path, index), above)


def _hint_at(name: str, places: Sequence[_Place]) -> str:
    """Return a message about an unknown key: it may belong deeper, or in an outer object."""
    path, known = places[-1]
    deeper = [*_below(name, path, known, _DEEPEST)]
    if len(deeper) == 1:
        return f"{_UNKNOWN}; did you mean {dotted(deeper[0])}?"
    message = hint(name, known)
    outer = next(((*path, name) for path, known in reversed(places) if name in known), None)
    is_outer = outer is not None and message == _UNKNOWN
    return f"{message}; did you mean {dotted(outer or ())}?" if is_outer else message


def _below(name: str, path: KeyPath, known: Mapping[str, Any], depth: int) -> Iterator[KeyPath]:
    """Yield the places of a key in the objects inside an object."""
    for key, schema in known.items() if depth else ():
        inside = schema.get("properties", {})
        if name in inside:
            yield (*path, key, name)
        yield from _below(name, (*path, key), inside, depth - 1)


def hint(key: str, known: Collection[str]) -> str:
    """Return a message for the user about an unknown key."""
    near = nearest_key(key, known)
    return f"{_UNKNOWN}; did you mean {near}?" if near else _UNKNOWN


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the known key that a key resembles, if there is one."""
    from difflib import get_close_matches  # noqa: PLC0415 - only after an error

    by_lower_case = {name.lower(): name for name in known}
    near = get_close_matches(key.lower(), by_lower_case, n=1)
    return by_lower_case[near[0]] if near else None


def without_effect(value: object) -> Iterator[str]:
    """Yield the keys of a source's JSON that this server ignores, each with the consequence.

    Keys that are turned off or empty are left out.
    """
    for key, why in UPSTREAM_KEYS.items():
        if why is not None:
            for path in _paths_of(value, key.split("."), ()):
                yield f"{dotted(path)} ({why})"


def _paths_of(
    value: object, key: Sequence[str], path: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    if not key:
        if value:
            yield path
    elif isinstance(value, Mapping):
        for name in value if key[0] == "*" else [key[0]]:
            if name in value:
                yield from _paths_of(value[name], key[1:], (*path, name))

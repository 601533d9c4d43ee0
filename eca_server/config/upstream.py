"""Keys that the upstream server reads and this server ignores.

A user of the upstream server is warned once of each such key, and of the consequence. There is no
warning for a key whose absence changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eca_server.config.problems import dotted

UPSTREAM_KEYS: Final[Mapping[str, str | None]] = {
    "$schema": None,
    "chat.autoSyncSystemPrompt": None,
    "chat.defaultTrust": "only the user can set a chat to trusted",
    "chatRetentionDays": "chats are stored until they are deleted",
    "index.repoMap": None,
    "plugins": "no plugin is loaded",
    "providers.*.cacheRetention": "the provider's own duration applies",
    "providers.*.httpClient": None,
    "providers.*.requiresAuth": None,
    "providers.*.retry.maxAutoContinues": "an interrupted answer is not continued automatically",
    "providers.*.retry.prematureStopMaxRetries": "`retry.maxRetries` applies",
    "providers.*.retryRules": "only known transient errors are retried",
    "pureConfig": "only the editor's initializationOptions can set it",
    "remote": "this server does not listen on the network",
    "retry.maxAutoContinues": "an interrupted answer is not continued automatically",
    "retry.prematureStopMaxRetries": "`retry.maxRetries` applies",
    "toolCall.editorNav": "use `disabledTools` to turn off the editor's tools",
    "toolCall.shellCommand.args": "this server chooses the shell",
    "toolCall.shellCommand.path": "this server chooses the shell",
    "variantsByModel": "set `variants` on each configured model instead",
    **{
        f"{name}.*.toolCall.{key}": why
        for name in ("agent", "behavior")
        for key, why in (
            ("editorNav", "use `disabledTools` to turn off the editor's tools"),
            ("shellCommand.args", "this server chooses the shell"),
            ("shellCommand.path", "this server chooses the shell"),
        )
    },
}
"""The consequence by the dotted key; None: no consequence. A `*` stands for any name."""


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

"""Keys the upstream server reads and this one does not: no slips of the pen.

Whoever moves over is told once what of his file has no effect here, and what follows from it. Where
nothing follows (the thing is done anyway, or there is nothing to be done), he is told nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from eca_server.config.problems import dotted

__all__ = ["UPSTREAM_KEYS", "without_effect"]

UPSTREAM_KEYS: Final[Mapping[str, str | None]] = {
    "$schema": None,
    "chat.autoSyncSystemPrompt": None,
    "chat.defaultTrust": "only the user can trust a chat",
    "chatRetentionDays": "chats are kept until they are deleted",
    "index.repoMap": None,
    "plugins": "no plugin is loaded",
    "providers.*.cacheRetention": "the provider's own duration counts",
    "providers.*.httpClient": None,
    "providers.*.requiresAuth": None,
    "providers.*.retry.maxAutoContinues": "an answer that broke off is not continued",
    "providers.*.retry.prematureStopMaxRetries": "`retry.maxRetries` counts",
    "providers.*.retryRules": "only faults known to pass are tried again",
    "pureConfig": "only the editor's initializationOptions can ask for it",
    "remote": "nothing listens on the network",
    "retry.maxAutoContinues": "an answer that broke off is not continued",
    "retry.prematureStopMaxRetries": "`retry.maxRetries` counts",
    "toolCall.editorNav": "`disabledTools` tells what the editor is not asked for",
    "toolCall.shellCommand.args": "commands run in the shell of this server's choice",
    "toolCall.shellCommand.path": "commands run in the shell of this server's choice",
    "variantsByModel": "only `variants` of a configured model are known",
    **{
        f"{name}.*.toolCall.{key}": why
        for name in ("agent", "behavior")
        for key, why in (
            ("editorNav", "`disabledTools` tells what the editor is not asked for"),
            ("shellCommand.args", "commands run in the shell of this server's choice"),
            ("shellCommand.path", "commands run in the shell of this server's choice"),
        )
    },
}
"""By the dotted key, what follows; None: nothing. A `*` stands for a name of the user's own."""


def without_effect(value: object) -> Iterator[str]:
    """What of a source's JSON has no effect here and should have, each with what follows.

    What is turned off, or empty, has none there either.
    """
    for key, why in UPSTREAM_KEYS.items():
        if why is not None:
            for path in _found(value, key.split("."), ()):
                yield f"{dotted(path)} ({why})"


def _found(value: object, key: Sequence[str], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not key:
        if value:
            yield path
    elif isinstance(value, Mapping):
        for name in value if key[0] == "*" else [key[0]]:
            if name in value:
                yield from _found(value[name], key[1:], (*path, name))

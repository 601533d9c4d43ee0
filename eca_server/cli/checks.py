"""Errors of a configuration that cannot work: `doctor` reports them, and `chat` does not start.

Warnings are about parts that are ignored or do not work; the rest works without them.
"""

from __future__ import annotations

from collections.abc import Mapping

import trio

from eca_server.agent.chat.store.inspection import problem_of
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.commands.doctor import describe_servers
from eca_server.agent.commands.setup_warnings import setup_warnings
from eca_server.connection.local import LocalPair
from eca_server.models.simulator import DEFAULT


def errors_of(local: LocalPair, *, with_default: bool = True) -> list[str]:
    """Return the errors of a connection's configuration, each with its key."""
    connection = local.connection
    models = connection.parts.get().models.current
    problems = [*connection.settings.loaded.problems]
    for provider in models.providers:
        problems += provider.problems
    errors = {str(each): None for each in problems if each.level == "error"}
    default = connection.settings.config.default_model
    if with_default and default is not None and models.selected == DEFAULT != default:
        reasons = (each.message for each in models.problems if each.key == "defaultModel")
        reason = next((f": {each}" for each in reasons), "")
        errors[f"configuration: defaultModel: {default!r} cannot be used{reason}"] = None
    return list(errors)


async def warnings_of(local: LocalPair, environ: Mapping[str, str]) -> list[str]:
    """Return the warnings: ignored settings, failed MCP servers, an unusable file of chats."""
    settings, servers = local.connection.settings, local.connection.parts.get().servers()
    ignored = await trio.to_thread.run_sync(setup_warnings, settings.config)
    warnings = (*(each for each in settings.loaded.problems if each.level == "warning"), *ignored)
    manager = None if servers is None else servers.manager
    failed = await describe_servers(manager, only_failed=True)
    file = store_path(environ)
    why = await trio.to_thread.run_sync(problem_of, file)
    return [
        *map(str, warnings),
        *(f"configuration: mcpServers: {each}" for each in failed),
        *([] if why is None else [f"{file}: {why}"]),
    ]


def to_json(local: LocalPair, errors: list[str], warnings: list[str]) -> dict[str, object]:
    """Return the facts of `doctor` as plain values, without any key."""
    connection = local.connection
    models = connection.parts.get().models.current
    return {
        "works": not errors,
        "errors": errors,
        "warnings": warnings,
        "sources": {each.name: each.state for each in connection.settings.loaded.sources},
        "model": models.selected,
        "providers": {
            each.name: {
                "api": each.api,
                "hasKey": each.credential is None or each.credential.key is not None,
                "models": list(dict.fromkeys((*each.models, *each.listed))),
            }
            for each in models.providers
        },
    }

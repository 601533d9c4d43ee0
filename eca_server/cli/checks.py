"""Errors of a configuration that cannot work: `doctor` reports them, and `chat` does not start."""

from __future__ import annotations

from eca_server.config.problems import Problem
from eca_server.connection.local import LocalPair
from eca_server.models.acp import ACP
from eca_server.models.apis import APIS
from eca_server.models.simulator import DEFAULT
from eca_server.system.command_line import nearest


def errors_of(local: LocalPair, *, with_default: bool = True) -> list[str]:
    """Return the errors of a connection's configuration, each with its key.

    Args:
        local: the connection.
        with_default: also check that the configured `defaultModel` can be used.
    """
    connection = local.connection
    models = connection.parts.get().models.current
    problems: list[Problem | None] = [*connection.settings.loaded.problems]
    for provider in models.providers:
        places = (each for each in (provider.credential, provider.location) if each is not None)
        problems += [place.problem for place in places]
    errors = {str(each): None for each in problems if each is not None and each.level == "error"}
    for provider in models.providers:
        if provider.api not in {*APIS, ACP, "embedded"}:
            expected = ", ".join(APIS)
            near = nearest(provider.api, APIS) or f"; expected one of {expected}"
            why = f"there is no API {provider.api!r}{near}"
            errors[f"configuration: providers.{provider.name}.api: {why}"] = None
    default = connection.settings.config.default_model
    if with_default and default is not None and models.selected == DEFAULT != default:
        errors[f"configuration: defaultModel: {default!r} cannot be used"] = None
    return list(errors)


def to_json(local: LocalPair, errors: list[str]) -> dict[str, object]:
    """Return the facts of `doctor` as plain values, without any key."""
    connection = local.connection
    models = connection.parts.get().models.current
    return {
        "works": not errors,
        "errors": errors,
        "warnings": [
            str(each) for each in connection.settings.loaded.problems if each.level == "warning"
        ],
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

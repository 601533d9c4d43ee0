"""Any configuration is read: an error affects its own key only, and no secret is shown."""

from __future__ import annotations

from pathlib import Path

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.errors import InvalidJSON
    from eca_server.config.interpolation import ReferenceResolver
    from eca_server.config.reading import Place, deep_merge, record
    from eca_server.config.schema import config_schema
    from eca_server.config.settings import Config
    from eca_server.config.unknown import unknown_keys, without_effect

SECRET = "planted-secret"
ENVIRON = {"KEY": SECRET, "MODEL": "simulator/echo", "EMPTY": "", "NESTED": "${env:KEY}"}
CONFIG = record(Config)


def check(data: bytes) -> None:
    try:
        value = json.loads(data)
    except InvalidJSON:
        return
    if not isinstance(value, dict):
        return
    place = a_place()
    read = CONFIG.read(value, place)
    config = CONFIG.build(read)
    for path, words in place.errors.items():
        assert is_in(value, path), path
        assert words
        assert SECRET not in words
    assert deep_merge(read, read) == read == deep_merge({}, read)
    assert CONFIG.build(deep_merge(read, CONFIG.read(value, a_place()))) == config
    for path, _ in unknown_keys(value, config_schema()):
        assert is_in(value, path), path
    list(without_effect(value))
    for name, member in value.items():  # an error elsewhere does not affect a key
        beside = CONFIG.read({name: member, "toolCall " + name: 3}, a_place())
        assert beside == CONFIG.read({name: member}, a_place())


def a_place() -> Place:
    return Place(
        ReferenceResolver(
            environ=ENVIRON, home=Path("/nowhere"), directory=None, stored_secret=lambda _: SECRET
        )
    )


def is_in(value: object, path: tuple[str | int, ...]) -> bool:
    """Return True if a path leads to a value, or to a missing member of a value."""
    for step in path[:-1]:
        if (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and step < len(value)
        ):
            value = value[step]
        else:
            return False
    return isinstance(value, dict | list)


if __name__ == "__main__":
    main("config", check)

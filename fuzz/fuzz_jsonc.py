"""JSON with comments and trailing commas equals plain JSON; errors and keys have their places."""

from __future__ import annotations

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.errors import InvalidJSON
    from eca_server.config.jsonc import InvalidText, Positions, parse, plain_json


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    try:
        plain = plain_json(text)
        value = parse(text)
    except InvalidText as fault:
        if fault.position is not None:
            assert 1 <= fault.position.line <= len(lines)
            assert 1 <= fault.position.column <= len(lines[fault.position.line - 1]) + 1
        assert not is_json(text)
        return
    assert len(plain) == len(text)
    assert [len(line) for line in plain.split("\n")] == [len(line) for line in lines]
    assert plain_json(plain) == plain
    assert parse(plain) == value
    assert parse(f'// {lines[0]}\n/* " */{text}\n// }}') == value
    if plain.strip():
        assert json.loads(plain) == value
    check_places(value, text, lines)


def check_places(value: object, text: str, lines: list[str]) -> None:
    places = Positions(text)
    pending: list[tuple[tuple[str | int, ...], object]] = [((), value)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [((*path, name), member) for name, member in value.items()]
        elif isinstance(value, list):
            pending += [((*path, number), member) for number, member in enumerate(value)]
        if not path:
            continue
        position = places.position(path)
        assert position is not None
        there = lines[position.line - 1][position.column - 1 :]
        if isinstance(path[-1], str):
            assert there.startswith('"')
            if path[-1].isalnum() and "\\" not in there:
                assert there.startswith(f'"{path[-1]}"')


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except InvalidJSON:
        return False
    return True


if __name__ == "__main__":
    main("jsonc", check)

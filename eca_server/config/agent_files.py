"""Agents in Markdown files: `agents/NAME.md` beside a `config.json`.

Above the text stands YAML with what `agent.NAME` has in the configuration, under shorter names; the
text is what the agent is told of its part. The rule it keeps: what cannot be read loosens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    import yaml

__all__ = ["FOLDER", "LARGEST", "MOST", "BadAgent", "Budget", "agent_of"]

FOLDER: Final = "agents"
LARGEST: Final = 64 * 1024
"""Bytes of one file."""
MOST: Final = 200
"""Files of one folder."""

_LONGEST: Final = 16 * 1024
"""Characters above the text of one file."""
_MOST_VALUES: Final = 5_000
"""Values above the text of one file; an alias is as many as what it stands for."""
_ALL_CHARACTERS: Final = 512 * 1024
"""Characters above the texts of all files together."""
_ALL_VALUES: Final = 20_000
"""Values above the texts of all files together."""
_DEEPEST: Final = 4
_LARGEST_NUMBER: Final = 2**53
_KINDS: Final[Mapping[str, str]] = {
    "date": "a date (it is a text in quotes)",
    "datetime": "a time (it is a text in quotes)",
    "int": "too large a number",
    "float": "no finite number",
    "bytes": "bytes",
    "list": "too deep a list",
    "dict": "too deep a map, or one whose keys are no texts",
}
"""What YAML has beside JSON, in words."""

_OF_A_WRONG_TAG: Final = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
"""What the YAML library raises for `!!int ''`, `!!bool x`, `!!timestamp x` and the like."""

_FILE = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"(.+?)\((.+)\)\Z", re.DOTALL)
_COMMANDS = re.compile(r"(?:eca_{1,2})?shell_command\Z")
_KEYS: Final[Mapping[str, str]] = {
    "description": "description",
    "mode": "mode",
    "model": "defaultModel",
    "defaultModel": "defaultModel",
    "variant": "variant",
    "steps": "maxSteps",
    "maxSteps": "maxSteps",
    "spawnableBy": "spawnableBy",
    "disabledTools": "disabledTools",
    "enabledTools": "enabledTools",
    "inherit": "inherit",
    "subagents": "subagents",
    "skills": "skills",
}
"""What may stand above the text, and its key in the configuration."""


class BadAgent(Exception):
    """A file that defines no agent; the message says what was expected."""


@attrs.define
class Budget:
    """How much YAML may still be read, over all files of agents together."""

    characters: int = _ALL_CHARACTERS
    values: int = _ALL_VALUES


def agent_of(path: Path, text: str, budget: Budget | None = None) -> Mapping[str, Any]:
    """Return a file as a source of the configuration: `{"agent": {NAME: {..}}}`.

    Args:
        path: of the file; its name is that of the agent, unless the text says another one.
        text: of the file.
        budget: what may still be read; the file is subtracted from it.

    Raises:
        BadAgent: the lines above its text are no YAML mapping, or one of what is no JSON, or more
            than may be read.
    """
    found = _FILE.match(text.replace("\r\n", "\n"))
    fields = _fields(found[1], budget or Budget()) if found else {}
    body = (found[2] if found else text).strip()
    given = fields.get("name")
    name = given.strip() if isinstance(given, str) else ""
    for key, value in fields.items():
        if key in _KEYS or key == "tools":
            _must_be_json(key, value)
    agent = {_KEYS[key]: value for key, value in fields.items() if key in _KEYS}
    if body:
        agent["systemPrompt"] = body
    if fields.get("tools") is not None:
        agent["toolCall"] = {"approval": _approval(fields["tools"])}
    return {"agent": {(name or path.name.partition(".")[0]).lower(): agent}}


def _fields(text: str, budget: Budget) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - only where there are agents in files

    if len(text) > _LONGEST:
        raise BadAgent(f"above the text: expected at most {_LONGEST} characters, got {len(text)}")
    budget.characters -= len(text)
    if budget.characters < 0:
        raise BadAgent(_too_much(f"{_ALL_CHARACTERS} characters"))
    if budget.values < 0:
        raise BadAgent(_too_much(f"{_ALL_VALUES} values"))
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is
    try:
        _must_be_small(yaml.compose(text, loader), budget)
        fields = yaml.load(text, loader)  # noqa: S506 - a safe loader, whichever it is
    except (yaml.YAMLError, RecursionError, *_OF_A_WRONG_TAG) as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        raise BadAgent(f"expected YAML above the text, got something else{where}") from None
    if not isinstance(fields, dict):
        raise BadAgent("expected `key: value` lines above the text")
    return fields


def _too_much(most: str) -> str:
    return f"above the texts of all agents: expected at most {most} together, got more"


def _must_be_small(root: yaml.Node | None, budget: Budget) -> None:
    """Look at what is written, with what aliases stand for, before anything is made of it."""
    waiting = [] if root is None else [("", root)]
    count = 0
    while waiting:
        key, node = waiting.pop()
        inside = node.value if isinstance(node.value, list) else []
        count += len(inside)
        if count > _MOST_VALUES:
            raise BadAgent(
                f"{key or 'above the text'}: expected at most {_MOST_VALUES} values, got more "
                "(an alias counts as what it stands for)"
            )
        for part in inside:
            name, value = part if isinstance(part, tuple) else (None, part)
            waiting.append((key or _named(name), value))
    budget.values -= count
    if budget.values < 0:
        raise BadAgent(_too_much(f"{_ALL_VALUES} values"))


def _named(key: yaml.Node | None) -> str:
    """A key as it is told; one that is a list or a map may be as long as all its aliases."""
    return key.value[:40] if key is not None and isinstance(key.value, str) else "-"


def _must_be_json(key: str, value: object, depth: int = 0) -> None:
    """Raise unless it is what could stand in JSON, and not much of it."""
    number = isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER
    if number or value is None or isinstance(value, str):
        return
    members = value.values() if isinstance(value, dict) else value
    is_nested = isinstance(value, dict | list) and depth < _DEEPEST
    if not is_nested or (isinstance(value, dict) and not all(isinstance(n, str) for n in value)):
        raise BadAgent(
            f"{key}: expected a text, a number, true, false, or lists and maps of these, "
            f"got {_KINDS.get(type(value).__name__, 'something else')}"
        )
    assert isinstance(members, Iterable)
    for member in members:
        _must_be_json(key, member, depth + 1)


def _approval(tools: Any) -> Any:
    """Rules for tools; of a mere list all others ask."""
    if isinstance(tools, list):
        tools = {"byDefault": "ask", "allow": tools}
    if not isinstance(tools, Mapping):
        raise BadAgent("tools: expected a list, or rules under byDefault, allow, ask, deny")
    rules = {
        verdict: _rules(verdict, tools[verdict])
        for verdict in ("allow", "ask", "deny")
        if tools.get(verdict) is not None
    }
    default = tools.get("byDefault")
    return rules if default is None else {**rules, "byDefault": default}


def _rules(verdict: str, entries: Any) -> Mapping[str, Any]:
    """`tool`, or `tool(pattern)` where the pattern is about the text of a command."""
    if not isinstance(entries, list) or not all(isinstance(each, str) for each in entries):
        raise BadAgent(f"tools.{verdict}: expected a list of names")
    rules: dict[str, Any] = {}
    for entry in entries:
        found = _ENTRY.match(entry)
        if found is None:
            rules[entry] = {}
        elif _COMMANDS.match(found[1]):
            patterns = rules.setdefault(found[1], {"argsMatchers": {"command": []}})
            if patterns:
                patterns["argsMatchers"]["command"].append(found[2])
        elif verdict == "allow":
            raise BadAgent(
                f"tools.allow: expected a pattern for shell_command alone, got {entry!r}"
            )
        else:
            rules[found[1]] = {}
    return rules

"""Agents in Markdown files: `agents/NAME.md` in the directory of a `config.json`.

YAML above the text holds the settings of `agent.NAME`, under shorter names; the text is the system
prompt. Invariant: an unreadable part never loosens a permission.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from eca_server.config.unknown import hint, nearest_key

if TYPE_CHECKING:
    import yaml

FOLDER: Final = "agents"
LARGEST: Final = 64 * 1024
"""Bytes of one file."""
MOST: Final = 200
"""Files of one folder."""

_LONGEST: Final = 16 * 1024
"""Characters above the text of one file."""
_MOST_VALUES: Final = 5_000
"""Values above the text of one file; an alias counts as the values it stands for."""
_ALL_CHARACTERS: Final = 512 * 1024
"""Characters above the texts of all files together."""
_ALL_VALUES: Final = 20_000
"""Values above the texts of all files together."""
_DEEPEST: Final = 4
_LARGEST_NUMBER: Final = 2**53
_KINDS: Final[Mapping[str, str]] = {
    "date": "a date (write it in quotes)",
    "datetime": "a time (write it in quotes)",
    "int": "too large a number",
    "float": "a number that is not finite",
    "bytes": "bytes",
    "list": "a list nested too deep",
    "dict": "a map nested too deep, or with keys that are not strings",
}
"""Descriptions of YAML values that JSON does not have."""

_TAG_ERRORS: Final = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)
"""Exceptions of the YAML library for `!!int ''`, `!!bool x`, `!!timestamp x` and the like."""

_COLON: Final = "mapping values are not allowed"
"""The begin of the YAML library's error for a colon in an unquoted text, often a description."""

_FILE = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"([^(]+)\((.+)\)\Z", re.DOTALL)
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
    "mcpToolSearch": "mcpToolSearch",
}
"""Keys allowed above the text, each with its key in the configuration."""

_BELOW: Final = frozenset({"systemPrompt", "systemPromptFile", "prompts"})
"""Keys of the configuration for what the text of a file is."""
_WRITE_BELOW: Final = "no effect here; the system prompt is the text below the second `---`"

_FOREIGN: Final = frozenset({"permission", "permissionMode", "permissions"})
"""Keys by which other programs restrict an agent."""
_RESTRICT: Final = (
    "no effect here; restrict the agent by `tools`, `disabledTools` or `inherit: plan`"
)

_INHERITED: Final = "inherit"
"""The model in agents of Claude Code that take the model of the agent that calls them."""

_VERDICTS: Final = ("allow", "ask", "deny")


class InvalidAgentFile(Exception):
    """A file that defines no agent; the message says what was expected."""


@attrs.define
class Budget:
    """The YAML that may still be read, over all files of agents together."""

    characters: int = _ALL_CHARACTERS
    values: int = _ALL_VALUES


def parse_agent_file(
    path: Path, text: str, budget: Budget | None = None
) -> tuple[Mapping[str, Any], Sequence[str]]:
    """Return a file as a source of the configuration, and warnings about mistyped keys.

    The source is `{"agent": {NAME: {...}}}`.

    Args:
        path: the path of the file; its stem names the agent, unless the YAML has a `name`.
        text: the text of the file.
        budget: the amount that may still be read; reduced by this file.

    Raises:
        InvalidAgentFile: the lines above the text are not a YAML mapping of JSON values, or exceed
            a limit.
    """
    match = _FILE.match(text.replace("\r\n", "\n"))
    fields = _fields(match[1], budget or Budget()) if match else {}
    body = (match[2] if match else text).strip()
    configured_name = fields.get("name")
    name = configured_name.strip() if isinstance(configured_name, str) else ""
    for key, value in fields.items():
        if key in _KEYS or key == "tools":
            _must_be_json(key, value)
    agent = {_KEYS[key]: value for key, value in fields.items() if key in _KEYS}
    if isinstance(disabled := agent.get("disabledTools"), str):
        agent["disabledTools"] = [disabled]
    if fields.get("model") == _INHERITED:
        del agent["defaultModel"]
    if body:
        agent["systemPrompt"] = body
    if fields.get("tools") is not None:
        agent["toolCall"] = {"approval": _approval(fields["tools"])}
    source = {"agent": {(name or path.name.partition(".")[0]).lower(): agent}}
    return source, [
        *(f"{key}: {_WRITE_BELOW}" for key in sorted(_BELOW & fields.keys())),
        *(f"{key}: {_RESTRICT}" for key in sorted(_FOREIGN & fields.keys())),
        *_unknown(fields, {*_KEYS, "name", "tools"}),
        *_unknown_rules(fields),
    ]


def _unknown(fields: Mapping[Any, Any], known: Collection[str]) -> Iterator[str]:
    """Yield a warning about each key that resembles a known one; others are for other programs."""
    for key in map(str, fields):
        if key not in known and nearest_key(key, known):
            yield f"{key}: {hint(key, known)}"


def _unknown_rules(fields: Mapping[str, Any]) -> Iterator[str]:
    tools = fields.get("tools")
    known = ("byDefault", *_VERDICTS)
    for key in map(str, tools if isinstance(tools, Mapping) else ()):
        if key not in known:
            expected = "" if nearest_key(key, known) else f"; expected {', '.join(known)}"
            yield f"tools.{key}: {hint(key, known)}{expected}"


def _fields(text: str, budget: Budget) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - only where there are agents in files

    if len(text) > _LONGEST:
        raise InvalidAgentFile(
            f"above the text: expected at most {_LONGEST} characters, got {len(text)}"
        )
    budget.characters -= len(text)
    if budget.characters < 0:
        raise InvalidAgentFile(_too_much(f"{_ALL_CHARACTERS} characters"))
    if budget.values < 0:
        raise InvalidAgentFile(_too_much(f"{_ALL_VALUES} values"))
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast
    try:
        _must_be_small(yaml.compose(text, loader), budget)
        fields = yaml.load(text, loader)  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, RecursionError, *_TAG_ERRORS) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        if (getattr(error, "problem", None) or "").startswith(_COLON):
            where += " (write a text that contains `: ` in quotes)"
        raise InvalidAgentFile(f"expected YAML above the text, got something else{where}") from None
    if not isinstance(fields, dict):
        raise InvalidAgentFile("expected `key: value` lines above the text")
    return fields


def _too_much(most: str) -> str:
    return f"above the texts of all agents: expected at most {most} together, got more"


def _must_be_small(root: yaml.Node | None, budget: Budget) -> None:
    """Count the values, those behind aliases included, before objects are built from them."""
    waiting = [] if root is None else [("", root)]
    count = 0
    while waiting:
        key, node = waiting.pop()
        inside = node.value if isinstance(node.value, list) else []
        count += len(inside)
        if count > _MOST_VALUES:
            raise InvalidAgentFile(
                f"{key or 'above the text'}: expected at most {_MOST_VALUES} values, got more "
                "(an alias counts as what it stands for)"
            )
        for part in inside:
            name, value = part if isinstance(part, tuple) else (None, part)
            waiting.append((key or _short_name(name), value))
    budget.values -= count
    if budget.values < 0:
        raise InvalidAgentFile(_too_much(f"{_ALL_VALUES} values"))


def _short_name(key: yaml.Node | None) -> str:
    """Return a key for a message; a list or a map, which may be very long, becomes `-`."""
    return key.value[:40] if key is not None and isinstance(key.value, str) else "-"


def _must_be_json(key: str, value: object, depth: int = 0) -> None:
    """Raise unless a value is small and of a kind that JSON has."""
    number = isinstance(value, int | float) and abs(value) <= _LARGEST_NUMBER
    if number or value is None or isinstance(value, str):
        return
    members = value.values() if isinstance(value, dict) else value
    is_nested = isinstance(value, dict | list) and depth < _DEEPEST
    if not is_nested or (isinstance(value, dict) and not all(isinstance(n, str) for n in value)):
        raise InvalidAgentFile(
            f"{key}: expected a string, a number, true, false, or lists and maps of these, "
            f"got {_KINDS.get(type(value).__name__, 'something else')}"
        )
    assert isinstance(members, Iterable)
    for member in members:
        _must_be_json(key, member, depth + 1)


def _approval(tools: Any) -> Any:
    """Return approval rules; with a mere list, all tools outside it ask.

    A text lists names as in agents of Claude Code: `Read, Grep`.
    """
    if isinstance(tools, str):
        tools = [name.strip() for name in tools.split(",") if name.strip()]
    if isinstance(tools, list):
        tools = {"byDefault": "ask", "allow": tools}
    if not isinstance(tools, Mapping):
        raise InvalidAgentFile("tools: expected a list, or rules under byDefault, allow, ask, deny")
    rules = {
        verdict: _rules(verdict, tools[verdict])
        for verdict in _VERDICTS
        if tools.get(verdict) is not None
    }
    default = tools.get("byDefault")
    return rules if default is None else {**rules, "byDefault": default}


def _rules(verdict: str, entries: Any) -> Mapping[str, Any]:
    """Return the rules for entries `tool`, or `tool(pattern)` with a pattern for the command."""
    if not isinstance(entries, list) or not all(isinstance(each, str) for each in entries):
        raise InvalidAgentFile(f"tools.{verdict}: expected a list of names")
    rules: dict[str, Any] = {}
    for entry in entries:
        match = _ENTRY.match(entry)
        if match is None:
            rules[entry] = {}
        elif _COMMANDS.match(match[1]):
            patterns = rules.setdefault(match[1], {"argsMatchers": {"command": []}})
            if patterns:
                patterns["argsMatchers"]["command"].append(match[2])
        elif verdict == "allow":
            raise InvalidAgentFile(
                f"tools.allow: expected a pattern only for shell_command, got {entry!r}"
            )
        else:
            rules[match[1]] = {}
    return rules

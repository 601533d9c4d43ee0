"""Agents in Markdown files: `agents/NAME.md` beside a `config.json`.

Above the text stands YAML with what `agent.NAME` has in the configuration, under shorter names; the
text is what the agent is told of its part. The rule it keeps: what cannot be read loosens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["FOLDER", "LARGEST", "MOST", "BadAgent", "agent_of"]

FOLDER: Final = "agents"
LARGEST: Final = 64 * 1024
"""Bytes of one file."""
MOST: Final = 200
"""Files of one folder."""

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
    "inherit": "inherit",
}
"""What may stand above the text, and its key in the configuration."""


class BadAgent(Exception):
    """A file that defines no agent; the message says what was expected."""


def agent_of(path: Path, text: str) -> Mapping[str, Any]:
    """A file as a source of the configuration: `{"agent": {NAME: {..}}}`.

    Raises:
        BadAgent: the lines above its text are no YAML mapping.
    """
    found = _FILE.match(text.replace("\r\n", "\n"))
    fields = _fields(found[1]) if found else {}
    body = (found[2] if found else text).strip()
    given = fields.get("name")
    name = given.strip() if isinstance(given, str) else ""
    agent = {_KEYS[key]: value for key, value in fields.items() if key in _KEYS}
    if body:
        agent["systemPrompt"] = body
    if fields.get("tools") is not None:
        agent["toolCall"] = {"approval": _approval(fields["tools"])}
    return {"agent": {(name or path.name.partition(".")[0]).lower(): agent}}


def _fields(text: str) -> Mapping[str, Any]:
    import yaml  # noqa: PLC0415 - only where there are agents in files

    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        mark = getattr(fault, "problem_mark", None)
        where = f" at line {mark.line + 2}" if mark else ""
        raise BadAgent(f"expected YAML above the text, got something else{where}") from None
    if not isinstance(fields, dict):
        raise BadAgent("expected `key: value` lines above the text")
    return fields


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

"""Agents that inherit another agent's settings (`inherit`).

An agent's own settings override inherited ones, as a later source overrides an earlier one. A
missing or circular base is dropped. Its denials are then unknown, so every call that no rule of the
agent covers asks, for that agent and for all that inherit from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from eca_server.config.agent_settings import (
    AGENT_ALIASES,
    BUILT_IN_AGENTS,
    BUILT_IN_SUBAGENTS,
    cautious_approval,
)
from eca_server.config.reading import KeyPath, deep_merge, value_at

_UNTIL_THEN: Final = (
    "(until this is fixed, each call that no rule of this agent allows needs approval)"
)
_SHOWN: Final = 10  # names in a message


def resolve_inheritance(agents: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Add inherited settings to agents, as they were read and merged.

    Returns:
        The agents by name, each with the name of its base, if it has one. Error messages by the
        name of the agent; a cycle is reported once.
    """
    agents = with_built_in(agents)  # these inherit only permissions
    bases = {
        name: AGENT_ALIASES.get(own["inherit"], own["inherit"])
        for name, own in agents.items()
        if own and own.get("inherit") and own["inherit"] != _ours(name, "inherit")
    }
    known = dict.fromkeys(
        [*BUILT_IN_AGENTS, *(name for name, own in agents.items() if own is not None)]
    )
    missing_base = {name for name, base in bases.items() if base not in known}
    among = f"expected the name of an agent, one of: {_listed(known)}"
    errors = dict.fromkeys((name for name in bases if name in missing_base), among)
    for cycle in _cycles(bases):
        missing_base.update(cycle)
        chain = _listed([*cycle, cycle[0]], " -> ")
        errors[cycle[0]] = f"expected an agent that does not inherit from this one, got {chain}"
    whole: dict[str, Any] = {}
    cautious = set(missing_base)
    for name in agents:
        for each in _bases_first(name, bases, missing_base, whole):
            own: Any = agents.get(each)
            base = None if each in missing_base else bases.get(each)
            if base is not None:
                own = _merged(whole[base] or {}, own)
            if each in missing_base or base in cautious:
                cautious.add(each)
                own = {**own, "approval": cautious_approval(own.get("approval"))}
            whole[each] = {**own, "inherit": base} if each in bases else own
    messages = {name: f"{message} {_UNTIL_THEN}" for name, message in errors.items()}
    return {name: whole[name] for name in agents}, messages


def with_built_in(agents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agents with the built-in subagents.

    A configured agent of the same name replaces the built-in one if it has a `mode`; else its
    settings are merged over it. Null turns the built-in one off.
    """
    ours = {
        name: {**built_in, **agents.get(name, {})}
        for name, built_in in BUILT_IN_SUBAGENTS.items()
        if name not in agents or (agents[name] is not None and not agents[name].get("mode"))
    }
    own = {
        name: each
        for name, each in agents.items()
        if each is not None or name not in BUILT_IN_SUBAGENTS
    }
    return {**own, **ours}


def _ours(agent: str, setting: str) -> object:
    return BUILT_IN_SUBAGENTS.get(agent, {}).get(setting)


def inherit_path(value: object, agent: str) -> KeyPath | None:
    """Return the path of an agent's `inherit` key in a source's JSON, or None if it has none."""
    names = [agent, *(other for other, ours in AGENT_ALIASES.items() if ours == agent)]
    paths = ((key, name, "inherit") for key in ("agent", "behavior") for name in names)
    return next((path for path in paths if value_at(value, path) is not None), None)


def _cycles(bases: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield each cycle of agents: each inherits from the next, and the last from the first."""
    visited: set[str] = set()
    for start in bases:
        chain: list[str] = []
        name = start
        while name in bases and name not in visited:
            visited.add(name)
            chain.append(name)
            name = bases[name]
        if name in chain:
            yield chain[chain.index(name) :]


def _bases_first(
    start: str, bases: Mapping[str, str], missing_base: set[str], done: Mapping[str, Any]
) -> list[str]:
    """Return an agent and its bases that are not done, the most remote base first."""
    chain: list[str] = []
    name: str | None = start
    while name is not None and name not in done:
        chain.append(name)
        name = None if name in missing_base else bases.get(name)
    return chain[::-1]


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Merge an agent's settings over its base's; its prompt file overrides the base's prompt."""
    merged = deep_merge(base, own)
    if own.get("system_prompt_file") and not own.get("system_prompt"):
        merged["system_prompt"] = None
    return merged


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    every = [*names]
    return separator.join([*every[:_SHOWN], *["..."][: len(every) - _SHOWN]])

"""Agents that begin with another one's settings (`inherit`).

The rules it keeps: an agent's own settings count over those it begins with, as a later source's
count over an earlier one's. A base that is not there, or that leads back to the agent itself, costs
that agent its base and nothing else; what it would have forbidden is not known, so until it is
mended, what no rule of the agent's covers asks. So it does for whoever begins with that agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from eca_server.config.reading import KeyPath, deep_merge
from eca_server.config.tool_settings import (
    BUILT_IN,
    BUILT_IN_SUBAGENTS,
    OTHER_NAMES,
    cautious_approval,
)

__all__ = ["inherited", "where_it_inherits", "with_built_in"]

_UNTIL_THEN: Final = "(until this is mended, what no rule allows this agent asks)"
_SHOWN: Final = 10  # names in a message


def inherited(agents: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Agents as they were read and merged, each with the settings it begins with.

    Returns:
        Them, each under its name and with the name of its base, if it has one; and what is wrong,
        by the name of the agent where it is. Of a circle it is told once.
    """
    agents = with_built_in(agents)  # of their base ours have nothing but what it may do
    bases = {
        name: OTHER_NAMES.get(own["inherit"], own["inherit"])
        for name, own in agents.items()
        if own and own.get("inherit") and own["inherit"] != _ours(name, "inherit")
    }
    known = dict.fromkeys([*BUILT_IN, *(name for name, own in agents.items() if own is not None)])
    lost = {name for name, base in bases.items() if base not in known}
    among = f"expected the name of an agent, got another one; there are: {_named(known)}"
    faults = dict.fromkeys((name for name in bases if name in lost), among)
    for circle in _circles(bases):
        lost.update(circle)
        way = _named([*circle, circle[0]], " -> ")
        faults[circle[0]] = f"expected an agent that does not begin with this one, got {way}"
    whole: dict[str, Any] = {}
    cautious = set(lost)
    for name in agents:
        for each in _roots_first(name, bases, lost, whole):
            own: Any = agents.get(each)
            base = None if each in lost else bases.get(each)
            if base is not None:
                own = _over(whole[base] or {}, own)
            if each in lost or base in cautious:
                cautious.add(each)
                own = {**own, "approval": cautious_approval(own.get("approval"))}
            whole[each] = {**own, "inherit": base} if each in bases else own
    told = {name: f"{message} {_UNTIL_THEN}" for name, message in faults.items()}
    return {name: whole[name] for name in agents}, told


def with_built_in(agents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the agents with the built-in subagents.

    One that is configured with a `mode` stands in place of ours, else its settings stand over ours;
    null turns it off.
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


def where_it_inherits(value: object, agent: str) -> KeyPath | None:
    """The path in a source's JSON at which that agent is given its base; None: it is not there."""
    names = [agent, *(other for other, ours in OTHER_NAMES.items() if ours == agent)]
    paths = ((key, name, "inherit") for key in ("agent", "behavior") for name in names)
    return next((path for path in paths if _stands_at(value, path)), None)


def _circles(bases: Mapping[str, str]) -> Iterator[list[str]]:
    """Agents of which each begins with the next one, and the last with the first."""
    seen: set[str] = set()
    for start in bases:
        way: list[str] = []
        name = start
        while name in bases and name not in seen:
            seen.add(name)
            way.append(name)
            name = bases[name]
        if name in way:
            yield way[way.index(name) :]


def _roots_first(
    start: str, bases: Mapping[str, str], lost: set[str], done: Mapping[str, Any]
) -> list[str]:
    """An agent and those it begins with that are not done, the last of its bases first."""
    chain: list[str] = []
    name: str | None = start
    while name is not None and name not in done:
        chain.append(name)
        name = None if name in lost else bases.get(name)
    return chain[::-1]


def _over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """An agent's own settings over its base's; a file with its prompt stands over a text there."""
    merged = deep_merge(base, own)
    if own.get("system_prompt_file") and not own.get("system_prompt"):
        merged["system_prompt"] = None
    return merged


def _stands_at(value: object, path: KeyPath) -> bool:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value is not None


def _named(names: Iterable[str], between: str = ", ") -> str:
    listed = [*names]
    return between.join([*listed[:_SHOWN], *["..."][: len(listed) - _SHOWN]])

"""The settings of agents: their prompts, models, tools, subagents and limits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from eca_server.config.reading import (
    COUNT,
    NAME,
    PATH,
    PERCENT,
    TEXT,
    Place,
    Reader,
    Workspace,
    choice,
    deep_merge,
    each,
    listing,
    record,
    setting,
)
from eca_server.config.tool_lists import SELECTORS, TOOL_SEARCH_OF_AGENT, ToolSearch
from eca_server.config.tool_settings import NAMES, Approval


def _read_one_or_more(value: object, place: Place) -> object:
    return NAMES.read([value] if isinstance(value, str) else value, place)


_ONE_OR_MORE = Reader(
    read=_read_one_or_more,
    build=tuple,
    schema={"type": ["string", "array"], "items": {"type": "string"}},
)

_MODE = choice("primary", "subagent")


def _read_modes(value: object, place: Place) -> object:
    single = isinstance(value, str)
    return [_MODE.read(value, place)] if single else listing(_MODE).read(value, place)


_MODES = attrs.evolve(
    _ONE_OR_MORE, read=_read_modes, schema={**_ONE_OR_MORE.schema, "items": _MODE.schema}
)


@attrs.frozen(kw_only=True, repr=False)
class Prompts:
    """`prompts`: replacements of the built-in prompts.

    Attributes:
        chat: the system prompt of every agent without its own.
        chat_title: the prompt for a chat's title.
        compact: the prompt for a summary.
        init: the prompt of `/init`.
        skill_create: the prompt of `/skill-create`, with the placeholders `{{skillName}}`,
            `{{skillFilePath}}` and `{{userPrompt}}`.
        completion: the prompt for a completion.
        rewrite: the prompt for a rewrite.
        tools: descriptions of native tools for the model, by the tool's name.
    """

    chat: str | None = setting(TEXT)
    chat_title: str | None = setting(TEXT)
    compact: str | None = setting(TEXT)
    init: str | None = setting(TEXT)
    skill_create: str | None = setting(TEXT)
    completion: str | None = setting(TEXT)
    rewrite: str | None = setting(TEXT)
    tools: Mapping[str, str] = setting(each(TEXT), factory=dict)


@attrs.frozen(kw_only=True, repr=False)
class OutputLimits:
    """The limits of the calls of one agent.

    Attributes:
        max_lines: limit of one call's output of the tool that reads files.
        summary_max_length: characters of a command in a call's summary.
        output_lines: limit of any call's output, in lines.
        output_size_kb: limit of any call's output, in KiB.
    """

    max_lines: int | None = setting(COUNT, "toolCall.readFile.maxLines")
    summary_max_length: int | None = setting(COUNT, "toolCall.shellCommand.summaryMaxLength")
    output_lines: int | None = setting(COUNT, "toolCall.outputTruncation.lines")
    output_size_kb: int | None = setting(COUNT, "toolCall.outputTruncation.sizeKb")


@attrs.frozen(kw_only=True, repr=False)
class Behavior(OutputLimits):
    """`agent.<name>` or `behavior.<name>`: the settings of one agent.

    An unset one is inherited, else it is the global setting.

    Attributes:
        prompts: the prompts of the agent.
        system_prompt: replaces the built-in system prompt.
        system_prompt_file: a file with the system prompt, if `systemPrompt` is not set.
        inherit: the agent whose settings apply where this one has none.
        mode: `primary`: users may select it; `subagent`: other agents may start it; default: both.
        description: its description for the agents that may start it.
        spawnable_by: the agents that may start it; empty: all.
        subagents: the agents that it may start, by name or regular expression; default: all.
        skills: the skills that it may load, by name or regular expression; default: all.
        max_steps: limit of model requests in one turn; default: 200.
        default_model: `provider/model`; without a provider, a model of the selected one's provider.
        variant: the variant to use if none was selected and the model has one of this name.
        disabled_tools: tools that are not offered; default: those of the built-in agent.
        enabled_tools: the only tools offered, within the global `enabledTools`.
        tool_search: more MCP tools that its model has to search for, and more that are offered;
            false: all are offered.
        approval: approval rules; before the global ones of the same rank.
        auto_compact_percentage: the share of the context above which the chat is compacted.
        auto_compact_tokens_left: the tokens of the context to leave free.
    """

    prompts: Prompts = setting(record(Prompts))
    system_prompt: str | None = setting(TEXT, "systemPrompt", "prompts.chat")
    system_prompt_file: str | None = setting(PATH)
    inherit: str | None = setting(NAME)
    mode: tuple[str, ...] = setting(_MODES, default=())
    description: str = setting(TEXT, default="")
    spawnable_by: tuple[str, ...] = setting(_ONE_OR_MORE, default=())
    subagents: tuple[str, ...] | None = setting(NAMES)
    skills: tuple[str, ...] | None = setting(NAMES)
    max_steps: int | None = setting(COUNT, workspace=Workspace.SMALLER)
    default_model: str | None = setting(NAME)
    variant: str | None = setting(NAME)
    disabled_tools: tuple[str, ...] | None = setting(SELECTORS, workspace=Workspace.RESTRICTS)
    enabled_tools: tuple[str, ...] | None = setting(SELECTORS, workspace=Workspace.RESTRICTS)
    tool_search: ToolSearch = setting(TOOL_SEARCH_OF_AGENT, "mcpToolSearch")
    approval: Approval = setting(record(Approval), "toolCall.approval")
    auto_compact_percentage: float | None = setting(PERCENT)
    auto_compact_tokens_left: int | None = setting(COUNT)


_NAMED_BEHAVIORS = each(record(Behavior))


def cautious_approval(own: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the approval of an agent with an unknown base: calls without a rule ask."""
    own = own or {}
    return {**own, "by_default": own.get("by_default") or "ask"}


def _read_behaviors(value: object, place: Place) -> dict[str, Any]:
    behaviors: dict[str, Any] = _NAMED_BEHAVIORS.read(value, place)
    for name, own in behaviors.items():
        if place.at(name).at("inherit").path in place.errors:
            own["approval"] = cautious_approval(own.get("approval"))
    for alias in AGENT_ALIASES.keys() & behaviors.keys():
        layer = {AGENT_ALIASES[alias]: behaviors.pop(alias)}
        behaviors = deep_merge(behaviors, layer)
    return behaviors


MOST_STEPS: Final = 200
"""Model requests in one turn, unless `maxSteps` sets another limit."""

BUILT_IN_AGENTS: Final = ("agent", "plan")
"""The agents that exist without configuration."""

BUILT_IN_SUBAGENTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "explorer": {
            "mode": ("subagent",),
            "inherit": "plan",
            "description": "Searches and reads code and answers questions about it. Read-only.",
            "system_prompt": "You are ECA, exploring a code base inside the user's editor. Use the "
            "search and read tools to answer the task you are given. Do not modify anything. "
            "Report your findings briefly, with exact paths and line numbers. State clearly what "
            "you could not find.",
        },
        "general": {
            "mode": ("subagent",),
            "description": "Carries out a task of several steps on its own, including file edits.",
        },
    }
)
"""The subagents that exist without configuration."""

AGENT_ALIASES: Mapping[str, str] = {"code": "agent", "build": "agent"}
"""The upstream server's names, present and past, of the built-in agents."""

BEHAVIORS = attrs.evolve(_NAMED_BEHAVIORS, read=_read_behaviors)
"""Reader of `agent` and `behavior`, by the name of each agent."""

"""The settings of tools and agents: which tools exist, which calls may run, limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.config.problems import kind_of
from eca_server.config.reading import (
    COUNT,
    FLAG,
    NAME,
    OBJECT,
    PATH,
    PERCENT,
    ROOT_PATH,
    TEXT,
    InvalidValue,
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

Verdict: TypeAlias = Literal["ask", "allow", "deny"]
NAMES = listing(NAME)


@attrs.frozen(kw_only=True, repr=False)
class ApprovalRule:
    """The value of a selector in `allow`, `ask` or `deny`.

    Attributes:
        args_matchers: by argument, regular expressions for its text; empty: every call.
        is_damaged: whether a part could not be read. A damaged rule must not loosen a permission:
            as an `allow` it matches no call, as an `ask` or a `deny` it matches every call.
    """

    args_matchers: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    is_damaged: bool = False


def _read_rule(value: Any, place: Place) -> dict[str, Any]:
    layer: dict[str, Any] = {"args_matchers": {}, "is_damaged": False}
    if not isinstance(value, Mapping):
        _damage(place, layer, f"expected an object, got {kind_of(value)}")
        return layer
    matchers = value.get("argsMatchers")
    unknown = next((name for name in value if name != "argsMatchers"), None)
    if unknown is not None:
        _damage(place.at(unknown), layer, "expected only argsMatchers, got a different key")
    elif matchers is not None and not isinstance(matchers, Mapping):
        _damage(place.at("argsMatchers"), layer, f"expected an object, got {kind_of(matchers)}")
    for argument, patterns in matchers.items() if isinstance(matchers, Mapping) else ():
        where = place.at("argsMatchers").at(argument)
        listed = isinstance(patterns, list | tuple)
        if not listed:
            _damage(where, layer, f"expected a list, got {kind_of(patterns)}")
        layer["args_matchers"][argument] = [
            pattern
            for index, pattern in enumerate(patterns if listed else ())
            if _is_matcher(pattern, where.at(index), layer)
        ]
    return layer


def _is_matcher(pattern: object, place: Place, layer: dict[str, Any]) -> bool:
    try:
        place.expect(isinstance(pattern, str), "a string", pattern)
        compile_matcher(str(pattern))
    except InvalidValue as error:
        _damage(place, layer, error.message)
    except BadMatcher as error:
        _damage(place, layer, str(error))
    return not layer["is_damaged"]


def _damage(place: Place, layer: dict[str, Any], message: str) -> None:
    layer["is_damaged"] = True
    place.errors[place.path] = (
        f"{message} (until this is fixed, as an allow rule it allows nothing, "
        "as an ask or deny rule it always applies)"
    )


def _build_rule(merged: Mapping[str, Any]) -> ApprovalRule:
    matchers = {name: tuple(patterns) for name, patterns in merged["args_matchers"].items()}
    return ApprovalRule(args_matchers=matchers, is_damaged=merged["is_damaged"])


RULE = Reader(
    read=_read_rule,
    build=_build_rule,
    schema={
        "type": "object",
        "properties": {
            "argsMatchers": {
                "type": "object",
                "description": "by argument, regular expressions that must match its whole text",
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": "string", "format": "regex"},
                },
            }
        },
        "additionalProperties": False,
    },
)


def _read_rules(value: object, place: Place) -> dict[str, Any]:
    rules: dict[str, Any] = _RULES_BY_SELECTOR.read(value, place)
    for selector in rules:
        if "*" in selector:
            place.errors[place.at(selector).path] = (
                "expected the name of a tool or of a server, got a pattern, which matches no call"
            )
    return rules


_RULES_BY_SELECTOR = each(RULE)
RULES = attrs.evolve(_RULES_BY_SELECTOR, read=_read_rules)
"""Reader of rules by the tool or server that they are for."""


@attrs.frozen(kw_only=True, repr=False)
class Approval:
    """`toolCall.approval`: which tool calls run, need approval, or never run.

    The selectors are the names of tools or servers.

    Attributes:
        by_default: for calls that no rule covers; default: calls that read the workspace run, the
            others need approval.
        allow: calls that run without approval.
        ask: calls that need approval.
        deny: calls that never run; wins over `allow` and `ask`.
    """

    by_default: Verdict | None = setting(
        choice("ask", "allow", "deny"), "byDefault", workspace=Workspace.RESTRICTS
    )
    allow: Mapping[str, ApprovalRule] = setting(RULES, "allow", factory=dict)
    ask: Mapping[str, ApprovalRule] = setting(
        RULES, "ask", factory=dict, workspace=Workspace.RESTRICTS
    )
    deny: Mapping[str, ApprovalRule] = setting(
        RULES, "deny", factory=dict, workspace=Workspace.RESTRICTS
    )


@attrs.frozen(kw_only=True, repr=False)
class ReadFile:
    """`toolCall.readFile`.

    Attributes:
        max_lines: limit of one call's output.
    """

    max_lines: int = setting(COUNT, "maxLines", default=2_000, workspace=Workspace.SMALLER)


@attrs.frozen(kw_only=True, repr=False)
class ShellCommand:
    """`toolCall.shellCommand`.

    Attributes:
        summary_max_length: characters of the command in a call's summary.
    """

    summary_max_length: int = setting(COUNT, "summaryMaxLength", default=25)


@attrs.frozen(kw_only=True, repr=False)
class OutputTruncation:
    """`toolCall.outputTruncation`: the limits of a tool's output; longer output is cut.

    Attributes:
        lines: lines of one call's output.
        size_kb: KiB of one call's output.
    """

    lines: int = setting(COUNT, "lines", default=2_000, workspace=Workspace.SMALLER)
    size_kb: int = setting(COUNT, "sizeKb", default=50, workspace=Workspace.SMALLER)


def _read_manual_approval(value: object, place: Place) -> object:
    return FLAG.read(value, place) if isinstance(value, bool) else NAMES.read(value, place)


_MANUAL_APPROVAL = Reader(
    read=_read_manual_approval,
    build=lambda merged: merged if isinstance(merged, bool) else tuple(merged),
    schema={"type": ["boolean", "array"], "items": {"type": "string"}},
)


@attrs.frozen(kw_only=True, repr=False)
class SandboxSettings:
    """`toolCall.sandbox`: the sandbox of shell commands; a string sets the mode alone.

    Attributes:
        mode: `off`: commands run without a sandbox. `auto`: they run in the sandbox without
            approval, and outside with approval. `require`: they never run outside.
        network: whether commands may use the network in the sandbox.
        writable: folders outside the workspace that commands may change (caches).
    """

    mode: Literal["off", "auto", "require"] = setting(
        choice("off", "auto", "require"), "mode", default="off"
    )
    network: bool = setting(FLAG, "network", default=False)
    writable: tuple[str, ...] = setting(listing(PATH), "writable", default=())


_SANDBOX_RECORD = record(SandboxSettings)


def _read_sandbox(value: object, place: Place) -> object:
    return _SANDBOX_RECORD.read({"mode": value} if isinstance(value, str) else value, place)


_SANDBOX = attrs.evolve(
    _SANDBOX_RECORD, read=_read_sandbox, schema={"type": ["object", "string", "null"]}
)


@attrs.frozen(kw_only=True, repr=False)
class ToolCall:
    """`toolCall`: the approval of tool calls and the limits of tools.

    Attributes:
        approval: which calls run, need approval, or never run.
        manual_approval: the older form: true requires approval for calls that no rule covers, a
            list requires it for the tools it names.
        read_file: settings of the tool that reads files.
        shell_command: settings of the tool that runs commands.
        output_truncation: the limits of every tool's output.
        sandbox: the sandbox of shell commands.
    """

    approval: Approval = setting(record(Approval), "approval", default=Approval())
    manual_approval: bool | tuple[str, ...] = setting(
        _MANUAL_APPROVAL, "manualApproval", default=False, workspace=Workspace.RESTRICTS
    )
    read_file: ReadFile = setting(record(ReadFile), "readFile", default=ReadFile())
    shell_command: ShellCommand = setting(
        record(ShellCommand), "shellCommand", default=ShellCommand()
    )
    output_truncation: OutputTruncation = setting(
        record(OutputTruncation), "outputTruncation", default=OutputTruncation()
    )
    sandbox: SandboxSettings = setting(_SANDBOX, "sandbox", default=SandboxSettings())


@attrs.frozen(kw_only=True, repr=False)
class CustomTool:
    """`customTools.<name>`: a command the model may call as a tool.

    Attributes:
        description: the tool's description for the model.
        command: a shell command with `{{argument}}` placeholders; without it, the tool is not
            offered.
        parameters: the JSON Schema of the arguments: its `properties` and `required`.
    """

    description: str = setting(TEXT, "description", default="")
    command: str | None = setting(NAME, "command")
    parameters: Mapping[str, Any] = setting(OBJECT, "schema", factory=dict)


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
class BehaviorPrompts:
    """The prompts of one agent.

    Attributes:
        system_prompt: replaces the built-in system prompt.
        system_prompt_file: a file with the system prompt, if `systemPrompt` is not set.
        completion_prompt: the prompt for a completion.
        rewrite_prompt: the prompt for a rewrite.
        title_prompt: the prompt for a chat's title.
        compact_prompt: the prompt for a summary.
        init_prompt: the prompt of `/init`.
        skill_create_prompt: the prompt of `/skill-create`.
        tool_prompts: descriptions of native tools for the model, by the tool's name.
    """

    system_prompt: str | None = setting(TEXT, "systemPrompt", "prompts.chat")
    system_prompt_file: str | None = setting(PATH, "systemPromptFile")
    completion_prompt: str | None = setting(TEXT, "prompts.completion")
    rewrite_prompt: str | None = setting(TEXT, "prompts.rewrite")
    title_prompt: str | None = setting(TEXT, "prompts.chatTitle")
    compact_prompt: str | None = setting(TEXT, "prompts.compact")
    init_prompt: str | None = setting(TEXT, "prompts.init")
    skill_create_prompt: str | None = setting(TEXT, "prompts.skillCreate")
    tool_prompts: Mapping[str, str] = setting(each(TEXT), "prompts.tools", factory=dict)


@attrs.frozen(kw_only=True, repr=False)
class Behavior(BehaviorPrompts):
    """`agent.<name>` or `behavior.<name>`: the settings of one agent.

    An unset one is inherited, else it is the global setting.

    Attributes:
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
        max_lines: limit of one call's output of the tool that reads files.
        summary_max_length: characters of a command in a call's summary.
        output_lines: limit of any call's output, in lines.
        output_size_kb: limit of any call's output, in KiB.
    """

    inherit: str | None = setting(NAME, "inherit")
    mode: tuple[str, ...] = setting(_MODES, "mode", default=())
    description: str = setting(TEXT, "description", default="")
    spawnable_by: tuple[str, ...] = setting(_ONE_OR_MORE, "spawnableBy", default=())
    subagents: tuple[str, ...] | None = setting(NAMES, "subagents")
    skills: tuple[str, ...] | None = setting(NAMES, "skills")
    max_steps: int | None = setting(COUNT, "maxSteps", workspace=Workspace.SMALLER)
    default_model: str | None = setting(NAME, "defaultModel")
    variant: str | None = setting(NAME, "variant")
    disabled_tools: tuple[str, ...] | None = setting(
        SELECTORS, "disabledTools", workspace=Workspace.RESTRICTS
    )
    enabled_tools: tuple[str, ...] | None = setting(
        SELECTORS, "enabledTools", workspace=Workspace.RESTRICTS
    )
    tool_search: ToolSearch = setting(TOOL_SEARCH_OF_AGENT, "mcpToolSearch", default=ToolSearch())
    approval: Approval = setting(record(Approval), "toolCall.approval", default=Approval())
    auto_compact_percentage: float | None = setting(PERCENT, "autoCompactPercentage")
    auto_compact_tokens_left: int | None = setting(COUNT, "autoCompactTokensLeft")
    max_lines: int | None = setting(COUNT, "toolCall.readFile.maxLines")
    summary_max_length: int | None = setting(COUNT, "toolCall.shellCommand.summaryMaxLength")
    output_lines: int | None = setting(COUNT, "toolCall.outputTruncation.lines")
    output_size_kb: int | None = setting(COUNT, "toolCall.outputTruncation.sizeKb")


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


@attrs.frozen(kw_only=True, repr=False)
class NamedFile:
    """One item of `rules`, `commands` or `skills`.

    Attributes:
        path: absolute, `~/..`, or relative to a workspace root.
    """

    path: str | None = setting(ROOT_PATH, "path")


def paths_of(files: Iterable[NamedFile]) -> tuple[str, ...]:
    """Return the paths of the items that have one."""
    return tuple(each.path for each in files if each.path is not None)


@attrs.frozen(kw_only=True, repr=False)
class IgnoreFile:
    """One item of `index.ignoreFiles`.

    Attributes:
        type: always `gitignore`.
    """

    type: Literal["gitignore"] | None = setting(choice("gitignore"), "type")

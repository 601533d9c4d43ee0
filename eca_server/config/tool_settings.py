"""The part of the configuration that is about tools: which exist, which may run, their limits."""

from __future__ import annotations

from collections.abc import Mapping
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
    TEXT,
    Place,
    Reader,
    Refused,
    Workspace,
    choice,
    deep_merge,
    each,
    listing,
    record,
    setting,
)

__all__ = [
    "BEHAVIORS",
    "BUILT_IN",
    "BUILT_IN_SUBAGENTS",
    "OTHER_NAMES",
    "RULE",
    "Approval",
    "ApprovalRule",
    "Behavior",
    "CustomTool",
    "IgnoreFile",
    "NamedFile",
    "OutputTruncation",
    "ReadFile",
    "SandboxSettings",
    "ShellCommand",
    "ToolCall",
    "Verdict",
    "cautious_approval",
]

Verdict: TypeAlias = Literal["ask", "allow", "deny"]
NAMES = listing(NAME)


@attrs.frozen(kw_only=True)
class ApprovalRule:
    """What stands behind a selector in `allow`, `ask` or `deny`.

    Attributes:
        args_matchers: by argument, regular expressions for its text; empty: every call.
        is_damaged: some of it could not be read. A damaged rule must not loosen anything: as an
            `allow` it counts for no call, as an `ask` or a `deny` for every call.
    """

    args_matchers: Mapping[str, tuple[str, ...]] = attrs.field(factory=dict)
    is_damaged: bool = False


def _read_rule(value: Any, place: Place) -> dict[str, Any]:
    layer: dict[str, Any] = {"args_matchers": {}, "is_damaged": False}
    if not isinstance(value, Mapping):
        _damage(place, layer, f"expected an object, got {kind_of(value)}")
        return layer
    given = value.get("argsMatchers")
    unknown = next((name for name in value if name != "argsMatchers"), None)
    if unknown is not None:
        _damage(place.at(unknown), layer, "expected only argsMatchers, got another key")
    elif given is not None and not isinstance(given, Mapping):
        _damage(place.at("argsMatchers"), layer, f"expected an object, got {kind_of(given)}")
    for argument, patterns in given.items() if isinstance(given, Mapping) else ():
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
    except Refused as fault:
        _damage(place, layer, fault.message)
    except BadMatcher as fault:
        _damage(place, layer, str(fault))
    return not layer["is_damaged"]


def _damage(place: Place, layer: dict[str, Any], message: str) -> None:
    layer["is_damaged"] = True
    place.faults[place.path] = (
        f"{message} (until this is mended the rule allows nothing, or asks or denies every time)"
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
                "description": "by argument, regular expressions for its whole text",
                "additionalProperties": {
                    "type": "array",
                    "items": {"type": "string", "format": "regex"},
                },
            }
        },
        "additionalProperties": False,
    },
)


@attrs.frozen(kw_only=True)
class Approval:
    """`toolCall.approval`: what runs, what asks first, what never runs.

    The selectors are the names of tools or servers.

    Attributes:
        by_default: for what no rule covers; None: reading in the workspace runs, the rest asks.
        allow: what runs without asking.
        ask: what asks first.
        deny: what never runs, whatever else is said.
    """

    by_default: Verdict | None = attrs.field(
        default=None,
        metadata=setting(
            choice("ask", "allow", "deny"), "byDefault", workspace=Workspace.RESTRICTS
        ),
    )
    allow: Mapping[str, ApprovalRule] = attrs.field(
        factory=dict, metadata=setting(each(RULE), "allow")
    )
    ask: Mapping[str, ApprovalRule] = attrs.field(
        factory=dict, metadata=setting(each(RULE), "ask", workspace=Workspace.RESTRICTS)
    )
    deny: Mapping[str, ApprovalRule] = attrs.field(
        factory=dict, metadata=setting(each(RULE), "deny", workspace=Workspace.RESTRICTS)
    )


@attrs.frozen(kw_only=True)
class ReadFile:
    """`toolCall.readFile`.

    Attributes:
        max_lines: of one call's output.
    """

    max_lines: int = attrs.field(
        default=2_000, metadata=setting(COUNT, "maxLines", workspace=Workspace.SMALLER)
    )


@attrs.frozen(kw_only=True)
class ShellCommand:
    """`toolCall.shellCommand`.

    Attributes:
        summary_max_length: characters of the command in a call's summary.
    """

    summary_max_length: int = attrs.field(default=25, metadata=setting(COUNT, "summaryMaxLength"))


@attrs.frozen(kw_only=True)
class OutputTruncation:
    """`toolCall.outputTruncation`: the most that a tool's output may be.

    Attributes:
        lines: of one call's output.
        size_kb: of one call's output, in KiB.
    """

    lines: int = attrs.field(
        default=2_000, metadata=setting(COUNT, "lines", workspace=Workspace.SMALLER)
    )
    size_kb: int = attrs.field(
        default=50, metadata=setting(COUNT, "sizeKb", workspace=Workspace.SMALLER)
    )


def _read_manual_approval(value: object, place: Place) -> object:
    return FLAG.read(value, place) if isinstance(value, bool) else NAMES.read(value, place)


_MANUAL_APPROVAL = Reader(
    read=_read_manual_approval,
    build=lambda merged: merged if isinstance(merged, bool) else tuple(merged),
    schema={"type": ["boolean", "array"], "items": {"type": "string"}},
)


@attrs.frozen(kw_only=True)
class SandboxSettings:
    """`toolCall.sandbox`: whether commands run in a sandbox, and what they may do there.

    Written as a word, it is the mode alone.

    Attributes:
        mode: `off`: commands run as they are. `auto`: they run in the sandbox without a question,
            and outside after one. `require`: they never run outside.
        network: whether they may use the network there.
        writable: folders outside the workspace that they may change (caches).
    """

    mode: Literal["off", "auto", "require"] = attrs.field(
        default="off", metadata=setting(choice("off", "auto", "require"), "mode")
    )
    network: bool = attrs.field(default=False, metadata=setting(FLAG, "network"))
    writable: tuple[str, ...] = attrs.field(default=(), metadata=setting(listing(PATH), "writable"))


_SANDBOX_RECORD = record(SandboxSettings)


def _read_sandbox(value: object, place: Place) -> object:
    return _SANDBOX_RECORD.read({"mode": value} if isinstance(value, str) else value, place)


_SANDBOX = attrs.evolve(
    _SANDBOX_RECORD, read=_read_sandbox, schema={"type": ["object", "string", "null"]}
)


@attrs.frozen(kw_only=True)
class ToolCall:
    """`toolCall`.

    Attributes:
        approval: what may run.
        manual_approval: the older way to say it: true asks for what no rule covers, a list asks
            for the tools it names.
        read_file: of the tool that reads files.
        shell_command: of the tool that runs commands.
        output_truncation: of every tool.
        sandbox: where commands run.
    """

    approval: Approval = attrs.field(
        default=Approval(), metadata=setting(record(Approval), "approval")
    )
    manual_approval: bool | tuple[str, ...] = attrs.field(
        default=False,
        metadata=setting(_MANUAL_APPROVAL, "manualApproval", workspace=Workspace.RESTRICTS),
    )
    read_file: ReadFile = attrs.field(
        default=ReadFile(), metadata=setting(record(ReadFile), "readFile")
    )
    shell_command: ShellCommand = attrs.field(
        default=ShellCommand(), metadata=setting(record(ShellCommand), "shellCommand")
    )
    output_truncation: OutputTruncation = attrs.field(
        default=OutputTruncation(), metadata=setting(record(OutputTruncation), "outputTruncation")
    )
    sandbox: SandboxSettings = attrs.field(
        default=SandboxSettings(), metadata=setting(_SANDBOX, "sandbox")
    )


@attrs.frozen(kw_only=True)
class CustomTool:
    """`customTools.<name>`: a command the model may call as a tool.

    Attributes:
        description: what the model is told of it.
        command: for the shell, with `{{argument}}` where one belongs; None: it is not offered.
        parameters: the JSON Schema of its arguments: its `properties` and `required`.
    """

    description: str = attrs.field(default="", metadata=setting(TEXT, "description"))
    command: str | None = attrs.field(default=None, metadata=setting(NAME, "command"))
    parameters: Mapping[str, Any] = attrs.field(factory=dict, metadata=setting(OBJECT, "schema"))


def _read_one_or_more(value: object, place: Place) -> object:
    return NAMES.read([value] if isinstance(value, str) else value, place)


_ONE_OR_MORE = Reader(
    read=_read_one_or_more,
    build=tuple,
    schema={"type": ["string", "array"], "items": {"type": "string"}},
)


@attrs.frozen(kw_only=True)
class Behavior:
    """`behavior.<name>`: what differs from the rest of the configuration in this behaviour.

    Attributes:
        inherit: the behaviour whose settings count where this one has none of its own.
        mode: `subagent`: other agents may have it work for them; that alone: it is not offered to
            the user.
        description: what other agents are told of it.
        spawnable_by: the behaviours that may have it work for them; empty: all.
        subagents: the agents that may work for this one, by name or regular expression; None: all.
        skills: the skills that it may load, likewise.
        max_steps: requests of one turn; None: as many as there may be.
        default_model: `provider/model`; None: as everywhere.
        variant: of whichever model answers, if it has one of that name and none was selected.
        system_prompt: stands in place of our instructions.
        system_prompt_file: its text does, if `systemPrompt` is not set.
        disabled_tools: not offered; None: what is usual for this behaviour.
        enabled_tools: the only tools that are offered, as far as the global list has them, too.
        approval: rules beside the global ones; at the same rank these count first.
        auto_compact_percentage: as for all behaviours; None: as everywhere.
        auto_compact_tokens_left: the same.
        completion_prompt: how a completion is asked for; None, as for the rest: as everywhere.
        rewrite_prompt: how a rewrite is asked for.
        title_prompt: how a title is asked for.
        compact_prompt: how a summary is asked for.
        init_prompt: what `/init` asks for.
        skill_create_prompt: what `/skill-create` asks for.
        tool_prompts: what the model is told of a native tool, by the tool's name.
        max_lines: of one call's output of the tool that reads files.
        summary_max_length: characters of a command in a call's summary.
        output_lines: of any call's output.
        output_size_kb: of any call's output, in KiB.
    """

    inherit: str | None = attrs.field(default=None, metadata=setting(NAME, "inherit"))
    mode: tuple[str, ...] = attrs.field(default=(), metadata=setting(_ONE_OR_MORE, "mode"))
    description: str = attrs.field(default="", metadata=setting(TEXT, "description"))
    spawnable_by: tuple[str, ...] = attrs.field(
        default=(), metadata=setting(_ONE_OR_MORE, "spawnableBy")
    )
    subagents: tuple[str, ...] | None = attrs.field(
        default=None, metadata=setting(NAMES, "subagents")
    )
    skills: tuple[str, ...] | None = attrs.field(default=None, metadata=setting(NAMES, "skills"))
    max_steps: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "maxSteps", workspace=Workspace.SMALLER)
    )
    default_model: str | None = attrs.field(default=None, metadata=setting(NAME, "defaultModel"))
    variant: str | None = attrs.field(default=None, metadata=setting(NAME, "variant"))
    system_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "systemPrompt", "prompts.chat")
    )
    system_prompt_file: str | None = attrs.field(
        default=None, metadata=setting(PATH, "systemPromptFile")
    )
    disabled_tools: tuple[str, ...] | None = attrs.field(
        default=None, metadata=setting(NAMES, "disabledTools", workspace=Workspace.RESTRICTS)
    )
    enabled_tools: tuple[str, ...] | None = attrs.field(
        default=None, metadata=setting(NAMES, "enabledTools", workspace=Workspace.RESTRICTS)
    )
    approval: Approval = attrs.field(
        default=Approval(), metadata=setting(record(Approval), "toolCall.approval")
    )
    auto_compact_percentage: float | None = attrs.field(
        default=None, metadata=setting(PERCENT, "autoCompactPercentage")
    )
    auto_compact_tokens_left: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "autoCompactTokensLeft")
    )
    completion_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "prompts.completion")
    )
    rewrite_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "prompts.rewrite")
    )
    title_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "prompts.chatTitle")
    )
    compact_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "prompts.compact")
    )
    init_prompt: str | None = attrs.field(default=None, metadata=setting(TEXT, "prompts.init"))
    skill_create_prompt: str | None = attrs.field(
        default=None, metadata=setting(TEXT, "prompts.skillCreate")
    )
    tool_prompts: Mapping[str, str] = attrs.field(
        factory=dict, metadata=setting(each(TEXT), "prompts.tools")
    )
    max_lines: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "toolCall.readFile.maxLines")
    )
    summary_max_length: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "toolCall.shellCommand.summaryMaxLength")
    )
    output_lines: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "toolCall.outputTruncation.lines")
    )
    output_size_kb: int | None = attrs.field(
        default=None, metadata=setting(COUNT, "toolCall.outputTruncation.sizeKb")
    )


_NAMED_BEHAVIORS = each(record(Behavior))


def cautious_approval(own: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The approval, as it was read, of a behaviour of whose bases not all are known."""
    own = own or {}
    return {**own, "by_default": own.get("by_default") or "ask"}


def _read_behaviors(value: object, place: Place) -> dict[str, Any]:
    behaviors: dict[str, Any] = _NAMED_BEHAVIORS.read(value, place)
    for name, own in behaviors.items():
        if place.at(name).at("inherit").path in place.faults:
            own["approval"] = cautious_approval(own.get("approval"))
    for alias in OTHER_NAMES.keys() & behaviors.keys():
        layer = {OTHER_NAMES[alias]: behaviors.pop(alias)}
        behaviors = deep_merge(behaviors, layer)
    return behaviors


BUILT_IN: Final = ("agent", "plan")
"""The behaviours that are there without a word in the configuration."""

BUILT_IN_SUBAGENTS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "explorer": {
            "mode": ("subagent",),
            "inherit": "plan",
            "description": "Finds and reads code and answers questions about it; changes nothing.",
            "system_prompt": "You are ECA, exploring a code base inside the user's editor. Find "
            "what you are asked for with the tools that search and read. Change nothing. Report "
            "what you found with paths and line numbers, briefly and exactly; say what you did "
            "not find.",
        },
        "general": {
            "mode": ("subagent",),
            "description": "Does a task of several steps by itself, changes of files included.",
        },
    }
)
"""The agents that others may call without a word in the configuration."""

OTHER_NAMES: Mapping[str, str] = {"code": "agent", "build": "agent"}
"""What the upstream server calls our behaviours, or has called them."""

BEHAVIORS = attrs.evolve(_NAMED_BEHAVIORS, read=_read_behaviors)
"""`agent` and `behavior`, by the user's name or ours for each behaviour."""


@attrs.frozen(kw_only=True)
class NamedFile:
    """One item of `rules`, `commands` or `skills`.

    Attributes:
        path: absolute, `~/..`, or relative to a workspace root.
    """

    path: str | None = attrs.field(default=None, metadata=setting(NAME, "path"))


@attrs.frozen(kw_only=True)
class IgnoreFile:
    """One item of `index.ignoreFiles`.

    Attributes:
        type: `gitignore` is the only one there is.
    """

    type: Literal["gitignore"] | None = attrs.field(
        default=None, metadata=setting(choice("gitignore"), "type")
    )

"""The settings of tools (approval, limits, the sandbox, custom tools) and of lists of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.config.problems import kind_of
from eca_server.config.reading import (
    COUNT,
    FLAG,
    NAME,
    OBJECT,
    PATH,
    ROOT_PATH,
    TEXT,
    InvalidValue,
    Place,
    Reader,
    Workspace,
    choice,
    each,
    listing,
    record,
    setting,
)

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
        choice("ask", "allow", "deny"), workspace=Workspace.RESTRICTS
    )
    allow: Mapping[str, ApprovalRule] = setting(RULES, factory=dict)
    ask: Mapping[str, ApprovalRule] = setting(RULES, factory=dict, workspace=Workspace.RESTRICTS)
    deny: Mapping[str, ApprovalRule] = setting(RULES, factory=dict, workspace=Workspace.RESTRICTS)


@attrs.frozen(kw_only=True, repr=False)
class ReadFile:
    """`toolCall.readFile`.

    Attributes:
        max_lines: limit of one call's output.
    """

    max_lines: int = setting(COUNT, default=2_000, workspace=Workspace.SMALLER)


@attrs.frozen(kw_only=True, repr=False)
class ShellCommand:
    """`toolCall.shellCommand`.

    Attributes:
        summary_max_length: characters of the command in a call's summary.
    """

    summary_max_length: int = setting(COUNT, default=25)


@attrs.frozen(kw_only=True, repr=False)
class OutputTruncation:
    """`toolCall.outputTruncation`: the limits of a tool's output; longer output is cut.

    Attributes:
        lines: lines of one call's output.
        size_kb: KiB of one call's output.
    """

    lines: int = setting(COUNT, default=2_000, workspace=Workspace.SMALLER)
    size_kb: int = setting(COUNT, default=50, workspace=Workspace.SMALLER)


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
        choice("off", "auto", "require"), default="off"
    )
    network: bool = setting(FLAG, default=False)
    writable: tuple[str, ...] = setting(listing(PATH), default=())


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

    approval: Approval = setting(record(Approval))
    manual_approval: bool | tuple[str, ...] = setting(
        _MANUAL_APPROVAL, default=False, workspace=Workspace.RESTRICTS
    )
    read_file: ReadFile = setting(record(ReadFile))
    shell_command: ShellCommand = setting(record(ShellCommand))
    output_truncation: OutputTruncation = setting(record(OutputTruncation))
    sandbox: SandboxSettings = setting(_SANDBOX)


@attrs.frozen(kw_only=True, repr=False)
class CustomTool:
    """`customTools.<name>`: a command the model may call as a tool.

    Attributes:
        description: the tool's description for the model.
        command: a shell command with `{{argument}}` placeholders; without it, the tool is not
            offered.
        parameters: the JSON Schema of the arguments: its `properties` and `required`.
    """

    description: str = setting(TEXT, default="")
    command: str | None = setting(NAME)
    parameters: Mapping[str, Any] = setting(OBJECT, "schema", factory=dict)


@attrs.frozen(kw_only=True, repr=False)
class NamedFile:
    """One item of `rules`, `commands` or `skills`.

    Attributes:
        path: absolute, `~/..`, or relative to a workspace root.
    """

    path: str | None = setting(ROOT_PATH)


def paths_of(files: Iterable[NamedFile]) -> tuple[str, ...]:
    """Return the paths of the items that have one."""
    return tuple(each.path for each in files if each.path is not None)


@attrs.frozen(kw_only=True, repr=False)
class IgnoreFile:
    """One item of `index.ignoreFiles`.

    Attributes:
        type: always `gitignore`.
    """

    type: Literal["gitignore"] | None = setting(choice("gitignore"))

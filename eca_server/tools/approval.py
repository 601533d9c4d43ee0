"""Whether a tool call runs, asks first, or is refused, and which rule says so. Pure.

The rules it keeps: a configured `deny` beats everything, else the most specific rule counts; a path
outside the workspace asks whatever was allowed or remembered, and so does a change of what decides
on calls or runs by itself (the guarded paths), or a model that may write would grant itself the
rest; so does Git where a repository may run a program; what cannot be judged (a damaged rule, a
pattern that takes too long) never loosens anything.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from eca_protocol import json
from eca_server.config import Approval, ApprovalRule, Behavior, Config
from eca_server.config.matchers import compile_matcher, matches_name
from eca_server.content_formatting import NATIVE
from eca_server.printable import printable_line
from eca_server.tools.command_keys import CommandPart
from eca_server.tools.read_only_commands import why_not_read_only
from eca_server.tools.tool import Effect

if TYPE_CHECKING:
    import regex

__all__ = [
    "BUILT_IN",
    "NATIVE",
    "Call",
    "Decision",
    "Memo",
    "Policy",
    "Verdict",
    "policy_of",
    "spellings",
]

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

_STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}
_READS_ARE_ALLOWED = "reading in the workspace is allowed"
_NOT_RESTRICTED = "the opened folder restricts nothing of it"
_ELSE_ASKS = "everything but reading in the workspace asks"
_SANDBOXED = "the sandbox holds it"
BUILT_IN = frozenset({_READS_ARE_ALLOWED, _ELSE_ASKS, _SANDBOXED})
"""The rules that count where nothing is configured; the summary of a call does not name them."""

_PLAN = "plan"
_ONLY_READS = "the plan behaviour only reads"
_PREVIEW = ("preview_file_change",)  # what it shows, an edit that asks shows as well
_MATCHING_SECONDS = 0.25  # for all patterns of one decision together
_NO_RULES = Approval()
_SHOWN_PATHS = 3
_SHOWN_CHARACTERS = 200


@attrs.frozen(kw_only=True)
class Call:
    """What the policy knows of a call.

    Attributes:
        server: `eca` for a native tool, else the MCP server's name.
        tool: without the server's prefix.
        arguments: as the model gave them.
        effect: what the tool may do at most.
        command: the text of the command, if it runs one.
        parts: the parts of the command, where an approval may cover other commands too.
        outside: the paths it touches, or may touch, outside the workspace.
        guarded: those it may change that decide what runs in the workspace.
        programs: why Git would run programs that a repository names.
        warning: what the tool's own server warns of.
        is_sandboxed: whether it runs in the sandbox.
    """

    server: str = NATIVE
    tool: str
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    effect: Effect
    command: str | None = None
    parts: tuple[CommandPart, ...] = ()
    outside: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    warning: str | None = None
    is_sandboxed: bool = False


@attrs.frozen
class Memo:
    """What "for this session" remembers: these calls need not ask again.

    Attributes:
        server: of the tool.
        tool: any call of it, or
        command: only the commands with this key (`git checkout`), or this very text
        folder: in this very folder;
        rule: the rule that asked, if it looks at arguments: no other rule's question is answered.
        is_sandboxed: whether what was approved runs in the sandbox; outside it asks again.
    """

    server: str
    tool: str
    command: str | None = None
    folder: str | None = None
    rule: str | None = None
    is_sandboxed: bool = False


@attrs.frozen(kw_only=True)
class Decision:
    """What becomes of a call.

    Attributes:
        verdict: run it, ask first, refuse it.
        rule: what decided, for people: a key of the configuration, or words.
        memos: what to remember if the user approves for the session, or what was remembered and
            allows the call; none: nothing may be.
    """

    verdict: Verdict
    rule: str
    memos: tuple[Memo, ...] = ()

    @property
    def is_remembered(self) -> bool:
        """Whether nothing but an approval for the session allows the call."""
        return self.verdict == "allow" and bool(self.memos)


def policy_of(config: Config, behavior: str, *, within: Policy | None = None) -> Policy:
    """Return the policy of a behaviour: its own rules beside the global ones.

    Nothing is allowed that `within` or a restriction of an opened folder refuses or asks for.
    """
    for restriction in config.restrictions:
        within = _restricting(restriction, behavior, config, within)
    own = config.behaviors.get(behavior, Behavior())
    disabled = own.disabled_tools
    if disabled is None:
        disabled = () if config.built_in(behavior) == _PLAN else _PREVIEW
    return Policy(
        own=own.approval,
        common=config.tool_call.approval,
        behavior=behavior,
        reads_only=config.built_in(behavior) == _PLAN,
        manual=config.tool_call.manual_approval,
        disabled={
            f"behavior.{behavior}.disabledTools": disabled,
            "disabledTools": config.disabled_tools,
        },
        enabled=_enabled(config, own, behavior),
        within=within,
    )


def _enabled(config: Config, own: Behavior, behavior: str) -> dict[str, Collection[str]]:
    """Return the lists of enabled tools that there are, by the key they are in."""
    lists = {f"behavior.{behavior}.enabledTools": own.enabled_tools}
    lists["enabledTools"] = config.enabled_tools
    return {key: names for key, names in lists.items() if names is not None}


def _restricting(
    restriction: Config, behavior: str, config: Config, within: Policy | None
) -> Policy:
    """Return the policy of an opened folder's restrictions, those of the bases included."""
    name: str | None = behavior
    while name is not None:
        own = restriction.behaviors.get(name, Behavior())
        within = Policy(
            own=own.approval,
            common=restriction.tool_call.approval,
            behavior=name,
            manual=restriction.tool_call.manual_approval,
            disabled={
                f"behavior.{name}.disabledTools": own.disabled_tools or (),
                "disabledTools": restriction.disabled_tools,
            },
            enabled=_enabled(restriction, own, name),
            within=within,
            only_restricts=True,
        )
        name = config.behaviors[name].inherit if name in config.behaviors else None
    assert within is not None
    return within


def spellings(server: str, tool: str) -> frozenset[str]:
    """Every selector that means this tool alone (ruling W-33)."""
    if server != NATIVE:
        return frozenset({f"{server}__{tool}"})
    return frozenset({tool, f"eca_{tool}", f"eca__{tool}", f"ECA__{tool}"})


class Policy:
    """Decides on calls; a value, as long as the configuration and the behaviour stay.

    Args:
        own: the behaviour's rules; of the same rank, they count before the common ones.
        common: the global rules.
        behavior: its name.
        reads_only: whether it may do nothing but read, as `plan` always.
        manual: `toolCall.manualApproval`.
        disabled: selectors of tools that are not offered, by the key they stand under.
        enabled: selectors of which each list must have one for an offered tool, by its key.
        within: another policy; what it refuses or asks for, this one does too.
        only_restricts: a call that none of its rules is about runs, as far as this policy goes.
    """

    def __init__(
        self,
        *,
        own: Approval = _NO_RULES,
        common: Approval = _NO_RULES,
        behavior: str = "agent",
        reads_only: bool = False,
        manual: bool | Collection[str] = False,
        disabled: Mapping[str, Collection[str]] | None = None,
        enabled: Mapping[str, Collection[str]] | None = None,
        within: Policy | None = None,
        only_restricts: bool = False,
    ) -> None:
        prefix = f"behavior.{behavior}.toolCall.approval"
        self._rules = [*_rules(own, prefix), *_rules(common, "toolCall.approval")]
        if not isinstance(manual, bool):
            self._rules += [_Rule("ask", name, "toolCall.manualApproval") for name in manual]
        self._asks_always = manual is True
        defaults = [(own.by_default, prefix), (common.by_default, "toolCall.approval")]
        self._default = next(
            ((verdict, f"{key}.byDefault") for verdict, key in defaults if verdict), None
        )
        self._reads_only = reads_only or (behavior == _PLAN and not only_restricts)
        self._only_restricts = only_restricts
        self._disabled = disabled or {}
        self._enabled = enabled or {}
        self._within = within

    def told(self) -> Iterator[str]:
        """Yield what decides, in words: what is withheld, the rules, what counts without one."""
        if self._within is not None and self._within._only_restricts:
            prefix = "" if self._only_restricts else "of the opened folder: "
            yield from (f"{prefix}{printable_line(line)}" for line in self._within.told())
        for key, names in self._disabled.items():
            if names:
                yield f"{key}: {', '.join(names)}"
        for key, names in self._enabled.items():
            yield f"{key}, and no other tool: {', '.join(names) or 'none'}"
        for rule in self._rules:
            matched = f", by its {' or '.join(rule.matchers)}" if rule.matchers else ""
            yield f"{rule.verdict} {rule.selector} ({rule.name}{matched})"
        if self._reads_only:
            yield _ONLY_READS
        if self._asks_always:
            yield "everything else asks (toolCall.manualApproval)"
        if self._asks_always or self._only_restricts:
            return
        yield _READS_ARE_ALLOWED
        if self._default is None:
            yield _ELSE_ASKS
        else:
            verdict, name = self._default
            yield f"{verdict} everything else in the workspace ({name})"
        yield "a path outside the workspace asks, whatever is allowed"
        yield "a change of a guarded path in it (.git, .vscode, AGENTS.md, ...) asks, too"

    def withheld(self, *, server: str, tool: str, effect: Effect) -> str | None:
        """The rule by which a tool is not offered to the model at all; None: it is offered."""
        if self._within is not None:
            why = self._within.withheld(server=server, tool=tool, effect=effect)
            if why is not None:
                return why
        selectors = spellings(server, tool) | _server_names(server)
        for key, names in self._disabled.items():
            if any(matches_name(selector, selectors) for selector in names):
                return key
        for key, names in self._enabled.items():
            if not any(matches_name(each, selectors, if_late=False) for each in names):
                return f"{key}, which does not name it"
        for rule in self._rules:
            if rule.verdict == "deny" and not rule.matchers and rule.rank(server, tool):
                return rule.name
        if self._reads_only and effect == "write":
            return _ONLY_READS
        return None

    def decide(
        self, call: Call, remembered: Collection[Memo] = (), *, is_trusted: bool = False
    ) -> Decision:
        """What becomes of a call, given what the user approved for the session.

        In a trusted chat nothing asks but what lies outside the workspace, decides what runs, or
        lets Git run a program that a repository names.
        The patterns of `argsMatchers` get a quarter of a second together; one that needs longer
        counts as a match for `ask` and `deny`, and as none for `allow`.
        """
        decision = self._decide(call, remembered, is_trusted=is_trusted)
        if self._within is None:
            return decision
        wider = self._within.decide(call, remembered, is_trusted=is_trusted)
        if decision.is_remembered and wider.verdict == "allow":
            return decision
        return max(wider, decision, key=lambda each: _STRICTNESS[each.verdict])

    def _decide(self, call: Call, remembered: Collection[Memo], *, is_trusted: bool) -> Decision:
        """What this policy makes of a call by itself."""
        rule = self._rule_for(call)
        refused = self._refusal(call, rule)
        if refused is not None:
            return Decision(verdict="deny", rule=refused)
        verdict, name = self._judge(call, rule)
        if verdict == "allow":
            return Decision(verdict="allow", rule=name)
        if call.outside or call.guarded or call.programs:
            return Decision(verdict="ask", rule=name)
        if is_trusted:
            return Decision(verdict="allow", rule="this chat is trusted")
        memos = _memos(call, name if rule is not None and rule.matchers else None)
        is_covered = all(part.key for part in call.parts) and set(memos) <= set(remembered)
        if is_covered:
            return Decision(verdict="allow", rule="approved for this session", memos=memos)
        return Decision(verdict="ask", rule=name, memos=memos)

    def _refusal(self, call: Call, rule: _Rule | None) -> str | None:
        """What refuses the call, if something does."""
        withheld = self.withheld(server=call.server, tool=call.tool, effect=call.effect)
        if withheld is not None:
            return withheld
        if rule is not None and rule.verdict == "deny":
            return rule.name
        if self._reads_only and call.command is not None:
            why = why_not_read_only(call.command)
            if why is not None:
                return f"{_ONLY_READS}: {why}"
            if call.programs:
                return f"{_ONLY_READS}: {_shown(call.programs)}"
        verdict, name = self._by_default(call)
        return name if rule is None and verdict == "deny" else None

    def _judge(self, call: Call, rule: _Rule | None) -> tuple[Verdict, str]:
        """Return whether a call that is not refused asks.

        The sandbox holds the paths outside and the guarded ones; what somebody has written asks.
        """
        if call.is_sandboxed and not self._reads_only:
            verdict, name = (rule.verdict, rule.name) if rule else self._by_default(call)
            return ("allow", _SANDBOXED) if name == _ELSE_ASKS else (verdict, name)
        if call.outside:
            return "ask", f"outside the workspace: {_shown(call.outside)}"
        if call.guarded:
            return "ask", f"this decides what runs in the workspace: {_shown(call.guarded)}"
        if call.programs:
            return "ask", f"Git may run a program: {_shown(call.programs)}"
        if self._reads_only and call.effect == "run" and call.command is None:
            return "ask", f"{_ONLY_READS}, and this tool may do anything"
        return (rule.verdict, rule.name) if rule else self._by_default(call)

    def _rule_for(self, call: Call) -> _Rule | None:
        """A deny if there is one, else the most specific; of equals the behaviour's, then ask."""
        deadline = time.monotonic() + _MATCHING_SECONDS
        found = [
            (rule.verdict == "deny", rank, -order, rule)
            for order, rule in enumerate(self._rules)
            if (rank := rule.rank(call.server, call.tool)) and rule.covers(call, deadline)
        ]
        return max(found, key=lambda each: each[:3])[3] if found else None

    def _by_default(self, call: Call) -> tuple[Verdict, str]:
        if self._asks_always:
            return "ask", "toolCall.manualApproval"
        if self._only_restricts and self._default is None:
            return "allow", _NOT_RESTRICTED
        # What an MCP server says of its own tools is not taken for granted.
        if call.server == NATIVE and call.effect == "read" and not call.outside:
            return "allow", _READS_ARE_ALLOWED
        if self._default is None:
            return "ask", _ELSE_ASKS
        verdict, name = self._default
        if call.warning is not None and verdict == "allow":
            return "ask", f"the MCP server says: {call.warning}"
        return verdict, name


@attrs.frozen
class _Rule:
    """One selector of `allow`, `ask` or `deny`."""

    verdict: Verdict
    selector: str
    name: str
    matchers: Mapping[str, Sequence[regex.Pattern[str]]] = attrs.field(factory=dict)

    def rank(self, server: str, tool: str) -> int:
        """How specific it is for this tool; 0: it is about another one."""
        if self.selector in spellings(server, tool):
            return 4 if self.matchers else 3
        if self.selector in _server_names(server):
            return 2 if self.matchers else 1
        return 0

    def covers(self, call: Call, deadline: float) -> bool:
        """Whether the arguments are what it is about.

        An `allow` must fit every argument it names, and a dot in it ends with the line. For `ask`
        and `deny` one argument is enough, and in it one line, or the whole text.
        """
        is_allow = self.verdict == "allow"
        results = (
            _fits(_text(call.arguments.get(argument)), patterns, is_allow, deadline)
            for argument, patterns in self.matchers.items()
        )
        return not self.matchers or (all(results) if is_allow else any(results))


def _rules(approval: Approval, key: str) -> Iterator[_Rule]:
    """The rules, the stricter first; what is damaged allows nothing and covers every call."""
    given: tuple[tuple[Verdict, Mapping[str, ApprovalRule]], ...] = (
        ("deny", approval.deny),
        ("ask", approval.ask),
        ("allow", approval.allow),
    )
    for verdict, by_selector in given:
        for selector, rule in by_selector.items():
            name = f"{key}.{verdict}.{selector}"
            if not rule.is_damaged:
                matchers = {
                    argument: [
                        compile_matcher(pattern, dot_is_all=verdict != "allow")
                        for pattern in patterns
                    ]
                    for argument, patterns in rule.args_matchers.items()
                }
                yield _Rule(verdict, selector, name, matchers)
            elif verdict != "allow":
                yield _Rule(verdict, selector, f"{name}, which cannot be read")


def _fits(
    text: str | None, patterns: Sequence[regex.Pattern[str]], is_allow: bool, deadline: float
) -> bool:
    if text is None:
        return False
    texts = [text] if is_allow else [text, *text.splitlines()]
    for pattern in patterns:
        for part in texts:
            left = deadline - time.monotonic()
            try:
                if left <= 0 or pattern.fullmatch(part, timeout=left):
                    return left > 0 or not is_allow
            except TimeoutError:
                return not is_allow
    return False


def _text(argument: object) -> str | None:
    if argument is None or isinstance(argument, str):
        return argument
    return json.dumps(argument).decode()


def _server_names(server: str) -> frozenset[str]:
    return frozenset({NATIVE, "ECA"}) if server == NATIVE else frozenset({server})


def _memos(call: Call, rule: str | None) -> tuple[Memo, ...]:
    """Return what an approval of a call covers: the call's tool, or each part of its command."""
    memo = Memo(
        server=call.server,
        tool=call.tool,
        command=call.command,
        folder=_folder(call),
        rule=rule,
        is_sandboxed=call.is_sandboxed,
    )
    if not call.parts:
        return (memo,)
    keyed = [part for part in call.parts if part.key]
    return tuple(attrs.evolve(memo, command=part.key, folder=part.folder) for part in keyed)


def _folder(call: Call) -> str | None:
    folder = call.arguments.get("working_directory")
    return folder if call.command is not None and isinstance(folder, str) else None


def _shown(paths: Sequence[str]) -> str:
    shown = ", ".join(path[:_SHOWN_CHARACTERS] for path in paths[:_SHOWN_PATHS])
    more = len(paths) - _SHOWN_PATHS
    return f"{shown} and {more} more" if more > 0 else shown

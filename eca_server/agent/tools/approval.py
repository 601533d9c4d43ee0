"""The decision whether a tool call runs, needs approval, or is refused, and by which rule. Pure.

The rules of this module: a configured `deny` takes precedence, else the most specific rule counts.
A path outside the workspace always needs approval. So does a change of a guarded path, since a
model with write access could otherwise grant itself everything else; and so does Git in a
repository that may run a program.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence

import attrs

from eca_server.agent.tools.approval_rules import (
    Call,
    Rule,
    Verdict,
    read_rules,
    server_names,
    spellings,
)
from eca_server.agent.tools.read_only_commands import why_not_read_only
from eca_server.agent.tools.tool import Effect
from eca_server.client.content_formatting import NATIVE
from eca_server.config.agent_settings import Behavior
from eca_server.config.matchers import matches_name
from eca_server.config.settings import Config, agent_key
from eca_server.config.tool_settings import Approval
from eca_server.printable import enumeration, printable_line

_STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "ask": 1, "deny": 2}
_READS_ARE_ALLOWED = "reading in the workspace is allowed"
_NOT_RESTRICTED = "the opened folder does not restrict it"
_ELSE_ASKS = "everything else needs approval"
_SANDBOXED = "it runs in the sandbox"
BUILT_IN = frozenset({_READS_ARE_ALLOWED, _ELSE_ASKS, _SANDBOXED})
"""The built-in rules; the summary of a call does not name them."""

_PLAN = "plan"
_ONLY_READS = "the agent plan only reads"
_MATCHING_SECONDS = 0.25  # for all patterns of one decision together
_PREVIEW = ("preview_file_change",)  # not needed: an edit that needs approval shows the same
_NO_RULES = Approval()
_SHOWN_PATHS = 3
_SHOWN_CHARACTERS = 200


@attrs.frozen
class Memo:
    """An approval for the session, and the calls that it covers.

    Attributes:
        tool: the tool; without `command` every call of it is covered.
        command: the key (`git checkout`) or the exact text of the covered commands.
        folder: the directory of the covered commands.
        rule: the rule that asked, if it matches arguments; other rules ask again.
        is_sandboxed: whether the covered calls run in the sandbox.
    """

    server: str
    tool: str
    command: str | None = None
    folder: str | None = None
    rule: str | None = None
    is_sandboxed: bool = False


@attrs.frozen(kw_only=True)
class Decision:
    """The decision about a call.

    Attributes:
        verdict: run it, ask the user, or refuse it.
        rule: the reason, for people: a key of the configuration, or a phrase.
        memos: the approvals to store if the user approves for the session, or the stored ones that
            allow the call; empty: the call cannot be remembered.
    """

    verdict: Verdict
    rule: str
    memos: tuple[Memo, ...] = ()

    @property
    def is_remembered(self) -> bool:
        """True if only an approval for the session allows the call."""
        return self.verdict == "allow" and bool(self.memos)


def policy_of(config: Config, behavior: str, *, within: Policy | None = None) -> Policy:
    """Return the policy of a behaviour: its own rules and the global ones.

    It permits nothing that `within` or a restriction of an opened folder refuses or asks for.
    """
    for restriction in config.restrictions:
        within = _restricting(restriction, behavior, config, within)
    is_plan = config.built_in(behavior) == _PLAN
    disabled = () if is_plan else _PREVIEW
    return _configured(config, behavior, disabled=disabled, within=within, reads_only=is_plan)


def _configured(
    config: Config, behavior: str, *, disabled: Collection[str], within: Policy | None, **more: bool
) -> Policy:
    """Return the policy of one configuration.

    `disabled`: the tools that are not offered if the behaviour does not say which.
    """
    own = config.behaviors.get(behavior, Behavior())
    own_disabled = disabled if own.disabled_tools is None else own.disabled_tools
    own_key = agent_key(behavior, "disabledTools")
    return Policy(
        own=own.approval,
        common=config.tool_call.approval,
        behavior=behavior,
        manual=config.tool_call.manual_approval,
        disabled={own_key: own_disabled, "disabledTools": config.disabled_tools},
        enabled=_enabled(config, own, behavior),
        within=within,
        **more,
    )


def _enabled(config: Config, own: Behavior, behavior: str) -> dict[str, Collection[str]]:
    """Return the configured lists of enabled tools by their keys."""
    lists = {agent_key(behavior, "enabledTools"): own.enabled_tools}
    lists["enabledTools"] = config.enabled_tools
    return {key: names for key, names in lists.items() if names is not None}


def _restricting(
    restriction: Config, behavior: str, config: Config, within: Policy | None
) -> Policy:
    """Return the policy of an opened folder's restrictions, with those of base behaviours."""
    name: str | None = behavior
    while name is not None:
        within = _configured(restriction, name, disabled=(), within=within, only_restricts=True)
        name = config.behaviors[name].inherit if name in config.behaviors else None
    assert within is not None
    return within


class Policy:
    """The rules for calls under one configuration and behaviour; immutable.

    Args:
        own: the behaviour's rules, which precede common rules of the same rank.
        common: the global rules.
        reads_only: whether only reading is permitted, as always for `plan`.
        manual: `toolCall.manualApproval`.
        disabled: lists of selectors of tools that are not offered, by their keys.
        enabled: lists of selectors by their keys; an offered tool must match each list.
        within: a policy whose refusals and questions apply here too.
        only_restricts: whether a call that matches no rule is allowed by this policy.
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
        prefix = agent_key(behavior, "toolCall.approval")
        self._rules = [*read_rules(own, prefix), *read_rules(common, "toolCall.approval")]
        if not isinstance(manual, bool):
            self._rules += [Rule("ask", name, "toolCall.manualApproval") for name in manual]
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

    def describe(self) -> Iterator[str]:
        """Yield the policy as lines for people: withheld tools, rules, defaults."""
        if self._within is not None and self._within._only_restricts:
            prefix = "" if self._only_restricts else "of the opened folder: "
            yield from (f"{prefix}{printable_line(line)}" for line in self._within.describe())
        for key, names in self._disabled.items():
            if names:
                yield f"{key}: {', '.join(names)}"
        for key, names in self._enabled.items():
            yield f"{key}, and no other tool: {', '.join(names) or 'none'}"
        for rule in self._rules:
            by_matchers = f", by its {' or '.join(rule.matchers)}" if rule.matchers else ""
            yield f"{rule.verdict} {rule.selector} ({rule.name}{by_matchers})"
        if self._reads_only:
            yield _ONLY_READS
        if self._asks_always:
            yield "everything else needs approval (toolCall.manualApproval)"
        if self._asks_always or self._only_restricts:
            return
        yield _READS_ARE_ALLOWED
        if self._default is None:
            yield _ELSE_ASKS
        else:
            verdict, name = self._default
            yield f"{verdict} everything else in the workspace ({name})"
        yield "a path outside the workspace always needs approval"
        yield "a change of a guarded path (.git, .vscode, AGENTS.md, ...) always needs approval"

    def withheld(self, *, server: str, tool: str, effect: Effect) -> str | None:
        """Return the rule that withholds a tool from the model, or None if it is offered."""
        if self._within is not None:
            reason = self._within.withheld(server=server, tool=tool, effect=effect)
            if reason is not None:
                return reason
        selectors = spellings(server, tool) | server_names(server)
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
        """Decide on a call, given the approvals for the session.

        In a trusted chat only paths outside the workspace, guarded paths and programs of a
        repository need approval.

        The patterns of `argsMatchers` have a quarter of a second together; a pattern that takes
        longer counts as a match for `ask` and `deny`, and as no match for `allow`.
        """
        decision = self._decide(call, remembered, is_trusted=is_trusted)
        if self._within is None:
            return decision
        wider = self._within.decide(call, remembered, is_trusted=is_trusted)
        if decision.is_remembered and wider.verdict == "allow":
            return decision
        return max(wider, decision, key=lambda each: _STRICTNESS[each.verdict])

    def _decide(self, call: Call, remembered: Collection[Memo], *, is_trusted: bool) -> Decision:
        """Decide on a call without `within`."""
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

    def _refusal(self, call: Call, rule: Rule | None) -> str | None:
        withheld = self.withheld(server=call.server, tool=call.tool, effect=call.effect)
        if withheld is not None:
            return withheld
        if rule is not None and rule.verdict == "deny":
            return rule.name
        if self._reads_only and call.command is not None:
            reason = why_not_read_only(call.command)
            if reason is not None:
                return f"{_ONLY_READS}: {reason}"
            if call.programs:
                return f"{_ONLY_READS}: {_shown(call.programs)}"
        verdict, name = self._by_default(call)
        return name if rule is None and verdict == "deny" else None

    def _judge(self, call: Call, rule: Rule | None) -> tuple[Verdict, str]:
        """Return the verdict on a call that is not refused, and its rule.

        The sandbox protects paths outside the workspace and guarded paths; configured rules that
        ask still ask.
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
            return "ask", f"{_ONLY_READS}, and the effects of this tool are unknown"
        return (rule.verdict, rule.name) if rule else self._by_default(call)

    def _rule_for(self, call: Call) -> Rule | None:
        """Return a matching deny, else the most specific rule, the behaviour's before others."""
        deadline = time.monotonic() + _MATCHING_SECONDS
        candidates = [
            (rule.verdict == "deny", rank, -order, rule)
            for order, rule in enumerate(self._rules)
            if (rank := rule.rank(call.server, call.tool)) and rule.covers(call, deadline)
        ]
        return max(candidates, key=lambda each: each[:3])[3] if candidates else None

    def _by_default(self, call: Call) -> tuple[Verdict, str]:
        if self._asks_always:
            return "ask", "toolCall.manualApproval"
        if self._only_restricts and self._default is None:
            return "allow", _NOT_RESTRICTED
        # An MCP server's own claims about its tools are not trusted.
        if call.server == NATIVE and call.effect == "read" and not call.outside:
            return "allow", _READS_ARE_ALLOWED
        if self._default is None:
            return "ask", _ELSE_ASKS
        verdict, name = self._default
        if call.warning is not None and verdict == "allow":
            return "ask", f"the MCP server says: {call.warning}"
        return verdict, name


def _memos(call: Call, rule: str | None) -> tuple[Memo, ...]:
    """Return the approvals to store for a call: of its tool, or of each part of its command."""
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
    return enumeration([path[:_SHOWN_CHARACTERS] for path in paths], _SHOWN_PATHS)

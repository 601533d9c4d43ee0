"""The configured rules for tool calls: which call a rule selects, by its tool and arguments. Pure.

A damaged rule or a pattern that takes too long never permits anything.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from eca_server.agent.tools.command_keys import CommandPart
from eca_server.agent.tools.command_rules import commands_in, covers_every_command
from eca_server.agent.tools.schemas import as_text
from eca_server.agent.tools.tool import Effect
from eca_server.client.content_formatting import NATIVE
from eca_server.config.matchers import compile_matcher
from eca_server.config.tool_settings import Approval, ApprovalRule

if TYPE_CHECKING:
    import regex

Verdict: TypeAlias = Literal["allow", "ask", "deny"]


@attrs.frozen(kw_only=True)
class Call:
    """A call as the policy sees it.

    Attributes:
        server: `eca` for a native tool, else the name of the MCP server.
        tool: the name without the server's prefix.
        arguments: as the model wrote them.
        command: the text of the command, if it runs one.
        parts: the parts of the command, if an approval may cover other commands too.
        outside: the paths outside the workspace that it accesses, or may access.
        guarded: the guarded paths that it may change.
        programs: the reasons why Git would run programs of a repository.
        warning: the warning of the tool's own server.
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


def spellings(server: str, tool: str) -> frozenset[str]:
    """Return every selector of this one tool (ruling W-33)."""
    if server != NATIVE:
        return frozenset({f"{server}__{tool}"})
    return frozenset({tool, f"eca_{tool}", f"eca__{tool}", f"ECA__{tool}"})


def server_names(server: str) -> frozenset[str]:
    """Return every selector of all tools of a server."""
    return frozenset({NATIVE, "ECA"}) if server == NATIVE else frozenset({server})


@attrs.frozen
class Rule:
    """A rule for one selector of `allow`, `ask` or `deny`."""

    verdict: Verdict
    selector: str
    name: str
    matchers: Mapping[str, Sequence[regex.Pattern[str]]] = attrs.field(factory=dict)

    def rank(self, server: str, tool: str) -> int:
        """Return how specific the rule is for a tool; 0: it does not apply."""
        if self.selector in spellings(server, tool):
            return 4 if self.matchers else 3
        if self.selector in server_names(server):
            return 2 if self.matchers else 1
        return 0

    def covers(self, call: Call, deadline: float) -> bool:
        """Return True if the rule matches the arguments of a call.

        An `allow` must match every argument it names; a dot in it matches no line end, and of a
        command each part must match. For `ask` and `deny` one argument is enough, and of it the
        text, a line or a command in it, with composed or decomposed characters: both name the same
        file.
        """
        is_allow = self.verdict == "allow"
        results = (
            _fits(_texts(call, argument, is_allow=is_allow), patterns, is_allow, deadline)
            for argument, patterns in self.matchers.items()
        )
        if not is_allow or call.command is None:
            return not self.matchers or (all(results) if is_allow else any(results))
        return all(results) and all(
            _fits_each(call.command, patterns, deadline)
            for argument, patterns in self.matchers.items()
            if call.arguments.get(argument) == call.command
        )


def read_rules(approval: Approval, key: str) -> Iterator[Rule]:
    """Yield the rules, stricter ones first.

    A damaged `allow` is skipped; a damaged `ask` or `deny` matches every call of its tool.
    """
    verdicts: tuple[tuple[Verdict, Mapping[str, ApprovalRule]], ...] = (
        ("deny", approval.deny),
        ("ask", approval.ask),
        ("allow", approval.allow),
    )
    for verdict, by_selector in verdicts:
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
                yield Rule(verdict, selector, name, matchers)
            elif verdict != "allow":
                yield Rule(verdict, selector, f"{name}, which cannot be read")


def _fits(
    texts: Sequence[str], patterns: Sequence[regex.Pattern[str]], is_allow: bool, deadline: float
) -> bool:
    for pattern in patterns:
        for part in texts:
            remaining = deadline - time.monotonic()
            try:
                if remaining <= 0 or pattern.fullmatch(part, timeout=remaining):
                    return remaining > 0 or not is_allow
            except TimeoutError:
                return not is_allow
    return False


def _fits_each(command: str, patterns: Sequence[regex.Pattern[str]], deadline: float) -> bool:
    """Return True if the patterns of an `allow` cover each command of a text."""
    fits = [
        lambda text, each=each: _fits([text], [each], is_allow=True, deadline=deadline)
        for each in patterns
    ]
    return covers_every_command(command, fits) and time.monotonic() < deadline


def _texts(call: Call, argument: str, *, is_allow: bool) -> Sequence[str]:
    """Return the texts of an argument, one of which a pattern has to match."""
    value = call.arguments.get(argument)
    if value is None:
        return ()
    text = as_text(value)
    if is_allow:
        return (text,)
    commands = commands_in(text) if value == call.command else ()
    return [*_spellings((text, *text.splitlines(), *commands))]


def _spellings(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, and each with composed and with decomposed characters."""
    for text in texts:
        yield text
        if not text.isascii():
            yield from (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))

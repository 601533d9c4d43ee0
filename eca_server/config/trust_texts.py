"""Texts about settings of workspace folders that wait for the user's trust.

Invariants: each setting is described before it can be accepted. Text from a folder cannot control a
terminal, hide in Markdown, or imitate the server's own text. Every cut is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from eca_server.printable import enumeration, printable_line

if TYPE_CHECKING:
    from pathlib import Path

    from eca_server.config.trust_items import TrustItem

PREFIX: Final = "Workspace trust"
"""The first words of every text about trust; no question of a tool may contain them."""

TRUST: Final = "Trust this folder"
NOT_NOW: Final = "Not now"
NEVER: Final = "Never for these settings"

_GUARD_EVENTS: Final = ("preToolCall", "preRequest", "prePrompt")
_KINDS: Final[Mapping[str, str]] = {
    "mcpServers": "MCP server",
    "hooks": "hook",
    "customTools": "custom tool",
    "providers": "provider",
    "agent": "agent",
    "behavior": "agent",
}
_MOST_NAMES: Final = 5
_LONGEST_NAME: Final = 60


@attrs.frozen(kw_only=True)
class Listing:
    """Settings as a text, one line or more for each.

    Attributes:
        omitted: the number of settings that it does not describe.
        is_cut: whether a line was cut, or a setting omitted.
    """

    text: str
    items: tuple[TrustItem, ...]
    omitted: int
    is_cut: bool


def list_items(items: Iterable[TrustItem], *, longest: int, most: int) -> Listing:
    """Describe settings.

    Args:
        items: the settings.
        longest: limit of one line, in characters; a longer line is cut in its middle.
        most: limit of the whole text, in characters; further settings are omitted.
    """
    lines: list[str] = []
    listed: list[TrustItem] = []
    omitted, size, is_cut = 0, 0, False
    for item in items:
        own = [_cut_line(line, longest) for line in _lines_of(item)]
        size += sum(len(line) + 3 for line in own)
        if omitted or (size > most and listed):
            omitted += 1
            continue
        is_cut = is_cut or any(len(line) > longest for line in _lines_of(item))
        lines += [f"- {line}" for line in own]
        listed.append(item)
    return Listing(
        text="\n".join(lines), items=tuple(listed), omitted=omitted, is_cut=is_cut or omitted > 0
    )


def summary(items: Sequence[TrustItem]) -> str:
    """Name settings by their kind, in one line: `MCP server github; hooks guard, format`."""
    named: dict[str, dict[str, None]] = {}
    for item in items:
        kind, name = _kind_and_name(item)
        named.setdefault(kind, {})[name] = None
    return "; ".join(_all_of(kind, list(names)) for kind, names in named.items())


def guards(items: Iterable[TrustItem]) -> tuple[str, ...]:
    """Return the names of hooks that can block a tool call or a prompt, and do not run yet."""
    return tuple(
        shown(item.path[1], _LONGEST_NAME)
        for item in items
        if item.path[0] == "hooks"
        and not item.is_changed
        and len(item.path) == 2
        and isinstance(item.value, Mapping)
        and item.value.get("type") in _GUARD_EVENTS
    )


def count(items: Sequence[TrustItem]) -> str:
    """Return the number of settings in words: `1 setting`, `3 settings`."""
    return f"{len(items)} setting{'s' * (len(items) != 1)}"


def question(
    root: Path, items: Sequence[TrustItem], short: Listing | None, *, unlisted: int
) -> str:
    """Return the question about a root.

    Args:
        root: the root.
        items: all its waiting settings.
        short: the listing inside the question; None: the chat lists them.
        unlisted: the number of settings that neither the question nor the chat lists.
    """
    subject, it = ("They have", "them") if len(items) > 1 else ("It has", "it")
    opening = (
        f"{PREFIX}: {shown(root)} has {count(items)} that can run programs, send your data or "
        f"skip your approval. {subject} no effect until you accept {it}.{guards_off(items)}"
    )
    if short is None:
        paragraphs = [opening, f"See the list in the chat, above: {summary(items)}."]
    else:
        paragraphs = [opening, f"```\n{short.text}\n```"]
    if short is not None and short.is_cut:
        more = f"{short.omitted} more and " if short.omitted else ""
        paragraphs.append(f"This list is shortened: {more}the full lines are in the chat, above.")
    if unlisted:
        paragraphs.append(
            f"{unlisted} more did not fit in the list. You are asked about them later; to see them "
            f"now, read {_sources(items)}."
        )
    paragraphs.append(f"Configured in {_sources(items)}. Trust this folder?")
    return "\n\n".join(paragraphs)


def full_list(root: Path, listing: Listing) -> str:
    """Return the full list of a root's settings, for the chat."""
    return f"{PREFIX}: {shown(root)} has settings that wait:\n\n```\n{listing.text}\n```"


def announcement(items: Sequence[TrustItem]) -> str:
    """Return a message for a user who cannot be asked a question."""
    parts = []
    for root in unique_roots(items):
        own = [each for each in items if each.root == root]
        parts.append(f"{shown(root)}: {summary(own)}.{guards_off(own)}")
    return (
        f"{PREFIX}: settings of the opened folder have no effect until you accept them. "
        f"{' '.join(parts)} Send `/trust` in a chat to see and accept them, or run "
        "`eca-server trust add FOLDER`."
    )


def accepted(root: Path, items: Sequence[TrustItem], waiting: Sequence[TrustItem]) -> str:
    """Return a text about accepted settings; `waiting` are the root's other settings."""
    is_are = "is" if len(items) == 1 else "are"
    text = f"{PREFIX}: {count(items)} of {shown(root)} {is_are} now in effect."
    if waiting:
        wait = "waits" if len(waiting) == 1 else "wait"
        text += (
            f" {count(waiting)} changed meanwhile, or did not fit in the list, and still {wait}."
        )
    return text


def guards_off(items: Sequence[TrustItem]) -> str:
    """Return a sentence about waiting hooks that check tool calls or prompts, or an empty text."""
    names = guards(items)
    if not names:
        return ""
    hooks = _all_of("hook", names)
    does = "do" if len(names) > 1 else "does"
    return f" Meanwhile the {hooks}, which can block calls or prompts, {does} not run."


def unique_roots(items: Iterable[TrustItem]) -> tuple[Path, ...]:
    """Return the roots of settings, each once, in their order."""
    return tuple(dict.fromkeys(item.root for item in items))


def shown(text: object, longest: int = 500) -> str:
    """Return a folder's text as one line that cannot control a terminal or end a code block."""
    return printable_line(str(text), longest=longest).replace("```", "'''")


def _lines_of(item: TrustItem) -> list[str]:
    return [printable_line(line, longest=len(line)).replace("```", "'''") for line in item.lines]


def _cut_line(line: str, longest: int) -> str:
    if len(line) <= longest:
        return line
    head, tail = line[: longest * 2 // 3], line[-(longest // 3) :]
    return f"{head} [... {len(line) - len(head) - len(tail):,} characters left out ...] {tail}"


def _kind_and_name(item: TrustItem) -> tuple[str, str]:
    first = str(item.path[0])
    if len(item.path) > 1 and first in _KINDS:
        return _KINDS[first], shown(item.path[1], _LONGEST_NAME)
    if first.startswith("agents/"):
        return "agent", shown(first.removeprefix("agents/").removesuffix(".md"), _LONGEST_NAME)
    if item.path[:3] == ("toolCall", "approval", "allow") and len(item.path) > 3:
        return "allow rule", shown(item.path[3], _LONGEST_NAME)
    return "setting", shown(item.key, _LONGEST_NAME)


def _sources(items: Sequence[TrustItem]) -> str:
    names = list(dict.fromkeys(shown(item.source) for item in items))
    listed = enumeration(names, _MOST_NAMES)
    return f"{listed} files" if len(names) > _MOST_NAMES else listed


def _all_of(kind: str, names: Sequence[str]) -> str:
    return f"{kind}{'s' * (len(names) > 1)} {enumeration(names, _MOST_NAMES)}"

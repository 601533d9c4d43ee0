"""`/trust`: lists the settings of opened folders that wait for the user, and stores the decision.

Rules: only a prompt that the user typed reaches this command; only settings that an earlier
`/trust` of the same session has listed are accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from eca_protocol.errors import ECAError
from eca_protocol.messages import CommandArgument
from eca_protocol.server.texts import arguments_of
from eca_server.agent.chat import Turn
from eca_server.agent.commands.command import CommandContext, command
from eca_server.config.loading import LoadedConfig
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_texts import PREFIX, count, guards_off, shown, summary, unique_roots

YES: Final = "yes"
NO: Final = "no"
REMOVE: Final = "remove"

_BARRED: Final = (
    f"{PREFIX}: the editor does not trust this workspace. Trust it in the editor first."
)


@command(
    "trust",
    CommandArgument(
        name="decision",
        description=f"`{YES}` accepts the listed settings, `{NO}` refuses them, "
        f"`{REMOVE}` removes the trust in the folder.",
    ),
)
async def review_trust(turn: Turn, context: CommandContext) -> None:
    """Review and accept settings of the opened folder."""
    word = arguments_of(context.text).lower()
    if word not in {"", YES, NO, REMOVE}:
        turn.fail(f"Send `/trust`, `/trust {YES}`, `/trust {NO}` or `/trust {REMOVE}`.")
        return
    try:
        if word == REMOVE:
            await _remove(turn, context)
        elif word and context.trust.items:
            await _decide(turn, context, accepts=word == YES)
        else:
            turn.report(_list(context))
    except ECAError as error:
        turn.fail(f"{PREFIX}: the decision could not be stored, so nothing changed: {error}")


async def _decide(turn: Turn, context: CommandContext, *, accepts: bool) -> None:
    trust = context.trust
    listed, is_whole = trust.listed, len(trust.listed) == len(trust.items)
    if not listed:
        turn.fail(f"Nothing was changed: review the list first.\n\n{_list(context)}")
    elif accepts and trust.is_barred:
        turn.fail(_BARRED)
    else:
        await (trust.accept if accepts else trust.refuse)(listed)
        text = f"{PREFIX}: {'accepted' if accepts else 'refused'} {count(listed)}."
        if not is_whole:
            text += f" Settings that are new since the list still wait:\n\n{_list(context)}"
        turn.report(text)


async def _remove(turn: Turn, context: CommandContext) -> None:
    was_known = await context.trust.forget()
    text = "the folder is no longer trusted" if was_known else "the folder was not trusted"
    turn.report(f"{PREFIX}: {text}.")


def _list(context: CommandContext) -> str:
    items = context.trust.items
    if not items:
        lines = report_trust(context.loaded, [root.path for root in context.workspace.roots])
        return "\n".join([f"{PREFIX}: no settings wait for you.", "", *lines])
    listing = context.trust.list_waiting()
    roots = unique_roots(items)
    wait = "wait" if len(items) > 1 else "waits"
    where = ", ".join(map(shown, roots))
    opening = f"{PREFIX}: {count(items)} of {where} {wait} for you.{guards_off(items)}"
    paragraphs = [opening, f"```\n{listing.text}\n```"]
    if listing.omitted:
        paragraphs.append(f"{listing.omitted} more are listed after you decide on these.")
    refused = [each for each in items if each.is_refused]
    if refused:
        paragraphs.append(f"You have refused {summary(refused)}.")
    if context.trust.is_barred:
        paragraphs.append(_BARRED)
    else:
        paragraphs.append(
            f"Send `/trust {YES}` to accept the listed settings, or `/trust {NO}` to refuse them "
            "for good."
        )
    return "\n\n".join(paragraphs)


def report_trust(loaded: LoadedConfig, roots: Iterable[Path]) -> list[str]:
    """Return lines for each root: its trust, and its settings that wait."""
    return [line for root in roots for line in _root_lines(loaded, root)]


def _root_lines(loaded: LoadedConfig, root: Path) -> Iterator[str]:
    items = [each for each in loaded.withheld if each.root == root]
    state = "trusted" if root in loaded.trusted_roots else "not trusted"
    if not items:
        yield f"- {shown(root)}: {state}; no settings wait"
        return
    yield f"- {shown(root)}: {state}; {count(items)} withheld until you send `/trust`"
    yield from (f"  - {line}" for line in report_withheld(items))


def report_withheld(items: Sequence[TrustItem]) -> Iterator[str]:
    """Yield a line for each withheld setting: its key, its file and the reason."""
    for item in items:
        why = "you refused it" if item.is_refused else "waits for your trust"
        yield f"{shown(item.key)} ({shown(item.source)}): {why}"

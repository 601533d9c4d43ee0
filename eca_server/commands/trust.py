"""`/trust`: the settings of opened folders that wait for the user, and the user's decision.

The rules it keeps: only a prompt that the user typed reaches this command; what is accepted is what
an earlier `/trust` of the same session has listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from eca_protocol.errors import ECAError
from eca_protocol.messages import CommandArgument
from eca_server.chat import Turn
from eca_server.commands.command import Command, Situation, arguments_of
from eca_server.config import LoadedConfig
from eca_server.config.trust_items import TrustItem
from eca_server.config.trust_texts import PREFIX, count, guards_off, shown, summary, unique_roots

__all__ = ["TRUST", "report_trust", "report_withheld"]

YES: Final = "yes"
NO: Final = "no"
REMOVE: Final = "remove"

_BARRED: Final = (
    f"{PREFIX}: the editor says that this workspace is not trusted. Trust it in the editor first."
)


async def _run(turn: Turn, situation: Situation) -> None:
    word = arguments_of(situation.text).lower()
    if word not in {"", YES, NO, REMOVE}:
        turn.fail(f"Expected `/trust`, `/trust {YES}`, `/trust {NO}` or `/trust {REMOVE}`.")
        return
    try:
        if word == REMOVE:
            await _remove(turn, situation)
        elif word and situation.trust.items:
            await _decide(turn, situation, accepts=word == YES)
        else:
            turn.say(_list(situation), role="system")
    except ECAError as fault:
        turn.fail(f"{PREFIX}: the decision could not be stored, so nothing changed: {fault}")


async def _decide(turn: Turn, situation: Situation, *, accepts: bool) -> None:
    trust = situation.trust
    listed, is_whole = trust.listed, len(trust.listed) == len(trust.items)
    if not listed:
        turn.fail(f"Nothing was decided: read the list first.\n\n{_list(situation)}")
    elif accepts and trust.is_barred:
        turn.fail(_BARRED)
    else:
        await (trust.accept if accepts else trust.refuse)(listed)
        counts = f"count{'s' * (len(listed) == 1)} from now on"
        text = f"{PREFIX}: {count(listed)} {counts if accepts else 'will not be asked about'}."
        if not is_whole:
            text += f" What is new since the list still waits:\n\n{_list(situation)}"
        turn.say(text, role="system")


async def _remove(turn: Turn, situation: Situation) -> None:
    was_known = await situation.trust.forget()
    text = "the folder is no longer trusted" if was_known else "the folder was not trusted"
    turn.say(f"{PREFIX}: {text}.", role="system")


def _list(situation: Situation) -> str:
    items = situation.trust.items
    if not items:
        return "\n".join([f"{PREFIX}: nothing waits for you.", "", *_roots(situation)])
    listing = situation.trust.list_waiting()
    roots = unique_roots(items)
    wait = "wait" if len(items) > 1 else "waits"
    where = ", ".join(map(shown, roots))
    opening = f"{PREFIX}: {count(items)} of {where} {wait} for you.{guards_off(items)}"
    paragraphs = [opening, f"```\n{listing.text}\n```"]
    if listing.omitted:
        paragraphs.append(f"{listing.omitted} more are listed once these are decided.")
    refused = [each for each in items if each.is_refused]
    if refused:
        paragraphs.append(f"You are not asked about {summary(refused)}.")
    if situation.trust.is_barred:
        paragraphs.append(_BARRED)
    else:
        paragraphs.append(
            f"Send `/trust {YES}` to accept what is listed, `/trust {NO}` not to be asked about it "
            "again."
        )
    return "\n\n".join(paragraphs)


def _roots(situation: Situation) -> list[str]:
    paths = [root.path for root in situation.workspace.roots]
    return report_trust(situation.loaded, paths)


def report_trust(loaded: LoadedConfig, roots: Iterable[Path]) -> list[str]:
    """Return a line for each root: whether it is trusted, and what of it waits."""
    return [f"- {line}" for root in roots for line in _root_lines(loaded, root)]


def _root_lines(loaded: LoadedConfig, root: Path) -> Iterator[str]:
    items = [each for each in loaded.withheld if each.root == root]
    state = "trusted" if root in loaded.trusted_roots else "not trusted"
    if not items:
        yield f"{shown(root)}: {state}; nothing waits"
        return
    yield f"{shown(root)}: {state}; {count(items)} withheld until you accept (`/trust`)"
    yield from (f"  - {line}" for line in report_withheld(loaded, items))


def report_withheld(loaded: LoadedConfig, items: Sequence[TrustItem]) -> Iterator[str]:
    """Yield a line for each setting that is withheld: its key, its file, and why."""
    for item in items:
        why = "you refused it" if item.is_refused else "waits for your trust"
        yield f"{shown(item.key)} ({shown(item.source)}): {why}"


TRUST = Command(
    name="trust",
    description="List the settings of the opened folder that wait for you, and accept them.",
    run=_run,
    arguments=(
        CommandArgument(
            name="decision",
            description=f"`{YES}` accepts what was listed, `{NO}` does not ask about it again, "
            f"`{REMOVE}` withdraws the trust in the folder.",
        ),
    ),
)

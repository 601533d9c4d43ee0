"""Cases of usage: tokens, costs, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import ChatSession, Content
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.reading import calls
from eca_protocol.testing.conformance.target import OTHER_MODEL
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, finish, reply, usage

COSTS: Final = ("lastMessageCost", "sessionCost")
LIMIT: Final[Mapping[str, int]] = {"context": 100_000, "output": 10_000}
"""The configured limits of the model."""


def reply_with_usage(prompt: int, completion: int) -> Reply:
    """Build a reply with this usage."""
    return reply("Hi.", finish("stop"), usage(prompt, completion))


async def usage_of_turns(chat: ChatSession, *, turns: int = 1, **params: Any) -> list[Content]:
    """Run that many turns; return the usage content of each."""
    for _ in range(turns):
        await chat.take_turn("Hi.", **params)
    usages: list[Content] = list(chat.of("usage"))
    if len(usages) != turns:
        raise Unmet(f"{turns} contents of usage", usages)
    return usages


@case("CHAT-18", "W-27a", needs="model", until=Revision.R2025_10)
async def tokens_are_counted_both_ways_over_the_chat(session: ClientSession) -> None:
    """Run two turns of a chat with a title, and one of another chat."""
    [first_usage] = await usage_of_turns(session.chat(reply_with_usage(100, 7)))
    counts = first_usage.get("sessionTokens")
    if type(counts) is not int:
        raise Unmet("a number of tokens in `usage`", counts)
    expected = "sessionTokens of at least 107: 100 input and 7 output tokens"
    session.check("CHAT-18", counts >= 107, expected, first_usage)
    chat = session.chat(reply_with_usage(100, 7), reply_with_usage(100, 7))
    chat.model.title = reply("A title", finish("stop"), usage(5000, 5000))
    totals = [each.get("sessionTokens") for each in await usage_of_turns(chat, turns=2)]
    expected = f"sessionTokens {counts}, then {2 * counts}, without the title's tokens"
    session.check("W-27a", totals == [counts, 2 * counts], expected, totals)


@case("W-27f", "W-27g", since=Revision.CURRENT, tools=["read_file"])
async def the_gauge_moves_with_each_request(session: ClientSession) -> None:
    """Run a turn of two requests, and one of one request, in a chat with a title."""
    read_call = calls(("read_file", {"path": str(session.workspace)}))
    first = attrs.evolve(read_call, steps=(*read_call.steps, usage(1000, 70)))
    chat = session.chat(first, reply_with_usage(1100, 7), reply_with_usage(100, 7))
    chat.model.title = reply("A title", finish("stop"), usage(5000, 5000))
    await chat.prompt("Hi.")
    await session.approve_all(chat)
    usages = [each.get("sessionTokens") for each in chat.of("usage")]
    session.check("W-27g", len(usages) == 2, "one usage after each of two requests", usages)
    await chat.take_turn("Hi.")
    usages = [each.get("sessionTokens") for each in chat.of("usage")]
    expected = [1070, 1107, 107][-len(usages) :]
    session.check(
        "W-27f", usages == expected, f"sessionTokens {expected}, each of one request", usages
    )


@case("CHAT-19", "CHAT-20", "W-27b", "W-27c", "W-27d", needs="config")
async def costs_and_limits_are_sent_where_they_are_known(session: ClientSession) -> None:
    """Use a model with a configured price and limits, and one without."""
    first, second = await usage_of_turns(
        session.chat(reply_with_usage(100, 50), reply_with_usage(100, 50)), turns=2
    )
    costs = [each.get(name) for each in (first, second) for name in COSTS]
    if any(cost is not None for cost in costs):
        wrong = [
            cost
            for cost, expected_cost in zip(costs, (0.2, 0.2, 0.2, 0.4), strict=True)
            if cost is not None and _amount(cost) != expected_cost
        ]
        expected = "a cost of 0.20 for each message and 0.40 for the chat"
        session.check("CHAT-19", not wrong, expected, costs)
        session.record_pass("W-27d")
    else:
        for row in ("CHAT-19", "W-27d"):
            session.not_applicable(row, "It does not know what a model costs.")
    session.record_pass("W-27b")
    limit = first.get("limit")
    if limit is None:
        session.not_applicable("CHAT-20", "It does not know a model's limits.")
    elif not (isinstance(limit, Mapping) and LIMIT.keys() - limit.keys()):
        session.check("CHAT-20", limit == LIMIT, f"the limit {LIMIT}", first)
    [unlimited] = await usage_of_turns(session.chat(reply_with_usage(100, 50)), model=OTHER_MODEL)
    is_incomplete = (
        "limit" in unlimited and None in (unlimited["limit"] or {"context": None}).values()
    )
    session.check("W-27c", not is_incomplete, "both limits or none", unlimited)


def _amount(cost: object) -> float | None:
    try:
        return round(float(str(cost).strip("$€ ")), 6)
    except ValueError:
        return None

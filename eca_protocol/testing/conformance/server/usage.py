"""Cases of what a chat has used: tokens, costs, limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.server.reading import Content, calls
from eca_protocol.testing.conformance.server.tools import approving
from eca_protocol.testing.conformance.target import OTHER_MODEL
from eca_protocol.testing.script import Reply, finish, reply, usage

COSTS: Final = ("lastMessageCost", "sessionCost")
LIMIT: Final[Mapping[str, int]] = {"context": 100_000, "output": 10_000}
"""What is configured for the model."""


def counted(prompt: int, completion: int) -> Reply:
    """An answer that took so many tokens."""
    return reply("Hi.", finish("stop"), usage(prompt, completion))


async def used(chat: ChatSeat, *, turns: int = 1, **params: Any) -> list[Content]:
    """The usage of each of so many turns.

    Raises:
        Stuck: a turn tells of none.
    """
    for turn in range(1, turns + 1):
        await chat.prompt("Hi.", **params)
        await chat.finished(turn)
    told: list[Content] = list(chat.of("usage"))
    if len(told) != turns:
        raise Stuck(f"{turns} contents of usage", told)
    return told


@case("CHAT-18", "W-27a", until=Revision.R2025_10)
async def tokens_are_counted_both_ways_over_the_chat(bench: Bench) -> None:
    """Two turns of a chat whose title is asked for as well, and one of another chat."""
    async with bench.seat() as seat:
        other = seat.chat(counted(100, 7))
        [once] = await used(other)
        counts = once.get("sessionTokens")
        if type(counts) is not int:
            raise Stuck("a number of tokens", counts)
        bench.check("CHAT-18", counts >= 107, expected="107, of 100 in and 7 out", got=once)
        chat = seat.chat(counted(100, 7), counted(100, 7))
        chat.model.title = reply("A title", finish("stop"), usage(5000, 5000))
        both = [each.get("sessionTokens") for each in await used(chat, turns=2)]
        bench.check(
            "W-27a",
            both == [counts, 2 * counts],
            expected=f"{counts}, then {2 * counts}, whatever the title took",
            got=both,
        )


@case("W-27f", "W-27g", since=Revision.CURRENT, needs="native-tools")
async def the_gauge_moves_with_each_request(bench: Bench) -> None:
    """A turn of two requests, and one of a single request, in a chat with a title."""
    async with bench.seat() as seat:
        reads = calls(("read_file", {"path": str(seat.workspace)}))
        first = attrs.evolve(reads, steps=(*reads.steps, usage(1000, 70)))
        chat = seat.chat(first, counted(1100, 7), counted(100, 7))
        chat.model.title = reply("A title", finish("stop"), usage(5000, 5000))
        await chat.prompt("Hi.")
        await approving(chat)
        told = [each.get("sessionTokens") for each in chat.of("usage")]
        bench.check("W-27g", len(told) == 2, expected="usage after each of two requests", got=told)
        await chat.prompt("Hi.")
        await chat.finished(2)
        told = [each.get("sessionTokens") for each in chat.of("usage")]
        expected = [1070, 1107, 107][-len(told) :]
        bench.check("W-27f", told == expected, expected=f"{expected}, of one each", got=told)


@case("CHAT-19", "CHAT-20", "W-27b", "W-27c", "W-27d", needs="config")
async def costs_and_limits_are_told_where_they_are_known(bench: Bench) -> None:
    """Two turns with a model whose price and limits are configured, one with another model."""
    async with bench.seat() as seat:
        first, second = await used(seat.chat(counted(100, 50), counted(100, 50)), turns=2)
        costs = [each.get(name) for each in (first, second) for name in COSTS]
        if any(cost is not None for cost in costs):
            wrong = [
                cost
                for cost, wanted in zip(costs, (0.2, 0.2, 0.2, 0.4), strict=True)
                if cost is not None and _amount(cost) != wanted
            ]
            expected = "0.20 for each message, 0.40 for the chat"
            bench.check("CHAT-19", not wrong, expected=expected, got=costs)
            bench.saw("W-27d")
        else:
            for row in ("CHAT-19", "W-27d"):
                bench.not_applicable(row, "It does not know what a model costs.")
        bench.saw("W-27b")
        limit = first.get("limit")
        if limit is None:
            bench.not_applicable("CHAT-20", "It does not know a model's limits.")
        elif not (isinstance(limit, Mapping) and LIMIT.keys() - limit.keys()):
            bench.check("CHAT-20", limit == LIMIT, expected=str(LIMIT), got=first)
        [plain] = await used(seat.chat(counted(100, 50)), model=OTHER_MODEL)
        half = "limit" in plain and None in (plain["limit"] or {"context": None}).values()
        bench.check("W-27c", not half, expected="both numbers or no limit", got=plain)


def _amount(cost: object) -> float | None:
    try:
        return round(float(str(cost).strip("$€ ")), 6)
    except ValueError:
        return None

"""The usage of a chat, as written before `finished` (W-27)."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, finish, reply, usage
from eca_server.agent.chat.usage import SessionUsage
from eca_server.models.events import Usage
from tests.eca_server.agent.chat.editor import (
    SCRIPT,
    Content,
    editor,
    provider_config,
    text,
    types,
)


def used(received: list[Content]) -> dict[str, Any]:
    """The one usage of a turn; it stands right before `finished`."""
    assert types(received)[-2:] == ["usage", "finished"]
    [found] = [content for content in received if content["type"] == "usage"]
    return {name: value for name, value in found.items() if name != "type"}


@pytest.mark.requirement("W-27e")
async def test_tokens_and_costs_are_summed_over_the_chat() -> None:
    async with editor({"chat": {"title": True}}) as ours:
        assert used(await ours.turn("usage 100 7", model=SCRIPT)) == {"sessionTokens": 107}
        assert used(await ours.turn("usage 10 1", model=SCRIPT)) == {"sessionTokens": 118}
        assert used(await ours.turn("usage 5 0", "other", model=SCRIPT)) == {"sessionTokens": 5}


async def test_costs_and_limits_are_sent_when_they_are_known() -> None:
    limit = {"context": 1000, "output": 50}
    script = [
        reply("a", finish("stop"), usage(10, 5, cost=0.5)),
        reply("b", finish("stop"), usage(10, 5, cost=0.001234)),
        reply("c", finish("stop"), usage(10, 5)),
        reply("d", finish("stop"), usage(10, 5, cost=1)),
    ]
    async with Provider(script) as provider:
        config = provider_config(provider.url, provider={"models": {"m": {"limit": limit}}})
        async with editor(config) as ours:
            received = [used(await ours.turn("hi")) for _ in script]
    for each in received:
        assert each.pop("limit") == limit
        assert each.get("messageCost") == each.pop("lastMessageCost", None)
    assert received == [
        {"sessionTokens": 15, "messageCost": "0.50", "sessionCost": "0.50"},
        {"sessionTokens": 30, "messageCost": "0.001234", "sessionCost": "0.501234"},
        {"sessionTokens": 45, "sessionCost": "0.501234"},
        {"sessionTokens": 60, "messageCost": "1.00", "sessionCost": "1.501234"},
    ]


@pytest.mark.requirement("W-27c", "CHAT-20")
@pytest.mark.parametrize("limit", [{}, {"context": 1000}, {"output": 50}])
async def test_half_a_limit_is_not_sent(limit: dict[str, int]) -> None:
    async with Provider([reply("a")]) as provider:
        config = provider_config(provider.url, provider={"models": {"m": {"limit": limit}}})
        async with editor(config) as ours:
            assert "limit" not in used(await ours.turn("hi"))


@pytest.mark.requirement("W-27b")
@pytest.mark.parametrize("cost", [-0.5, float("inf"), float("nan"), -1])
async def test_a_missing_cost_is_not_sent(cost: float) -> None:
    session = SessionUsage()
    session.add([Usage(input=1, cost=cost)])
    content = session.content(None)
    assert (content.last_message_cost, content.session_cost) == (None, None)


@pytest.mark.parametrize(
    ("cost", "told"),
    [(0, "0.00"), (1e-7, "0.00"), (0.1, "0.10"), (12.345, "12.345"), (10**40, f"1{0:040}")],
)
async def test_a_cost_is_written_with_two_decimals_or_more(cost: float, told: str) -> None:
    session = SessionUsage()
    session.add([Usage(input=1, cost=cost)])
    content = session.content(None)
    assert content.session_cost is not None
    assert content.session_cost.removesuffix(".00") == told.removesuffix(".00")
    assert len(content.session_cost.partition(".")[2]) >= 2


@pytest.mark.requirement("W-27a")
async def test_a_stopped_turn_is_counted_but_not_reported(autojump_clock: object) -> None:
    async with editor() as ours:
        await ours.prompt("usage 100 0\nfinish length", "known", model=SCRIPT)
        await ours.expect_finished("known")
        await ours.hang()
        await ours.expect_stopped()
        assert "usage" not in types(ours.contents())
        assert used(await ours.turn("usage 1 1", model=SCRIPT)) == {"sessionTokens": 2}


@pytest.mark.requirement("CHAT-18", "CHAT-19")
async def test_a_cost_that_the_provider_omits_is_computed_from_prices() -> None:
    script = [
        reply("a", finish("stop"), usage(2_000, 100)),
        reply("b", finish("stop"), usage(10, 5, cost=0.5)),
    ]
    async with Provider(script) as provider:
        models = {"m": {"cost": {"input": 1, "output": 2.5}}}
        async with editor(provider_config(provider.url, provider={"models": models})) as ours:
            first, second = [used(await ours.turn("hi")) for _ in script]
            shown = await ours.turn("/costs")
    assert (first["messageCost"], first["sessionCost"]) == ("0.00225", "0.00225")
    assert (second["messageCost"], second["sessionCost"]) == ("0.50", "0.50225")
    assert types(shown) == ["progress", "text", "finished"]
    assert ["2,115" in text(shown), "$0.50225" in text(shown)] == [True, True]

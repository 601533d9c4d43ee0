"""A chat among many: its share of the time is as large as theirs."""

from __future__ import annotations

from types import SimpleNamespace

import anyio.lowlevel
import trio

from eca_protocol.testing.provider import burst, provider_in_thread, reply
from tests.eca_server.agent.chat.editor import editor, provider_config, text

PIECES = 1_000


async def test_the_time_that_others_take_meanwhile_is_no_reason_to_give_way_again(
    monkeypatch, mock_clock
):
    given_way = 0
    checkpoint = trio.lowlevel.checkpoint

    async def give_way_to_many() -> None:
        nonlocal given_way
        given_way += 1
        mock_clock.jump(0.01)
        await checkpoint()

    monkeypatch.setattr(trio.lowlevel, "checkpoint", give_way_to_many)
    monkeypatch.setattr(anyio.lowlevel, "checkpoint", give_way_to_many)
    clock = SimpleNamespace(perf_counter=trio.current_time)
    monkeypatch.setattr("eca_protocol.http.time", clock)
    with provider_in_thread([reply(burst(PIECES, "x"))]) as provider:
        async with editor(provider_config(provider.url)) as ours:
            assert text(await ours.turn("go")).count("x") == PIECES
    assert given_way < PIECES / 4

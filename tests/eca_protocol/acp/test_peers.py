"""A conversation of ACP between two peers, on trio and on asyncio."""

from __future__ import annotations

import anyio
import pytest

from eca_protocol import memory_pair
from eca_protocol.acp import messages as m
from eca_protocol.acp import open_peer
from eca_protocol.errors import RPCError

pytestmark = pytest.mark.anyio


async def test_a_prompt_has_updates_then_an_answer_and_a_cancelled_request_an_error() -> None:
    here, there = memory_pair()
    updates: list[m.SessionUpdate] = []

    async def prompt(params: m.PromptRequest) -> m.PromptResponse:
        (block,) = params.prompt
        chunk = m.AgentMessageChunk(content=block)
        agent.notify(
            "session/update", m.SessionNotification(session_id=params.session_id, update=chunk)
        )
        return m.PromptResponse(stop_reason="end_turn")

    async def never(_: object) -> m.ListSessionsResponse:
        await anyio.sleep_forever()
        raise AssertionError

    agent = open_peer(
        there, side="server", handlers={"session/prompt": prompt, "session/list": never}
    )
    client = open_peer(
        here, side="client", handlers={"session/update": lambda each: updates.append(each.update)}
    )
    async with agent, client:
        agent.start_soon(agent.serve)
        client.start_soon(client.serve)
        block = m.TextContent(text="hello")
        call = client.start_call("session/prompt", m.PromptRequest(session_id="s", prompt=(block,)))
        assert await call.result(deadline=5) == m.PromptResponse(stop_reason="end_turn")
        assert updates == [m.AgentMessageChunk(content=block)]
        listing = client.start_call("session/list", m.ListSessionsRequest())
        with anyio.move_on_after(0.05):
            await listing.result(deadline=5)
        with pytest.raises(RPCError):
            await client.start_call("logout", m.Empty()).result(deadline=5)

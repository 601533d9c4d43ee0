"""A conversation of ACP between two peers, on trio and on asyncio."""

from __future__ import annotations

import anyio
import pytest

from eca_protocol import json, memory_pair
from eca_protocol.acp import messages as m
from eca_protocol.acp import open_peer
from eca_protocol.errors import RPCError
from eca_protocol.jsonrpc import ErrorCode

pytestmark = pytest.mark.anyio


async def test_a_prompt_has_updates_then_an_answer_and_an_unknown_method_an_error() -> None:
    here, there = memory_pair()
    updates: list[m.SessionUpdate] = []

    async def prompt(params: m.PromptRequest) -> m.PromptResponse:
        (block,) = params.prompt
        chunk = m.AgentMessageChunk(content=block)
        agent.notify(
            "session/update", m.SessionNotification(session_id=params.session_id, update=chunk)
        )
        return m.PromptResponse(stop_reason="end_turn")

    agent = open_peer(there, side="server", handlers={"session/prompt": prompt})
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
        with pytest.raises(RPCError):
            await client.start_call("logout", m.Empty()).result(deadline=5)


async def test_a_cancelled_request_is_answered_with_its_error_code() -> None:
    here, there = memory_pair()
    is_running = anyio.Event()

    async def never(_: object) -> m.ListSessionsResponse:
        is_running.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_peer(there, side="server", handlers={"session/list": never}) as agent:
        agent.start_soon(agent.serve)
        await here.send(b'{"jsonrpc":"2.0","id":7,"method":"session/list","params":{}}\n')
        with anyio.fail_after(5):
            await is_running.wait()
            cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}}
            await here.send(json.dumps(cancel) + b"\n")
            answer = json.loads(await here.receive())
        assert answer["id"] == 7
        assert answer["error"]["code"] == ErrorCode.REQUEST_CANCELLED == -32800

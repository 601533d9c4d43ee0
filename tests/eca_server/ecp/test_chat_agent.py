"""This server's chat as an agent: a prompt is a step, and approvals are decided in advance."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from eca_protocol.client import Client
from eca_protocol.ecp import Result, chat_agent
from eca_server.connection.features.host import Options
from eca_server.connection.local import local_client


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    (tmp_path / "catalogue.txt").write_text("B-17: lent", "utf-8")
    async with local_client(Options(environ={}), workspace_folders=[tmp_path]) as local:
        await local.client.wait_for_config()
        yield local.client


async def run_step(client: Client, *lines: str, approve: bool = False) -> Result:
    hooks = chat_agent(client, model="simulator/script", approve=approve).make_hooks()
    result = await hooks.step("\n".join(lines))
    assert isinstance(result, Result)
    return result


async def test_a_result_has_the_answer_the_reasoning_the_calls_and_the_rejections(client, tmp_path):
    read = {"path": str(tmp_path / "catalogue.txt")}
    run = {"command": "echo renewed"}
    lines = [
        "think Which book?",
        f"call eca_read_file {json.dumps(read)}",
        f"call eca_shell_command {json.dumps(run)}",
        "say It is lent.",
    ]
    result = await run_step(client, *lines)
    assert result.public_output == "It is lent."
    assert result.evaluation_context == "Which book?\ntool read_file: done"
    assert [(call.name, call.arguments) for call in result.tool_calls or ()] == [
        ("read_file", read)
    ]
    assert result.logs == "the call of shell_command was rejected (user-choice)"
    assert result.usage.total_tokens
    approved = await run_step(client, *lines, approve=True)
    assert [call.arguments for call in approved.tool_calls or ()] == [read, run]
    assert approved.logs is None


async def test_a_conversation_remembers_its_steps_and_no_other_s(client):
    agent = chat_agent(client, model="simulator/echo")
    one, two = agent.make_hooks(), agent.make_hooks()
    first, second, other = [await hooks.step("Hello there") for hooks in (one, one, two)]
    assert (first.usage, first.public_output) == (other.usage, "Hello there")
    assert second.usage.total_tokens > first.usage.total_tokens


async def test_a_step_that_is_given_up_is_stopped_and_the_next_one_answered(client):
    hooks = chat_agent(client, model="simulator/script").make_hooks()
    with trio.move_on_after(0.05) as given_up:
        await hooks.step("wait forever")
    assert given_up.cancelled_caught
    with trio.fail_after(20):
        assert (await hooks.step("say Here.")).public_output == "Here."

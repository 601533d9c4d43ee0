"""Agents made of functions, classes and objects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from eca_protocol.ecp import (
    AgentError,
    Result,
    agent,
    as_agent,
    connect_agent,
    on_reset,
    on_step,
    run_conversation,
    serving_http,
)
from eca_protocol.ecp.connection import AgentConnection
from eca_protocol.framing import LINES
from eca_protocol.streams import memory_pair
from tests.eca_protocol.wire import Wire, request

pytestmark = pytest.mark.anyio


def shout(text: str) -> str:
    return text.upper()


async def whisper(text: str) -> Result:
    return Result(public_output=text.lower())


@agent(name="named", capabilities={"multi_turn": {}})
def named(text: str) -> str:
    return text


class Plain:
    def step(self, text: str) -> dict[str, Any]:
        return {"public_output": f"plain {text}"}


@agent(name="first", capabilities={"multi_turn": {}})
class First:
    @on_step
    def answer(self, text: str) -> str:
        return f"first {text}"


class Second(First):
    @on_step
    def answer(self, text: str) -> str:
        return f"second {text}"


class Clearing:
    def __init__(self) -> None:
        self.inputs: list[str] = []

    @on_step
    def answer(self, text: str) -> str:
        self.inputs.append(text)
        return " ".join(self.inputs)

    @on_reset
    async def clear(self) -> None:
        self.inputs.clear()


class Callable:
    async def __call__(self, text: str) -> str:
        return text.title()


@asynccontextmanager
async def evaluated(target: Any) -> AsyncIterator[AgentConnection]:
    async with serving_http(target) as server, connect_agent(f"{server.url}/ecp") as connection:
        yield connection


@pytest.mark.parametrize(
    ("target", "name", "output"),
    [
        (shout, "shout", "HELLO"),
        (whisper, "whisper", "hello"),
        (Plain, "Plain", "plain Hello"),
        (Plain(), "Plain", "plain Hello"),
        (First, "first", "first Hello"),
        (Second, "first", "second Hello"),
        (Callable(), "Callable", "Hello"),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_functions_classes_and_objects_answer(target: Any, name: str, output: str) -> None:
    async with evaluated(target) as connection:
        assert (await connection.initialize(deadline=20)).name == name
        assert (await connection.step("Hello", deadline=20)).public_output == output


async def test_an_object_keeps_its_state_until_its_reset_hook_clears_it() -> None:
    async with evaluated(Clearing()) as connection:
        initialized = await connection.initialize(deadline=20)
        assert "reset" in initialized.capabilities
        await connection.step("a", deadline=20)
        assert (await connection.step("b", deadline=20)).public_output == "a b"
        await connection.initialize(deadline=20)
        assert (await connection.step("c", deadline=20)).public_output == "c"


async def test_steps_of_one_conversation_take_place_one_after_the_other() -> None:
    running = most = 0

    async def count(text: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.01)
        running -= 1
        return text

    async with (
        serving_http(count) as server,
        connect_agent(f"{server.url}/ecp") as one,
        connect_agent(f"{server.url}/ecp") as two,
        anyio.create_task_group() as tasks,
    ):
        for connection in (one, two):
            for text in "ab":
                tasks.start_soon(lambda c=connection, t=text: c.step(t, deadline=20))
    assert most == 1


async def test_simultaneous_requests_are_answered_in_the_order_of_arrival() -> None:
    ours, theirs = memory_pair()
    texts = [str(number) for number in range(20)]
    wire = Wire(ours, LINES)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_conversation, Clearing(), theirs)
        await wire.send(
            *(request(n, "agent/step", {"input": each}) for n, each in enumerate(texts))
        )
        answers = [await wire.receive() for _ in texts]
        await ours.aclose()
    assert [answer["id"] for answer in answers] == [*range(20)]
    assert answers[-1]["result"]["public_output"] == " ".join(texts)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_agent_whose_own_task_was_cancelled_has_failed_and_says_so() -> None:
    async def answer(text: str) -> str:
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task
        return text

    async with evaluated(answer) as connection:
        with pytest.raises(AgentError, match="CancelledError"):
            await connection.step("Hello", deadline=5)


def test_a_function_is_named_and_what_cannot_answer_a_step_is_refused() -> None:
    class Silent:
        pass

    made = as_agent(named)
    assert (made.name, made.capabilities) == ("named", {"multi_turn": {}})
    assert as_agent(named, name="other").name == "other"
    assert as_agent(agent()(shout)).name == "shout"
    with pytest.raises(TypeError, match=r"Silent: expected a method"):
        as_agent(Silent)
    with pytest.raises(TypeError, match=r"capabilities[.]usage: expected a mapping"):
        agent(capabilities={"usage": True})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(TypeError, match=r"capabilities: expected a mapping of names"):
        agent(capabilities=["usage"])  # type: ignore[arg-type]  # on purpose

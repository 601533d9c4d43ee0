"""Answers of very many pieces, which must not keep the server from all else meanwhile."""

import time

import pytest

from tests.eca_server.models.openai_chat.scripted import delta, fragment, play, tool

SERIES = {
    "calls": lambda n: tool(*(fragment(name="f", index=i, id=f"c{i}") for i in range(n))),
    "calls without ids": lambda n: tool(*(fragment(name="f", index=i) for i in range(n))),
    "details": lambda n: delta(reasoning_details=[{"index": i, "text": "t"} for i in range(n)]),
    "a detail": lambda n: delta(reasoning_details=[{"index": 0, "text": "t" * 500}] * n),
    "a thought": lambda n: delta(thinking_blocks=[{"type": "t", "thinking": "t" * 500}] * n),
}


def seconds(chunk: dict) -> float:
    started = time.process_time()
    play(delta(content="x"), chunk, delta("stop"))
    return time.process_time() - started


@pytest.mark.long(but=1)
@pytest.mark.parametrize("name", SERIES)
def test_ten_times_the_pieces_take_ten_times_as_long(name):
    once = min(seconds(SERIES[name](1_500)) for _ in range(3))
    assert seconds(SERIES[name](15_000)) < 30 * once, "linear would be 10, quadratic 100"


@pytest.mark.long
def test_repeated_parts_of_a_call_are_checked_up_to_a_limit():
    started = time.process_time()
    play(tool(*[fragment("{}{}" * 25, "f", id="c")] * 20_000), delta("stop"))
    assert time.process_time() - started < 10

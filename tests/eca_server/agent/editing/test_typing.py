"""Fast typing and slow models: one request at a time, and the newest one is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.agent.editing.completing import PAUSE, TIMEOUT, Completions
from eca_server.agent.editing.document import split_at
from eca_server.models.backend import ModelInfo, Request
from eca_server.models.events import Event, Finished, Started, TextDelta
from eca_server.models.facts import Capabilities
from eca_server.models.history import Origin
from eca_server.models.models import Model
from eca_server.models.retry import RetryPolicy

SLACK = 1e-6
CLOSING = PAUSE * 3
"""Seconds that a connection takes to close."""


class Slow:
    """A slow backend; `most` is the maximum of concurrent requests."""

    origin = Origin(api="test", provider="test", model="slow")
    capabilities = Capabilities()

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = iter(seconds)
        self.running = self.most = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[Event]]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield self._events()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(CLOSING)
            self.running -= 1

    async def _events(self) -> AsyncIterator[Event]:
        yield Started()
        await trio.sleep(next(self._seconds))
        yield TextDelta("offered")
        yield Finished(reason="stop")

    async def models(self) -> list[ModelInfo]:
        return []


TYPED = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.01, PAUSE / 2, PAUSE * 2, 1.0]),
        st.sampled_from([0.0, 0.05, 0.5, TIMEOUT * 2]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(TYPED)
def test_the_newest_alone_is_asked_for_and_everyone_is_answered(typed):
    backend = Slow([seconds for _, seconds in typed])
    answers: dict[int, tuple[float, str]] = {}
    came: dict[int, float] = {}

    async def complete(number: int, completions: Completions, request: Any) -> None:
        document = split_at(f"{number}x\n", line=1, character=3)
        model = Model(backend, RetryPolicy())
        text = await completions.complete(request, document, model, None)
        answers[number] = trio.current_time(), text

    async def main() -> None:
        completions = Completions(lambda words: None)
        async with trio.open_nursery() as nursery:
            for number, (pause, _) in enumerate(typed):
                await trio.sleep(pause)
                came[number] = trio.current_time()
                nursery.start_soon(complete, number, completions, completions.begin())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert backend.most == 1
    assert len(answers) == len(typed)
    for number, (when, text) in answers.items():
        assert when - came[number] <= TIMEOUT + CLOSING + SLACK
        newer = came.get(number + 1)
        if newer is not None and when > newer + SLACK:
            assert text == ""
            assert when - newer <= CLOSING + SLACK

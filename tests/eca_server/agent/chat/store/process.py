"""Processes of their own that use a store, forked from one that has imported it."""

import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs
import trio

import eca_server.agent.chat.store.file  # noqa: F401 - a user without rights may not read the interpreter
from tests.eca_server.agent.chat.store.keeping import OpenStore, image, messages_of, opened, turn
from tests.eca_server.forking import FORKING

LIMIT = 300_000


@attrs.frozen
class Running:
    """A process in a role, and the pipe to it."""

    process: Any
    pipe: Connection

    def read_rest(self) -> list[Any]:
        """Return all that it still says, until its end."""
        texts = []
        try:
            while self.pipe.poll(30):
                texts.append(self.pipe.recv())
        except (EOFError, ConnectionResetError):
            self.process.join(30)
        return texts


@contextmanager
def spawn(role: Callable[..., Any], path: Path, *arguments: str) -> Iterator[Running]:
    """Start a process in that role; what it acknowledges is received from its pipe."""
    ours, theirs = FORKING.Pipe()
    process = FORKING.Process(target=_run, args=(role, path, theirs, arguments))
    process.start()
    theirs.close()
    try:
        yield Running(process, ours)
    finally:
        process.kill()
        process.join()
        ours.close()


def _run(role: Callable[..., Any], path: Path, pipe: Connection, arguments: tuple[str]) -> None:
    async def main() -> None:
        async with opened(path) as ours:
            await role(ours, pipe, *arguments)

    trio.run(main)


async def write_until_killed(ours: OpenStore, pipe: Connection, name: str, seed: str) -> None:
    """Append turns to the chat of that name and to one that all share; delete others."""
    chance = random.Random(seed)
    pipe.send("ready")
    for number in range(1_000_000):
        each = f"{name}-{number}"
        filler = "x" * chance.choice([1, 100, 3000, 40_000])
        before = [image(f"{each}-0", "/f", data=filler.encode()[:10_000])]
        await ours.store.add_before_images(name, before)
        mine = await ours.append(name, *turn(each, filler=filler))
        await ours.append("shared", *turn(each, filler=filler))
        if number % 3 == 0:
            await ours.append(f"{each} gone", *turn(each, filler=filler))
        if number % 3 == 2:
            await ours.store.delete(f"{name}-{number - 2} gone")
        pipe.send(each if mine else f"problem {ours.problems}")


async def fill_the_disk(ours: OpenStore, pipe: Connection) -> None:
    """Write until a file may not grow any more, then a little later."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    number = -1
    failures = 0
    while failures < 3:
        number += 1
        is_kept = await ours.append("c", *messages_of(f"{number}" + "x" * 20_000))
        failures = 0 if is_kept else failures + 1
    (problem,) = ours.problems
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    number += 1
    assert await ours.append("c", *messages_of(f"{number}"))
    texts = [text.rstrip("x") for text in await ours.texts("c")]
    assert texts == [str(each) for each in range(number + 1)]
    assert ours.problems == [problem]
    pipe.send(problem)


async def write_where_it_is_forbidden(ours: OpenStore, pipe: Connection) -> None:
    """Try as a user without root's rights."""
    if os.geteuid() == 0:
        os.setuid(65534)
    for number in range(3):
        assert not await ours.append("c", *messages_of(f"{number}"))
    (problem,) = ours.problems
    assert not await ours.store.close()
    pipe.send(problem)


async def begin_at_once(ours: OpenStore, pipe: Connection, name: str) -> None:
    """Wait for the word, then open and write."""
    pipe.send("ready")
    pipe.recv()
    for number in range(20):
        assert await ours.append("shared", *turn(f"{name}-{number}"))
    pipe.send(ours.problems)

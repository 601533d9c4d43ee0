"""A process of its own that uses a store.

Run `python -P -m tests.eca_server.agent.chat.store.process`.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import trio

from tests.eca_server.agent.chat.store.keeping import (
    WORKSPACE,
    Kept,
    image,
    opened,
    said,
    texts_of,
    turn,
)
from tests.eca_server.stranger import environment

LIMIT = 300_000


def spawn(role: str, path: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a process in that role; what it acknowledges is read from its stdout, line by line."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", __name__, role, str(path), *arguments],
        env=environment(path.parent),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def write_until_killed(kept: Kept, name: str, seed: str) -> None:
    """Append turns to the chat of that name and to one that all share; delete others."""
    chance = random.Random(seed)
    print("ready", flush=True)
    for number in range(1_000_000):
        each = f"{name}-{number}"
        filler = "x" * chance.choice([1, 100, 3000, 40_000])
        await kept.store.add_before_images(
            name, [image(f"{each}-0", "/f", data=filler.encode()[:10_000])]
        )
        mine = await kept.store.append(name, WORKSPACE, turn(each, filler=filler))
        await kept.store.append("shared", WORKSPACE, turn(each, filler=filler))
        if number % 3 == 0:
            await kept.store.append(f"{each} gone", WORKSPACE, turn(each, filler=filler))
        if number % 3 == 2:
            await kept.store.delete(f"{name}-{number - 2} gone")
        print(each if mine else f"problem {kept.problems}", flush=True)


async def fill_the_disk(kept: Kept) -> None:
    """Write until a file may not grow any more, then a little later."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    number = -1
    failures = 0
    while failures < 3:
        number += 1
        is_kept = await kept.store.append("c", WORKSPACE, said(f"{number}" + "x" * 20_000))
        failures = 0 if is_kept else failures + 1
    (problem,) = kept.problems
    print(problem)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    number += 1
    assert await kept.store.append("c", WORKSPACE, said(f"{number}"))
    texts = [text.rstrip("x") for text in texts_of(await kept.store.load("c"))]
    assert texts == [str(each) for each in range(number + 1)]
    assert kept.problems == [problem]


async def write_where_it_is_forbidden(kept: Kept) -> None:
    """Try as a user without root's rights."""
    import eca_server.agent.chat.store.file  # noqa: F401, PLC0415 - the user without rights may not read the interpreter

    if os.geteuid() == 0:
        os.setuid(65534)
    for number in range(3):
        assert not await kept.store.append("c", WORKSPACE, said(f"{number}"))
    (problem,) = kept.problems
    print(problem)
    assert not await kept.store.close()


async def begin_at_once(kept: Kept, name: str) -> None:
    """Wait for the word, then open and write."""
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        assert await kept.store.append("shared", WORKSPACE, turn(f"{name}-{number}"))
    print(*kept.problems)


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    each.__name__: each
    for each in (write_until_killed, fill_the_disk, write_where_it_is_forbidden, begin_at_once)
}


async def main(role: str, path: str, *arguments: str) -> None:
    async with opened(Path(path)) as kept:
        await ROLES[role](kept, *arguments)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])

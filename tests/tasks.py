"""Tasks whose results a test looks at."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Tasks(Protocol):
    """A task group of anyio, or a nursery of trio."""

    def start_soon(self, function: Callable[[], Awaitable[Any]], /) -> Any: ...


def run_in(tasks: Tasks, function: Callable[..., Awaitable[T]], *arguments: Any) -> list[T]:
    """Run a function in a task, and return a list that gets its result."""
    results: list[T] = []

    async def run() -> None:
        results.append(await function(*arguments))

    tasks.start_soon(run)
    return results

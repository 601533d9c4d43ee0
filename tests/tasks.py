"""Tasks whose results a test looks at."""

from collections.abc import Awaitable, Callable
from typing import Any


def run_in(tasks: Any, function: Callable[..., Awaitable[Any]], *arguments: Any) -> list[Any]:
    """Run a function in a task group or nursery, and return a list that gets its result."""
    results: list[Any] = []

    async def run() -> None:
        results.append(await function(*arguments))

    tasks.start_soon(run)
    return results

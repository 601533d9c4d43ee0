"""Graders of others: entry points of the group `ecp.graders`, named as a manifest's `type`.

Such a grader is called with the step's result and the manifest's `options`. It gives a verdict: a
boolean, a score from 0 to 1 (passed from 0.5 on), or a mapping with `passed`, `score`, `reasoning`.
It may be async (on trio); it is given a minute.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.manifest import Grader, Step
from eca_server.ecp.manifest.reading import GRADER_GROUP
from eca_server.ecp.results import Check

__all__ = ["ask_installed"]

_SECONDS: Final = 60.0


async def ask_installed(grader: Grader, step: Step, result: Result) -> Check:
    """The verdict of an installed grader.

    Raises:
        LookupError: none is installed under that name.
        TypeError: its verdict is none of those it may give.
        trio.TooSlowError: it took more than a minute.
    """
    found = next(iter(entry_points(group=GRADER_GROUP, name=grader.type)), None)
    if found is None:
        raise LookupError(f"no grader called {grader.type} is installed here")
    ask = found.load()
    with trio.fail_after(_SECONDS):
        if inspect.iscoroutinefunction(ask):
            verdict = await ask(step.input, result, dict(grader.options))
        else:
            verdict = await trio.to_thread.run_sync(
                ask, step.input, result, dict(grader.options), abandon_on_cancel=True
            )
    passed, score, reasoning = _read(grader.type, verdict)
    return Check(
        type=grader.type, field=grader.field, passed=passed, score=score, reasoning=reasoning
    )


def _read(name: str, verdict: Any) -> tuple[bool, float, str]:
    if isinstance(verdict, bool):
        return verdict, float(verdict), "passed" if verdict else "did not pass"
    if isinstance(verdict, int | float) and 0 <= verdict <= 1:
        return verdict >= 0.5, float(verdict), f"a score of {verdict:g}"
    if isinstance(verdict, Mapping) and isinstance(verdict.get("passed"), bool):
        passed = verdict["passed"]
        _, score, why = _read(name, verdict.get("score", passed))
        return passed, score, str(verdict.get("reasoning", why))[:8192]
    raise TypeError(
        f"{name} gave {verdict!r:.80}: expected a boolean, a score from 0 to 1, or a mapping "
        "with `passed`"
    )

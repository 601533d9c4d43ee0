"""Installed graders: entry points of the group `ecp.graders`, named by a manifest's `type`.

A grader is called with the step's input, its result and the manifest's `options`. It returns a
verdict: a boolean, a score from 0 to 1 (0.5 passes), or a mapping with `passed`, `score` and
`reasoning`. It may be async (on trio); its time limit is a minute.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, Final

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.manifest.model import Grader, Step
from eca_server.ecp.manifest.reading import GRADER_GROUP
from eca_server.ecp.reports.masking import mask_beginning
from eca_server.ecp.results import Check

_SECONDS: Final = 60.0


async def run_installed(grader: Grader, step: Step, result: Result) -> Check:
    """Run an installed grader.

    Raises:
        LookupError: no grader of that name is installed.
        TypeError: the verdict has a wrong type.
        trio.TooSlowError: the grader took more than a minute.
    """
    entry = next(iter(entry_points(group=GRADER_GROUP, name=grader.type)), None)
    if entry is None:
        raise LookupError(f"no grader called {grader.type} is installed")
    grade = entry.load()
    with trio.fail_after(_SECONDS):
        if inspect.iscoroutinefunction(grade):
            verdict = await grade(step.input, result, dict(grader.options))
        else:
            verdict = await trio.to_thread.run_sync(
                grade, step.input, result, dict(grader.options), abandon_on_cancel=True
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
        return passed, score, mask_beginning(str(verdict.get("reasoning", why)), 8192)[:8192]
    raise TypeError(
        f"expected {name} to return a boolean, a score from 0 to 1, or a mapping with `passed`, "
        f"got {verdict!r:.80}"
    )

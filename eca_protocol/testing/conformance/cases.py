"""The declaration of cases."""

from __future__ import annotations

import fnmatch
import functools
import importlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

from eca_protocol.revisions import Revision, Window
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.judge import Case, Need
from eca_protocol.testing.requirements import lookup

__all__ = [
    "Case",
    "Need",
    "case",
    "cases_in",
    "is_named",
    "server_cases",
]

Run = Callable[[Harness], Awaitable[None]]
F = TypeVar("F", bound=Callable[..., Awaitable[None]])


_REGISTERED: Final[dict[str, Case]] = {}


def case(
    *rows: str,
    since: Revision = Revision.R2025_09,
    until: Revision = Revision.CURRENT,
    needs: Collection[Need] | Need = (),
    seconds: float = 20.0,
    tools: Collection[str] = (),
    **session: Any,
) -> Callable[[F], F]:
    """Declare a case: an async function of a session, or of the `harness` that opens its sessions.

    Args:
        rows: the rows that it judges, by id or as a pattern for `requirements.lookup`. Rows
            without a verdict at its end are untestable.
        since: the first edition it is for; `Revision.DRAFT` for what holds in the draft, too.
        until: the last one.
        needs: its requirements on the target; if one is not met, its rows are untestable.
        seconds: its deadline.
        tools: native tools that its session uses, which is a requirement on the target, too.
        session: further arguments for its session, as of `Harness.session`.

    Raises:
        KeyError: there is no such row.
        ValueError: another case has that name.
    """
    needed = {needs} if isinstance(needs, str) else {*needs}
    if tools:
        needed.add("native-tools")
        session["tools"] = tools
    ids = tuple(dict.fromkeys(row.id for name in rows for row in lookup(name)))

    def declare(function: F) -> F:
        chapter = function.__module__.rpartition(".")[2]
        name = f"{chapter}.{function.__name__}"
        if name in _REGISTERED:
            raise ValueError(f"two cases have the name {name}")
        _REGISTERED[name] = Case(
            name=name,
            summary=" ".join((function.__doc__ or "").split("\n\n")[0].split()),
            rows=ids,
            run=_with_session(function, session),
            window=Window(since=since, until=until),
            needs=frozenset(needed),
            seconds=seconds,
        )
        return function

    return declare


def _with_session(function: Callable[..., Awaitable[None]], options: Mapping[str, Any]) -> Run:
    if "harness" in inspect.signature(function, follow_wrapped=False).parameters:
        return function

    @functools.wraps(function)
    async def run(harness: Harness) -> None:
        async with harness.case_session(**options) as session:
            await function(session)

    return run


def is_named(name: str, pattern: str) -> bool:
    """Return whether a pattern names that row or case; a chapter's name means all its cases."""
    return fnmatch.fnmatchcase(name, pattern) or name.partition(".")[0] == pattern


def server_cases() -> MappingProxyType[str, Case]:
    """Return the cases for servers by name, in the order of their chapters."""
    return cases_in("eca_protocol.testing.conformance.server")


def cases_in(package: str) -> MappingProxyType[str, Case]:
    """Import the chapters of a package; return their cases by name."""
    for chapter in importlib.import_module(package).CHAPTERS:
        importlib.import_module(f"{package}.{chapter}")
    mine = {
        name: each
        for name, each in _REGISTERED.items()
        if each.run.__module__.startswith(f"{package}.")
    }
    return MappingProxyType(mine)

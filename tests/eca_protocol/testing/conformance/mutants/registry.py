"""A mutant: the reference server with a filter, or one class of its own, that breaks one row."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.streams import Transport
from eca_protocol.testing.requirements import REQUIREMENTS
from tests.eca_protocol.testing.conformance.mutants.filters import Filter, Filtered
from tests.eca_protocol.testing.conformance.reference import current
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server

Part = TypeVar("Part", bound=type[Any])


@attrs.frozen(kw_only=True)
class Mutant:
    """A departure, small and named.

    Attributes:
        breaks: the row that has to fail, and no other.
        does: what it does, in a sentence; empty for a filter.
        edition: the edition that it is asked to speak; None: the reference's own.
    """

    name: str
    breaks: str
    parts: Parts
    does: str = ""
    edition: Revision | None = None

    async def serve(self, transport: Transport, config: dict[str, Any]) -> int:
        return await self.parts.server(transport, config, self.parts).run()


MUTANTS: dict[str, Mutant] = {}

_OCTOBER = Parts()


def parts_with(own: type[Any], parts: Parts = _OCTOBER) -> Parts:
    """Return the reference server's parts with one that is a subclass of its own."""
    return attrs.evolve(
        parts, **{part.name: own for part in attrs.fields(Parts) if issubclass(own, part.default)}
    )


def altered(own: type[Any] | Filter) -> Mutant:
    """Return the reference server with a part of its own, or a filter, that breaks no row."""
    part = type("Altered", (Filtered, Server), {"row": own}) if isinstance(own, Filter) else own
    return Mutant(name=part.__name__, breaks="", parts=parts_with(part))


def breaks(
    row: str, does: str | None = None, *, edition: Revision | None = None
) -> Callable[[Part], Part]:
    """Make a mutant of a subclass of one of the reference server's parts.

    Args:
        row: the row that it breaks.
        does: what it does, if its docstring does not say so.
        edition: the edition that it is asked to speak.
    """
    parts = current.PARTS if edition is Revision.CURRENT else _OCTOBER

    def register(mutation: Part) -> Part:
        assert mutation.__name__ not in MUTANTS, mutation
        assert row in REQUIREMENTS, f"{mutation.__name__}: there is no row {row}"
        MUTANTS[mutation.__name__] = Mutant(
            name=mutation.__name__,
            breaks=row,
            does=does or mutation.__doc__ or "",
            parts=parts_with(mutation, parts),
            edition=edition,
        )
        return mutation

    return register


def register_filters(table: Mapping[str, Filter], server: type[Server] = Server) -> None:
    """Make a mutant of each filter; its name is the row, and words where a row has several."""
    edition = Revision.CURRENT if server is current.CurrentServer else None
    for name, row in table.items():
        mutation = type(name, (Filtered, server), {"row": row})
        breaks(name.partition(": ")[0], edition=edition)(mutation)


breaks_current = partial(breaks, edition=Revision.CURRENT)

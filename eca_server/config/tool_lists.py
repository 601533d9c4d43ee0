"""Settings that select tools by their names or by patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from eca_server.config.matchers import matches_name, selector_problem
from eca_server.config.problems import kind_of
from eca_server.config.reading import NAME, PERCENT, Place, Reader, listing, record, setting


def _read_selector(value: object, place: Place) -> object:
    name = NAME.read(value, place)
    if isinstance(name, str) and (problem := selector_problem(name)):
        place.errors[place.path] = (
            f"{problem} (until this is fixed, it matches only this very name)"
        )
    return name


SELECTORS = listing(Reader(read=_read_selector, schema=NAME.schema))
"""Names of tools and servers, or patterns of them."""


@attrs.frozen(kw_only=True, repr=False)
class ToolSearch:
    """`mcpToolSearch`: the MCP tools that the model has to search for; true: all of them.

    Attributes:
        included: servers, or patterns for `server__tool`, whose tools the model searches for.
        excluded: servers, or patterns for `server__tool`, whose tools are always offered.
        percentage: the model searches for all tools but the excluded ones if together they are
            larger than this part of its context.
    """

    included: tuple[str, ...] = setting(SELECTORS, "includePattern", default=())
    excluded: tuple[str, ...] = setting(SELECTORS, "excludePattern", default=())
    percentage: float | None = setting(PERCENT, "deferAllWhenTotalTokensExceedPercentOfContext")

    @property
    def is_on(self) -> bool:
        """True if the model may have to search for a tool."""
        return bool(self.included) or self.percentage is not None

    def adding(self, own: ToolSearch) -> ToolSearch:
        """Return these settings with those of an agent."""
        return ToolSearch(
            included=(*self.included, *own.included),
            excluded=(*self.excluded, *own.excluded),
            percentage=self.percentage if own.percentage is None else own.percentage,
        )

    def defers(self, server: str, tool: str, *, all_tools: bool) -> bool:
        """Return whether the model has to search for a tool.

        `all_tools`: whether all tools together are too large.
        """
        names = {server, f"{server}__{tool}"}
        if any(matches_name(each, names, if_late=False) for each in self.excluded):
            return False
        return all_tools or any(matches_name(each, names) for each in self.included)


_RECORD = record(ToolSearch)


def _read_tool_search(value: object, place: Place, *, if_false: Sequence[str] = ()) -> object:
    if isinstance(value, bool):
        value = {
            "includePattern": [".*"] if value else [],
            "excludePattern": [] if value else list(if_false),
            "deferAllWhenTotalTokensExceedPercentOfContext": None,
        }
    elif value is not None and not isinstance(value, Mapping):
        place.refuse(f"expected true, false or an object, got {kind_of(value)}")
    return _RECORD.read(value, place)


TOOL_SEARCH = attrs.evolve(
    _RECORD, read=_read_tool_search, schema={"type": ["object", "boolean", "null"]}
)
"""Reader of `mcpToolSearch`."""
TOOL_SEARCH_OF_AGENT = attrs.evolve(TOOL_SEARCH, read=partial(_read_tool_search, if_false=[".*"]))
"""Reader of an agent's `mcpToolSearch`: false offers all tools, whatever is set for all agents."""

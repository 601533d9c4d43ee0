"""The sources of a Gemini answer: searches and pages. No I/O.

A page is cited once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.json_members import list_in, text_in
from eca_server.models.events import Citation, Event, ServerTool


class Sources:
    """The sources of one answer."""

    def __init__(self) -> None:
        self._cited: set[str] = set()

    def read(self, candidate: Mapping[str, Any], *, searches: bool) -> list[Event]:
        """Read the sources in a piece of the answer.

        Args:
            candidate: the piece.
            searches: whether to emit the search, too; not if it is a part of the answer.
        """
        events: list[Event] = []
        grounding = candidate.get("groundingMetadata")
        if isinstance(grounding, dict):
            if searches and any(
                isinstance(query, str) for query in list_in(grounding, "webSearchQueries")
            ):
                events += [
                    ServerTool(kind="web_search", phase="started"),
                    ServerTool(kind="web_search", phase="finished"),
                ]
            for chunk in list_in(grounding, "groundingChunks"):
                events += self._cite(*_page(chunk))
        cited = candidate.get("citationMetadata")
        for source in list_in(cited, "citations") if isinstance(cited, dict) else ():
            if isinstance(source, dict):
                events += self._cite(text_in(source, "uri"), text_in(source, "title"))
        return events

    def _cite(self, url: str, title: str) -> list[Event]:
        if not url or url in self._cited:
            return []
        self._cited.add(url)
        return [Citation(url=url, title=title)]


def _page(chunk: Any) -> tuple[str, str]:
    """Return the address and the title of a page; empty for other sources."""
    page = chunk.get("web") if isinstance(chunk, dict) else None
    return (text_in(page, "uri"), text_in(page, "title")) if isinstance(page, dict) else ("", "")

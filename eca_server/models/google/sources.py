"""The sources of a Gemini answer: searches and pages. No I/O.

A page is cited once. Its place is found by the cited text, since the positions from the API count
bytes of a part that is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eca_server.json_members import list_in, text_in
from eca_server.models.events import Citation, Event, ServerTool


class Sources:
    """The sources of one answer.

    Attributes:
        text: the visible text so far, in pieces.
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self._searches = 0
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
            pages = [_page(chunk) for chunk in list_in(grounding, "groundingChunks")]
            if searches:
                queries = [q for q in list_in(grounding, "webSearchQueries") if isinstance(q, str)]
                events += self._search(queries, [url for url, _ in pages if url])
            spans = self._spans(list_in(grounding, "groundingSupports"))
            for number, (url, title) in enumerate(pages):
                events += self._cite(url, title, spans.get(number))
        cited = candidate.get("citationMetadata")
        for source in list_in(cited, "citations") if isinstance(cited, dict) else ():
            if isinstance(source, dict):
                events += self._cite(text_in(source, "uri"), text_in(source, "title"), None)
        return events

    def _search(self, queries: list[str], urls: list[str]) -> list[Event]:
        if not queries:
            return []
        self._searches += 1
        key, kind, query = f"search_{self._searches}", "web_search", "; ".join(queries)
        return [
            ServerTool(key=key, kind=kind, phase="started", query=query),
            ServerTool(key=key, kind=kind, phase="finished", query=query, urls=tuple(urls)),
        ]

    def _cite(self, url: str, title: str, span: tuple[int, int] | None) -> list[Event]:
        if not url or url in self._cited:
            return []
        self._cited.add(url)
        return [Citation(url=url, title=title, span=span)]

    def _spans(self, supports: Iterable[Any]) -> dict[int, tuple[int, int]]:
        """Return the first place in the text that each page supports."""
        text = "".join(self.text)
        spans: dict[int, tuple[int, int]] = {}
        for support in supports:
            segment = support.get("segment") if isinstance(support, dict) else None
            cited_text = text_in(segment, "text") if isinstance(segment, dict) else ""
            start = text.find(cited_text) if cited_text else -1
            if start >= 0:
                for number in list_in(support, "groundingChunkIndices"):
                    if isinstance(number, int):
                        spans.setdefault(number, (start, start + len(cited_text)))
        return spans


def _page(chunk: Any) -> tuple[str, str]:
    """Return the address and the title of a page; empty for other sources."""
    page = chunk.get("web") if isinstance(chunk, dict) else None
    return (text_in(page, "uri"), text_in(page, "title")) if isinstance(page, dict) else ("", "")

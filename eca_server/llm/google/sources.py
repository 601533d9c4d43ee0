"""Where an answer of Gemini comes from: what was searched for, which pages were found. No I/O.

The rule it keeps: a page is cited once, and where it belongs is found by the words it stands for,
for the positions that come with them count bytes of a part nobody else knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from eca_server.llm.events import Citation, Event, ServerTool

__all__ = ["Sources"]


class Sources:
    """The sources of one answer.

    Attributes:
        text: what the user has been shown, in pieces.
    """

    def __init__(self) -> None:
        self.text: list[str] = []
        self._searches = 0
        self._cited: set[str] = set()

    def read(self, candidate: Mapping[str, Any], *, searches: bool) -> list[Event]:
        """Takes what a piece of the answer tells of its sources.

        Args:
            candidate: the piece.
            searches: whether a search is told, too; not if it was a part of the answer.
        """
        events: list[Event] = []
        grounding = candidate.get("groundingMetadata")
        if isinstance(grounding, dict):
            pages = [_page(chunk) for chunk in _items(grounding, "groundingChunks")]
            if searches:
                queries = [q for q in _items(grounding, "webSearchQueries") if isinstance(q, str)]
                events += self._search(queries, [url for url, _ in pages if url])
            spans = self._spans(_items(grounding, "groundingSupports"))
            for number, (url, title) in enumerate(pages):
                events += self._cite(url, title, spans.get(number))
        cited = candidate.get("citationMetadata")
        for source in _items(cited, "citations") if isinstance(cited, dict) else ():
            if isinstance(source, dict):
                events += self._cite(_text(source, "uri"), _text(source, "title"), None)
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
        """Where in the text each page is needed first."""
        text = "".join(self.text)
        spans: dict[int, tuple[int, int]] = {}
        for support in supports:
            segment = support.get("segment") if isinstance(support, dict) else None
            words = _text(segment, "text") if isinstance(segment, dict) else ""
            start = text.find(words) if words else -1
            if start >= 0:
                for number in _items(support, "groundingChunkIndices"):
                    if isinstance(number, int):
                        spans.setdefault(number, (start, start + len(words)))
        return spans


def _page(chunk: Any) -> tuple[str, str]:
    """The address and the title of a page; empty for a source that is none."""
    page = chunk.get("web") if isinstance(chunk, dict) else None
    return (_text(page, "uri"), _text(page, "title")) if isinstance(page, dict) else ("", "")


def _items(holder: Mapping[str, Any], name: str) -> list[Any]:
    value = holder.get(name)
    return value if isinstance(value, list) else []


def _text(holder: Mapping[str, Any], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""

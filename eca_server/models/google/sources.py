"""The sources of a Gemini answer: searches and pages. No I/O.

A page is cited once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_server.json_members import list_in, object_in, text_in
from eca_server.models.events import Event, ServerTool
from eca_server.models.stream_decoder import Citations


class Sources:
    """The sources of one answer."""

    def __init__(self) -> None:
        self._citations = Citations()

    def read(self, candidate: Mapping[str, Any], *, searches: bool) -> list[Event]:
        """Read the sources in a piece of the answer.

        Args:
            candidate: the piece.
            searches: whether to emit the search, too; not if it is a part of the answer.
        """
        events: list[Event] = []
        grounding = object_in(candidate, "groundingMetadata")
        queries = list_in(grounding, "webSearchQueries")
        if searches and any(isinstance(query, str) for query in queries):
            events += [
                ServerTool(kind="web_search", phase="started"),
                ServerTool(kind="web_search", phase="finished"),
            ]
        pages = [object_in(chunk, "web") for chunk in list_in(grounding, "groundingChunks")]
        for source in (*pages, *list_in(object_in(candidate, "citationMetadata"), "citations")):
            events += self._citations.cite(text_in(source, "uri"), text_in(source, "title"))
        return events

"""The conversion of a draft server's contents to canonical ones, for our client (ruling W-50).

A turn begins with its first content and ends with the complete one. The draft does not report the
outcome of a change that waited for approval: an approved change counts as made, any other as
rejected.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eca_protocol import messages as m
from eca_protocol.draft import models as d


class ChatReader:
    """The state of one chat of a draft server."""

    def __init__(self) -> None:
        self._approved: set[str] = set()
        self._session_tokens = 0
        self._turn_tokens: int | None = None
        self.is_running: bool = False
        self._calls = 0
        self._pending_approvals: dict[str, dict[str, Any]] = {}

    def approve(self, call_id: str) -> None:
        """Record the approval of a change; an unknown id means the only waiting change."""
        waiting = self._pending_approvals.keys() - self._approved
        if call_id not in self._pending_approvals and len(waiting) == 1:
            (call_id,) = waiting
        self._approved.add(call_id)

    def read(
        self, received: d.ChatContentReceivedParams, raw: Any
    ) -> Iterator[tuple[m.ChatRole, m.ChatContent]]:
        """Yield the canonical contents of a draft content, with their roles.

        Args:
            received: the draft content.
            raw: the raw JSON value of the content, for members without a canonical type.
        """
        if not self.is_running:
            self.is_running = True
            yield "system", m.ChatProgressContent(state="running", text="Generating")
        match received.content:
            case d.TextContent(text=text):
                if text:
                    yield "assistant", m.ChatTextContent(text=text)
            case d.FileChangeContent():
                for content in self._change(received.content, raw["content"]):
                    yield "assistant", content
            case m.UnknownContent():
                yield "assistant", received.content
        if received.metadata is not None and received.metadata.tokens_used is not None:
            self._turn_tokens = received.metadata.tokens_used
        if received.is_complete:
            yield from self._finish()

    def _change(self, change: d.FileChangeContent, raw: dict[str, Any]) -> Iterator[m.ChatContent]:
        """Yield a file change as a tool call; its arguments are the raw members of the change."""
        self._calls += 1
        names: dict[str, Any] = {
            "id": f"change-{self._calls}",
            "name": "file_change",
            "server": "eca",
            "origin": "native",
            "summary": change.description,
        }
        arguments = {key: raw[key] for key in ("file", "changes") if raw.get(key) is not None}
        yield m.ChatToolCallPrepareContent(**names)
        yield m.ChatToolCallRunContent(
            **names, arguments=arguments, manual_approval=change.manual_approval
        )
        call = {**names, "arguments": arguments}
        if change.manual_approval:
            self._pending_approvals[names["id"]] = call
        else:
            yield from _completed_call(call)

    def _finish(self) -> Iterator[tuple[m.ChatRole, m.ChatContent]]:
        for call_id, call in self._pending_approvals.items():
            if call_id in self._approved:
                for content in _completed_call(call):
                    yield "assistant", content
            else:
                yield "assistant", m.ChatToolCallRejectedContent(**call, reason="user-choice")
        if self._turn_tokens is not None:
            self._session_tokens += self._turn_tokens
            yield (
                "system",
                m.ChatUsageContent(
                    session_tokens=self._session_tokens, tokens_used=self._turn_tokens
                ),
            )
        yield "system", m.ChatProgressContent(state="finished")
        self._pending_approvals.clear()
        self._approved.clear()
        self._turn_tokens = None
        self.is_running = False


def _completed_call(call: dict[str, Any]) -> Iterator[m.ChatContent]:
    yield m.ChatToolCallRunningContent(**call)
    yield m.ChatToolCalledContent(**call)

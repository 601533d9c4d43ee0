"""Turns of the draft: texts, and a complete one that closes each turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.testing.members import at
from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.requests import PendingRequest


class DraftChats:
    """Checks the chats of a conversation in the draft."""

    def __init__(self, log: ObservationLog) -> None:
        self.has_finished_turn: bool = False
        self._log = log
        self._unanswered = 0
        self._owed: dict[str, list[int]] = {}  # by chat: its prompts without an end
        self._deletes: dict[int, str] = {}
        self._is_excused: set[str] = set()
        """Chats whose prompts need no end: a stop drops them, or they cannot start."""

    def on_client_message(self, method: str, params: Mapping[str, Any], index: int) -> None:
        """Handle a request or a notification of the client."""
        chat_id = params.get("chatId")
        if method == "chat/prompt":
            self._unanswered += 1
        elif method in {"shutdown", "exit"}:
            self._is_excused |= self._owed.keys()
        elif not isinstance(chat_id, str):
            return
        elif method == "chat/delete":
            self._deletes[index] = chat_id
        elif method == "chat/promptStop":
            self._is_excused.add(chat_id)

    def on_response(self, request: PendingRequest, message: Mapping[str, Any]) -> None:
        """Handle a response of the server; a prompt whose turn can start requires an end."""
        if request.index in self._deletes:
            self._owed.pop(self._deletes.pop(request.index), None)
        if request.method != "chat/prompt":
            return
        self._unanswered -= 1
        chat_id = at(message, "result", "chatId")
        if isinstance(chat_id, str):
            self._owed.setdefault(chat_id, []).append(request.index)
            if at(message, "result", "status") == "connection-error":
                self._is_excused.add(chat_id)

    def on_content(self, params: Mapping[str, Any]) -> None:
        """Check a `chat/contentReceived`."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str):
            return
        owed = self._owed.get(chat_id)
        if not owed and not self._unanswered:
            expected = "no content after the text that closes the turn"
            self._log.report("W-50c", expected, repr(params.get("content"))[:60], chat_id=chat_id)
        if params.get("isComplete") is True:
            self.has_finished_turn = True
            if owed:
                owed.pop(0)

    def on_unreadable(self, chat_id: str) -> None:
        """Handle an unreadable content: it may have been an end."""
        self._is_excused |= {chat_id} if chat_id in self._owed else self._owed.keys()

    def finish(self) -> None:
        """Check that every turn has ended."""
        for chat_id, owed in self._owed.items():
            for index in owed if chat_id not in self._is_excused else ():
                self._log.report_missing(
                    index,
                    "W-50c",
                    "a text with `isComplete: true` to close the turn",
                    "none",
                    chat_id=chat_id,
                )

"""The draft's turns: texts, and one that is complete and closes each turn, however it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.testing.watching.answers import Asked
from eca_protocol.testing.watching.observation import Notes

__all__ = ["DraftChats"]


class DraftChats:
    """Judges what is said for chats in the draft."""

    def __init__(self, notes: Notes) -> None:
        self.has_finished_turn = False
        self._notes = notes
        self._unanswered = 0
        self._owed: dict[str, list[int]] = {}  # the prompts of each chat that have no end yet
        self._deletes: dict[int, str] = {}
        self._is_excused: set[str] = set()
        """The chats whose prompts need no end: a stop drops some, others never start."""

    def client_says(self, method: str, params: Mapping[str, Any], index: int) -> None:
        """A request or a notification of the client's."""
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

    def server_answers(self, asked: Asked, message: Mapping[str, Any]) -> None:
        """An answer of the server's; a prompt whose turn can start owes an end."""
        result = message.get("result")
        if asked.index in self._deletes:
            self._owed.pop(self._deletes.pop(asked.index), None)
        if asked.method != "chat/prompt":
            return
        self._unanswered -= 1
        told = result if isinstance(result, Mapping) else {}
        chat_id = told.get("chatId")
        if isinstance(chat_id, str):
            self._owed.setdefault(chat_id, []).append(asked.index)
            if told.get("status") == "connection-error":
                self._is_excused.add(chat_id)

    def content(self, params: Mapping[str, Any]) -> None:
        """A `chat/contentReceived`."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str):
            return
        owed = self._owed.get(chat_id)
        if not owed and not self._unanswered:
            self._notes.tell(
                "W-50c",
                expected="nothing behind the text that closes the turn",
                got=repr(params.get("content"))[:60],
                chat_id=chat_id,
            )
        if params.get("isComplete") is True:
            self.has_finished_turn = True
            if owed:
                owed.pop(0)

    def lost(self, chat_id: str) -> None:
        """A content came that cannot be understood: it may have been an end."""
        self._is_excused |= {chat_id} if chat_id in self._owed else self._owed.keys()

    def finish(self) -> None:
        """Nothing comes any more."""
        for chat_id, owed in self._owed.items():
            for index in owed if chat_id not in self._is_excused else ():
                self._notes.tell_of(
                    index,
                    "W-50c",
                    expected="the text that closes the turn",
                    got="none",
                    chat_id=chat_id,
                )

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
        self._owed: dict[str, list[int]] = {}  # the prompts of each chat that have no end yet
        self._deletes: dict[int, str] = {}
        self._stopped: set[str] = set()

    def client_says(self, method: str, params: Mapping[str, Any], index: int) -> None:
        """A request or a notification of the client's."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str):
            return
        if method == "chat/delete":
            self._deletes[index] = chat_id
        elif method == "chat/promptStop":
            self._stopped.add(chat_id)

    def server_answers(self, asked: Asked, message: Mapping[str, Any]) -> None:
        """An answer of the server's; a prompt that is answered with success owes an end."""
        result = message.get("result")
        if asked.index in self._deletes:
            self._owed.pop(self._deletes.pop(asked.index), None)
        if asked.method != "chat/prompt" or not isinstance(result, Mapping):
            return
        chat_id = result.get("chatId")
        if isinstance(chat_id, str) and result.get("status") == "success":
            self._owed.setdefault(chat_id, []).append(asked.index)

    def content(self, params: Mapping[str, Any]) -> None:
        """A `chat/contentReceived`."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str) or params.get("isComplete") is not True:
            return
        self.has_finished_turn = True
        owed = self._owed.get(chat_id)
        if owed:
            owed.pop(0)

    def finish(self) -> None:
        """Nothing comes any more."""
        for chat_id, owed in self._owed.items():
            for index in owed:
                if chat_id not in self._stopped:
                    self._notes.tell_of(
                        index, "W-50c", expected="the text that closes the turn", got="none",
                        chat_id=chat_id,
                    )  # fmt: skip

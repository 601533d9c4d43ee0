"""Results as far as their request says what they should be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.codec import Codec
from eca_protocol.errors import DecodeError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.watching.answers import PROMPTS, Asked
from eca_protocol.testing.watching.observation import Notes
from eca_protocol.testing.watching.offers import is_model

__all__ = ["Replies"]

_MOST: Final = 200
_CANCELLED: Final = -32800
_UNKNOWN_METHOD: Final = -32601


class Replies:
    """Judges the server's answers to prompts and queries."""

    def __init__(self, notes: Notes) -> None:
        self.revision = Revision.R2025_10
        self._notes = notes

    def take(self, asked: Asked, message: Mapping[str, Any]) -> None:
        """An answer to a request that the server could serve."""
        params = asked.params if isinstance(asked.params, Mapping) else {}
        result = message.get("result")
        if asked.method == "initialize":
            self._welcome(result)
        elif asked.method == "shutdown" and result is not None:
            self._tell("LIFE-18", "null as the answer to shutdown", repr(result)[:60])
        elif message.get("error") is not None:
            if asked.method in PROMPTS and not asked.is_second:
                self._refused_prompt(asked.method, asked.params, message["error"])
        elif not isinstance(result, Mapping):
            return
        elif asked.method in PROMPTS:
            model = result.get("model")
            if not is_model(model) and model != params.get("model"):
                self._tell("W-21b", "a model called provider/model", repr(model))
        elif asked.method in {"chat/queryContext", "chat/queryFiles"}:
            self._chat_id(params, result)
            found = result.get("contexts", result.get("files"))
            if isinstance(found, list) and len(found) > _MOST:
                self._tell("W-40a", f"at most {_MOST} contexts", str(len(found)))
        elif asked.method == "chat/queryCommands":
            self._chat_id(params, result)

    def _welcome(self, result: Any) -> None:
        if not isinstance(result, Mapping) or self.revision is Revision.DRAFT:
            return
        if not isinstance(result.get("chatWelcomeMessage"), str):
            self._tell(
                "W-10a", "a text as chatWelcomeMessage", repr(result.get("chatWelcomeMessage"))
            )

    def _refused_prompt(self, method: str, params: Any, error: Any) -> None:
        code = error.get("code") if isinstance(error, Mapping) else None
        is_unknown = code == _UNKNOWN_METHOD and method != "chat/prompt"
        if code == _CANCELLED or is_unknown:
            return
        try:
            Codec(ECA, Revision.CURRENT).decode_params(method, params)
        except DecodeError:
            return
        self._tell("W-21d", "a result for a prompt, whatever is wrong with it", f"the error {code}")

    def _chat_id(self, params: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        given, told = params.get("chatId"), result.get("chatId")
        if told != given:
            row = "W-40e" if given is None else "CHAT-29"
            expected = f"the chatId {given!r} of the query"
            self._notes.tell(
                row, expected=expected, got=repr(told), about=("result.chatId",), harms=False
            )

    def _tell(self, row: str, expected: str, got: str) -> None:
        self._notes.tell(row, expected=expected, got=got)

"""The rules that a stream must follow so that a user interface can show it."""

from __future__ import annotations

import enum

import attrs


class Rule(enum.Enum):
    """A rule of the stream; its value describes the expected contents."""

    UNKNOWN_CALL = "toolCallPrepare before any other content of a tool call (W-30)"
    CALL_ORDER = "the contents of a tool call in their order (W-30)"
    PREPARE_INCOMPLETE = "id, name and server in toolCallPrepare (W-30)"
    PREPARE_INTERLEAVED = "the pieces of one call before those of the next (W-30)"
    CALL_CHANGED = "a tool call that keeps its name and server (W-30)"
    CALL_OPEN = "the end of every tool call before that of its turn (W-30)"
    DETAILS = "details that an editor can draw (W-35)"
    UNKNOWN_THOUGHT = "reasonStarted before the other contents of a reasoning (W-26)"
    THOUGHT_ORDER = "nothing of a reasoning after its reasonFinished (W-26)"
    THOUGHT_OPEN = "reasonFinished for every reasoning before the end of its turn (W-26)"
    UNKNOWN_HOOK = "hookActionStarted before the end of a hook"
    SILENT_PROGRESS = "a text in progress that is running: an editor shows it as busy (W-20)"
    SECOND_FINISHED = "one finished progress a turn (W-22)"
    AFTER_FINISHED = "nothing of a turn after its finished progress (W-23)"
    AFTER_DELETE = "nothing for a chat that was deleted (W-24)"
    STRANGE_CHAT = "contents for chats that the client has prompted (W-21)"
    ROLE = "each content in the role of its type (W-26)"
    NOT_LISTED = "a selection that is in its list (W-11)"


@attrs.frozen(kw_only=True)
class Violation:
    """A broken rule; `chat_id` is empty outside of any chat."""

    rule: Rule
    chat_id: str
    got: str

    @property
    def message(self) -> str:
        """The place, the expected and the received content, for people."""
        where = f"chat {self.chat_id}: " if self.chat_id else ""
        return f"{where}expected {self.rule.value}, got {self.got}"

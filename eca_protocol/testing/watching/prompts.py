"""The prompts of a client, and the responses to them that come before their turns."""

from __future__ import annotations

import re
from typing import Final

import attrs

from eca_protocol.testing.watching.observation import ObservationLog

_HIDDEN: Final = re.compile(r"[^\w\s/]+")  # `***`, `••••`: no character of a key
_ORDER: Final = (
    "the response to the prompt after progress and echo",
    "the response before them",
)


@attrs.define(eq=False, kw_only=True)
class Prompt:
    """A `chat/prompt` of the client.

    Attributes:
        is_answered: whether it has a result; an error removes the prompt from its chat.
        has_late_answer: whether the model's first content came before the response.
        breaks_order: whether its response came first, if its turn starts later.
        was_queued: whether another turn was running when it was sent or answered.
        is_free: whether it may be dropped: a stop, a delete or the end came while it was queued.
        is_to_be_repeated: whether its text has to be repeated if a stop drops it.
        is_key: whether the chat asked for a key.
        is_guess: whether its chat was guessed: it named none, and this chat started next.
    """

    index: int
    message: str
    is_answered: bool = False
    has_late_answer: bool = False
    breaks_order: bool = False
    was_queued: bool = False
    is_free: bool = False
    is_to_be_repeated: bool = False
    is_key: bool = False
    is_guess: bool = False

    @property
    def is_secret(self) -> bool:
        """True if it may contain a key, which a server may redact."""
        return self.is_key or self._is_login

    def expected_echo(self, echo: str) -> str:
        """Return the text to expect as the echo; a redacted or ended one is accepted as it is."""
        if echo == f"{self.message}\n":  # some clients need the line end (W-20)
            return echo
        return echo if self._is_redacted_in(echo) else self.message

    @property
    def _is_login(self) -> bool:
        """True if it is a login command with an argument."""
        words = self.message.split(maxsplit=1)
        return len(words) > 1 and words[0] == "/login"

    def _is_redacted_in(self, echo: str) -> bool:
        """Return whether an echo is this prompt with its key redacted."""
        *before, last = echo.split() or [""]
        if _HIDDEN.fullmatch(last) is None:
            return False
        words = self.message.split(maxsplit=2)
        return (self.is_key and not before) or (
            self._is_login and 0 < len(before) < len(words) and before == words[: len(before)]
        )


@attrs.define
class EarlyResponses:
    """The responses of all chats that came before the progress and the echo of their turns.

    Attributes:
        is_of_idle_chats: whether a chat that was certainly idle was answered so.
        orderly_chats: the chats that answered a prompt after its echo.
        doubtful: the index of each such turn, and its chat, that may have found a busy chat.
    """

    is_of_idle_chats: bool = False
    orderly_chats: set[str] = attrs.field(factory=set)
    doubtful: list[tuple[int, str]] = attrs.field(factory=list)

    def check(self, log: ObservationLog, chat_id: str) -> None:
        """Blame a response before its turn: on the order, or on a chat that was still busy.

        A chat that answers after the echo when it is idle may have been busy after `finished`.
        A server may also answer in either order; its idle chats show that, maybe later.
        """
        if chat_id in self.orderly_chats and not self.is_of_idle_chats:
            self.doubtful.append((log.index, chat_id))
            log.is_ambiguous = True
            return
        self.is_of_idle_chats = True
        expected, got = _ORDER
        log.report("W-20c", expected, got, chat_id=chat_id)

    def finish(self, log: ObservationLog) -> None:
        """Blame the doubtful ones on busy chats, unless idle ones are answered so, too."""
        for index, chat_id in () if self.is_of_idle_chats else self.doubtful:
            expected, got = _ORDER
            log.report_missing(index, "W-20e", expected, got, chat_id=chat_id)


@attrs.frozen
class UnknownChat:
    """A chat whose first content came while prompts were pending, which may be theirs.

    A response may name a different chat than its prompt, and that chat may run already.

    Attributes:
        index: the index of its first content.
        kind: the kind of that content.
        prompts: the indexes of the pending prompts that may be its own.
    """

    id: str
    index: int
    kind: str
    prompts: set[int]

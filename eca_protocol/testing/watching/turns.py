"""One chat's turns: each has its progress, the user's words, an answer, contents and one end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from eca_protocol.testing.watching.calls import Calls
from eca_protocol.testing.watching.keys import holds_key, is_hidden_in
from eca_protocol.testing.watching.observation import Notes
from eca_protocol.testing.watching.thoughts import Thoughts

__all__ = ["ChatTurns", "Prompt", "Turn"]


@attrs.define(eq=False, kw_only=True)
class Prompt:
    """A `chat/prompt` of the client's.

    Attributes:
        index: its entry.
        is_answered: with a result; an error takes the prompt out of its chat.
        has_late_answer: the model's first content came before the answer.
        breaks_order: the row that its answer breaks if a turn follows behind it.
        was_queued: another turn was running when it was sent or answered.
        is_free: a stop, a delete or the end came while it was waiting: it may be dropped.
        is_to_be_repeated: if a stop drops it, its text has to come back.
        is_key: the chat waited for a key.
        is_guess: it named no chat, and was taken for that of the one that began next.
    """

    index: int
    message: str
    is_answered: bool = False
    has_late_answer: bool = False
    breaks_order: str = ""
    was_queued: bool = False
    is_free: bool = False
    is_to_be_repeated: bool = False
    is_key: bool = False
    is_guess: bool = False

    @property
    def is_secret(self) -> bool:
        """Whether it may hold a key, which a server need not say again."""
        return self.is_key or holds_key(self.message)

    def words(self, said: str) -> str:
        """The user's words; without the key, if they are said so."""
        if self.is_secret and is_hidden_in(said, self.message, is_key=self.is_key):
            return said
        return self.message


@attrs.define(eq=False, kw_only=True)
class Turn:
    """A turn that has begun; `prompt` is None where nobody can tell which it is of."""

    prompt: Prompt | None
    index: int
    calls: Calls
    thoughts: Thoughts
    echo: list[str] = attrs.field(factory=list)
    echo_is_done: bool = False
    echo_is_flawed: bool = False
    answer_came_before_echo: bool = False
    has_usage: bool = False
    last_role: str = ""
    is_behind_progress: bool = False
    system_texts: list[str] = attrs.field(factory=list)
    stopped: int | None = None
    """The entry of the client's stop."""
    is_users_stop: bool = False
    """That was no delete and no shutdown."""


@attrs.define(kw_only=True)
class ChatTurns:
    """Judges the contents of one chat as turns.

    Attributes:
        prompts: those whose turns have not begun.
        dropped: those of before, whose turns never began.
        steers: texts which the client put into a running turn; each may come back as one.
        read_up_to: the server has read the client's entries up to this one.
    """

    id: str
    notes: Notes
    new_calls: Callable[[], Calls]
    prompts: list[Prompt] = attrs.field(factory=list)
    turn: Turn | None = None
    steers: list[str] = attrs.field(factory=list)
    dropped: list[Prompt] = attrs.field(factory=list)
    read_up_to: int = -1
    has_kept_order: bool = False
    """A prompt was answered behind its echo: where another is not, the chat was not idle."""
    was_stopped_idle: bool = False
    is_replaying: bool = False
    is_stray: bool = False
    may_be_reported: bool = False
    """The client has forked the chat or rolled it back: one text outside of a turn may say so."""
    is_unsure: bool = False
    """Whether something was said that nobody could understand: it may be what seems missing."""
    stopped: int | None = None
    """The stop of the turn that was the last."""
    was_cut_short: bool = False
    """That turn ended by its stop, which has emptied the queue."""
    said_when_stopped: str = ""
    awaits_key: bool = False
    ended: int = -1
    """The end of the turn that was the last."""
    lacks_usage: int | None = None
    """The `finished` that no usage came before, while it may still come behind it."""

    def stop(self) -> None:
        """The client stops the chat."""
        self.was_stopped_idle = self.turn is None
        if self.turn is not None:
            self.turn.is_users_stop = True
        for prompt in self.prompts:
            prompt.is_to_be_repeated = not prompt.is_free and not prompt.is_secret
        self.end()

    def end(self) -> None:
        """The client stops the chat, deletes it, or goes."""
        if self.turn is not None:
            self.turn.stopped = self.notes.index
            self.turn.calls.was_stopped = True
        for prompt in self.prompts:
            prompt.is_free = True

    def ask_for_key(self, asks: bool) -> None:
        """The server tells whether it takes the next prompt for a key."""
        self.awaits_key = asks
        for prompt in self.prompts:
            prompt.is_key = prompt.is_key or asks

    def replay(self) -> None:
        """What was said before comes once more, outside of any turn."""
        self.is_replaying = True

    def answered(self, prompt: Prompt) -> None:
        """A prompt of the chat is answered with a result."""
        prompt.is_answered = True
        turn = self.turn
        if prompt.has_late_answer:
            expected = "the answer before the model's first content"
            self._tell("W-20c", expected, "it later", harms=False)
        elif turn is not None and turn.prompt is prompt:
            turn.answer_came_before_echo = not turn.echo_is_done
            self.has_kept_order = self.has_kept_order or turn.echo_is_done
        elif turn is not None or prompt.index < self.ended:
            prompt.was_queued = True
        elif self.prompts[:1] == [prompt] and not self.is_replaying:
            prompt.breaks_order = "W-20e" if self.has_kept_order else "W-20c"

    def refused(self, prompt: Prompt) -> None:
        """A prompt of the chat is answered with an error: it has no turn."""
        if prompt in self.prompts:
            self.prompts.remove(prompt)

    def take(self, role: str, kind: str, content: Mapping[str, Any]) -> None:
        """A content of the chat."""
        self.notes.is_flawed = self.notes.is_flawed or self.is_unsure
        if kind == "progress":
            if content.get("state") == "finished":
                self._finished(content)
            else:
                self._running(content)
        elif kind == "metadata":
            if self.turn is None and self.stopped is not None and self._has_read(self.stopped):
                self._tell("W-25d", "no title after a stop", repr(content.get("title")))
        elif kind in {"hookActionStarted", "hookActionFinished", "flag"} or self.is_replaying:
            return
        else:
            self._said(role, kind, content)

    def _running(self, content: Mapping[str, Any]) -> None:
        if content.get("text") == "":
            self._tell("W-20a", "a text in a running progress", "none", harms=False)
        if self.turn is None:
            self._begin()
        else:
            self.turn.is_behind_progress = True

    def _begin(self) -> Turn | None:
        """A turn begins, if the client has prompted for one."""
        if not self.prompts and not self.is_replaying:
            self._stray("running progress")
            return None
        prompt = self._next_prompt()
        self.is_replaying = self.is_stray = self.was_stopped_idle = False
        self.turn = Turn(
            prompt=prompt,
            index=self.notes.index,
            calls=self.new_calls(),
            thoughts=Thoughts(self.notes, self.id),
        )
        if prompt is not None and prompt.breaks_order:
            self._tell(
                prompt.breaks_order, "the answer behind the progress and the echo", "it before"
            )
        if prompt is not None and prompt.is_free:
            self.turn.stopped = self.notes.index
            self.turn.calls.was_stopped = True
        return self.turn

    def _next_prompt(self) -> Prompt | None:
        """The prompt that the next turn is of, as far as can be told before its echo."""
        if self.stopped is not None:
            while self.prompts and self.prompts[0].is_free and not self.prompts[-1].is_free:
                self.dropped.append(self.prompts.pop(0))
        return self.prompts.pop(0) if self.prompts else None

    def _stray(self, what: str) -> None:
        """A content when no turn runs."""
        if self.may_be_reported and what == "text":
            self.may_be_reported = False
            return
        if not self.is_stray:
            row = "W-23g" if self.stopped is not None else "CHAT-14"
            if self.stopped is None and what == "usage":
                row, self.lacks_usage = "W-27e", None
            self._tell(row, "nothing behind the finished progress", what)
        self.is_stray = True

    def _finished(self, content: Mapping[str, Any]) -> None:
        turn = self.turn
        if turn is None:
            if not self.is_replaying and not self.is_stray:
                row = "W-22f" if self.was_stopped_idle else "W-22e"
                self._tell(row, "one finished progress a turn", "a second one")
            return
        if isinstance(content.get("text"), str) and content["text"]:
            got = repr(content["text"])
            self._tell("W-20d", "no text in a finished progress", got, harms=False)
        self._check_echo(turn)
        if turn.prompt is not None and not turn.prompt.is_answered:
            turn.prompt.has_late_answer = True
        turn.thoughts.close()
        turn.calls.close()
        is_whole = turn.stopped is None and not self.is_unsure
        if is_whole and turn.last_role == "assistant" and not turn.has_usage:
            self.lacks_usage = self.notes.index
        self._is_over(turn)

    def _is_over(self, turn: Turn) -> None:
        if self.is_unsure:
            for prompt in self.prompts:
                prompt.is_to_be_repeated = False
        self.turn, self.stopped, self.is_unsure = None, turn.stopped, False
        self.ended = self.notes.index
        self.was_cut_short = turn.is_users_stop and not turn.has_usage
        if turn.stopped is not None:
            self.said_when_stopped += "".join(turn.system_texts)

    def _said(self, role: str, kind: str, content: Mapping[str, Any]) -> None:
        turn = self.turn
        if turn is None:
            is_late_usage = kind == "usage" and self.lacks_usage is not None
            if not self.prompts or self.prompts[-1].is_free or is_late_usage:
                self._stray(kind)
                return
            turn = self._begin()
            self._tell("W-20a", "a running progress at the start of a turn", kind)
            assert turn is not None
        text = content.get("text")
        if role == "user" and kind == "text":
            self._echo(turn, text if isinstance(text, str) else "", content.get("contentId"))
            return
        self._check_echo(turn)
        turn.is_behind_progress = False
        if role == "assistant" and turn.prompt is not None and not turn.prompt.is_answered:
            turn.prompt.has_late_answer = True
        if turn.stopped is not None and self._has_read(turn.stopped):
            self._after_stop(role, kind)
        if kind == "usage":
            turn.has_usage = True
        else:
            turn.last_role = role
        if role == "system" and isinstance(text, str):
            turn.system_texts.append(text)
        if kind.startswith("reason"):
            turn.thoughts.take(kind, content)
        elif kind.startswith("toolCall"):
            turn.calls.take(kind, content)

    def _has_read(self, stop: int) -> bool:
        """Whether what comes now was written when the server had read the stop.

        Before an answer to something later says so, it may have been on its way.
        """
        return self.read_up_to > stop

    def _after_stop(self, role: str, kind: str) -> None:
        if kind == "usage":
            self._tell("W-23d", "no usage after a stop", kind)
        elif role == "assistant" and kind in {"text", "url", "reasonText", "toolCallPrepare"}:
            self._tell("CHAT-33", "nothing of the model's after a stop", kind)

    def _echo(self, turn: Turn, text: str, content_id: Any) -> None:
        if turn.echo_is_done:
            self._more_words(turn, text, content_id)
            return
        if turn.prompt is None:
            turn.echo_is_done = True
            return
        is_first = not turn.echo
        if is_first:
            if turn.prompt.is_free and self.was_cut_short:
                self._check_queue(turn, turn.prompt, text)
            if not turn.prompt.words(text).startswith(text):
                self._take_other_prompt(turn, turn.prompt, text)
        turn.echo.append(text)
        joined = "".join(turn.echo)
        wanted = turn.prompt.words(joined)
        turn.echo_is_done = joined == wanted or not wanted.startswith(joined)
        if is_first and not (isinstance(content_id, str) and content_id):
            self._tell("W-20b", "the user's words with a contentId", "none")
        elif not wanted.startswith(joined):
            row, turn.echo_is_flawed = "W-20b" if is_first else "W-6c", not is_first
            self._tell(row, "the user's words exactly", repr(joined[:60]))
        elif turn.echo_is_done and turn.answer_came_before_echo:
            self._tell("W-20c", "the answer behind the user's words", "it before")

    def _more_words(self, turn: Turn, text: str, content_id: Any) -> None:
        """Words of the user's behind the turn's own."""
        if turn.echo_is_flawed:
            return
        if text in self.steers:
            self.steers.remove(text)
        elif text in [prompt.words(text) for prompt in self.prompts]:
            if turn.is_behind_progress:
                self._begin_without_end(turn, text, content_id)
            else:
                self._tell("W-22b", "the user's words when their turn starts", "them before")
        elif turn.prompt is not None:
            self._tell("W-20b", "the user's words once", "them again")

    def _begin_without_end(self, turn: Turn, text: str, content_id: Any) -> None:
        """The turn behind one that has no end."""
        self._owes(turn.index, "W-22e", "a finished progress for the turn")
        self._is_over(turn)
        begun = self._begin()
        assert begun is not None
        self._echo(begun, text, content_id)

    def _check_queue(self, turn: Turn, prompt: Prompt, text: str) -> None:
        """A turn begins that a stop should have dropped."""
        if prompt.words(text).startswith(text):
            self._tell("W-22c", "no turn of a prompt that a stop has dropped", "one")
            turn.stopped, turn.calls.was_stopped = None, False
            for dropped in (prompt, *self.dropped, *self.prompts):
                dropped.is_free = dropped.is_to_be_repeated = False

    def _take_other_prompt(self, turn: Turn, taken: Prompt, text: str) -> None:
        """The echo tells that the turn is of another prompt than the one it was taken for."""
        for place, prompt in enumerate(self.prompts):
            if taken.is_free and prompt.words(text).startswith(text):
                self.dropped += [taken, *self.prompts[:place]]
                del self.prompts[: place + 1]
                turn.prompt = prompt
                if not prompt.is_free:
                    turn.stopped, turn.calls.was_stopped = None, False
                return
        for prompt in self.dropped:
            if prompt.words(text).startswith(text):
                self.dropped.remove(prompt)
                self.prompts.insert(0, taken)
                turn.prompt = prompt
                turn.stopped, turn.calls.was_stopped = self.notes.index, True
                if self.was_cut_short:
                    self._check_queue(turn, prompt, text)
                return

    def _check_echo(self, turn: Turn) -> None:
        """The user's words must have come."""
        if turn.prompt is None or turn.echo_is_done:
            return
        turn.echo_is_done = True
        if len(turn.echo) > 1:
            got = repr("".join(turn.echo)[:60])
            self._tell("W-6c", "all pieces of the user's words", got, harms=False)
        else:
            got = repr(turn.echo[0][:60]) if turn.echo else "none"
            self._tell("W-20b", "the user's words behind the progress", got, harms=False)

    def finish(self) -> None:
        """Nothing comes any more."""
        if self.turn is not None:
            row = "W-23a" if self.turn.is_users_stop else "W-22e"
            self._owes(self.turn.index, row, "a finished progress for the turn")
        for prompt in self.prompts:
            if prompt.is_answered and not prompt.is_free:
                row = "W-22b" if prompt.was_queued else "W-20a"
                row = "CHAT-34" if self.was_cut_short else row
                self._owes(prompt.index, row, "a turn for the prompt")
        self.forget()

    def forget(self) -> None:
        """The chat is no more: what it said of stops and ends has been said."""
        if self.lacks_usage is not None:
            self._owes(self.lacks_usage, "W-20d", "usage before the finished progress")
        waiting = self.prompts if self.turn is None else []
        for prompt in (*self.dropped, *waiting):
            is_dropped = prompt.is_answered and prompt.is_to_be_repeated
            if is_dropped and _bare(prompt.message) not in _bare(self.said_when_stopped):
                self._owes(prompt.index, "W-22d", "the dropped prompt in a text of the system's")

    def _owes(self, index: int, row: str, expected: str) -> None:
        if not self.is_unsure:
            self.notes.tell_of(index, row, expected=expected, got="none", chat_id=self.id)

    def _tell(self, row: str, expected: str, got: str, *, harms: bool = True) -> None:
        self.notes.tell(row, expected=expected, got=got, chat_id=self.id, harms=harms)


def _bare(text: str) -> str:
    """A text without what quoting it adds: marks at the lines, and white space."""
    return re.sub(r"[\s>]+", "", text)

"""The turns of a chat: each has a progress, an echo, a response, contents and one end."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from eca_protocol.testing.watching.calls import Calls
from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.prompts import EarlyResponses, Prompt
from eca_protocol.testing.watching.reasonings import Reasonings

_AT_ANY_TIME = frozenset({"hookActionStarted", "hookActionFinished", "flag"})
"""Contents that need no running turn."""


@attrs.define(eq=False, kw_only=True)
class Turn:
    """A started turn; `prompt` is None if it is unknown."""

    prompt: Prompt | None
    index: int
    calls: Calls
    thoughts: Reasonings
    echo: list[str] = attrs.field(factory=list)
    echo_is_done: bool = False
    echo_is_flawed: bool = False
    answer_came_before_echo: bool = False
    has_usage: bool = False
    last_role: str = ""
    is_behind_progress: bool = False
    is_behind_hook: bool = False
    """True after a hook, which may add a message as the user's."""
    system_texts: list[str] = attrs.field(factory=list)
    stopped: int | None = None
    """The index of the client's stop."""
    is_users_stop: bool = False
    """True if the stop was neither a delete nor a shutdown."""

    def stop(self, index: int) -> None:
        """Handle the stop at `index`."""
        self.stopped, self.calls.was_stopped = index, True

    def withdraw_stop(self) -> None:
        """Expect the whole turn after all."""
        self.stopped, self.is_users_stop, self.calls.was_stopped = None, False, False


@attrs.frozen
class EndedTurn:
    """The end of a turn.

    Attributes:
        index: the index of its end.
        stopped: the index of the stop.
        was_cut_short: whether the user's stop ended the turn and emptied the queue.
    """

    index: int = -1
    stopped: int | None = None
    was_cut_short: bool = False


@attrs.define(kw_only=True)
class ChatTurns:
    """Checks the turns of one chat.

    Attributes:
        prompts: the prompts whose turns have not started.
        dropped: earlier prompts whose turns never started.
        steers: texts that the client sent into a running turn; each may be echoed.
        read_up_to: the index of the last client entry that the server is known to have read.
        last_turn: the end of the last turn.
    """

    id: str
    log: ObservationLog
    early_responses: EarlyResponses
    new_calls: Callable[[], Calls]
    prompts: list[Prompt] = attrs.field(factory=list)
    turn: Turn | None = None
    steers: list[str] = attrs.field(factory=list)
    dropped: list[Prompt] = attrs.field(factory=list)
    read_up_to: int = -1
    was_stopped_idle: bool = False
    is_replaying: bool = False
    is_stray: bool = False
    may_be_reported: bool = False
    """True if one text outside of turns may report a fork or a rollback."""
    has_unreadable: bool = False
    """True if an unreadable message came: it may be the one that seems missing."""
    last_turn: EndedTurn = EndedTurn()
    texts_after_stops: str = ""
    awaits_key: bool = False
    is_named_by_user: bool = False
    """True if the client has set the title, which the server may announce at any time."""
    lacks_usage: int | None = None
    """The index of a `finished` without usage before it; usage may still follow."""

    def stop(self) -> None:
        """Handle a stop of the client."""
        self.was_stopped_idle = self.turn is None
        if self.turn is not None:
            self.turn.is_users_stop = True
        for prompt in self.prompts:
            prompt.is_to_be_repeated = not prompt.is_free and not prompt.is_secret
        self.end()

    def end(self) -> None:
        """Handle a stop, a delete or the end of the client."""
        if self.turn is not None:
            self.turn.stop(self.log.index)
        for prompt in self.prompts:
            prompt.is_free = True

    def set_awaits_key(self, asks: bool) -> None:
        """Note whether the server takes the next prompt as a key."""
        self.awaits_key = asks
        for prompt in self.prompts:
            prompt.is_key = prompt.is_key or asks

    def on_answered(self, prompt: Prompt) -> None:
        """Handle the result of a prompt."""
        prompt.is_answered = True
        turn = self.turn
        if prompt.has_late_answer:
            expected = "the response to the prompt before the model's first content"
            self._note("W-20c", expected, "the response later")
        elif turn is not None and turn.prompt is prompt:
            turn.answer_came_before_echo = not turn.echo_is_done
            if turn.echo_is_done:
                self.early_responses.orderly_chats.add(self.id)
        elif turn is not None or prompt.index < self.last_turn.index:
            prompt.was_queued = True
        elif self.prompts[:1] == [prompt] and not self.is_replaying:
            prompt.breaks_order = True

    def check(self, role: str, kind: str, content: Mapping[str, Any]) -> None:
        """Check a content of the chat."""
        self.log.is_ambiguous = self.log.is_ambiguous or self.has_unreadable
        if kind == "progress":
            if content.get("state") == "finished":
                self._on_finished(content)
            else:
                self._on_running(content)
        elif kind == "metadata":
            stop = self.last_turn.stopped
            may_come = self.turn is not None or self.is_replaying or self.is_named_by_user
            if not may_come and stop is not None and self._has_read(stop):
                got = f"the title {content.get('title')!r}"
                self._report("W-25d", "no title after a stop", got)
        elif kind == "hookActionFinished" and self.turn is not None:
            self.turn.is_behind_hook = True
        elif not self.is_replaying and kind not in _AT_ANY_TIME:
            self._check_content(role, kind, content)

    def _on_running(self, content: Mapping[str, Any]) -> None:
        if content.get("text") == "":
            self._note("W-20a", "a non-empty text in `progress` running", "an empty text")
        if self.turn is None:
            self._start()
        else:
            self.turn.is_behind_progress = True

    def _start(self) -> Turn | None:
        """Start a turn if a prompt is queued; else report the content."""
        if not self.prompts and not self.is_replaying:
            self._report_stray("`progress` running")
            return None
        prompt = self._next_prompt()
        self.is_replaying = self.is_stray = self.was_stopped_idle = False
        self.turn = Turn(
            prompt=prompt,
            index=self.log.index,
            calls=self.new_calls(),
            thoughts=Reasonings(self.log, self.id),
        )
        if prompt is not None and prompt.breaks_order:
            self.early_responses.check(self.log, self.id)
        if prompt is not None and prompt.is_free:
            self.turn.stop(self.log.index)
        return self.turn

    def _next_prompt(self) -> Prompt | None:
        """Remove and return the probable prompt of the next turn; its echo may correct it."""
        if self.last_turn.stopped is not None:
            while self.prompts and self.prompts[0].is_free and not self.prompts[-1].is_free:
                self.dropped.append(self.prompts.pop(0))
        return self.prompts.pop(0) if self.prompts else None

    def _report_stray(self, what: str) -> None:
        if not self.is_stray:
            row = "W-23g" if self.last_turn.stopped is not None else "CHAT-14"
            if self.last_turn.stopped is None and what == "`usage`":
                row, self.lacks_usage = "W-27e", None
            self._report(row, "no content after `finished`", what)
        self.is_stray = True

    def _on_finished(self, content: Mapping[str, Any]) -> None:
        turn = self.turn
        if turn is None:
            if not self.is_replaying and not self.is_stray:
                row = "W-22f" if self.was_stopped_idle else "W-22e"
                self._report(row, "exactly one `finished` for the turn", "a second `finished`")
            return
        if isinstance(content.get("text"), str) and content["text"]:
            self._note("W-20d", "an empty text in `finished`", repr(content["text"]))
        self._finish_echo(turn)
        if turn.prompt is not None and not turn.prompt.is_answered:
            turn.prompt.has_late_answer = True
        turn.thoughts.close()
        turn.calls.close()
        is_whole = turn.stopped is None and not self.has_unreadable
        if is_whole and turn.last_role == "assistant" and not turn.has_usage:
            self.lacks_usage = self.log.index
        self._end_turn(turn)

    def _end_turn(self, turn: Turn) -> None:
        if self.has_unreadable:
            for prompt in self.prompts:
                prompt.is_to_be_repeated = False
        self.turn, self.has_unreadable = None, False
        was_cut_short = turn.is_users_stop and not turn.has_usage
        self.last_turn = EndedTurn(self.log.index, turn.stopped, was_cut_short)
        if turn.stopped is not None:
            self.texts_after_stops += "".join(turn.system_texts)

    def _check_content(self, role: str, kind: str, content: Mapping[str, Any]) -> None:
        turn = self.turn
        if turn is None and self.may_be_reported and kind == "text":
            self.may_be_reported = False
            return
        if turn is None:
            is_late_usage = kind == "usage" and self.lacks_usage is not None
            if not self.prompts or self.prompts[-1].is_free or is_late_usage:
                self._report_stray(f"`{kind}`")
                return
            turn = self._start()
            self._report("W-20a", "`progress` running at the start of a turn", f"`{kind}` first")
            assert turn is not None
        text = content.get("text")
        if role == "user" and kind == "text":
            self._check_echo_piece(
                turn, text if isinstance(text, str) else "", content.get("contentId")
            )
            return
        self._finish_echo(turn)
        turn.is_behind_progress = False
        if role == "assistant" and turn.prompt is not None and not turn.prompt.is_answered:
            turn.prompt.has_late_answer = True
        if turn.stopped is not None and self._has_read(turn.stopped):
            self._check_after_stop(role, kind)
        if kind == "usage":
            turn.has_usage = True
        else:
            turn.last_role = role
        if role == "system" and isinstance(text, str):
            turn.system_texts.append(text)
        if kind.startswith("reason"):
            turn.thoughts.check(kind, content)
        elif kind.startswith("toolCall"):
            turn.calls.check(kind, content)

    def _has_read(self, stop: int) -> bool:
        """Return whether the server had read the stop when it wrote the current content.

        A response to a later request proves it; until then the content may have been in transit.
        """
        return self.read_up_to > stop

    def _check_after_stop(self, role: str, kind: str) -> None:
        if kind == "usage":
            self._report("W-23d", "no usage after a stop", f"`{kind}`")
        elif role == "assistant" and kind in {"text", "url", "reasonText", "toolCallPrepare"}:
            self._report("CHAT-33", "no output of the model after a stop", f"`{kind}`")

    def _check_echo_piece(self, turn: Turn, text: str, content_id: Any) -> None:
        if turn.echo_is_done:
            self._check_second_echo(turn, text, content_id)
            return
        if turn.prompt is None:
            turn.echo_is_done = True
            return
        is_first = not turn.echo
        if is_first:
            if turn.prompt.is_free and self.last_turn.was_cut_short:
                self._check_queue(turn, turn.prompt, text)
            if not turn.prompt.expected_echo(text).startswith(text):
                self._take_other_prompt(turn, turn.prompt, text)
        turn.echo.append(text)
        joined = "".join(turn.echo)
        message = turn.prompt.expected_echo(joined)
        turn.echo_is_done = joined == message or not message.startswith(joined)
        if is_first and not (isinstance(content_id, str) and content_id):
            self._report("W-20b", "an echo of the prompt with a `contentId`", "none")
        elif not message.startswith(joined):
            row, turn.echo_is_flawed = "W-20b" if is_first else "W-6c", not is_first
            self._report(row, "the exact text of the prompt as its echo", repr(joined[:60]))
        elif turn.echo_is_done and turn.answer_came_before_echo:
            self.early_responses.is_of_idle_chats = True
            self._report(
                "W-20c", "the response to the prompt after its echo", "the response before it"
            )

    def _check_second_echo(self, turn: Turn, text: str, content_id: Any) -> None:
        if turn.echo_is_flawed:
            return
        if text in self.steers:
            self.steers.remove(text)
        elif text in [prompt.expected_echo(text) for prompt in self.prompts]:
            if turn.is_behind_progress:
                self._start_without_end(turn, text, content_id)
            else:
                expected = "the echo of a queued prompt at the start of its turn"
                self._report("W-22b", expected, "the echo before")
        elif turn.prompt is not None and not (
            turn.is_behind_hook and text != turn.prompt.expected_echo(text)
        ):
            self._report("W-20b", "exactly one echo of the prompt", "a second echo")

    def _start_without_end(self, turn: Turn, text: str, content_id: Any) -> None:
        self._report_missing(turn.index, "W-22e", "exactly one `finished` for the turn")
        self._end_turn(turn)
        following = self._start()
        assert following is not None
        self._check_echo_piece(following, text, content_id)

    def _check_queue(self, turn: Turn, prompt: Prompt, text: str) -> None:
        """Check whether a stop should have dropped the prompt of this turn."""
        was_sent_before = prompt.index < self.last_turn.index
        if was_sent_before and prompt.expected_echo(text).startswith(text):
            self._report("W-22c", "no turn for a prompt that a stop has dropped", "one")
            turn.withdraw_stop()
            for dropped in (prompt, *self.dropped, *self.prompts):
                dropped.is_free = dropped.is_to_be_repeated = False

    def _take_other_prompt(self, turn: Turn, taken: Prompt, text: str) -> None:
        """Assign the prompt that the echo belongs to, if a different one was assumed."""
        for place, prompt in enumerate(self.prompts):
            if taken.is_free and prompt.expected_echo(text).startswith(text):
                self.dropped += [taken, *self.prompts[:place]]
                del self.prompts[: place + 1]
                turn.prompt = prompt
                if not prompt.is_free:
                    turn.withdraw_stop()
                return
        for prompt in self.dropped:
            if prompt.expected_echo(text).startswith(text):
                self.dropped.remove(prompt)
                self.prompts.insert(0, taken)
                turn.prompt = prompt
                turn.stop(self.log.index)
                if self.last_turn.was_cut_short:
                    self._check_queue(turn, prompt, text)
                return

    def _finish_echo(self, turn: Turn) -> None:
        """Report an echo that is missing or incomplete when the next content comes."""
        if turn.prompt is None or turn.echo_is_done:
            return
        turn.echo_is_done = True
        if len(turn.echo) > 1:
            self._note("W-6c", "all pieces of the echo", repr("".join(turn.echo)[:60]))
        else:
            got = repr(turn.echo[0][:60]) if turn.echo else "none"
            self._note("W-20b", "the echo of the prompt after `progress` running", got)

    def finish(self) -> None:
        """Report missing turns, and a missing end of the running one."""
        if self.turn is not None:
            row = "W-23a" if self.turn.is_users_stop else "W-22e"
            self._report_missing(self.turn.index, row, "exactly one `finished` for the turn")
        for prompt in self.prompts:
            if prompt.is_answered and not prompt.is_free:
                row = "W-22b" if prompt.was_queued else "W-20a"
                row = "CHAT-34" if self.last_turn.was_cut_short else row
                self._report_missing(prompt.index, row, "a turn for the prompt")
        self.forget()

    def forget(self) -> None:
        """Report missing usage and missing repetitions: no content of the chat can follow."""
        if self.lacks_usage is not None:
            self._report_missing(self.lacks_usage, "W-20d", "`usage` before `finished`")
        waiting = self.prompts if self.turn is None else []
        for prompt in (*self.dropped, *waiting):
            is_dropped = prompt.is_answered and prompt.is_to_be_repeated
            if is_dropped and _bare(prompt.message) not in _bare(self.texts_after_stops):
                self._report_missing(
                    prompt.index, "W-22d", "the text of the dropped prompt in a system text"
                )

    def _report_missing(self, index: int, row: str, expected: str) -> None:
        if not self.has_unreadable:
            self.log.report_missing(index, row, expected, "none", chat_id=self.id)

    def _report(self, row: str, expected: str, got: str) -> None:
        self.log.report(row, expected, got, chat_id=self.id)

    def _note(self, row: str, expected: str, got: str) -> None:
        self.log.note(row, expected, got, chat_id=self.id)


def _bare(text: str) -> str:
    """Return a text without quotation marks at its lines and without white space."""
    return re.sub(r"[\s>]+", "", text)

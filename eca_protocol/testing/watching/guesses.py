"""The prompts that name no chat: each is assigned to the next new chat, as a guess.

A response or an echo shows which prompt a chat really has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.prompts import Prompt
from eca_protocol.testing.watching.turns import ChatTurns, Turn


@attrs.frozen
class Guesses:
    """The prompts without a chat, and those whose chat is a guess.

    Attributes:
        chats: returns all chats.
        unnamed: the prompts without a chat.
    """

    log: ObservationLog
    chats: Callable[[], Iterable[ChatTurns]]
    unnamed: list[Prompt] = attrs.field(factory=list)

    def assign_next(self, chat: ChatTurns) -> None:
        """Assign the first prompt without a chat to a new chat."""
        guess = self.unnamed.pop(0)
        guess.is_guess = True
        chat.prompts.append(guess)

    def correct(self, chat: ChatTurns, is_its: Callable[[Prompt], bool]) -> None:
        """Assign the right prompt to the turn of a new chat if a wrong one was guessed."""
        turn, guess = _guess_of(chat)
        if turn is None or guess is None or is_its(guess):
            return
        guessed = self._turns()
        for prompt in (*self.unnamed, *guessed):
            echo = guessed[prompt].echo if prompt in guessed else []
            if is_its(prompt) and (prompt.message == guess.message or not turn.echo + echo):
                self._exchange(turn, guess, prompt)
                return

    def check_echo(self, chat: ChatTurns, prompt: Prompt) -> None:
        """Assign the prompt that a response names, and compare it with the echo so far."""
        turn, guess = _guess_of(chat)
        if turn is None or guess is None or guess is prompt:
            return
        if prompt not in (*self.unnamed, *self._turns()):
            return
        echo = "".join(turn.echo)
        words = prompt.expected_echo(echo)
        if guess.expected_echo(echo).startswith(echo) and not words.startswith(echo):
            expected, got = "the exact text of the prompt as its echo", repr(echo[:60])
            self.log.report("W-20b", expected, got, chat_id=chat.id)
        turn.echo_is_done = turn.echo_is_done or echo == words
        self._exchange(turn, guess, prompt)

    def _turns(self) -> dict[Prompt, Turn]:
        """Return the turns whose prompts are guesses, by their prompts."""
        guesses = map(_guess_of, self.chats())
        return {guess: turn for turn, guess in guesses if turn is not None and guess is not None}

    def _exchange(self, turn: Turn, guess: Prompt, prompt: Prompt) -> None:
        """Assign a prompt to a turn, and the guessed prompt to the former owner of this one."""
        other = self._turns().get(prompt)
        if other is not None:
            other.prompt = guess
        else:
            self.unnamed[self.unnamed.index(prompt)] = guess
        turn.prompt = prompt
        prompt.is_guess, guess.is_guess = True, other is not None
        late = prompt.has_late_answer
        prompt.has_late_answer, guess.has_late_answer = guess.has_late_answer, late


def _guess_of(chat: ChatTurns) -> tuple[Turn | None, Prompt | None]:
    """Return the running turn of a chat, and its prompt if that is a guess."""
    turn = chat.turn
    prompt = None if turn is None else turn.prompt
    return turn, prompt if prompt is not None and prompt.is_guess else None

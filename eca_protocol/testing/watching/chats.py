"""All chats of a conversation: which there are, what the client does to each, and what comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from eca_protocol.messages import ChatUsageContent
from eca_protocol.revisions import Revision
from eca_protocol.testing.watching.answers import PROMPTS, Asked
from eca_protocol.testing.watching.calls import Calls
from eca_protocol.testing.watching.contents import Contents
from eca_protocol.testing.watching.observation import Notes
from eca_protocol.testing.watching.offers import Offers
from eca_protocol.testing.watching.turns import ChatTurns, Prompt, Turn

__all__ = ["Chats"]

_OWN_FAULTS: Final = {-32600, -32602, -32800}
"""The codes of a prompt that does not fit, comes too late, or was cancelled."""

_ENDING: Final = {"chat/promptStop", "chat/clear", "chat/rollback"}
"""What ends the turn of a chat that runs."""


class Chats:
    """Judges everything that is said for a chat, in every edition but the draft."""

    def __init__(self, notes: Notes, offers: Offers) -> None:
        self.revision = Revision.R2025_10
        self.has_finished_turn = False
        self._notes = notes
        self._offers = offers
        self._contents = Contents(notes)
        self._chats: dict[str, ChatTurns] = {}
        self._unnamed: list[Prompt] = []
        self._prompts: dict[int, tuple[Prompt, str | None]] = {}
        self._deletes: dict[int, str] = {}
        self._deleted: set[str] = set()
        self._quiet: set[str] = set()
        self._stopped_unknown: set[str] = set()
        self._calls_seen: set[tuple[str, str]] = set()
        self._tokens: dict[str, float] = {}
        self._trusts = False
        self._is_unsure = False  # of the chat that is still without a name
        self._read_up_to = -1

    def client_says(self, method: str, params: Mapping[str, Any], index: int) -> None:
        """A request or a notification of the client's."""
        given = params.get("chatId")
        chat_id = given if isinstance(given, str) and given else None
        if method in PROMPTS:
            self._prompted(chat_id, params, index)
        elif method in {"chat/toolCallApprove", "chat/toolCallReject"}:
            self._decided(method, chat_id, params)
        elif method == "chat/update":
            self._trust(params.get("trust") is True)
        elif method in {"shutdown", "exit"}:
            for chat in self._chats.values():
                chat.end()
        elif chat_id is None:
            return
        elif method in {"chat/open", "chat/fork"}:
            self._chat(chat_id).may_be_reported = method == "chat/fork"
        elif method in _ENDING:
            if chat_id in self._chats:
                self._chats[chat_id].stop()
                self._chats[chat_id].may_be_reported = method == "chat/rollback"
            if chat_id not in self._chats or chat_id in self._deletes.values():
                self._stopped_unknown.add(chat_id)
        elif method == "chat/promptSteer" and chat_id in self._chats:
            self._chats[chat_id].steers.append(str(params.get("message")))
        elif method == "chat/delete":
            self._deletes[index] = chat_id
            self._chat(chat_id).end()

    def _prompted(self, chat_id: str | None, params: Mapping[str, Any], index: int) -> None:
        message = params.get("message")
        prompt = Prompt(index=index, message=message if isinstance(message, str) else "")
        self._prompts[index] = (prompt, chat_id)
        self._trust(params.get("trust") is True)
        if chat_id is None:
            self._unnamed.append(prompt)
        else:
            self._quiet.discard(chat_id)
            prompt.is_key = self._chat(chat_id).awaits_key
            self._chat(chat_id).prompts.append(prompt)

    def _trust(self, trusts: bool) -> None:
        """Whether the client trusts from now on, in the turns that run too."""
        self._trusts = self._trusts or trusts
        for turn in (chat.turn for chat in self._chats.values()):
            if turn is not None:
                turn.calls.may_decide_itself = self._trusts

    def _decided(self, method: str, chat_id: str | None, params: Mapping[str, Any]) -> None:
        approved = method == "chat/toolCallApprove"
        call_id = params.get("toolCallId")
        self._trust(approved and params.get("save") is not None)
        if chat_id is None or not isinstance(call_id, str):
            return
        if (chat_id, call_id) not in self._calls_seen:
            row = "TOOL-16" if approved else "TOOL-20"
            got = f"{call_id!r}, which was never told"
            self._notes.tell(row, side="client", expected="a call that waits", got=got)
            return
        turn = self._chats[chat_id].turn if chat_id in self._chats else None
        if turn is not None:
            turn.calls.decided(call_id, approved=approved)

    def _chat(self, chat_id: str) -> ChatTurns:
        if chat_id not in self._chats:
            self._chats[chat_id] = ChatTurns(
                id=chat_id, notes=self._notes, new_calls=lambda: self._new_calls(chat_id)
            )
            self._deleted.discard(chat_id)
        return self._chats[chat_id]

    def _new_calls(self, chat_id: str) -> Calls:
        calls = Calls(
            self._notes,
            chat_id,
            self.revision,
            native=self._offers.native_tools,
            mcp_servers=self._offers.mcp_servers,
        )
        calls.may_decide_itself = self._trusts
        return calls

    def server_answers(self, asked: Asked, message: Mapping[str, Any]) -> None:
        """An answer of the server's to a request of the client's."""
        self._read_up_to = max(self._read_up_to, asked.index)
        result = message.get("result")
        is_error = message.get("error") is not None
        if asked.index in self._prompts:
            prompt, chat_id = self._prompts.pop(asked.index)
            if is_error and not asked.is_second:
                self._check_refusal(prompt, chat_id, message["error"])
            self._prompt_answered(prompt, chat_id, result, is_error=is_error)
        elif asked.index in self._deletes and not is_error:
            self._delete_answered(self._deletes.pop(asked.index), asked.index)

    def _check_refusal(self, prompt: Prompt, chat_id: str | None, error: Any) -> None:
        """A prompt is refused: not for its chat's being busy, one hopes."""
        chat = self._chats.get(chat_id) if chat_id else None
        code = error.get("code") if isinstance(error, Mapping) else None
        is_busy = chat is not None and chat.turn is not None and chat.turn.prompt is not prompt
        if is_busy and code not in _OWN_FAULTS:
            self._notes.tell("W-22a", expected="a result for a prompt", got=f"the error {code}")

    def _prompt_answered(
        self, prompt: Prompt, chat_id: str | None, result: Any, *, is_error: bool
    ) -> None:
        told = result.get("chatId") if isinstance(result, Mapping) else None
        told = told if isinstance(told, str) and told else None
        if chat_id is not None and told is not None and told != chat_id:
            expected = f"the chat {chat_id!r}"
            self._notes.tell("W-21c", expected=expected, got=repr(told), harms=False)
            is_error = True
        if chat_id is None and told in self._chats:
            self._pair(self._chats[told], lambda each: each is prompt)
            self._check_words(self._chats[told], prompt)
        prompt.is_guess = False
        if prompt in self._unnamed:
            self._unnamed.remove(prompt)
            chat_id = told
            if chat_id is not None and not is_error:
                self._chat(chat_id).prompts.append(prompt)
        owner = self._owner(prompt) or (self._chats.get(chat_id) if chat_id else None)
        if owner is None:
            return
        if is_error:
            owner.refused(prompt)
        else:
            owner.answered(prompt)
            owner.ask_for_key(isinstance(result, Mapping) and result.get("status") == "login")

    def _owner(self, prompt: Prompt) -> ChatTurns | None:
        """The chat in which the turn of a prompt runs."""
        for chat in self._chats.values():
            if chat.turn is not None and chat.turn.prompt is prompt:
                return chat
        return None

    def _delete_answered(self, chat_id: str, index: int) -> None:
        chat = self._chats.pop(chat_id, None)
        self._tokens.pop(chat_id, None)
        if chat is not None:
            chat.forget()
        since = [] if chat is None else [each for each in chat.prompts if each.index > index]
        if since:
            self._chat(chat_id).prompts.extend(since)
        else:
            self._deleted.add(chat_id)

    def content(self, params: Mapping[str, Any]) -> None:
        """A `chat/contentReceived`."""
        chat_id, content = params.get("chatId"), params.get("content")
        if not isinstance(chat_id, str) or not isinstance(content, Mapping):
            return
        kind = content.get("type")
        if not isinstance(kind, str):
            return
        chat = self._chats.get(chat_id) or self._unknown(chat_id, kind, params)
        if chat is None:
            return
        role = params.get("role")
        role = role if isinstance(role, str) else ""
        self._contents.take(chat_id, role, kind, content)
        if kind.startswith("toolCall") and isinstance(content.get("id"), str):
            self._calls_seen.add((chat_id, content["id"]))
        if kind == "usage":
            self._count(chat_id, content)
        chat.read_up_to = self._read_up_to
        if (role, kind) == ("user", "text"):
            text = str(content.get("text"))
            self._pair(chat, lambda prompt: prompt.words(text).startswith(text))
        ran = chat.turn is not None
        chat.take(role, kind, content)
        self.has_finished_turn = self.has_finished_turn or (ran and chat.turn is None)

    def lost(self, chat_id: str) -> None:
        """A content came that cannot be understood, for that chat or for nobody knows which."""
        known = [self._chats[chat_id]] if chat_id in self._chats else self._chats.values()
        for chat in known:
            chat.is_unsure = chat.turn is not None or bool(chat.prompts)
        self._is_unsure = bool(self._unnamed) and chat_id not in self._chats

    def _unknown(self, chat_id: str, kind: str, params: Mapping[str, Any]) -> ChatTurns | None:
        """A content for a chat that is not known: a new one's first, or one too many."""
        if chat_id in self._quiet:
            return None
        if chat_id in self._deleted:
            row = "W-25d" if kind == "metadata" else "W-24a"
            self._notes.tell(row, expected="nothing for a deleted chat", got=kind, chat_id=chat_id)
            self._quiet.add(chat_id)
            return None
        if params.get("parentChatId") in self._chats:
            self._quiet.add(chat_id)
            return None
        is_of_a_stop = chat_id in self._stopped_unknown
        if is_of_a_stop and params["content"].get("state") == "finished":  # begins no turn
            self._tell_unprompted("W-22f", kind, chat_id)
            return None
        if not self._unnamed:
            if not self._prompts:  # else it may be the turn of one, as its answer will tell
                self._tell_unprompted("W-22f" if is_of_a_stop else "CLIENT-33", kind, chat_id)
            self.lost(chat_id)
            self._quiet.add(chat_id)
            return None
        chat = self._chat(chat_id)
        guess = self._unnamed.pop(0)
        guess.is_guess = True
        chat.prompts.append(guess)
        chat.is_unsure, self._is_unsure = self._is_unsure, False
        return chat

    def _pair(self, chat: ChatTurns, is_its: Callable[[Prompt], bool]) -> None:
        """Give the turn of a new chat its own prompt, where another one was guessed."""
        turn = chat.turn
        guess = None if turn is None else turn.prompt
        if turn is None or guess is None or not guess.is_guess or is_its(guess):
            return
        guessed = self._guessed()
        for prompt in (*self._unnamed, *guessed):
            said = guessed[prompt].echo if prompt in guessed else []
            if is_its(prompt) and (prompt.message == guess.message or not turn.echo + said):
                self._exchange(turn, guess, prompt)
                return

    def _check_words(self, chat: ChatTurns, prompt: Prompt) -> None:
        """The answer to a prompt names its chat: what was said there has to be that prompt."""
        turn = chat.turn
        guess = None if turn is None else turn.prompt
        if turn is None or guess is None or guess is prompt or not guess.is_guess:
            return
        if prompt not in (*self._unnamed, *self._guessed()):
            return
        said = "".join(turn.echo)
        words = prompt.words(said)
        if guess.words(said).startswith(said) and not words.startswith(said):
            expected, got = "the user's words exactly", repr(said[:60])
            self._notes.tell("W-20b", expected=expected, got=got, chat_id=chat.id)
        turn.echo_is_done = turn.echo_is_done or said == words
        self._exchange(turn, guess, prompt)

    def _guessed(self) -> dict[Prompt, Turn]:
        """The turns that run of prompts that are guessed to be theirs."""
        turns = [chat.turn for chat in self._chats.values()]
        return {
            turn.prompt: turn for turn in turns if turn and turn.prompt and turn.prompt.is_guess
        }

    def _exchange(self, turn: Turn, guess: Prompt, prompt: Prompt) -> None:
        """Give a turn its prompt, and the one that was guessed to whom that had been given."""
        other = self._guessed().get(prompt)
        if other is not None:
            other.prompt = guess
        else:
            self._unnamed[self._unnamed.index(prompt)] = guess
        turn.prompt = prompt
        prompt.is_guess, guess.is_guess = True, other is not None
        late = prompt.has_late_answer
        prompt.has_late_answer, guess.has_late_answer = guess.has_late_answer, late

    def _tell_unprompted(self, row: str, got: str, chat_id: str) -> None:
        expected = "contents of chats that were prompted"
        self._notes.tell(row, expected=expected, got=got, chat_id=chat_id)

    def _count(self, chat_id: str, usage: Mapping[str, Any]) -> None:
        tokens, before = usage.get("sessionTokens"), self._tokens.get(chat_id, 0)
        if not isinstance(tokens, int | float) or not ChatUsageContent.sums.holds(self.revision):
            return
        if tokens < before:
            expected = f"at least the {before} sessionTokens of before"
            self._notes.tell(
                "W-27a", expected=expected, got=repr(tokens), chat_id=chat_id, harms=False
            )
        self._tokens[chat_id] = tokens

    def told(self, method: str, params: Mapping[str, Any]) -> None:
        """Another notification of the server's about a chat."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str):
            return
        if method == "chat/opened":
            self._quiet.discard(chat_id)
            self._chat(chat_id).replay()
        elif method == "chat/cleared":
            self._tokens.pop(chat_id, None)
            self._chat(chat_id).replay()
        elif method == "chat/statusChanged" and chat_id in self._chats:
            self._chats[chat_id].ask_for_key(params.get("status") == "login")
        elif method == "chat/statusChanged" and chat_id in self._deleted - self._quiet:
            if chat_id in self._stopped_unknown:  # and answers that stop (W-22)
                return
            self._quiet.add(chat_id)
            self._notes.tell(
                "W-24a", expected="nothing for a deleted chat", got=method, chat_id=chat_id
            )

    def finish(self) -> None:
        """Nothing comes any more."""
        owed = set(self._deletes.values())  # an answer, and with it the end
        for chat_id, chat in self._chats.items():
            if chat_id not in owed:
                chat.finish()

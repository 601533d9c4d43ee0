"""The chats of a conversation: the client's messages and the server's contents for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.messages import ChatUsageContent
from eca_protocol.testing.members import at, text_at
from eca_protocol.testing.watching.announcements import Announcements
from eca_protocol.testing.watching.calls import Calls
from eca_protocol.testing.watching.contents import Contents
from eca_protocol.testing.watching.guesses import Guesses
from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.prompts import EarlyResponses, Prompt, UnknownChat
from eca_protocol.testing.watching.requests import PROMPTS, PendingRequest
from eca_protocol.testing.watching.turns import ChatTurns

_OWN_FAULTS: Final = {-32600, -32602, -32800}
"""Error codes of prompts that are invalid, too late or cancelled."""

_PROMPTED: Final = "contents only for chats with a prompt"

_ENDING: Final = {"chat/promptStop", "chat/clear", "chat/rollback"}
"""Methods that end a running turn."""


class Chats:
    """Checks all messages about chats, in every edition but the draft."""

    def __init__(self, log: ObservationLog, announcements: Announcements) -> None:
        self.has_finished_turn: bool = False
        self._log = log
        self._announcements = announcements
        self._contents = Contents(log)
        self._early_responses = EarlyResponses()
        self._chats: dict[str, ChatTurns] = {}
        self._guesses = Guesses(log, self._chats.values)
        self._prompts: dict[int, tuple[Prompt, str | None]] = {}
        self._deletes: dict[int, str] = {}
        self._rollbacks: dict[int, ChatTurns] = {}
        self._deleted: set[str] = set()
        self._ignored_ids: set[str] = set()
        self._stopped_unknown: set[str] = set()
        self._unknown_chats: list[UnknownChat] = []
        self._calls_seen: set[tuple[str, str]] = set()
        self._tokens: dict[str, float] = {}
        self._trusts = False
        self._has_unreadable = False  # about the chat whose id is not known yet
        self._read_up_to = -1

    def on_client_message(self, method: str, params: Mapping[str, Any], index: int) -> None:
        """Handle a request or a notification of the client."""
        chat_id = text_at(params, "chatId") or None
        if method in PROMPTS:
            self._on_prompt(chat_id, params, index)
        elif method in {"chat/toolCallApprove", "chat/toolCallReject"}:
            self._on_decision(method, chat_id, params)
        elif method == "chat/update":
            self._on_update(chat_id, params)
        elif method in {"shutdown", "exit"}:
            for chat in self._chats.values():
                chat.end()
        elif chat_id is None:
            return
        elif method in {"chat/open", "chat/fork"}:
            self._chat(chat_id).may_be_reported = method == "chat/fork"
        elif method in _ENDING:
            self._on_ending(method, chat_id, index)
        elif method == "chat/promptSteer" and chat_id in self._chats:
            self._chats[chat_id].steers.append(str(params.get("message")))
        elif method == "chat/delete":
            self._deletes[index] = chat_id
            self._chat(chat_id).end()

    def _on_ending(self, method: str, chat_id: str, index: int) -> None:
        if chat_id in self._chats:
            chat = self._chats[chat_id]
            if method == "chat/rollback" and chat.turn is not None and chat.turn.stopped is None:
                self._rollbacks[index] = chat
            chat.stop()
            chat.may_be_reported = method == "chat/rollback"
        if chat_id not in self._chats or chat_id in self._deletes.values():
            self._stopped_unknown.add(chat_id)

    def _on_update(self, chat_id: str | None, params: Mapping[str, Any]) -> None:
        self._trust(params.get("trust") is True)
        if chat_id in self._chats and isinstance(params.get("title"), str):
            self._chats[chat_id].is_named_by_user = True

    def _on_prompt(self, chat_id: str | None, params: Mapping[str, Any], index: int) -> None:
        prompt = Prompt(index=index, message=text_at(params, "message"))
        self._prompts[index] = (prompt, chat_id)
        self._trust(params.get("trust") is True)
        if chat_id is None:
            self._guesses.unnamed.append(prompt)
        else:
            self._ignored_ids.discard(chat_id)
            prompt.is_key = self._chat(chat_id).awaits_key
            self._chat(chat_id).prompts.append(prompt)

    def _trust(self, trusts: bool) -> None:
        """Note that the client trusts the server from now on, also in running turns."""
        self._trusts = self._trusts or trusts
        for turn in (chat.turn for chat in self._chats.values()):
            if turn is not None:
                turn.calls.may_skip_approval = self._trusts

    def _on_decision(self, method: str, chat_id: str | None, params: Mapping[str, Any]) -> None:
        approved = method == "chat/toolCallApprove"
        call_id = params.get("toolCallId")
        self._trust(approved and params.get("save") is not None)
        if chat_id is None or not isinstance(call_id, str):
            return
        if (chat_id, call_id) not in self._calls_seen:
            row = "TOOL-16" if approved else "TOOL-20"
            got = f"{call_id!r}, which was never announced"
            self._log.report(row, "the id of the waiting call", got, side="client")
            return
        turn = self._chats[chat_id].turn if chat_id in self._chats else None
        if turn is not None:
            turn.calls.on_decision(call_id, approved=approved)

    def _chat(self, chat_id: str) -> ChatTurns:
        if chat_id not in self._chats:
            self._chats[chat_id] = ChatTurns(
                id=chat_id,
                log=self._log,
                early_responses=self._early_responses,
                new_calls=lambda: self._new_calls(chat_id),
            )
            self._deleted.discard(chat_id)
        return self._chats[chat_id]

    def _new_calls(self, chat_id: str) -> Calls:
        calls = Calls(
            self._log,
            chat_id,
            native=self._announcements.native_tools,
            mcp_servers=self._announcements.mcp_servers,
        )
        calls.may_skip_approval = self._trusts
        return calls

    def on_response(self, request: PendingRequest, message: Mapping[str, Any]) -> None:
        """Handle a response of the server."""
        self._read_up_to = max(self._read_up_to, request.index)
        result = message.get("result")
        is_error = message.get("error") is not None
        if request.index in self._prompts:
            prompt, chat_id = self._prompts.pop(request.index)
            if is_error and not request.is_second:
                self._check_refusal(prompt, chat_id, message["error"])
            self._on_prompt_answered(prompt, chat_id, result, is_error=is_error)
            self._check_unknown(request.index, text_at(result, "chatId") or None)
        elif request.index in self._rollbacks:
            chat = self._rollbacks.pop(request.index)
            if is_error and chat.turn is not None and chat.turn.stopped == request.index:
                chat.turn.withdraw_stop()
                for prompt in chat.prompts:
                    prompt.is_free = prompt.is_to_be_repeated = False
        elif request.index in self._deletes and not is_error:
            self._on_deleted(self._deletes.pop(request.index), request.index)

    def _check_refusal(self, prompt: Prompt, chat_id: str | None, error: Any) -> None:
        chat = self._chats.get(chat_id) if chat_id else None
        code = at(error, "code")
        is_busy = chat is not None and chat.turn is not None and chat.turn.prompt is not prompt
        if is_busy and code not in _OWN_FAULTS:
            self._log.report("W-22a", "a result for a prompt to a busy chat", f"the error {code}")

    def _on_prompt_answered(
        self, prompt: Prompt, chat_id: str | None, result: Any, *, is_error: bool
    ) -> None:
        named = text_at(result, "chatId") or None
        if chat_id is not None and named is not None and named != chat_id:
            self._log.note("W-21c", f"the prompt's chatId {chat_id!r} in its response", repr(named))
            is_error = True
        if chat_id is None and named in self._chats:
            self._guesses.correct(self._chats[named], lambda each: each is prompt)
            self._guesses.check_echo(self._chats[named], prompt)
        prompt.is_guess = False
        if prompt in self._guesses.unnamed:
            self._guesses.unnamed.remove(prompt)
            chat_id = named
            if chat_id is not None and not is_error:
                self._chat(chat_id).prompts.append(prompt)
        owner = self._owner(prompt) or (self._chats.get(chat_id) if chat_id else None)
        if owner is None:
            return
        if is_error:
            owner.prompts[:] = [each for each in owner.prompts if each is not prompt]
        else:
            owner.on_answered(prompt)
            owner.set_awaits_key(at(result, "status") == "login")

    def _check_unknown(self, prompt: int, named: str | None) -> None:
        """Report the unknown chats that were no prompt's, as the response to the last one shows."""
        others = [chat for chat in self._unknown_chats if chat.id != named]
        for chat in others:
            chat.prompts.discard(prompt)
            if not chat.prompts:
                got = f"`{chat.kind}`"
                self._log.report_missing(chat.index, "CLIENT-33", _PROMPTED, got, chat_id=chat.id)
        self._unknown_chats = [chat for chat in others if chat.prompts]

    def _owner(self, prompt: Prompt) -> ChatTurns | None:
        for chat in self._chats.values():
            if chat.turn is not None and chat.turn.prompt is prompt:
                return chat
        return None

    def _on_deleted(self, chat_id: str, index: int) -> None:
        chat = self._chats.pop(chat_id, None)
        self._tokens.pop(chat_id, None)
        if chat is not None:
            chat.forget()
        since = [] if chat is None else [each for each in chat.prompts if each.index > index]
        if since:
            self._chat(chat_id).prompts.extend(since)
        else:
            self._deleted.add(chat_id)

    def on_content(self, params: Mapping[str, Any]) -> None:
        """Check a `chat/contentReceived`."""
        chat_id, content = params.get("chatId"), params.get("content")
        if not isinstance(chat_id, str) or not isinstance(content, Mapping):
            return
        kind = content.get("type")
        if not isinstance(kind, str):
            return
        chat = self._chats.get(chat_id) or self._resolve_unknown(chat_id, kind, params)
        if chat is None:
            return
        role = text_at(params, "role")
        self._contents.check(chat_id, role, kind, content)
        if kind.startswith("toolCall") and isinstance(content.get("id"), str):
            self._calls_seen.add((chat_id, content["id"]))
        if kind == "usage":
            self._check_tokens(chat_id, content)
        chat.read_up_to = self._read_up_to
        if (role, kind) == ("user", "text"):
            text = str(content.get("text"))
            self._guesses.correct(chat, lambda prompt: prompt.expected_echo(text).startswith(text))
        ran = chat.turn is not None
        chat.check(role, kind, content)
        self.has_finished_turn = self.has_finished_turn or (ran and chat.turn is None)

    def on_unreadable(self, chat_id: str) -> None:
        """Handle an unreadable content for this chat; for an unknown chat, for all."""
        known = [self._chats[chat_id]] if chat_id in self._chats else self._chats.values()
        for chat in known:
            chat.has_unreadable = chat.turn is not None or bool(chat.prompts)
        self._has_unreadable = bool(self._guesses.unnamed) and chat_id not in self._chats

    def _resolve_unknown(
        self, chat_id: str, kind: str, params: Mapping[str, Any]
    ) -> ChatTurns | None:
        """Return the new chat that an unknown chat id belongs to; report it if there is none."""
        if chat_id in self._ignored_ids:
            return None
        if chat_id in self._deleted:
            row = "W-25d" if kind == "metadata" else "W-24a"
            self._log.report(row, "no content for a deleted chat", f"`{kind}`", chat_id=chat_id)
            self._ignored_ids.add(chat_id)
            return None
        if params.get("parentChatId") in [*self._chats]:
            self._ignored_ids.add(chat_id)
            return None
        is_of_a_stop = chat_id in self._stopped_unknown
        if is_of_a_stop and params["content"].get("state") == "finished":  # starts no turn
            self._report_unprompted("W-22f", kind, chat_id)
            return None
        if not self._guesses.unnamed:
            if not self._prompts:
                self._report_unprompted("W-22f" if is_of_a_stop else "CLIENT-33", kind, chat_id)
            elif not is_of_a_stop:  # it may be the turn of one; the response decides
                first = UnknownChat(chat_id, self._log.index, kind, set(self._prompts))
                self._unknown_chats.append(first)
            self.on_unreadable(chat_id)
            self._ignored_ids.add(chat_id)
            return None
        chat = self._chat(chat_id)
        self._guesses.assign_next(chat)
        chat.has_unreadable, self._has_unreadable = self._has_unreadable, False
        return chat

    def _report_unprompted(self, row: str, got: str, chat_id: str) -> None:
        self._log.report(row, _PROMPTED, f"`{got}`", chat_id=chat_id)

    def _check_tokens(self, chat_id: str, usage: Mapping[str, Any]) -> None:
        tokens, before = usage.get("sessionTokens"), self._tokens.get(chat_id, 0)
        are_sums = ChatUsageContent.sums.holds(self._log.revision)
        if not (are_sums and isinstance(tokens, int | float)):
            return
        if tokens < before:
            expected = f"`sessionTokens` of at least {before}, the previous value"
            self._log.note("W-27a", expected, repr(tokens), chat_id=chat_id)
        self._tokens[chat_id] = tokens

    def on_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification about a chat, except contents."""
        chat_id = params.get("chatId")
        if not isinstance(chat_id, str):
            return
        if method == "chat/opened":
            self._ignored_ids.discard(chat_id)
            chat = self._chat(chat_id)
            chat.is_replaying = chat.turn is None  # a running turn is not replayed
        elif method == "chat/cleared":
            self._tokens.pop(chat_id, None)
            self._chat(chat_id).is_replaying = True
        elif method == "chat/statusChanged" and chat_id in self._chats:
            self._chats[chat_id].set_awaits_key(params.get("status") == "login")
        elif method == "chat/statusChanged" and chat_id in self._deleted - self._ignored_ids:
            if chat_id in self._stopped_unknown:  # the answer to that stop (W-22)
                return
            self._ignored_ids.add(chat_id)
            self._log.report(
                "W-24a", "no message for a deleted chat", f"`{method}`", chat_id=chat_id
            )

    def finish(self) -> None:
        """Report the missing messages of all chats."""
        owed = set(self._deletes.values())  # a response, and with it the end
        for chat_id, chat in self._chats.items():
            if chat_id not in owed:
                chat.finish()
        self._early_responses.finish(self._log)

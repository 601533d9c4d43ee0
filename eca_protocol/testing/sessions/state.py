"""The state of a session: its requests and chats, and the message that has to come next.

`State` takes all messages in order (`on_sent`, `on_received`). It judges only what a `Watcher`
cannot see: responses that a step expects, the chats that are open, and the scripted model's text.
Choices of the server are never assumed, and a malformed message changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from eca_protocol.testing.sessions.model import MARK, ScriptedModel
from eca_protocol.testing.sessions.wire import Violation

_CALLS = ("toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled", "toolCallRejected")
"""The contents of a call; the last two end it."""


_ROWS_OF_INVALID = {
    b"{": "BASE-23",
    b"[]": "BASE-24",
    b'{"jsonrpc":"2.0","id":{},"method":"m"}': "BASE-20",
}
"""The requirement that each body without a message violates; W-5a if it is no UTF-8."""


class Call:
    """A tool call: whether it has ended, and whether it waits for approval."""

    def __init__(self) -> None:
        self.ended = False
        self.needs_approval = False


class Turn:
    """The turn of a prompt.

    Attributes:
        mark: the marker in its prompt, for the scripted model.
        stopped: whether a stop was sent: its text may then be incomplete.
        started: whether a content of it came.
        echoed: whether the echo of the prompt came.
        text: the assistant's text so far.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.stopped = False
        self.started = False
        self.echoed = False
        self.text = ""
        self.calls: dict[str, Call] = {}

    @property
    def is_dropped(self) -> bool:
        """True if a stop may have dropped it: the next content may belong to the next turn."""
        return self.stopped and not self.echoed

    @property
    def awaiting_approval(self) -> list[str]:
        """The ids of calls that wait for approval."""
        return [name for name, call in self.calls.items() if call.needs_approval]


class Chat:
    """A chat.

    Attributes:
        turns: its unfinished turns, in order.
        calls: the tool calls of all its turns, in order.
    """

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.calls: dict[str, Call] = {}


class State:
    """The state of one process's session.

    Attributes:
        chats: all chats by id, including those of earlier examples.
        pending: the number of missing responses by request id.
        opened: the chat ids that the server assigned, in order.
        null_errors_due: the bodies that are no message, whose errors with id null are missing.
    """

    def __init__(self, model: ScriptedModel, *, draft: bool, known: Collection[str] = ()) -> None:
        """Start without requests and chats; violations of `known` requirements are ignored."""
        self.model = model
        self._known = known
        self.draft = draft
        self.chats: dict[str, Chat] = {}
        self.pending: dict[Any, int] = {}
        self.null_errors_due: list[bytes] = []
        self._expected: dict[Any, Any] = {}
        self._methods: dict[Any, tuple[str, Mapping[str, Any]]] = {}
        self._nameless: list[Chat] = []
        self.opened: list[str] = []

    def expect(self, request_id: Any, answer: Any) -> None:
        """Set the expected response of a request: `result`, `error`, `any`, or an error code."""
        self._expected[request_id] = answer

    def forget(self) -> None:
        """Ignore earlier requests; earlier turns still have to end."""
        self.pending.clear()
        self._nameless.clear()
        self.null_errors_due.clear()

    def chat(self, chat_id: str) -> Chat:
        """Return the chat with this id; create it if necessary."""
        return self.chats.setdefault(chat_id, Chat())

    def calls_of(self, chat_id: str) -> list[Call]:
        """Return all calls of a chat, in order."""
        return list(self.chats[chat_id].calls.values()) if chat_id in self.chats else []

    def running(self) -> Iterator[tuple[str, Turn]]:
        """Yield the running or next turn of each chat."""
        for chat_id, chat in self.chats.items():
            if chat.turns:
                yield chat_id, chat.turns[0]

    def missing(self) -> Violation | None:
        """Return a violation for the next missing message; None if the server may be idle."""
        for request_id in self.pending:
            method, _ = self._methods[request_id]
            return Violation("BASE-17", f"a response to `{method}` with id {request_id!r}", "none")
        if self.null_errors_due:
            data = self.null_errors_due[0]
            row = _ROWS_OF_INVALID.get(data, "W-5a")
            return Violation(row, f"an error with id null in response to {data!r}", "none")
        for chat_id, turn in self.running():
            waits = turn.mark in self.model.waits or turn.awaiting_approval
            if turn.started if turn.stopped else not waits:
                return Violation(
                    "CHAT-14", f"`finished` for the turn of {turn.mark} in chat {chat_id}", "none"
                )
        return None

    def remove_dropped(self) -> None:
        """Remove prompts that a stop has dropped; the server is idle."""
        for chat in self.chats.values():
            chat.turns = [turn for turn in chat.turns if turn.started or not turn.stopped]

    def on_sent(self, message: Mapping[str, Any]) -> None:
        """Note a message of the client."""
        method, params = message.get("method"), message.get("params")
        params = params if isinstance(params, dict) else {}
        if method is None:
            return
        request_id = message.get("id")
        if "id" in message:
            self.pending[request_id] = self.pending.get(request_id, 0) + 1
            self._methods.setdefault(request_id, (method, params))
        chat_id = _id_in(params)
        if method == "chat/prompt" and (marks := MARK.findall(str(params.get("message")))):
            chat = Chat() if chat_id is None else self.chat(chat_id)
            if chat_id is None:
                self._nameless.append(chat)
            chat.turns.append(Turn(marks[-1]))
            self._start_draft(chat)
        elif method == "chat/promptStop" and chat_id in self.chats:
            for turn in self.chats[chat_id].turns:
                turn.stopped = True
        elif method == "shutdown":
            for chat in self.chats.values():
                chat.turns.clear()
        elif method in ("chat/toolCallApprove", "chat/toolCallReject") and chat_id in self.chats:
            for turn in self.chats[chat_id].turns:
                if call := turn.calls.get(params.get("toolCallId", "")):
                    call.needs_approval = False

    def on_received(self, message: Mapping[str, Any]) -> None:
        """Note a message of the server.

        Raises:
            Violation: if it is an unexpected response or a content of an unknown chat, or ends a
                turn without the model's text.
        """
        if "method" not in message:
            self._answer(message)
        elif message["method"] == "chat/contentReceived":
            params: Any = message.get("params")
            chat_id = _id_in(params)
            if chat_id is not None and isinstance(params.get("content"), dict):
                self._adopt(chat_id)
                if chat_id not in self.chats:
                    self._report("CHAT-11", "contents only for opened chats", chat_id)
                self._content(self.chat(chat_id), params, params["content"])

    def _report(self, requirement: str, expected: str, got: object) -> None:
        if requirement not in self._known:
            raise Violation(requirement, expected, got)

    def _answer(self, message: Mapping[str, Any]) -> None:
        request_id, error = message.get("id"), message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if request_id is None:
            if not self.null_errors_due or code is None:
                self._report("BASE-17", "no error with id null without a cause", message)
                return
            del self.null_errors_due[0]
            return
        if not isinstance(request_id, str | int) or request_id not in self.pending:
            return
        method, params = self._methods[request_id]
        self.pending[request_id] -= 1
        if not self.pending[request_id]:
            del self.pending[request_id]
        expected = self._expected.get(request_id, "result")
        if expected not in ("any", "error" if "error" in message else "result", code):
            self._report("BASE-17", f"{expected} as the response to `{method}` {params}", message)
        chat_id = _id_in(params)
        if method == "chat/delete" and chat_id in self.chats:
            self.chats[chat_id].turns.clear()
        elif method == "chat/prompt" and "error" not in message:
            named = _id_in(message.get("result"))
            if chat_id is None and named is not None:
                self._adopt(named)
        elif method == "chat/prompt" and chat_id in self.chats:
            turns, marks = self.chats[chat_id].turns, MARK.findall(str(params.get("message")))
            turns[:] = [turn for turn in turns if turn.started or turn.mark not in marks]

    def _adopt(self, chat_id: str) -> None:
        """Give an unknown id to the oldest prompt without one, if there is any."""
        if chat_id not in self.chats and self._nameless:
            self.chats[chat_id] = self._nameless.pop(0)
            self.opened.append(chat_id)

    def _content(self, chat: Chat, params: Mapping[str, Any], content: Mapping[str, Any]) -> None:
        kind = content.get("type")
        ends = kind == "progress" and content.get("state") == "finished"
        if kind == "metadata" or not chat.turns:
            return
        turn = chat.turns[0]
        if not turn.started and (ends or params.get("role") == "assistant"):
            return
        turn.started = True
        if kind == "text":
            self._text(chat, params.get("role"), str(content.get("text")))
        elif kind in _CALLS:
            name = str(content.get("id", ""))
            call = chat.calls[name] = turn.calls.setdefault(name, Call())
            call.ended = kind in _CALLS[-2:]
            call.needs_approval = kind == "toolCallRun" and content.get("manualApproval") is True
        if params.get("isComplete") if self.draft else ends:
            self._finish(chat, chat.turns.pop(0))

    def _text(self, chat: Chat, role: Any, text: str) -> None:
        if role == "user" and (marks := MARK.findall(text)):
            while (
                len(chat.turns) > 1 and chat.turns[0].is_dropped and marks[-1] != chat.turns[0].mark
            ):
                chat.turns.pop(0)
            chat.turns[0].started = chat.turns[0].echoed = True
        elif role == "assistant":
            chat.turns[0].text += text

    def _finish(self, chat: Chat, turn: Turn) -> None:
        if self.draft and turn.stopped:  # without an echo, dropped prompts are unknown
            chat.turns = [each for each in chat.turns if not each.stopped]
        self._start_draft(chat)
        if self.draft or turn.mark not in self.model.replies:
            return
        if not self.model.request_counts:  # it answers without the scripted model
            return
        count = self.model.request_counts.get(turn.mark, 0)
        steps = [step for reply in self.model.replies[turn.mark][:count] for step in reply]
        scripted = "".join(step.get("text", "") for step in steps)
        broken = turn.stopped or any({"status", "close", "raw"} & step.keys() for step in steps)
        if not (scripted.startswith(turn.text) if broken else scripted == turn.text):
            expected = f"the model's text {scripted!r} in the turn of {turn.mark}"
            self._report("CHAT-12", expected, repr(turn.text))

    def _start_draft(self, chat: Chat) -> None:
        """Start the next turn of the draft, which has no content for that."""
        if self.draft and chat.turns and not chat.turns[0].stopped:
            chat.turns[0].started = True


def _id_in(value: Any) -> str | None:
    chat_id = value.get("chatId") if isinstance(value, dict) else None
    return chat_id if isinstance(chat_id, str) else None

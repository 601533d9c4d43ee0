"""The invariants of a session, over its state of requests and chats.

`Rules` takes all messages in order (`on_sent`, `on_received`) and raises a `Violation` at the first
wrong message, unless its row is known; `missing` returns the next message that has to come. Choices
of the server are never assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from eca_protocol.testing.sessions.model import MARK, ScriptedModel
from eca_protocol.testing.sessions.wire import Violation

_NEXT_OF_CALL = {
    "toolCallPrepare": ("", "toolCallPrepare"),
    "toolCallRun": ("toolCallPrepare",),
    "toolCallRunning": ("toolCallRun",),
    "toolCalled": ("toolCallRun", "toolCallRunning"),
    "toolCallRejected": ("toolCallPrepare", "toolCallRun"),
}
"""The contents that may precede each content of a call."""
_ENDED = ("toolCalled", "toolCallRejected")


class Call:
    """A tool call: its last content, and whether it waits for approval."""

    def __init__(self) -> None:
        self.last = ""
        self.needs_approval = False

    @property
    def ended(self) -> bool:
        """True if the call must have no further content."""
        return self.last in _ENDED


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
        self.open_reasonings: set[str] = set()

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
        silence_row: the row that forbids contents without a turn.
        ignored: whether its contents are not checked.
    """

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.calls: dict[str, Call] = {}
        self.silence_row = "W-23g"
        self.ignored = False


class Rules:
    """The state of one process's session.

    Attributes:
        chats: all chats by id, including those of earlier examples.
        pending: the number of missing responses by request id.
        opened: the chat ids that the server assigned, in order.
        null_errors_due: the number of missing errors with id null.
    """

    def __init__(self, model: ScriptedModel, *, draft: bool, known: Collection[str] = ()) -> None:
        """Start without requests and chats; violations of `known` requirements are ignored."""
        self.model = model
        self._known = known
        self.draft = draft
        self.chats: dict[str, Chat] = {}
        self.pending: dict[Any, int] = {}
        self.null_errors_due: int = 0
        self._expected: dict[Any, Any] = {}
        self._methods: dict[Any, tuple[str, Mapping[str, Any]]] = {}
        self._nameless: list[Chat] = []
        self._first_id: Any = 0
        self.opened: list[str] = []

    def expect(self, request_id: Any, answer: Any) -> None:
        """Set the expected response of a request: `result`, `error`, `any`, or an error code."""
        if request_id is None:
            self.null_errors_due += 1
        self._expected[request_id] = answer

    def forget(self) -> None:
        """Ignore earlier requests and chats; earlier turns still have to end."""
        for chat in self.chats.values():
            chat.ignored = True
        self._first_id = max((each for each in self._methods if isinstance(each, int)), default=0)
        self.pending.clear()
        self._nameless.clear()
        self.null_errors_due = 0

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
            return Violation("W-5a", "an error with id null", "none")
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
                chat.ignored, chat.turns = True, []
        elif method in ("chat/toolCallApprove", "chat/toolCallReject") and chat_id in self.chats:
            for turn in self.chats[chat_id].turns:
                if call := turn.calls.get(params.get("toolCallId", "")):
                    call.needs_approval = False

    def on_received(self, message: Mapping[str, Any]) -> None:
        """Check a message of the server.

        Raises:
            Violation: if it violates a requirement.
        """
        if violation := _shape_violation(message):
            self._report(violation.requirement, violation.expected, violation.got)
            return
        if "method" not in message:
            self._answer(message)
        elif message["method"] == "chat/contentReceived":
            self._content(message["params"])

    def _report(self, requirement: str, expected: str, got: object) -> None:
        if requirement not in self._known:
            raise Violation(requirement, expected, got)

    def _answer(self, message: Mapping[str, Any]) -> None:
        request_id = message.get("id")
        expected = self._expected.get(request_id, "result")
        code = message["error"].get("code") if "error" in message else None
        fits = expected in ("any", "error" if "error" in message else "result", code)
        if request_id is None:
            if not self.null_errors_due or code is None:
                self._report("BASE-17", "no error with id null without a cause", message)
                return
            self.null_errors_due -= 1
            return
        if request_id not in self.pending:
            if isinstance(request_id, int) and request_id <= self._first_id:
                return
            known = self._methods.get(request_id, ("a request never sent",))[0]
            self._report(
                "BASE-17", f"exactly one response to `{known}` with id {request_id!r}", message
            )
            return
        method, params = self._methods[request_id]
        if not fits:
            self._report("BASE-17", f"{expected} as the response to `{method}` {params}", message)
        self.pending[request_id] -= 1
        if not self.pending[request_id]:
            del self.pending[request_id]
        if method == "chat/delete":
            if chat := self.chats.get(_id_in(params) or ""):
                chat.turns.clear()
                chat.silence_row = "W-24a"
        elif method == "chat/prompt":
            self._prompted(params, message)

    def _prompted(self, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        chat_id = _id_in(params)
        if "result" in answer:
            result = answer["result"]
            named = result.get("chatId") if isinstance(result, dict) else None
            if not isinstance(named, str):
                self._report("FIELD:ChatPromptResponse.chatId", "the id of the chat", result)
                return
            if chat_id is None:
                self._adopt(named)
            elif named != chat_id:
                self._report("CHAT-2", f"the chat {chat_id}", named)
        elif chat_id in self.chats:
            turns, marks = self.chats[chat_id].turns, MARK.findall(str(params.get("message")))
            turns[:] = [turn for turn in turns if turn.started or turn.mark not in marks]

    def _adopt(self, chat_id: str) -> Chat:
        """Return the chat with this id; an unknown id belongs to the oldest prompt without one."""
        if chat_id not in self.chats and self._nameless:
            self.chats[chat_id] = self._nameless.pop(0)
            self.opened.append(chat_id)
        if chat_id not in self.chats:
            self._report("CHAT-11", "contents only for opened chats", chat_id)
            self.chat(chat_id).ignored = True
        return self.chats[chat_id]

    def _content(self, params: Mapping[str, Any]) -> None:
        chat, content = self._adopt(params["chatId"]), params["content"]
        kind = content["type"]
        ends = kind == "progress" and content.get("state") == "finished"
        if chat.ignored:
            _ignore(chat, params, ends=ends or params.get("isComplete") is True)
            return
        if kind == "metadata" and chat.silence_row != "W-24a":
            return
        if not chat.turns:
            row = "W-22e" if ends and chat.silence_row == "W-23g" else chat.silence_row
            self._report(row, f"no content in chat {params['chatId']}", content)
            return
        turn = chat.turns[0]
        if not turn.started and (ends or params.get("role") == "assistant"):
            row = "W-22e" if ends else chat.silence_row
            self._report(
                row, f"the start of the turn of {turn.mark} in chat {params['chatId']}", content
            )
            return
        turn.started = True
        if kind == "text":
            self._text(chat, params.get("role"), str(content.get("text")))
        elif kind.startswith("reason"):
            self._think(turn, content)
        elif kind in _NEXT_OF_CALL:
            self._call(chat, turn, content)
        if params.get("isComplete") if self.draft else ends:
            self._finish(chat, turn)

    def _text(self, chat: Chat, role: Any, text: str) -> None:
        if role == "user" and (marks := MARK.findall(text)):
            while (
                len(chat.turns) > 1 and chat.turns[0].is_dropped and marks[-1] != chat.turns[0].mark
            ):
                chat.turns.pop(0)
            turn = chat.turns[0]
            if marks[-1] != turn.mark:
                self._report("W-22b", f"the echo of {turn.mark}", f"that of {marks[-1]}")
            turn.started = turn.echoed = True
        elif role == "assistant":
            chat.turns[0].text += text

    def _think(self, turn: Turn, content: Mapping[str, Any]) -> None:
        name, kind = str(content.get("id", "")), content["type"]
        if (kind == "reasonStarted") == (name in turn.open_reasonings):
            expected = "one `reasonStarted`, texts, one `reasonFinished` for each reasoning"
            self._report("CHAT-15", expected, content)
        if kind == "reasonStarted":
            turn.open_reasonings.add(name)
        elif kind == "reasonFinished":
            turn.open_reasonings.discard(name)

    def _call(self, chat: Chat, turn: Turn, content: Mapping[str, Any]) -> None:
        name, kind = str(content.get("id", "")), content["type"]
        call = turn.calls.setdefault(name, Call())
        if call.last not in _NEXT_OF_CALL[kind]:
            self._report("W-30a", f"a valid content of {name} after {call.last!r}", content)
        call.last = kind
        call.needs_approval = kind == "toolCallRun" and content.get("manualApproval") is True
        chat.calls[name] = call

    def _finish(self, chat: Chat, turn: Turn) -> None:
        chat.turns.pop(0)
        chat.silence_row = "W-23g"
        if self.draft and turn.stopped:  # without an echo, dropped prompts are unknown
            chat.turns = [each for each in chat.turns if not each.stopped]
        self._start_draft(chat)
        if turn.open_reasonings:
            got = f"none for {turn.open_reasonings}"
            self._report("W-26b", f"`reasonFinished` for every reasoning of {turn.mark}", got)
        unfinished = [name for name, call in turn.calls.items() if not call.ended]
        if unfinished:
            self._report("W-30a", f"an end for every call of {turn.mark}", f"none for {unfinished}")
        if not self.model.request_counts:  # it answers without the scripted model
            return
        count = self.model.request_counts.get(turn.mark, 0)
        steps = [step for reply in self.model.replies[turn.mark][:count] for step in reply]
        scripted = "".join(step.get("text", "") for step in steps)
        broken = turn.stopped or any({"status", "close", "raw"} & step.keys() for step in steps)
        whole = scripted.startswith(turn.text) if broken else scripted == turn.text
        if not whole and not self.draft:
            expected = f"the model's text {scripted!r} in the turn of {turn.mark}"
            self._report("CHAT-12", expected, repr(turn.text))

    def _start_draft(self, chat: Chat) -> None:
        """Start the next turn of the draft, which has no content for that."""
        if self.draft and chat.turns and not chat.turns[0].stopped:
            chat.turns[0].started = True


def _shape_violation(message: Mapping[str, Any]) -> Violation | None:
    if "method" not in message:
        if not isinstance(message.get("id"), str | int | None):
            return Violation("W-2b", "the id of a request as `id`", message)
        if not isinstance(message.get("error", {}), dict):
            return Violation("BASE-19", "an object as `error`", message)
    elif message["method"] == "chat/contentReceived":
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        content = params.get("content")
        if not isinstance(params.get("chatId"), str):
            return Violation(
                "FIELD:ChatContentReceivedParams.chatId", "a string as `chatId`", message
            )
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            return Violation(
                "FIELD:ChatContentReceivedParams.content", "a content with a `type`", message
            )
    return None


def _ignore(chat: Chat, params: Mapping[str, Any], *, ends: bool) -> None:
    """Track only the turns of an ignored chat, to know when it is idle."""
    if ends and chat.turns and chat.turns[0].started:
        chat.turns.pop(0)
    elif chat.turns and not ends and params.get("role") != "assistant":
        chat.turns[0].started = True


def _id_in(params: Mapping[str, Any]) -> str | None:
    chat_id = params.get("chatId")
    return chat_id if isinstance(chat_id, str) else None

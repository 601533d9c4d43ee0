"""What must hold in a session, whatever is done in it: the model's own state of requests and chats.

The rule it keeps: it is told everything in order (`sent`, `heard`) and raises a `Fault` at the
first message that cannot be right; what has to come still is asked from it (`missing`). It takes
nothing for granted that the server may choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eca_protocol.testing.sessions.model import MARK, ScriptedModel
from eca_protocol.testing.sessions.wire import Fault

__all__ = ["Call", "Chat", "Rules", "Turn"]

_NEXT_OF_CALL = {
    "toolCallPrepare": ("", "toolCallPrepare"),
    "toolCallRun": ("toolCallPrepare",),
    "toolCallRunning": ("toolCallRun",),
    "toolCalled": ("toolCallRun", "toolCallRunning"),
    "toolCallRejected": ("toolCallPrepare", "toolCallRun"),
}
"""What may stand before each content of a call."""
_ENDED = ("toolCalled", "toolCallRejected")


class Call:
    """A tool call: the last content of it, and whether the user's word is awaited."""

    def __init__(self) -> None:
        self.last = ""
        self.asks = False

    @property
    def ended(self) -> bool:
        """Nothing more may come of it."""
        return self.last in _ENDED


class Turn:
    """A prompt and what came of it.

    Attributes:
        mark: the mark in its words, by which the scripted model knows it.
        stopped: a stop was sent for it: only the beginning of what is said has to come.
        begun: a content of it came.
        echoed: the user's words came back.
        said: the assistant's text so far.
        calls: its tool calls by id.
        thinking: the reasonings that are not finished.
    """

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.stopped = False
        self.begun = False
        self.echoed = False
        self.said = ""
        self.calls: dict[str, Call] = {}
        self.thinking: set[str] = set()

    @property
    def is_dropped(self) -> bool:
        """A stop may have taken it from the queue: what comes may be the next turn's."""
        return self.stopped and not self.echoed

    @property
    def asking(self) -> list[str]:
        """The calls that wait for the user's word."""
        return [name for name, call in self.calls.items() if call.asks]


class Chat:
    """A chat.

    Attributes:
        turns: those that are not over, in order.
        calls: the tool calls of all its turns, in order.
        silent_by: the row that forbids contents while there is no turn.
        ignored: whatever comes for it does not count.
    """

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.calls: dict[str, Call] = {}
        self.silent_by = "W-23g"
        self.ignored = False


class Rules:
    """The state of one process's session.

    Attributes:
        chats: by id, those of earlier examples too.
        pending: how many answers each request id still gets.
        opened: the ids that the server gave to chats, in order.
        faults_to_come: how many errors with id null have to come.
    """

    def __init__(self, model: ScriptedModel, *, draft: bool) -> None:
        self.model = model
        self.draft = draft
        self.chats: dict[str, Chat] = {}
        self.pending: dict[Any, int] = {}
        self.faults_to_come = 0
        self._expected: dict[Any, Any] = {}
        self._methods: dict[Any, tuple[str, Mapping[str, Any]]] = {}
        self._nameless: list[Chat] = []
        self._first_id: Any = 0
        self.opened: list[str] = []

    def expect(self, request_id: Any, answer: Any) -> None:
        """The answer a request gets: `result`, `error`, `any`, or the code of the error."""
        if request_id is None:
            self.faults_to_come += 1
        self._expected[request_id] = answer

    def forget(self) -> None:
        """Nothing counts any more that belongs to what was before; its turns still have to end."""
        for chat in self.chats.values():
            chat.ignored = True
        self._first_id = max((each for each in self._methods if isinstance(each, int)), default=0)
        self.pending.clear()
        self._nameless.clear()
        self.faults_to_come = 0

    def chat(self, chat_id: str) -> Chat:
        """A chat of that id; made if there is none."""
        return self.chats.setdefault(chat_id, Chat())

    def calls_of(self, chat_id: str) -> list[Call]:
        """All calls of a chat, in order."""
        return list(self.chats[chat_id].calls.values()) if chat_id in self.chats else []

    def running(self) -> Iterator[tuple[str, Turn]]:
        """The turn of each chat that is under way, or is the next to be."""
        for chat_id, chat in self.chats.items():
            if chat.turns:
                yield chat_id, chat.turns[0]

    def missing(self) -> Fault | None:
        """What has to come before the server rests; None if it may rest."""
        for request_id in self.pending:
            method, _ = self._methods[request_id]
            return Fault("BASE-17", f"an answer to {method} with id {request_id!r}", "none")
        if self.faults_to_come:
            return Fault("W-5a", "an error with id null", "none")
        for chat_id, turn in self.running():
            if turn.begun if turn.stopped else not self._waits(turn):
                return Fault("CHAT-14", f"the end of {turn.mark} in chat {chat_id}", "none")
        return None

    def _waits(self, turn: Turn) -> bool:
        return turn.mark in self.model.waits or bool(turn.asking)

    def rested(self) -> None:
        """All that was sent has been looked at: prompts that a stop has dropped never begin."""
        for chat in self.chats.values():
            chat.turns = [turn for turn in chat.turns if turn.begun or not turn.stopped]

    def sent(self, message: Mapping[str, Any]) -> None:
        """Note what the client writes."""
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
            self._begin_draft(chat)
        elif method == "chat/promptStop" and chat_id in self.chats:
            for turn in self.chats[chat_id].turns:
                turn.stopped = True
        elif method == "shutdown":
            for chat in self.chats.values():
                chat.ignored, chat.turns = True, []
        elif method in ("chat/toolCallApprove", "chat/toolCallReject") and chat_id in self.chats:
            for turn in self.chats[chat_id].turns:
                if call := turn.calls.get(params.get("toolCallId", "")):
                    call.asks = False

    def heard(self, message: Mapping[str, Any]) -> None:
        """Judge what the server writes.

        Raises:
            Fault: it cannot be right.
        """
        if fault := _misshapen(message):
            raise fault
        if "method" not in message:
            self._answer(message)
        elif message["method"] == "chat/contentReceived":
            self._content(message["params"])

    def _answer(self, message: Mapping[str, Any]) -> None:
        request_id = message.get("id")
        wanted = self._expected.get(request_id, "result")
        code = message["error"].get("code") if "error" in message else None
        fits = wanted in ("any", "error" if "error" in message else "result", code)
        if request_id is None:
            if not self.faults_to_come or code is None:
                raise Fault("BASE-17", "no answer that nobody asked for", message)
            self.faults_to_come -= 1
            return
        if request_id not in self.pending:
            if isinstance(request_id, int) and request_id <= self._first_id:
                return
            known = self._methods.get(request_id, ("a request never sent",))[0]
            raise Fault("BASE-17", f"one answer to {known} ({request_id!r})", message)
        method, params = self._methods[request_id]
        if not fits:
            raise Fault("BASE-17", f"{wanted} as the answer to {method} {params}", message)
        self.pending[request_id] -= 1
        if not self.pending[request_id]:
            del self.pending[request_id]
        if method == "chat/delete":
            self._deleted(_id_in(params))
        elif method == "chat/prompt":
            self._prompted(params, message)

    def _deleted(self, chat_id: str | None) -> None:
        if chat := self.chats.get(chat_id or ""):
            chat.turns.clear()
            chat.silent_by = "W-24a"

    def _prompted(self, params: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        chat_id = _id_in(params)
        if "result" in answer:
            result = answer["result"]
            told = result.get("chatId") if isinstance(result, dict) else None
            if not isinstance(told, str):
                raise Fault("FIELD:ChatPromptResponse.chatId", "the id of the chat", result)
            if chat_id is None:
                self._adopt(told)
            elif told != chat_id:
                raise Fault("CHAT-2", f"the chat {chat_id}", told)
        elif chat_id in self.chats:
            turns, marks = self.chats[chat_id].turns, MARK.findall(str(params.get("message")))
            turns[:] = [turn for turn in turns if turn.begun or turn.mark not in marks]

    def _adopt(self, chat_id: str) -> Chat:
        """The chat of that id; one that was opened without an id, if there is such."""
        if chat_id not in self.chats and self._nameless:
            self.chats[chat_id] = self._nameless.pop(0)
            self.opened.append(chat_id)
        if chat_id not in self.chats:
            raise Fault("CHAT-11", "contents of chats that were opened", chat_id)
        return self.chats[chat_id]

    def _content(self, params: Mapping[str, Any]) -> None:
        chat, content = self._adopt(params["chatId"]), params["content"]
        kind = content["type"]
        ends = kind == "progress" and content.get("state") == "finished"
        if chat.ignored:
            _ignore(chat, params, ends=ends or params.get("isComplete") is True)
            return
        if kind == "metadata" and chat.silent_by != "W-24a":
            return
        if not chat.turns:
            row = "W-22e" if ends and chat.silent_by == "W-23g" else chat.silent_by
            raise Fault(row, f"silence in chat {params['chatId']}", content)
        turn = chat.turns[0]
        if not turn.begun and (ends or params.get("role") == "assistant"):
            row = "W-22e" if ends else chat.silent_by
            raise Fault(row, f"the beginning of {turn.mark} in chat {params['chatId']}", content)
        turn.begun = True
        if kind == "text":
            self._text(chat, params.get("role"), str(content.get("text")))
        elif kind.startswith("reason"):
            _think(turn, content)
        elif kind in _NEXT_OF_CALL:
            _call(chat, turn, content)
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
                raise Fault("W-22b", f"the turn of {turn.mark}", f"that of {marks[-1]}")
            turn.begun = turn.echoed = True
        elif role == "assistant":
            chat.turns[0].said += text

    def _finish(self, chat: Chat, turn: Turn) -> None:
        chat.turns.pop(0)
        chat.silent_by = "W-23g"
        if self.draft and turn.stopped:  # it has no echo that would tell what was dropped
            chat.turns = [each for each in chat.turns if not each.stopped]
        self._begin_draft(chat)
        if turn.thinking:
            raise Fault("W-26b", f"{turn.mark}: every reasoning finished", turn.thinking)
        left = [name for name, call in turn.calls.items() if not call.ended]
        if left:
            raise Fault("W-30a", f"{turn.mark}: every call ended", left)
        asked = self.model.asked.get(turn.mark, 0)
        steps = [step for reply in self.model.replies[turn.mark][:asked] for step in reply]
        said = "".join(step.get("text", "") for step in steps)
        broken = turn.stopped or any({"status", "close", "raw"} & step.keys() for step in steps)
        whole = said.startswith(turn.said) if broken else said == turn.said
        if not whole and not self.draft:
            raise Fault("CHAT-12", f"{turn.mark}: {said!r}, the model's text", repr(turn.said))

    def _begin_draft(self, chat: Chat) -> None:
        """The draft has no content that tells of a beginning."""
        if self.draft and chat.turns and not chat.turns[0].stopped:
            chat.turns[0].begun = True


def _misshapen(message: Mapping[str, Any]) -> Fault | None:
    """What is so odd about a message that the rules cannot look at it."""
    if "method" not in message:
        if not isinstance(message.get("id"), str | int | None):
            return Fault("W-2b", "the id of a request", message)
        if not isinstance(message.get("error", {}), dict):
            return Fault("BASE-19", "an object as error", message)
    elif message["method"] == "chat/contentReceived":
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        content = params.get("content")
        if not isinstance(params.get("chatId"), str):
            return Fault("FIELD:ChatContentReceivedParams.chatId", "a text", message)
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            return Fault("FIELD:ChatContentReceivedParams.content", "a content", message)
    return None


def _ignore(chat: Chat, params: Mapping[str, Any], *, ends: bool) -> None:
    """Follow a chat that does not count only so far as to know when it is at rest."""
    if ends and chat.turns and chat.turns[0].begun:
        chat.turns.pop(0)
    elif chat.turns and not ends and params.get("role") != "assistant":
        chat.turns[0].begun = True


def _id_in(params: Mapping[str, Any]) -> str | None:
    chat_id = params.get("chatId")
    return chat_id if isinstance(chat_id, str) else None


def _think(turn: Turn, content: Mapping[str, Any]) -> None:
    name, kind = str(content.get("id", "")), content["type"]
    if (kind == "reasonStarted") == (name in turn.thinking):
        raise Fault("CHAT-15", "started once, texts, finished once", content)
    if kind == "reasonStarted":
        turn.thinking.add(name)
    elif kind == "reasonFinished":
        turn.thinking.remove(name)


def _call(chat: Chat, turn: Turn, content: Mapping[str, Any]) -> None:
    name, kind = str(content.get("id", "")), content["type"]
    call = turn.calls.setdefault(name, Call())
    if call.last not in _NEXT_OF_CALL[kind]:
        raise Fault("W-30a", f"a content of {name} that may follow {call.last!r}", content)
    call.last = kind
    call.asks = kind == "toolCallRun" and content.get("manualApproval") is True
    chat.calls[name] = call

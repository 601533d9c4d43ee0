"""What the page's list says of each entry of a transcript: who, what, to which lane, how late.

Only what editor and server said to each other is known. What the model, the tools and MCP servers
did is concluded from it; the page draws it apart.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol.framing import encode_frame
from eca_protocol.transcript import DataEntry, EndEntry, Entry, ExitEntry, Side

__all__ = ["Kind", "Lane", "Late", "Row", "Rows"]

Kind: TypeAlias = Literal["request", "notification", "answer", "error", "bytes", "end", "exit"]


class Lane(enum.IntEnum):
    """How far a message reaches, or from where it comes; the editor is at its other end."""

    SERVER = 1
    MODEL = 2
    TOOLS = 3
    MCP = 4


Late: TypeAlias = Literal["answer", "first", "turn", "stop", "approval", "tool"]
"""What the time since an earlier message tells.

It was answered; of a prompt, the first word or call came, or its turn finished; a stop was obeyed;
the user decided about a call; a tool ran.
"""

LONGEST: Final = 2**20
"""Bytes of one message that the page is given."""

_BRIEF: Final = 160

_LANES: Final = {
    "chat/askQuestion": Lane.TOOLS,
    "chat/inlinePrompt": Lane.MODEL,
    "chat/prompt": Lane.MODEL,
    "chat/promptSteer": Lane.MODEL,
    "completion/inline": Lane.MODEL,
    "editor/getDefinition": Lane.TOOLS,
    "editor/getDiagnostics": Lane.TOOLS,
    "editor/getReferences": Lane.TOOLS,
    "jobs/updated": Lane.TOOLS,
    "rewrite/contentReceived": Lane.MODEL,
    "rewrite/prompt": Lane.MODEL,
    "tool/serverRemoved": Lane.MCP,
}
_MODELS_ANSWERS: Final = {"completion/inline"}
_MODELS_CONTENTS: Final = {
    "text", "url", "image", "usage", "reasonStarted", "reasonText", "reasonFinished",
    "toolCallPrepare", "toolCallRun",
}  # fmt: skip
_TOOLS_CONTENTS: Final = {"toolCallRunning", "toolCalled"}


@attrs.define(kw_only=True)
class Row:
    """One entry, as the list shows it.

    Attributes:
        at: seconds since the start.
        side: who wrote it; None: the server's process has ended.
        what: the method, of an answer its request's; of contents with their type.
        id: of a request or an answer, as JSON.
        lane: the farthest lane that it concerns.
        outward: from the server to that lane, and not from there.
        earlier: the number of the row that `late` counts from.
        brief: what it says, in a line.
        text: the body as it passed, or what passed in its place.
        left_out: bytes of it that are too many for a page.
        raw: all that passed, where it is not what W-1 writes around the body.
    """

    at: float
    side: Side | None
    kind: Kind
    what: str = ""
    id: str = ""
    chat: str = ""
    lane: Lane = Lane.SERVER
    outward: bool = False
    earlier: int | None = None
    late: Late | None = None
    brief: str = ""
    text: str = ""
    left_out: int = 0
    raw: str | None = None
    masked: bool = False

    def packed(self) -> list[Any]:
        """The row as the page takes it; its script names the places."""
        return [
            round(self.at, 6),
            self.side,
            self.kind,
            self.what,
            self.id,
            self.chat,
            int(-self.lane if self.outward else self.lane),
            self.earlier,
            self.late,
            self.brief,
            self.text,
            self.left_out,
            self.raw,
            self.masked,
        ]


@attrs.define
class _Chat:
    """What of a chat is still to come, by the numbers of the rows that asked for it."""

    prompts: deque[int] = attrs.field(factory=deque)
    has_begun: bool = False  # the model's part of the turn
    stop: int | None = None
    calls: dict[str, int] = attrs.field(factory=dict)
    waiting: dict[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class _Asked:
    """A request that waits for its answer."""

    number: int
    method: str
    chat: str
    lane: Lane


class Rows:
    """Makes the row of each entry, in order."""

    def __init__(self) -> None:
        self.count = 0
        self._asked: dict[tuple[Side, str], _Asked] = {}
        self._chats: dict[str, _Chat] = {}
        self._mcp_calls: set[str] = set()

    def row(self, entry: Entry, message: Mapping[str, Any] | None) -> Row:
        """The next entry's row; `message` is what it says, if it is one."""
        row = self._row(entry, message)
        self.count += 1
        return row

    def _row(self, entry: Entry, message: Mapping[str, Any] | None) -> Row:
        if isinstance(entry, ExitEntry):
            told = f"by signal {-entry.code}" if entry.code < 0 else f"with exit code {entry.code}"
            return Row(at=entry.at, side=None, kind="exit", brief=f"The server ended {told}.")
        if isinstance(entry, EndEntry):
            return Row(
                at=entry.at, side=entry.side, kind="end", brief=f"The {entry.side} says no more."
            )
        seen = _seen(entry)
        if message is None:
            seen.brief = seen.text[:_BRIEF]
            return seen
        if isinstance(message.get("method"), str):
            return self._call(seen, entry.side, message)
        return self._answer(seen, entry.side, message)

    def _call(self, row: Row, side: Side, message: Mapping[str, Any]) -> Row:
        method: str = message["method"]
        params = _mapping(message.get("params"))
        row.kind = "request" if "id" in message else "notification"
        row.what = method
        row.id = _id(message.get("id"))
        row.chat = chat = _text(params.get("chatId"))
        row.lane = self._lane(method, params)
        row.outward = side == "client"
        row.brief = _brief(params)
        if row.id:
            asked = _Asked(number=self.count, method=method, chat=chat, lane=row.lane)
            self._asked.setdefault((side, row.id), asked)
        if method == "chat/contentReceived":
            return self._content(row, params)
        match method:
            case "chat/prompt" | "chat/inlinePrompt":
                self._chat(chat).prompts.append(self.count)
            case "chat/promptStop" if self._chat(chat).prompts:
                self._chat(chat).stop = self.count
            case "chat/toolCallApprove" | "chat/toolCallReject":
                waiting = self._chat(chat).waiting.pop(_text(params.get("toolCallId")), None)
                return _since(row, waiting, "approval")
        return row

    def _answer(self, row: Row, side: Side, message: Mapping[str, Any]) -> Row:
        row.kind = "error" if message.get("error") is not None else "answer"
        row.id = _id(message.get("id"))
        told = _mapping(message.get("error" if row.kind == "error" else "result"))
        row.chat = _text(told.get("chatId"))
        row.brief = _brief(told)
        asked = self._asked.pop(("client" if side == "server" else "server", row.id), None)
        if asked is None:
            return row
        row.what = asked.method
        row.chat = asked.chat or row.chat
        if asked.method == "chat/delete" and row.kind == "answer":
            self._forget(asked.chat, asked.number)
        if asked.method in {"chat/prompt", "chat/inlinePrompt"}:
            if row.kind == "error":
                self._take_prompt(asked.number, asked.chat)
            elif not asked.chat:  # the server has named it just now
                self._move_prompt(asked.number, row.chat)
        elif asked.lane is not Lane.MODEL or asked.method in _MODELS_ANSWERS:
            row.lane, row.outward = asked.lane, side == "client"
        return _since(row, asked.number, "answer")

    def _content(self, row: Row, params: Mapping[str, Any]) -> Row:
        content = _mapping(params.get("content"))
        kind = _text(content.get("type"))
        chat = self._chat(row.chat)
        row.what = f"{row.what}: {kind}"
        row.brief = _brief(content)
        row.lane = self._contents_lane(kind, content, params)
        row.outward = kind == "toolCallRunning"
        call = _text(content.get("id"))
        match kind:
            case "progress" if content.get("state") == "finished":
                return self._finished(row, chat)
            case "toolCallRun" if content.get("manualApproval") is True:
                chat.waiting[call] = self.count
            case "toolCallRunning":
                chat.calls[call] = self.count
            case "toolCalled":
                return _since(row, chat.calls.pop(call, None), "tool")
        if row.lane is Lane.MODEL and kind != "usage" and chat.prompts and not chat.has_begun:
            chat.has_begun = True
            return _since(row, chat.prompts[0], "first")
        return row

    def _finished(self, row: Row, chat: _Chat) -> Row:
        chat.has_begun = False
        chat.waiting.clear()
        chat.calls.clear()
        stop, chat.stop = chat.stop, None
        begun = chat.prompts.popleft() if chat.prompts else None
        if stop is None:
            return _since(row, begun, "turn")
        chat.prompts = deque(number for number in chat.prompts if number > stop)
        return _since(row, stop, "stop")

    def _lane(self, method: str, params: Mapping[str, Any]) -> Lane:
        if method.startswith("mcp/"):
            return Lane.MCP
        if method == "tool/serverUpdated":
            return Lane.MCP if params.get("type") == "mcp" else Lane.TOOLS
        if method == "chat/toolCallApprove":
            return self._calls_lane(_text(params.get("toolCallId")))
        return _LANES.get(method, Lane.SERVER)

    def _contents_lane(
        self, kind: str, content: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Lane:
        call = _text(content.get("id"))
        if content.get("origin") == "mcp" and call:
            self._mcp_calls.add(call)
        if kind in _TOOLS_CONTENTS:
            return self._calls_lane(call)
        is_models = kind in _MODELS_CONTENTS and params.get("role") not in {"user", "system"}
        return Lane.MODEL if is_models or kind == "usage" else Lane.SERVER

    def _calls_lane(self, call: str) -> Lane:
        return Lane.MCP if call in self._mcp_calls else Lane.TOOLS

    def _chat(self, name: str) -> _Chat:
        return self._chats.setdefault(name, _Chat())

    def _move_prompt(self, number: int, chat: str) -> None:
        if self._take_prompt(number, ""):
            self._chat(chat).prompts.append(number)

    def _take_prompt(self, number: int, chat: str) -> bool:
        """Wait for nothing more of a prompt; whether something was waited for."""
        waiting = self._chat(chat)
        if number not in waiting.prompts:
            return False
        waiting.prompts.remove(number)
        if not waiting.prompts:
            waiting.stop = None
        return True

    def _forget(self, chat: str, deleted: int) -> None:
        """A chat is gone; prompts behind the request that deleted it are a new one's."""
        gone = self._chats.pop(chat, _Chat())
        self._chat(chat).prompts.extend(each for each in gone.prompts if each > deleted)


def _seen(entry: DataEntry) -> Row:
    """What there is to see of some bytes, before anything is understood."""
    kept = entry.data if entry.body is None else entry.body
    as_we_write = entry.body is None or entry.data == encode_frame(entry.body)
    return Row(
        at=entry.at,
        side=entry.side,
        kind="bytes",
        text=_readable(kept[:LONGEST]),
        left_out=max(0, len(kept) - LONGEST),
        raw=None if as_we_write else _readable(entry.data[:LONGEST]),
        masked=entry.masked,
    )


def _readable(data: bytes) -> str:
    """Bytes as text; what is none is spelled out."""
    return data.decode("utf-8", "backslashreplace")


def _since(row: Row, earlier: int | None, late: Late) -> Row:
    if earlier is not None:
        row.earlier, row.late = earlier, late
    return row


def _id(value: Any) -> str:
    """An id that tells 1 from "1"; none for what is no id."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_TELLING: Final = (
    *("name", "status", "message", "text", "argumentsText", "state", "title", "reason", "url"),
    "query",
)
"""The members that say in a word what a message says: those that are texts, in this order."""


def _brief(told: Mapping[str, Any]) -> str:
    words = []
    for name in _TELLING:
        word = told.get(name)
        if word and isinstance(word, str):
            words.append(word[:_BRIEF])
    return " ".join(words)[:_BRIEF]

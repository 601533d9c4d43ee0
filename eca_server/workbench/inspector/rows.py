"""The rows of the page's list: sender, method, lane and latency of each entry of a transcript.

A transcript has only the messages between editor and server. The activity of the model, the tools
and MCP servers is inferred from them; the page draws it differently.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from eca_protocol.framing import encode_frame
from eca_protocol.transcript import DataEntry, EndEntry, Entry, ExitEntry, Side
from eca_server.json_members import object_in, text_in

Kind: TypeAlias = Literal["request", "notification", "answer", "error", "bytes", "end", "exit"]


class Lane(enum.IntEnum):
    """The far end of a message, seen from the editor."""

    SERVER = 1
    MODEL = 2
    TOOLS = 3
    MCP = 4


Latency: TypeAlias = Literal["answer", "first", "turn", "stop", "approval", "tool"]
"""The kinds of latency, measured from an earlier message.

`answer`: the answer to a request. `first`, `turn`: the model's first content and the end of the
turn, since the prompt. `stop`: the end of the turn since the stop. `approval`: the user's decision
about a call. `tool`: the run of a tool.
"""

LONGEST: Final = 2**20
"""The limit of a message on the page, in bytes."""

_MAX_SUMMARY: Final = 160

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
_MODEL_ANSWERS: Final = {"completion/inline"}
_MODEL_CONTENTS: Final = {
    "text", "url", "image", "usage", "reasonStarted", "reasonText", "reasonFinished",
    "toolCallPrepare", "toolCallRun",
}  # fmt: skip
_TOOL_CONTENTS: Final = {"toolCallRunning", "toolCalled"}


@attrs.define(kw_only=True)
class Row:
    """One entry of the list; `packed` writes its fields in this order.

    Attributes:
        at: seconds since the start.
        side: the sender; None for the end of the server's process.
        label: the method, for an answer its request's; for contents with their type.
        id: the id of a request or an answer, as JSON.
        lane: the farthest lane of the message.
        outward: True if the message goes to the lane, False if it comes from there.
        earlier: the number of the row from which `latency` is measured.
        summary: the content in one line.
        text: the body, or the bytes that are not a message.
        omitted: the number of bytes beyond the page's limit.
        raw: all bytes, if the header differs from W-1.
    """

    at: float
    side: Side | None
    kind: Kind
    label: str = ""
    id: str = ""
    chat: str = ""
    lane: Lane = Lane.SERVER
    outward: bool = False
    earlier: int | None = None
    latency: Latency | None = None
    summary: str = ""
    text: str = ""
    omitted: int = 0
    raw: str | None = None
    masked: bool = False

    def packed(self) -> list[Any]:
        """Return the row as a list for the page; its script names the positions."""
        at, side, kind, label, id_, chat, lane, outward, *rest = attrs.astuple(self, recurse=False)
        return [round(at, 6), side, kind, label, id_, chat, int(-lane if outward else lane), *rest]


@attrs.define
class _Chat:
    """The pending events of a chat, as numbers of the rows that started them."""

    prompts: deque[int] = attrs.field(factory=deque)
    has_model_output: bool = False  # in the current turn
    stop: int | None = None
    calls: dict[str, int] = attrs.field(factory=dict)
    waiting: dict[str, int] = attrs.field(factory=dict)


class Rows:
    """A converter of entries to rows, in order."""

    def __init__(self) -> None:
        self.count = 0
        self._pending: dict[tuple[Side, str], tuple[int, str, str, Lane]] = {}
        """The number, method, chat and lane of each unanswered request, by sender and id."""
        self._chats: dict[str, _Chat] = {}
        self._mcp_calls: set[str] = set()

    def row(self, entry: Entry, message: Mapping[str, Any] | None) -> Row:
        """Make the next entry's row; `message` is its decoded message, if there is one."""
        row = self._row(entry, message)
        self.count += 1
        return row

    def _row(self, entry: Entry, message: Mapping[str, Any] | None) -> Row:
        if isinstance(entry, ExitEntry):
            code = entry.code
            reason = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            return Row(at=entry.at, side=None, kind="exit", summary=f"The server ended {reason}.")
        if isinstance(entry, EndEntry):
            summary = f"The {entry.side} closed its output."
            return Row(at=entry.at, side=entry.side, kind="end", summary=summary)
        row = _bytes_row(entry)
        if message is None:
            row.summary = row.text[:_MAX_SUMMARY]
            return row
        if isinstance(message.get("method"), str):
            return self._call(row, entry.side, message)
        return self._answer(row, entry.side, message)

    def _call(self, row: Row, side: Side, message: Mapping[str, Any]) -> Row:
        method: str = message["method"]
        params = object_in(message, "params")
        row.kind = "request" if "id" in message else "notification"
        row.label = method
        row.id = _id(message.get("id"))
        row.chat = chat = text_in(params, "chatId")
        row.lane = self._lane(method, params)
        row.outward = side == "client"
        row.summary = _summary(params)
        if row.id:
            self._pending.setdefault((side, row.id), (self.count, method, chat, row.lane))
        if method == "chat/contentReceived":
            return self._content(row, params)
        match method:
            case "chat/prompt" | "chat/inlinePrompt":
                self._chat(chat).prompts.append(self.count)
            case "chat/promptStop" if self._chat(chat).prompts:
                self._chat(chat).stop = self.count
            case "chat/toolCallApprove" | "chat/toolCallReject":
                waiting = self._chat(chat).waiting.pop(text_in(params, "toolCallId"), None)
                return _since(row, waiting, "approval")
        return row

    def _answer(self, row: Row, side: Side, message: Mapping[str, Any]) -> Row:
        row.kind = "error" if message.get("error") is not None else "answer"
        row.id = _id(message.get("id"))
        outcome = object_in(message, "error" if row.kind == "error" else "result")
        row.chat = text_in(outcome, "chatId")
        row.summary = _summary(outcome)
        request = self._pending.pop(("client" if side == "server" else "server", row.id), None)
        if request is None:
            return row
        number, row.label, chat, lane = request
        row.chat = chat or row.chat
        if row.label == "chat/delete" and row.kind == "answer":
            self._forget_chat(chat, number)
        if row.label in {"chat/prompt", "chat/inlinePrompt"}:
            if row.kind == "error":
                self._remove_prompt(number, chat)
            elif not chat and self._remove_prompt(number, ""):  # the answer names the chat
                self._chat(row.chat).prompts.append(number)
        elif lane is not Lane.MODEL or row.label in _MODEL_ANSWERS:
            row.lane, row.outward = lane, side == "client"
        return _since(row, number, "answer")

    def _content(self, row: Row, params: Mapping[str, Any]) -> Row:
        content = object_in(params, "content")
        kind = text_in(content, "type")
        chat = self._chat(row.chat)
        row.label = f"{row.label}: {kind}"
        row.summary = _summary(content)
        row.lane = self._contents_lane(kind, content, params)
        row.outward = kind == "toolCallRunning"
        call = text_in(content, "id")
        match kind:
            case "progress" if content.get("state") == "finished":
                return self._finished(row, chat)
            case "toolCallRun" if content.get("manualApproval") is True:
                chat.waiting[call] = self.count
            case "toolCallRunning":
                chat.calls[call] = self.count
            case "toolCalled":
                return _since(row, chat.calls.pop(call, None), "tool")
        if (
            row.lane is Lane.MODEL
            and kind != "usage"
            and chat.prompts
            and not chat.has_model_output
        ):
            chat.has_model_output = True
            return _since(row, chat.prompts[0], "first")
        return row

    def _finished(self, row: Row, chat: _Chat) -> Row:
        chat.has_model_output = False
        chat.waiting.clear()
        chat.calls.clear()
        stop, chat.stop = chat.stop, None
        prompt = chat.prompts.popleft() if chat.prompts else None
        if stop is None:
            return _since(row, prompt, "turn")
        chat.prompts = deque(number for number in chat.prompts if number > stop)
        return _since(row, stop, "stop")

    def _lane(self, method: str, params: Mapping[str, Any]) -> Lane:
        if method.startswith("mcp/"):
            return Lane.MCP
        if method == "tool/serverUpdated":
            return Lane.MCP if params.get("type") == "mcp" else Lane.TOOLS
        if method == "chat/toolCallApprove":
            return self._calls_lane(text_in(params, "toolCallId"))
        return _LANES.get(method, Lane.SERVER)

    def _contents_lane(
        self, kind: str, content: Mapping[str, Any], params: Mapping[str, Any]
    ) -> Lane:
        call = text_in(content, "id")
        if content.get("origin") == "mcp" and call:
            self._mcp_calls.add(call)
        if kind in _TOOL_CONTENTS:
            return self._calls_lane(call)
        is_models = kind in _MODEL_CONTENTS and params.get("role") not in {"user", "system"}
        return Lane.MODEL if is_models or kind == "usage" else Lane.SERVER

    def _calls_lane(self, call: str) -> Lane:
        return Lane.MCP if call in self._mcp_calls else Lane.TOOLS

    def _chat(self, name: str) -> _Chat:
        return self._chats.setdefault(name, _Chat())

    def _remove_prompt(self, number: int, chat: str) -> bool:
        """Remove a prompt from the pending ones; return False if it was not pending."""
        state = self._chat(chat)
        if number not in state.prompts:
            return False
        state.prompts.remove(number)
        if not state.prompts:
            state.stop = None
        return True

    def _forget_chat(self, chat: str, deleted: int) -> None:
        """Forget a deleted chat; prompts after the request `deleted` belong to a new one."""
        gone = self._chats.pop(chat, _Chat())
        self._chat(chat).prompts.extend(each for each in gone.prompts if each > deleted)


def _bytes_row(entry: DataEntry) -> Row:
    body = entry.data if entry.body is None else entry.body
    is_canonical = entry.body is None or entry.data == encode_frame(entry.body)
    return Row(
        at=entry.at,
        side=entry.side,
        kind="bytes",
        text=_readable(body[:LONGEST]),
        omitted=max(0, len(body) - LONGEST),
        raw=None if is_canonical else _readable(entry.data[:LONGEST]),
        masked=entry.masked,
    )


def _readable(data: bytes) -> str:
    """Decode bytes; escape invalid ones."""
    return data.decode("utf-8", "backslashreplace")


def _since(row: Row, earlier: int | None, latency: Latency) -> Row:
    if earlier is not None:
        row.earlier, row.latency = earlier, latency
    return row


def _id(value: Any) -> str:
    """Return an id as text, where 1 and "1" differ; return an empty text for an invalid id."""
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


_SUMMARY_KEYS: Final = (
    *("name", "status", "message", "text", "argumentsText", "state", "title", "reason", "url"),
    "query",
)
"""The members of a summary, if they are texts, in this order."""


def _summary(values: Mapping[str, Any]) -> str:
    texts = []
    for name in _SUMMARY_KEYS:
        text = values.get(name)
        if text and isinstance(text, str):
            texts.append(text[:_MAX_SUMMARY])
    return " ".join(texts)[:_MAX_SUMMARY]

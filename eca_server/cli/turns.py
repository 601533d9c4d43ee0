"""The contents of a turn, its questions and approvals: in a terminal, in a pipe, or as JSON.

Stdout has the answer, or the JSON; notes, questions and errors go to stderr.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Awaitable, Callable, Container
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.client import ApprovalDecision, Rejection, Turn
from eca_protocol.draft import codec_for
from eca_protocol.methods import CHAT_CONTENT_RECEIVED
from eca_protocol.revisions import Revision
from eca_server.agent.chat.tool_call import UNASKED
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.cli.approval_view import call_rows, change_rows, question_of, remembered_by
from eca_server.cli.reading import Reader
from eca_server.cli.screen import fitted, is_capable, make_output, write_rows
from eca_server.printable import printable_json, printable_line, printable_lines

if TYPE_CHECKING:
    from eca_server.agent.chat.tool_call import ToolCall

_OTHER_ANSWER: Final = "  any other answer rejects the call, and is sent to the model\n"
_LONGEST_LINE: Final = 10_000  # characters of a question
_PATIENCE: Final = 3.0  # seconds until a wait is named
_NOTE = 200  # characters of the reason of a failed tool call
_OUTPUT = Cap(lines=40, size=4000)  # of an approved call
_USUAL_PROGRESS = {
    "",
    "Waiting model",
    "Generating",
    "Calling tool",
    "Waiting for tool call approval",
    "Waiting for your answer",
    "Stopped",
}


def workspace() -> list[Path]:
    """Return the workspace, which is empty if the current directory was removed."""
    try:
        return [Path.cwd()]
    except FileNotFoundError:
        return []


@attrs.define(kw_only=True)
class Approvals:
    """The user's decisions about tool calls, those of subagents included.

    Attributes:
        approves: approve every call.
        reader: asks the user.
        find_call: returns the server's part of a waiting call, named by its id.
        end_line: completes the last line of the answer, before a question.
    """

    approves: bool
    reader: Reader | None = None
    find_call: Callable[[str], ToolCall | None] = lambda _id: None
    end_line: Callable[[], None] = lambda: None
    _has_explained: bool = attrs.field(default=False, init=False)

    async def decide(self, call: m.ChatToolCallRunContent) -> ApprovalDecision:
        """Ask the user about a call; without a terminal, reject it."""
        if self.approves:
            return "allow"
        self.end_line()
        waiting = self.find_call(call.id)
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            note = (
                f"{call.summary or call.name}: rejected; it needs your approval, and there is no "
                "terminal to ask. Run the chat in a terminal, pass --approve, or allow the tool "
                "with `toolCall.approval` in the configuration."
            )
            sys.stderr.write(f"[{printable_line(note)}]\n")
            if waiting is not None:
                waiting.rejection = UNASKED
            return "reject"
        directory = next(iter(workspace()), None)
        remembered = "" if waiting is None else remembered_by(call, waiting.memos)
        width = _width()
        write_rows(call_rows(call, directory=directory, width=width, remembered=remembered))
        assert self.reader is not None
        if not self._has_explained:
            sys.stderr.write(fitted(_OTHER_ANSWER))
            self._has_explained = True
        choices = "[y/N/a]" if remembered else "[y/N]"
        answer = (await self.reader.answer(f"{question_of(call)} {choices} ")).strip()
        match answer.lower():
            case "y" | "yes":
                return "allow"
            case "a" | "always" if remembered:
                return "allow_session"
            case "" | "n" | "no" | "a" | "always":
                return "reject"
        return Rejection(answer)


@attrs.define(kw_only=True)
class Questions:
    """Questions to the user at the terminal.

    Attributes:
        read_line: writes a label and reads one line; empty at the end of input.
    """

    read_line: Callable[[str], Awaitable[str]] | None = None

    async def ask(self, params: m.ChatAskQuestionParams) -> str | None:
        """Show a question, and return the label or the text of the answer, or None."""
        options = params.options or ()
        self.say(params.question)
        for number, option in enumerate(options, 1):
            more = f" - {option.description}" if option.description else ""
            self.say(f"  {number}. {option.label}{more}")
        choice = f"1-{len(options)}" if options else ""
        free = "your own text" if params.allow_freeform or not options else ""
        assert self.read_line is not None
        label = f"Answer ({' or '.join(filter(None, [choice, free]))}): "
        line = (await self.read_line(label)).strip()
        for number, option in enumerate(options, 1):
            if line.casefold() in {str(number), option.label.casefold()}:
                return option.label
        return line if line and (params.allow_freeform or not options) else None

    def say(self, text: str) -> None:
        """Show a text, without characters that control the terminal."""
        for line in text.splitlines():
            if line == "```":  # Markdown for editors
                continue
            sys.stderr.write(fitted(f"{printable_line(line, longest=_LONGEST_LINE)}\n"))
        sys.stderr.flush()


@attrs.define(eq=False)
class WaitNotice:
    """The notice of one wait after another: for the model, its reasoning, or its next call.

    Attributes:
        end_line: completes the last line of the answer, before the notice.
    """

    end_line: Callable[[], None] = lambda: None
    _text: str = attrs.field(default="", init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self) -> None:
        """Write the notice of each wait that lasts, until it is cancelled."""
        while True:
            text, changed = self._text, self._changed
            with trio.move_on_after(_PATIENCE if text else math.inf):
                await changed.wait()
            if not changed.is_set():
                self.end_line()
                sys.stderr.write(f"[{printable_line(text)}]\n")
                await changed.wait()

    def take(self, received: m.ChatContentReceivedParams) -> None:
        """Begin or end a wait by a content of the turn."""
        match received.content:
            case _ if received.role == "user":
                pass
            case m.ChatProgressContent(text="Waiting model"):
                self._set("Waiting for the model")
            case m.ChatReasonStartedContent() | m.ChatReasonTextContent():
                self._set("The model is thinking")
            case m.ChatToolCallPrepareContent(name=name):
                self._set(f"The model is writing a call of {name}")
            case m.ChatProgressContent(text="Generating") | m.ChatUsageContent():
                pass
            case _:
                self.end()

    def end(self) -> None:
        """End the wait, if there is one."""
        self._set("")

    def _set(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self._changed.set()
            self._changed = trio.Event()


async def print_turn(turn: Turn, approvals: Approvals, notice: WaitNotice) -> str:
    """Print a turn; return its last system text, which is an error if the turn failed."""
    out = make_output()
    approvals.end_line = notice.end_line = out.end_line
    last = last_note = ""
    approved: set[str] = set()
    try:
        async for received in turn.contents_with_roles():
            content = received.content
            notice.take(received)
            note = "" if turn.stopped else _note_of(content, approved)
            if note not in {"", last_note}:
                out.end_line()
                sys.stderr.write(note)
                last_note = note
            if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
                approved.add(content.id)
            elif isinstance(content, m.ChatToolCallRunningContent) and content.id not in approved:
                _show_change(content)
            if received.role == "user":
                continue
            if not isinstance(content, m.ChatTextContent | m.ChatURLContent):
                continue
            text = content.text if isinstance(content, m.ChatTextContent) else f"\n{content.url}\n"
            if received.role == "system":
                last += text
            else:
                if last:  # a note, such as one about a context that was cut
                    out.end_line()
                    sys.stderr.write(fitted(f"{printable_lines(last.strip())}\n"))
                    last, text = "", text.lstrip("\n")  # the paragraph break behind the note
                out.write(text)
        if turn.stopped and out.ended_line:
            _leave_interrupt()
    finally:
        notice.end()
        out.end_line()
    return last


async def print_turn_as_json(turn: Turn) -> str:
    """Print each content of a turn as one line of JSON; return its last system text.

    A line is the `params` of `chat/contentReceived`. The last one is the `finished` progress.
    """
    last = ""
    async for received in turn.contents_with_roles():
        _print_json(received)
        content = received.content
        if isinstance(content, m.ChatTextContent):
            last = last + content.text if received.role == "system" else ""
    if turn.stopped:
        _leave_interrupt()
    finished = m.ChatProgressContent(state="finished", text="")
    _print_json(m.ChatContentReceivedParams(chat_id=turn.chat.id, role="system", content=finished))
    return last


def _leave_interrupt() -> None:
    """Begin a new line behind the `^C` of the terminal."""
    if sys.stdin.isatty():
        sys.stderr.write("\n")


def _print_json(received: m.ChatContentReceivedParams) -> None:
    values = codec_for(Revision.CURRENT).encode_params(CHAT_CONTENT_RECEIVED.name, received)
    sys.stdout.write(f"{printable_json(json.dumps(values).decode())}\n")
    sys.stdout.flush()


def _show_change(call: m.ChatToolCallRunningContent) -> None:
    """Show the change of a file that needed no approval, in a terminal."""
    if isinstance(call.details, m.FileChangeDetails) and is_capable(sys.stderr):
        write_rows(change_rows(call.details, width=_width()))


def note_of_wait(content: m.ChatContent) -> str:
    """Return a line for a wait that the server names; empty: it is no such content."""
    if isinstance(content, m.ChatProgressContent) and content.text not in _USUAL_PROGRESS:
        return f"[{printable_line(content.text)}]\n"
    return ""


def _note_of(content: m.ChatContent, approved: Container[str]) -> str:
    """Return a line for a wait, a picture or a tool call, and the output of an approved call."""
    match content:
        case m.ChatProgressContent():
            return note_of_wait(content)
        case m.ChatImageContent(media_type=media_type):
            note = f"a picture: {media_type}"
        case m.ChatToolCallRunningContent():
            note = content.summary or content.name
        case m.ChatToolCalledContent(id=id_, outputs=outputs) if id_ in approved or content.error:
            text = "\n".join(
                each.text for each in outputs if isinstance(each, m.ToolCallTextOutput)
            )
            note = f"{content.summary or content.name} failed"
            if id_ in approved:
                return (f"[{printable_line(note)}]\n" if content.error else "") + _indented(text)
            why = shorten(text, _NOTE, placeholder=" ...") or "no reason was given"
            note = f"{note}: {why}"
        case m.ChatToolCallRejectedContent(reason="user-config" | "hookRejected" as reason):
            by = "a hook" if reason == "hookRejected" else "the agent or the configuration"
            note = f"{content.summary or content.name}: denied by {by}"
        case _:
            return ""
    return f"[{printable_line(note)}]\n"


def _indented(text: str) -> str:
    """Return the lines of an output, without those in the middle of a long one."""
    text = cut_middle(printable_lines(text), _OUTPUT).strip("\n")
    return "".join(f"  {line}\n" for line in text.split("\n")) if text else ""


def _width() -> int:
    return shutil.get_terminal_size().columns

"""`chat` and `doctor`: the server for people, as an SDK client inside this process."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Literal

import trio

from eca_protocol import messages as m
from eca_protocol.client import Chat, Turn
from eca_server.approval_view import call_rows, question_of
from eca_server.features import Options
from eca_server.local import Local, local_client
from eca_server.printable import Printer, printable_line, printable_lines
from eca_server.signals import until_a_signal
from eca_server.terminal_questions import Questions

__all__ = ["chat", "doctor"]

_Ending = Literal["well", "failed", "stopped", "left"]
_EXIT_CODES: dict[_Ending, int] = {"well": 0, "failed": 1, "stopped": 130, "left": 130}

_NOTE = 200  # characters of why a tool call failed

_QUIET = m.InitializationOptions(extras={"chat": {"title": False}})


def chat(options: Options, *, message: str | None, model: str | None) -> int:
    """Answer one message, or hold a conversation; the exit code."""
    return _run(partial(_chat, options, message, model))


def doctor(options: Options, *, online: bool = False) -> int:
    """Print what was found; the exit code is 0 however little that is.

    With `online` each provider is asked, and the exit code is 1 if one of them does not work.
    """
    return _run(partial(_doctor, options, online))


def _run(command: Callable[[], Awaitable[int]]) -> int:
    code, number = trio.run(until_a_signal, command)
    return 128 + number if number is not None else code or 0


class _Lines:
    """Lines of stdin, read when somebody asks; who stops waiting leaves the line to the next."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._given, self._lines = trio.open_memory_channel[str](0)
        self._reads = False
        self._answering = trio.Lock()

    async def next_answer(self) -> str:
        """The next line, for one question at a time."""
        async with self._answering:
            return await self.next()

    async def next(self) -> str:
        """The next line with its end; empty at the end of stdin."""
        if not self._reads:
            self._reads = True
            self._nursery.start_soon(self._read_one)
        line = await self._lines.receive()
        self._reads = False
        return line

    async def _read_one(self) -> None:
        line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await self._given.send(line)


class _Question:
    """The question that waits for the person, if one does; an interrupt takes it back."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._scope: trio.CancelScope | None = None

    async def ask(self, text: str) -> bool:
        """Whether the person says yes; anything else is a no."""
        sys.stderr.write(f"{text} [y/N] ")
        sys.stderr.flush()
        answer = ""
        with trio.CancelScope() as self._scope:
            answer = await self._lines.next_answer()
        if self._scope.cancelled_caught:
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    def take_back(self) -> None:
        """Wait for no answer any more."""
        if self._scope is not None:
            self._scope.cancel()


async def _chat(options: Options, message: str | None, model: str | None) -> int:
    code = 1
    questions = Questions()
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    async with local_client(
        options,
        workspace_folders=_here(),
        initialization_options=_QUIET,
        ask_question=questions.answer if is_terminal else None,
    ) as local:
        await local.client.wait_for_config()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(local.show_messages)
            conversation = local.client.chat(model=model)
            lines = _Lines(nursery)
            questions.read_line = lines.next_answer
            if is_terminal and local.connection.loaded.withheld:
                await local.connection.trust.ask(questions.ask, questions.say)
            if message is not None:
                code = _EXIT_CODES[await _answer(local, conversation, message, lines)]
            else:
                code = await _converse(local, conversation, lines)
            nursery.cancel_scope.cancel()
    return code


async def _doctor(options: Options, online: bool) -> int:
    async with local_client(
        options, workspace_folders=_here(), initialization_options=_QUIET
    ) as local:
        await local.client.wait_for_config()
        conversation = local.client.chat()
        out = _Output()
        async for content in conversation.prompt("/doctor online" if online else "/doctor"):
            if isinstance(content, m.ChatTextContent):
                out.write(content.text)
        out.write("\n")
        served = local.connection.chats.get(conversation.id)
        return int(served is not None and served.last_turn_failed)


def _here() -> list[Path]:
    """The workspace; none where the current folder was removed."""
    try:
        return [Path.cwd()]
    except FileNotFoundError:
        return []


async def _converse(local: Local, conversation: Chat, lines: _Lines) -> int:
    """Prompts from stdin until its end; Ctrl-C stops a turn, or leaves between two."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        sys.stderr.write("Ctrl-C stops an answer, Ctrl-D leaves.\n")
    ending: _Ending = "well"
    while ending != "left":
        with _unseen(is_terminal and _awaits_key(local, conversation)):
            if is_terminal:
                sys.stderr.write("> ")
                sys.stderr.flush()
            line = await lines.next()
        if not line:
            break
        if line.strip():
            ending = await _answer(local, conversation, line.rstrip("\n"), lines)
    return _EXIT_CODES[ending]


def _awaits_key(local: Local, conversation: Chat) -> bool:
    served = local.connection.chats.get(conversation.id)
    return served is not None and served.awaits_key_of is not None


@contextmanager
def _unseen(is_secret: bool) -> Iterator[None]:
    """While the block runs, the terminal does not show what is typed, if it is a secret."""
    if not is_secret or sys.platform == "win32":
        yield
        return
    import termios  # noqa: PLC0415 - POSIX only

    before = termios.tcgetattr(sys.stdin)
    unseen = termios.tcgetattr(sys.stdin)
    unseen[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, unseen)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stderr.write("\n")


async def _answer(local: Local, conversation: Chat, message: str, lines: _Lines) -> _Ending:
    turn = conversation.prompt(message)
    question = _Question(lines)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_interrupt, turn, scope, question)
            await _print_turn(turn, question)
            nursery.cancel_scope.cancel()
    if scope.cancelled_caught:
        return "left"
    if turn.stopped:
        return "stopped"
    served = local.connection.chats.get(conversation.id)
    return "failed" if served is not None and served.last_turn_failed else "well"


async def _stop_on_interrupt(turn: Turn, scope: trio.CancelScope, question: _Question) -> None:
    """The first Ctrl-C stops the turn, the second leaves without its last word."""
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        async for _ in interrupts:
            if turn.stopped:
                scope.cancel()
            turn.stop()
            question.take_back()


async def _print_turn(turn: Turn, question: _Question) -> None:
    out = _Output()
    async for received in turn.contents_with_roles():
        content = received.content
        note = "" if turn.stopped else _note_of(content)
        asks = isinstance(content, m.ChatToolCallRunContent) and content.manual_approval
        if note or asks:
            out.end_line()
        sys.stderr.write(note)
        if isinstance(content, m.ChatToolCallRunContent) and asks:
            await _decide(turn, content, question)
        if received.role == "user" or not isinstance(content, m.ChatTextContent | m.ChatURLContent):
            continue
        text = content.text if isinstance(content, m.ChatTextContent) else f"\n{content.url}\n"
        if turn.stopped and received.role == "system":  # it is no part of the answer
            out.end_line()
            sys.stderr.write(f"{printable_lines(text.strip())}\n")
            continue
        if received.role == "system" and not out.ended_line:
            text = f"\n{text}"
        out.write(text)
    out.end_line()


def _note_of(content: m.ChatContent) -> str:
    """Return a line for what is no text: a picture, or the end of a call that was not asked for."""
    match content:
        case m.ChatImageContent(media_type=media_type):
            told = f"a picture: {media_type}"
        case m.ChatToolCallRunningContent():
            told = content.summary or content.name
        case m.ChatToolCalledContent(error=True, outputs=outputs):
            said = [each.text for each in outputs if isinstance(each, m.ToolCallTextOutput)]
            why = shorten(" ".join(said), _NOTE, placeholder=" ...") or "no reason was given"
            told = f"{content.summary or content.name} failed: {why}"
        case m.ChatToolCallRejectedContent(reason="user-config"):
            what = content.summary or content.name
            told = f"{what}: refused by the behaviour or the configuration"
        case _:
            return ""
    return f"[{printable_line(told)}]\n"


async def _decide(turn: Turn, call: m.ChatToolCallRunContent, question: _Question) -> None:
    """Ask the person at the terminal; without one, reject the call."""
    if turn.stopped:
        return
    asked = question_of(call)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        sys.stderr.write(f"rejected, since nobody can be asked: {asked.removesuffix('?')}\n")
        turn.chat.reject(call.id)
        return
    here = next(iter(_here()), None)
    sys.stderr.write(call_rows(call, directory=here, width=shutil.get_terminal_size().columns))
    if await question.ask(asked):
        turn.chat.approve(call.id)
    else:
        turn.chat.reject(call.id)


class _Output:
    """Stdout, for texts of others that come in pieces.

    Attributes:
        ended_line: whether the last line is whole.
    """

    def __init__(self) -> None:
        self.ended_line = True
        self._printer = Printer()

    def write(self, text: str) -> None:
        """Print the next piece."""
        self._print(self._printer.feed(text))

    def end_line(self) -> None:
        """Begin a new line, unless the last one is whole."""
        self._print(self._printer.flush())
        if not self.ended_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        if text:
            self.ended_line = text.endswith("\n")
        sys.stdout.write(text)
        sys.stdout.flush()

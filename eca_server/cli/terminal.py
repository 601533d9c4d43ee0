"""`chat` and `doctor`: commands that use the server through an SDK client in this process."""

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
from eca_server.cli.approval_view import call_rows, question_of
from eca_server.cli.terminal_questions import Questions
from eca_server.connection.features.host import Options
from eca_server.connection.local import LocalPair, local_client
from eca_server.models.simulator import DEFAULT
from eca_server.printable import Printer, printable_line, printable_lines
from eca_server.system.signals import until_a_signal

_Outcome = Literal["well", "failed", "stopped", "left"]
_EXIT_CODES: dict[_Outcome, int] = {"well": 0, "failed": 1, "stopped": 130, "left": 130}

_NOTE = 200  # characters of the reason of a failed tool call

_NO_MODEL = (
    "No model is configured: the built-in simulator/echo repeats what you write. Send /login, or "
    "set a key such as ANTHROPIC_API_KEY. `eca-server doctor` shows what is in use.\n"
)
_QUIET = m.InitializationOptions(extras={"chat": {"title": False}})


def chat(options: Options, *, message: str | None, model: str | None) -> int:
    """Answer one message, or hold a conversation, and return the exit code."""
    return _run(partial(_chat, options, message, model))


def doctor(options: Options, *, online: bool = False) -> int:
    """Print the report of `/doctor`, and return the exit code.

    With `online` each provider gets a request, and the exit code is 1 if one fails; else it is 0.
    """
    return _run(partial(_doctor, options, online))


def _run(command: Callable[[], Awaitable[int]]) -> int:
    code, number = trio.run(until_a_signal, command)
    return 128 + number if number is not None else code or 0


class _Lines:
    """Lines of stdin, read on demand; the line of a cancelled wait goes to the next one."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._sender, self._receiver = trio.open_memory_channel[str](0)
        self._is_reading = False
        self._answering = trio.Lock()

    async def next_answer(self) -> str:
        """Return the next line, for one question at a time."""
        async with self._answering:
            return await self.next()

    async def next(self) -> str:
        """Return the next line with its line end; empty at the end of stdin."""
        if not self._is_reading:
            self._is_reading = True
            self._nursery.start_soon(self._read_one)
        line = await self._receiver.receive()
        self._is_reading = False
        return line

    async def _read_one(self) -> None:
        line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await self._sender.send(line)


class _Question:
    """A yes-no question to the user, which an interrupt can cancel."""

    def __init__(self, lines: _Lines) -> None:
        self._lines = lines
        self._scope: trio.CancelScope | None = None

    async def ask(self, text: str) -> bool:
        """Return whether the user answers yes."""
        sys.stderr.write(f"{text} [y/N] ")
        sys.stderr.flush()
        answer = ""
        with trio.CancelScope() as self._scope:
            answer = await self._lines.next_answer()
        if self._scope.cancelled_caught:
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    def cancel(self) -> None:
        """Stop waiting for the answer."""
        if self._scope is not None:
            self._scope.cancel()


async def _chat(options: Options, message: str | None, model: str | None) -> int:
    code = 1
    questions = Questions()
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    async with local_client(
        options,
        workspace_folders=_workspace(),
        initialization_options=_QUIET,
        on_question=questions.ask if is_terminal else None,
    ) as local:
        await local.client.wait_for_config()
        if model is None and sys.stderr.isatty() and _lacks_a_model(local):
            sys.stderr.write(_NO_MODEL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(local.show_messages)
            conversation = local.client.chat(model=model)
            lines = _Lines(nursery)
            questions.read_line = lines.next_answer
            if is_terminal and local.connection.settings.loaded.withheld:
                await local.connection.parts.get().trust.ask(questions.ask, questions.say)
            if message is not None:
                code = _EXIT_CODES[await _answer(local, conversation, message, lines)]
            else:
                code = await _converse(local, conversation, lines)
            nursery.cancel_scope.cancel()
    return code


def _lacks_a_model(local: LocalPair) -> bool:
    settings, models = local.connection.settings, local.connection.parts.get().models.current
    return models.selected == DEFAULT and settings.config.default_model is None


async def _doctor(options: Options, online: bool) -> int:
    async with local_client(
        options, workspace_folders=_workspace(), initialization_options=_QUIET
    ) as local:
        await local.client.wait_for_config()
        conversation = local.client.chat()
        out = _Output()
        async for content in conversation.prompt("/doctor online" if online else "/doctor"):
            if isinstance(content, m.ChatTextContent):
                out.write(content.text)
        out.write("\n")
        served = local.connection.parts.get().chats.get().get(conversation.id)
        return int(served is not None and served.last_turn_failed)


def _workspace() -> list[Path]:
    """Return the workspace, which is empty if the current directory was removed."""
    try:
        return [Path.cwd()]
    except FileNotFoundError:
        return []


async def _converse(local: LocalPair, conversation: Chat, lines: _Lines) -> int:
    """Answer prompts from stdin until its end; Ctrl-C stops a turn, or exits between two."""
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        sys.stderr.write("Ctrl-C stops an answer, Ctrl-D exits.\n")
    outcome: _Outcome = "well"
    while outcome != "left":
        with _hidden_input(is_terminal and _awaits_key(local, conversation)):
            if is_terminal:
                sys.stderr.write("> ")
                sys.stderr.flush()
            line = await lines.next()
        if not line:
            break
        if line.strip():
            outcome = await _answer(local, conversation, line.rstrip("\n"), lines)
    return _EXIT_CODES[outcome]


def _awaits_key(local: LocalPair, conversation: Chat) -> bool:
    served = local.connection.parts.get().chats.get().get(conversation.id)
    return served is not None and served.awaits_key_of is not None


@contextmanager
def _hidden_input(is_secret: bool) -> Iterator[None]:
    """Turn off the terminal's echo during the block, if the input is a secret."""
    if not is_secret or sys.platform == "win32":
        yield
        return
    import termios  # noqa: PLC0415 - POSIX only

    before = termios.tcgetattr(sys.stdin)
    hidden = termios.tcgetattr(sys.stdin)
    hidden[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, hidden)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stderr.write("\n")


async def _answer(local: LocalPair, conversation: Chat, message: str, lines: _Lines) -> _Outcome:
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
    served = local.connection.parts.get().chats.get().get(conversation.id)
    return "failed" if served is not None and served.last_turn_failed else "well"


async def _stop_on_interrupt(turn: Turn, scope: trio.CancelScope, question: _Question) -> None:
    """Stop the turn at the first Ctrl-C, and exit at the second."""
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        async for _ in interrupts:
            if turn.stopped:
                scope.cancel()
            turn.stop()
            question.cancel()


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
        if turn.stopped and received.role == "system":  # not part of the answer
            out.end_line()
            sys.stderr.write(f"{printable_lines(text.strip())}\n")
            continue
        if received.role == "system" and not out.ended_line:
            text = f"\n{text}"
        out.write(text)
    out.end_line()


def _note_of(content: m.ChatContent) -> str:
    """Return a line for a picture or for the progress of a tool call."""
    match content:
        case m.ChatImageContent(media_type=media_type):
            note = f"a picture: {media_type}"
        case m.ChatToolCallRunningContent():
            note = content.summary or content.name
        case m.ChatToolCalledContent(error=True, outputs=outputs):
            texts = [each.text for each in outputs if isinstance(each, m.ToolCallTextOutput)]
            why = shorten(" ".join(texts), _NOTE, placeholder=" ...") or "no reason was given"
            note = f"{content.summary or content.name} failed: {why}"
        case m.ChatToolCallRejectedContent(reason="user-config"):
            call = content.summary or content.name
            note = f"{call}: denied by the agent or the configuration"
        case _:
            return ""
    return f"[{printable_line(note)}]\n"


async def _decide(turn: Turn, call: m.ChatToolCallRunContent, question: _Question) -> None:
    """Ask the user about a call; without a terminal, reject it."""
    if turn.stopped:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        note = (
            f"{call.summary or call.name}: rejected; it needs your approval, and there is no "
            "terminal to ask. Run the chat in a terminal, or allow the tool with "
            "`toolCall.approval` in the configuration."
        )
        sys.stderr.write(f"[{printable_line(note)}]\n")
        turn.chat.reject(call.id)
        return
    directory = next(iter(_workspace()), None)
    sys.stderr.write(call_rows(call, directory=directory, width=shutil.get_terminal_size().columns))
    if await question.ask(question_of(call)):
        turn.chat.approve(call.id)
    else:
        turn.chat.reject(call.id)


class _Output:
    """Stdout, for untrusted text that arrives in pieces.

    Attributes:
        ended_line: whether the last line is complete.
    """

    def __init__(self) -> None:
        self.ended_line = True
        self._printer = Printer()

    def write(self, text: str) -> None:
        """Print the next piece."""
        self._print(self._printer.feed(text))

    def end_line(self) -> None:
        """Begin a new line, unless the last one is complete."""
        self._print(self._printer.flush())
        if not self.ended_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        if text:
            self.ended_line = text.endswith("\n")
        sys.stdout.write(text)
        sys.stdout.flush()

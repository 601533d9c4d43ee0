"""`chat` and `doctor`: commands that use the server through an SDK client in this process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Literal

import trio

from eca_protocol import messages as m
from eca_protocol.client import Chat, Turn
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.cli.approval_view import call_rows, question_of
from eca_server.cli.checks import errors_of, to_json
from eca_server.cli.terminal_questions import Questions
from eca_server.connection.features.host import Options
from eca_server.connection.local import LocalPair, local_client
from eca_server.models.simulator import DEFAULT
from eca_server.printable import Printer, printable_json, printable_line, printable_lines
from eca_server.system.signals import until_a_signal

_Outcome = Literal["well", "failed", "stopped", "left"]
_EXIT_CODES: dict[_Outcome, int] = {"well": 0, "failed": 1, "stopped": 130, "left": 130}

_NOTE = 200  # characters of the reason of a failed tool call

_NO_MODEL = (
    "No model is configured: the built-in simulator/echo repeats what you write. Send /login, or "
    "set a key such as ANTHROPIC_API_KEY. `eca-server doctor` shows what is in use.\n"
)
_REFUSED = "eca-server: the configuration has errors; `eca-server doctor` shows what is in use\n"
_OUTPUT = Cap(lines=40, size=4000)  # of an approved call
_QUIET = m.InitializationOptions(extras={"chat": {"title": False}})


def chat(
    options: Options, *, message: str | None, model: str | None, approves: bool = False
) -> int:
    """Answer one message, or hold a conversation, and return the exit code.

    Args:
        options: the server's options.
        message: the only prompt, with the text at stdin as its context; None: a conversation.
        model: the model; None: the configured one.
        approves: approve every tool call that needs approval.
    """
    with _piped_context(message) as contexts:
        return _run(partial(_chat, options, message, model, approves, contexts))


def doctor(options: Options, *, online: bool = False, prints_json: bool = False) -> int:
    """Print the report of `/doctor`, and return the exit code.

    The code is 1 if the configuration has errors, or if one of the requests of `online` fails.
    """
    return _run(partial(_doctor, options, online, prints_json))


@contextmanager
def _piped_context(message: str | None) -> Iterator[tuple[m.ChatContext, ...]]:
    """Yield the text of a pipe or file at stdin, in a private file, as a context of `message`."""
    mode = os.fstat(sys.stdin.fileno()).st_mode if message is not None and _has_stdin() else 0
    text = sys.stdin.read() if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) else ""
    if not text.strip():
        yield ()
        return
    with TemporaryDirectory(prefix="eca-") as directory:
        file = Path(directory) / "stdin.txt"
        file.write_text(text, "utf-8", errors="replace")
        yield (m.FileContext(path=str(file)),)


def _has_stdin() -> bool:
    try:
        return sys.stdin.fileno() >= 0
    except (OSError, ValueError):  # closed, or no file
        return False


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

    def __init__(self, lines: _Lines, *, approves: bool = False) -> None:
        self.lines = lines
        self.approves = approves
        self._scope: trio.CancelScope | None = None

    async def ask(self, text: str) -> bool:
        """Return whether the user answers yes."""
        sys.stderr.write(f"{text} [y/N] ")
        sys.stderr.flush()
        answer = ""
        with trio.CancelScope() as self._scope:
            answer = await self.lines.next_answer()
        if self._scope.cancelled_caught:
            sys.stderr.write("\n")
        return answer.strip().lower() in {"y", "yes"}

    def cancel(self) -> None:
        """Stop waiting for the answer."""
        if self._scope is not None:
            self._scope.cancel()


async def _chat(
    options: Options,
    message: str | None,
    model: str | None,
    approves: bool,
    contexts: Sequence[m.ChatContext],
) -> int:
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
        # A conversation can log in, or select a model.
        if errors := errors_of(local, with_default=message is not None and model is None):
            warnings = (w for w in local.connection.settings.loaded.problems if w.level != "error")
            notes = [f"error: {each}" for each in errors] + [
                f"warning: {each}" for each in warnings
            ]
            sys.stderr.write(printable_lines("".join(f"{note}\n" for note in notes)) + _REFUSED)
            return code
        if model is None and sys.stderr.isatty() and _lacks_a_model(local):
            sys.stderr.write(_NO_MODEL)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(local.show_messages)
            conversation = local.client.chat(model=model)
            lines = _Lines(nursery)
            questions.read_line = lines.next_answer
            question = _Question(lines, approves=approves)
            if is_terminal and local.connection.settings.loaded.withheld:
                await local.connection.parts.get().trust.ask(questions.ask, questions.say)
            if message is not None:
                code = _EXIT_CODES[await _answer(local, conversation, message, question, contexts)]
            else:
                code = await _converse(local, conversation, question)
            nursery.cancel_scope.cancel()
    return code


def _lacks_a_model(local: LocalPair) -> bool:
    settings, models = local.connection.settings, local.connection.parts.get().models.current
    return models.selected == DEFAULT and settings.config.default_model is None


async def _doctor(options: Options, online: bool, prints_json: bool) -> int:
    async with local_client(
        options, workspace_folders=_workspace(), initialization_options=_QUIET
    ) as local:
        await local.client.wait_for_config()
        errors = errors_of(local)
        if prints_json and not online:
            values = json.dumps(to_json(local, errors), indent=2, ensure_ascii=False)
            sys.stdout.write(f"{printable_json(values)}\n")
            return int(bool(errors))
        conversation = local.client.chat()
        out = _Output()
        async for content in conversation.prompt("/doctor online" if online else "/doctor"):
            if isinstance(content, m.ChatTextContent):
                out.write(content.text)
        out.write("\n")
        served = local.connection.parts.get().chats.get().get(conversation.id)
        for error in errors:
            sys.stderr.write(f"error: {printable_lines(error)}\n")
        return int(bool(errors) or (served is not None and served.last_turn_failed))


def _workspace() -> list[Path]:
    """Return the workspace, which is empty if the current directory was removed."""
    try:
        return [Path.cwd()]
    except FileNotFoundError:
        return []


async def _converse(local: LocalPair, conversation: Chat, question: _Question) -> int:
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
            line = await question.lines.next()
        if not line:
            break
        if line.strip():
            outcome = await _answer(local, conversation, line.rstrip("\n"), question)
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


async def _answer(
    local: LocalPair,
    conversation: Chat,
    message: str,
    question: _Question,
    contexts: Sequence[m.ChatContext] = (),
) -> _Outcome:
    turn = conversation.prompt(message, contexts=contexts)
    system_text = ""
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_interrupt, turn, scope, question)
            system_text = await _print_turn(turn, question)
            nursery.cancel_scope.cancel()
    if scope.cancelled_caught:
        return "left"
    served = local.connection.parts.get().chats.get().get(conversation.id)
    failed = served is not None and served.last_turn_failed
    if system_text:
        out = sys.stderr if failed else sys.stdout
        out.write(f"{printable_lines(system_text.strip())}\n")
        out.flush()
    if turn.stopped:
        sys.stderr.write("Stopped.\n")
        return "stopped"
    return "failed" if failed else "well"


async def _stop_on_interrupt(turn: Turn, scope: trio.CancelScope, question: _Question) -> None:
    """Stop the turn at the first Ctrl-C, and exit at the second."""
    with trio.open_signal_receiver(signal.SIGINT) as interrupts:
        async for _ in interrupts:
            if turn.stopped:
                scope.cancel()
            turn.stop()
            question.cancel()


async def _print_turn(turn: Turn, question: _Question) -> str:
    """Print a turn; return its last system text, which is an error if the turn failed."""
    out = _Output()
    last = ""
    approved: set[str] = set()
    async for received in turn.contents_with_roles():
        content = received.content
        note = "" if turn.stopped else _note_of(content, approved)
        asks = isinstance(content, m.ChatToolCallRunContent) and content.manual_approval
        if note or asks:
            out.end_line()
        sys.stderr.write(note)
        if isinstance(content, m.ChatToolCallRunContent) and asks:
            approved.add(content.id)
            await _decide(turn, content, question)
        if received.role == "user" or not isinstance(content, m.ChatTextContent | m.ChatURLContent):
            continue
        text = content.text if isinstance(content, m.ChatTextContent) else f"\n{content.url}\n"
        if turn.stopped and received.role == "system":  # not part of the answer
            out.end_line()
            sys.stderr.write(f"{printable_lines(text.strip())}\n")
        elif received.role == "system":
            last += text
        else:
            if last:
                out.end_line()
                out.write(f"{last.strip()}\n")
                last = ""
            out.write(text)
    out.end_line()
    return last


def _note_of(content: m.ChatContent, approved: Container[str]) -> str:
    """Return a line for a picture or a tool call, and the output of an approved call."""
    match content:
        case m.ChatImageContent(media_type=media_type):
            note = f"a picture: {media_type}"
        case m.ChatToolCallRunningContent():
            note = content.summary or content.name
        case m.ChatToolCalledContent(error=True, outputs=outputs):
            texts = [each.text for each in outputs if isinstance(each, m.ToolCallTextOutput)]
            why = shorten(" ".join(texts), _NOTE, placeholder=" ...") or "no reason was given"
            note = f"{content.summary or content.name} failed: {why}"
        case m.ChatToolCalledContent(id=id_, outputs=outputs) if id_ in approved:
            texts = [each.text for each in outputs if isinstance(each, m.ToolCallTextOutput)]
            text = cut_middle(printable_lines("\n".join(texts)), _OUTPUT).strip("\n")
            return "".join(f"  {line}\n" for line in text.split("\n")) if text else ""
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
    if question.approves:
        turn.chat.approve(call.id)
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        note = (
            f"{call.summary or call.name}: rejected; it needs your approval, and there is no "
            "terminal to ask. Run the chat in a terminal, pass --approve, or allow the tool with "
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

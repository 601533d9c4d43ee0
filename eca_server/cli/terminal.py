"""`chat` and `doctor`: commands that use the server through an SDK client in this process."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.client import Chat, Client, Turn
from eca_protocol.methods import CHAT_LIST, CHAT_OPEN
from eca_protocol.server.texts import named_command
from eca_server.agent.chat import Chat as ServedChat
from eca_server.agent.commands import runs_without_model
from eca_server.cli.checks import errors_of, to_json, warnings_of
from eca_server.cli.reading import Lines, Reader, piped_context
from eca_server.cli.screen import fitted, is_capable, make_output
from eca_server.cli.turns import (
    Approvals,
    Questions,
    WaitNotice,
    note_of_wait,
    print_turn,
    print_turn_as_json,
    workspace,
)
from eca_server.connection.features.host import Options
from eca_server.connection.local import LocalPair, local_client
from eca_server.models.simulator import DEFAULT
from eca_server.printable import printable_json, printable_line, printable_lines
from eca_server.system.signals import run_until_a_signal

if TYPE_CHECKING:
    from eca_server.agent.chat.tool_call import ToolCall

_Outcome = Literal["well", "failed", "stopped", "left"]
_EXIT_CODES: dict[_Outcome, int] = {"well": 0, "failed": 1, "stopped": 130, "left": 130}

_LATEST = 10  # chats that are named if the wanted one does not exist
_TITLE = 60  # characters of a chat's title

_NO_MODEL = (
    "No model is configured: the built-in simulator/echo repeats what you write.\n"
    "Send /login, or set a key such as ANTHROPIC_API_KEY; see `eca-server doctor`.\n"
)
_REFUSED = "eca-server: the configuration has errors; `eca-server doctor` shows what is in use\n"
_NO_USABLE_MODEL = (
    "error: no model can be used: {}\n"
    "eca-server: `eca-server doctor --online` checks keys and addresses\n"
)
_HINT: Final = "Ctrl-C stops an answer, Ctrl-D exits."
_EDITOR_HINT: Final = "/ completes commands and @ files, Alt-Enter begins a new line."
_LINES_HINT: Final = (
    "Each line is one prompt, also of a paste: pip install 'eca-protocol[terminal]' adds pastes of "
    "many lines, editing and completion."
)
_LOAD_SECONDS: Final = 60.0
"""Longest wait for the whole configuration, whose commands (`${cmd:...}`) may take a while."""
_ID_BEGINNING: Final = re.compile(r"[0-9a-f-]+")
_MESSAGE_FIRST: Final = "A message goes before the option: `eca-server chat MESSAGE --resume`.\n"
_QUIET = m.InitializationOptions(extras={"chat": {"title": False}})


@attrs.frozen(kw_only=True)
class ChatCommand:
    """The arguments of `chat`.

    Attributes:
        message: the only prompt, with the text at stdin as its context; None: a conversation.
        model: the model; None: the configured one.
        approves: approve every tool call that needs approval.
        prints_json: print each content as JSON.
        resumed: the id of the chat to continue, or its beginning; empty: the latest chat of this
            folder; None: a new chat.
    """

    message: str | None = None
    model: str | None = None
    approves: bool = False
    prints_json: bool = False
    resumed: str | None = None

    @property
    def asks_model(self) -> bool:
        """True if the only prompt needs a model.

        A conversation and a command such as `/login` can log in, or select a model.
        """
        return self.message is not None and not runs_without_model(named_command(self.message))


def chat(options: Options, command: ChatCommand) -> int:
    """Answer one message, or hold a conversation, and return the exit code."""
    with piped_context(is_wanted=command.message is not None) as contexts:
        return _run(partial(_chat, options, command, contexts))


def doctor(options: Options, *, online: bool = False, prints_json: bool = False) -> int:
    """Print the report of `/doctor`, and return the exit code.

    The code is 1 if the configuration has errors, or if one of the requests of `online` fails.
    """
    return _run(partial(_doctor, options, online, prints_json))


def _run(command: Callable[[], Awaitable[int]]) -> int:
    code, number = run_until_a_signal(command)
    return 128 + number if number is not None else code or 0


async def _chat(options: Options, command: ChatCommand, contexts: Sequence[m.ChatContext]) -> int:
    questions, approvals = Questions(), Approvals(approves=command.approves)
    is_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    async with local_client(
        attrs.evolve(options, load_seconds=_LOAD_SECONDS),
        workspace_folders=workspace(),
        initialization_options=_QUIET,
        on_approval=approvals.decide,
        on_question=questions.ask if is_terminal else None,
    ) as local:
        await local.client.wait_for_config(deadline=None)
        is_ready = _can_work(local, command)
        chat_id = await _resumed(local.client, command) if is_ready else ""
        if not is_ready or chat_id == "" or not await _has_a_model(local, command):
            return 1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(local.show_messages)
            served = local.connection.parts.get().chats.get().get(chat_id or "")
            model = command.model
            if model is None and served is not None:
                model = served.settings.model
            conversation = local.client.chat(chat_id, model=model)
            model = conversation.model or local.client.config.select_model
            reader = _make_reader(nursery, conversation, options, command, model)
            questions.read_line, approvals.reader = reader.answer, reader
            approvals.find_call = partial(_find_call, local)
            if is_terminal and local.connection.settings.loaded.withheld:
                await local.connection.parts.get().trust.ask(questions.ask, questions.say)
            talk = _Conversation(
                local, conversation, approvals, reader, prints_json=command.prints_json
            )
            if sys.stderr.isatty():
                nursery.start_soon(talk.notice.run)
            outcome: _Outcome = "left"
            with trio.CancelScope() as scope:
                await nursery.start(talk.take_interrupts, scope.cancel)
                outcome = await talk.run(command.message, contexts)
            nursery.cancel_scope.cancel()
    return _EXIT_CODES[outcome]


def _find_call(local: LocalPair, call_id: str) -> ToolCall | None:
    """Return the server's part of a waiting call, or None."""
    turns = [chat.turn for chat in local.connection.parts.get().chats.get() if chat.turn]
    calls = (turn.call(call_id) for turn in turns)
    return next(filter(None, calls), None)


def _can_work(local: LocalPair, command: ChatCommand) -> bool:
    """Return whether the configuration has no errors, which are reported."""
    checks_default = command.asks_model and command.model is None
    errors = errors_of(local, with_default=checks_default)
    if errors:
        warnings = (w for w in local.connection.settings.loaded.problems if w.level != "error")
        notes = [f"error: {each}" for each in errors] + [f"warning: {each}" for each in warnings]
        sys.stderr.write(printable_lines("".join(f"{note}\n" for note in notes)) + _REFUSED)
    return not errors


async def _has_a_model(local: LocalPair, command: ChatCommand) -> bool:
    """Return whether a new chat has a model, the simulator if no provider is configured.

    Otherwise it is written to stderr why there is none.
    """
    is_new = command.model is None and command.resumed is None
    if not is_new or not (command.asks_model or sys.stderr.isatty()) or not _lacks_a_model(local):
        return True
    models = local.connection.parts.get().models
    await models.wait_for_first_look()
    if _lacks_a_model(local):
        reasons = models.current.reasons_without_a_model
        if reasons and command.asks_model:
            sys.stderr.write(_NO_USABLE_MODEL.format(printable_lines("; ".join(reasons))))
            return False
        if sys.stderr.isatty():
            sys.stderr.write(fitted(_NO_MODEL))
    return True


async def _resumed(client: Client, command: ChatCommand) -> str | None:
    """Return the id of the chat to continue; None: a new chat; empty: an error was printed."""
    prefix = command.resumed
    if prefix is None:
        return None
    stored = [c for c in (await client.request(CHAT_LIST, m.ChatListParams())).chats if not c.kind]
    matches = [each.id for each in stored if each.id.startswith(prefix)]
    if prefix == "":
        matches = matches[:1]
    chat_id = matches[0] if len(matches) == 1 else prefix
    opened = await client.request(CHAT_OPEN, m.ChatOpenParams(chat_id=chat_id, limit=1))
    if opened.found:
        titles = {each.id: each.title for each in stored}
        title = opened.title or titles.get(chat_id)
        sys.stderr.write(f"Continuing {_shown(chat_id, title)}\n")
        return chat_id
    if not stored:
        sys.stderr.write("eca-server: this folder has no stored chat to resume\n")
        return ""
    latest = "".join(f"  {_shown(each.id, each.title)}\n" for each in stored[:_LATEST])
    many = "several chats have ids that begin with" if matches else "there is no stored chat"
    wrong = printable_line(prefix, longest=_TITLE)
    sys.stderr.write(f"eca-server: {many} {wrong!r}; the latest of this folder:\n{latest}")
    if command.message is None and not _ID_BEGINNING.fullmatch(prefix):
        sys.stderr.write(_MESSAGE_FIRST)
    return ""


def _shown(chat_id: str, title: str | None) -> str:
    title = printable_line(title or "", longest=_TITLE)
    return f"{printable_line(chat_id)}  {title}".rstrip()


def _make_reader(
    nursery: trio.Nursery,
    conversation: Chat,
    options: Options,
    command: ChatCommand,
    model: str | None,
) -> Reader:
    """Return a line editor for a conversation in a terminal, or a plain reader."""
    if command.message is not None or not sys.stdin.isatty():
        return Lines(nursery)
    about = [_HINT if model is None else f"Model: {printable_line(model)}. {_HINT}"]
    if is_capable(sys.stdin, sys.stdout, sys.stderr):
        try:
            from eca_server.cli.line_editor import LineEditor  # noqa: PLC0415
        except ModuleNotFoundError:  # without the extra `terminal`
            about.append(_LINES_HINT)
        else:
            sys.stderr.write(fitted("".join(f"{line}\n" for line in (*about, _EDITOR_HINT))))
            return LineEditor(conversation, options.environ, next(iter(workspace()), None))
    sys.stderr.write(fitted("".join(f"{line}\n" for line in about)))
    return Lines(nursery)


def _lacks_a_model(local: LocalPair) -> bool:
    settings, models = local.connection.settings, local.connection.parts.get().models.current
    return models.selected == DEFAULT and settings.config.default_model is None


async def _doctor(options: Options, online: bool, prints_json: bool) -> int:
    async with local_client(
        attrs.evolve(options, load_seconds=_LOAD_SECONDS, runs_hooks=False),
        workspace_folders=workspace(),
    ) as local:
        await local.client.wait_for_config(deadline=None)
        errors = errors_of(local)
        if prints_json and not online:
            facts = to_json(local, errors, await warnings_of(local, options.environ))
            values = json.dumps(facts, indent=2, ensure_ascii=False)
            sys.stdout.write(f"{printable_json(values)}\n")
            return int(bool(errors))
        conversation = local.client.chat()
        out = make_output()
        async for content in conversation.prompt("/doctor online" if online else "/doctor"):
            if isinstance(content, m.ChatTextContent):
                out.write(content.text)
            elif (note := note_of_wait(content)) and sys.stderr.isatty():
                out.end_line()
                sys.stderr.write(note)
        out.end_line()
        served = local.connection.parts.get().chats.get().get(conversation.id)
        for error in errors:
            sys.stderr.write(f"error: {printable_lines(error)}\n")
        return int(bool(errors) or (served is not None and served.last_turn_failed))


@attrs.define(eq=False)
class _Conversation:
    """A chat in a terminal or a pipe."""

    local: LocalPair
    chat: Chat
    approvals: Approvals
    reader: Reader
    prints_json: bool = attrs.field(kw_only=True)
    notice: WaitNotice = attrs.field(factory=WaitNotice, init=False)
    _turn: Turn | None = attrs.field(default=None, init=False)
    _is_interrupted: bool = attrs.field(default=False, init=False)  # before its turn

    async def take_interrupts(
        self, leave: Callable[[], None], *, task_status: trio.TaskStatus[None]
    ) -> None:
        """Stop a turn at the first Ctrl-C behind its Enter; exit at the second, and at a prompt."""
        with trio.open_signal_receiver(signal.SIGINT) as interrupts:
            task_status.started()
            async for _ in interrupts:
                if self._turn is not None:
                    if self._turn.stopped:
                        leave()
                    self._turn.stop()
                elif self.reader.state == "shown" or self._is_interrupted:
                    leave()
                elif self.reader.state == "entered":
                    self._is_interrupted = True

    async def run(self, message: str | None, contexts: Sequence[m.ChatContext]) -> _Outcome:
        """Answer one prompt, and the key that it asks for, or prompts until their end."""
        if message is None:
            with self.reader.typing_ahead():
                return await self._hold()
        outcome = await self.answer(message, contexts)
        if outcome == "well" and self.awaits_key:  # after `/login`
            return await self.answer(await self.reader.prompt(is_secret=True))
        return outcome

    async def _hold(self) -> _Outcome:
        outcome: _Outcome = "well"
        has_answered = False
        try:
            while True:
                line = await self.reader.prompt(is_secret=self.awaits_key)
                if not line:
                    break
                if line.strip():
                    outcome = await self.answer(line.rstrip("\r\n"))
                    has_answered = True
        finally:
            if has_answered and sys.stdin.isatty():
                sys.stderr.write(
                    f"Continue this chat with `eca-server chat --resume {self.chat.id}`.\n"
                )
        return outcome

    async def answer(self, message: str, contexts: Sequence[m.ChatContext] = ()) -> _Outcome:
        """Print the answer to one prompt."""
        self._turn = turn = self.chat.prompt(message, contexts=contexts)
        if self._is_interrupted:
            turn.stop()
            self._is_interrupted = False
        if self.prints_json:
            system_text = await print_turn_as_json(turn)
        else:
            system_text = await print_turn(turn, self.approvals, self.notice)
        self._turn = None
        if turn.response is None:
            system_text = "Stopped before the prompt was sent."
        served = self._served
        failed = served is not None and served.last_turn_failed
        if self.chat.model is not None and served is not None:
            self.chat.model = served.settings.model  # `/model` may have selected a different one
        is_note = not message.lstrip().startswith("/")  # else it answers a command
        if system_text and (failed or turn.stopped or (is_note and not self.prints_json)):
            sys.stderr.write(fitted(f"{printable_lines(system_text.strip())}\n"))
        elif system_text and not self.prints_json:
            out = make_output()
            out.write(system_text.strip())
            out.end_line()
        if turn.stopped:
            return "stopped"
        return "failed" if failed else "well"

    @property
    def awaits_key(self) -> bool:
        """True if the next prompt is the key of a login."""
        return self._served is not None and self._served.awaits_key_of is not None

    @property
    def _served(self) -> ServedChat | None:
        """The server's side of the chat."""
        return self.local.connection.parts.get().chats.get().get(self.chat.id)

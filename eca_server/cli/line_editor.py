"""The line editor of `chat` in a terminal, by prompt_toolkit (the extra `terminal`).

It edits prompts of one or many lines, stores them as history, and completes commands and files.
An editor runs in a thread of its own, beside the server. Ctrl-C empties the line, and at an empty
line acts as the signal.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import trio
import trio.from_thread
from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.patch_stdout import patch_stdout

from eca_protocol import messages as m
from eca_protocol import platforms
from eca_protocol.client import Chat
from eca_protocol.errors import ECAError
from eca_protocol.methods import CHAT_QUERY_FILES
from eca_server.agent.commands.login import login_prompt
from eca_server.agent.context.mentions import mention_of, typed_mention
from eca_server.cli.reading import PromptState
from eca_server.config.directories import data_directory, make_data_directory
from eca_server.printable import printable_line

_Match = tuple[str, str]  # a completion, and a hint about it

_KEYS = KeyBindings()


@_KEYS.add("escape", "enter")
@_KEYS.add("escape", "c-j")  # typed during an answer
def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")


@_KEYS.add("c-c")
def _empty_line(event: KeyPressEvent) -> None:
    if event.current_buffer.text:
        event.current_buffer.reset()
    else:
        event.app.exit(exception=KeyboardInterrupt)


@_KEYS.add("c-z")
def _stop_the_job(_: KeyPressEvent) -> None:
    """Stop this process and those of its job until they continue, as a terminal does by itself.

    The main thread gets the signal before its call returns. Sent from this thread, it would come
    too late to keep the editor from painting over the shell.
    """
    if sys.platform != "win32":
        run_in_terminal(partial(trio.from_thread.run_sync, os.kill, 0, signal.SIGTSTP))


class LineEditor:
    """A reader for a terminal."""

    def __init__(self, chat: Chat, environ: Mapping[str, str], directory: Path | None) -> None:
        self._prompts = PromptSession[str](
            history=_history(environ),
            completer=_Completer(chat, directory),
            complete_in_thread=True,
            key_bindings=_KEYS,
            input_processors=[TabsProcessor(char1=" ", char2=" ")],
        )
        self._secrets = PromptSession[str](is_password=True, key_bindings=_KEYS)
        self._answers = PromptSession[str](key_bindings=_KEYS)
        self.state: PromptState = "hidden"
        for session in (self._prompts, self._secrets):
            self._follow(session.default_buffer)
        self._reading = trio.Lock()
        self._is_typing_ahead = False

    def _follow(self, buffer: Buffer) -> None:
        """Note the Enter of a prompt at once: its editor still has to end."""
        accept = buffer.accept_handler
        assert accept is not None

        def enter(entered: Buffer) -> bool:
            self.state = "entered"
            return accept(entered)

        buffer.accept_handler = enter

    async def prompt(self, *, is_secret: bool) -> str:
        """Return the next prompt with a line end; empty after Ctrl-D."""
        self.state = "hidden"
        return await self._read(self._secrets if is_secret else self._prompts, "> ")

    async def answer(self, question: str) -> str:
        """Ask a question, and return the answer with a line end; empty after Ctrl-D."""
        return await self._read(self._answers, question)

    @contextmanager
    def typing_ahead(self) -> Iterator[None]:
        """Let each prompt of the block have what was typed before it, unseen until then."""
        with platforms.hidden_input(sys.stdin.fileno(), by_key=True):
            self._is_typing_ahead = True
            self._mark_pastes()
            try:
                yield
            finally:
                self._is_typing_ahead = False
                self._mark_pastes()

    def _mark_pastes(self) -> None:
        """Let the terminal mark a paste as one text, whose lines are no prompts of their own."""
        output = self._prompts.output
        if self._is_typing_ahead:
            output.enable_bracketed_paste()
        else:
            output.disable_bracketed_paste()
        output.flush()

    async def _read(self, session: PromptSession[str], label: str) -> str:
        async with self._reading, trio.open_nursery() as nursery:
            if session is self._answers:
                platforms.discard_input(sys.stdin.fileno())
                clear_typeahead(session.input)
            ending = _Ending(session.app)
            nursery.start_soon(ending.wait)

            def show() -> None:
                if session is not self._answers:
                    self.state = "shown"
                ending.check()

            line = await trio.to_thread.run_sync(_edit, session, label, show)
            self._mark_pastes()
            if line is None or _take_interrupt(session.input):
                signal.raise_signal(signal.SIGINT)
            if line is None:
                await trio.sleep_forever()
            nursery.cancel_scope.cancel()
        return line or ""


class _Ending:
    """The end of a running editor after a cancellation."""

    def __init__(self, app: Application[str]) -> None:
        self._app = app
        self._is_due = False

    async def wait(self) -> None:
        """Wait for the cancellation, then end the editor."""
        try:
            await trio.sleep_forever()
        finally:
            self._is_due = True
            if (loop := self._app.loop) is not None:
                with suppress(RuntimeError):  # the loop is closed: the editor has ended
                    loop.call_soon_threadsafe(self.check)

    def check(self) -> None:
        """End the editor, in its own thread, if that is due."""
        if self._is_due and self._app.future is not None and not self._app.future.done():
            self._app.exit(exception=EOFError)


def _take_interrupt(source: Input) -> bool:
    """Return whether Ctrl-C was typed behind the Enter, before it was a signal again.

    As with the signal, what was typed before it is lost.
    """
    keys = [*get_typeahead(source), *source.read_keys()]
    interrupts = [index for index, each in enumerate(keys) if each.key == Keys.ControlC]
    store_typeahead(source, keys[interrupts[-1] + 1 :] if interrupts else keys)
    return bool(interrupts)


def _edit(session: PromptSession[str], label: str, check: Callable[[], None]) -> str | None:
    """Edit a line in this thread; return None after Ctrl-C at an empty line."""
    try:
        with patch_stdout(raw=True):
            return session.prompt(label, pre_run=check, handle_sigint=False) + "\n"
    except EOFError:
        return ""
    except KeyboardInterrupt:
        return None


def _history(environ: Mapping[str, str]) -> History:
    """Return the stored history, which only the user can read; without a disk an empty one."""
    file = data_directory(environ) / "chat-history"
    try:
        make_data_directory(file.parent)
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return _History(file)


class _History(FileHistory):
    """A stored history without keys; a disk that fails costs only the stored prompt."""

    def store_string(self, string: str) -> None:
        """Store a prompt, unless it contains the key of a login."""
        login = login_prompt(string, awaited=None, configured={})
        if login is None or login.masked_text == string:
            with suppress(OSError):
                super().store_string(string)


class _Completer(Completer):
    """A completer of the command at the start, and of the file behind `@` at the cursor."""

    def __init__(self, chat: Chat, directory: Path | None) -> None:
        self._chat = chat
        self._directory = directory
        self._token = trio.lowlevel.current_trio_token()

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """Return the completions; called in a thread."""
        text = document.text_before_cursor
        word = text if text.startswith("/") and text.split() == [text] else typed_mention(text)
        return self._completions(word) if word else ()

    def _completions(self, word: str) -> Iterator[Completion]:
        with suppress(trio.RunFinishedError, trio.Cancelled, ECAError):
            find = self._commands if word[0] == "/" else self._files
            for text, hint in trio.from_thread.run(find, word[1:], trio_token=self._token):
                yield Completion(
                    text,
                    start_position=-len(word),
                    display=printable_line(text),
                    display_meta=printable_line(hint),
                )

    async def _commands(self, query: str) -> Sequence[_Match]:
        commands = [each for each in await self._chat.query_commands(query) if query in each.name]
        commands.sort(key=lambda each: not each.name.startswith(query))
        return [(f"/{each.name}", each.description) for each in commands]

    async def _files(self, query: str) -> Sequence[_Match]:
        params = m.ChatQueryFilesParams(chat_id=self._chat.id, query=query)
        files = (await self._chat.client.request(CHAT_QUERY_FILES, params)).files
        kinds = (m.FileContext, m.DirectoryContext)
        paths = [self._shown(each.path) for each in files if isinstance(each, kinds)]
        return [(mention_of(path), "") for path in paths]

    def _shown(self, path: str) -> str:
        file = Path(path)
        if self._directory is not None and file.is_relative_to(self._directory):
            path = str(file.relative_to(self._directory))
        return path

"""A session with a live server, step by step, with only the standard library.

Each step of `Session` is recorded, so that `play` can repeat it. A step ends when the server is
idle: all required messages came, and a later request (a fence) is answered. Time does not decide.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from eca_protocol.testing.sessions.model import Reply, ScriptedModel
from eca_protocol.testing.sessions.state import State
from eca_protocol.testing.sessions.wire import DeadlineMissed, Violation, Wire, frame

__all__ = ["DRAFT", "Session", "Step", "play"]

Step = tuple[str, tuple[Any, ...]]
Watch = Callable[[str, Any], None]

DRAFT = "2025-06"
_FENCE = "fence-"
_KNOWN_SECONDS = 1.0  # a message that is known to be missing is not awaited for long
_OPENED = re.compile(r"{{opened (\d+)}}")
_CALL = re.compile(r"{{call (\S+) (\d+)}}")


class Session:
    """A server process, its scripted model, and the state of the session.

    Attributes:
        steps: the executed steps since the last `forget`, for `play`.
        opening: the steps that opened the session, which `forget` retains.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        edition: str,
        seconds: float = 10.0,
        watch: Watch = lambda _side, _message: None,
        known: Collection[str] = (),
    ) -> None:
        """Start the process.

        Args:
            command: the command of the server, which runs in the current folder.
            edition: the edition to use, such as `2025-10`.
            seconds: the deadline of one step.
            watch: receives every message, with the side that wrote it.
            known: requirements whose violation by a message is ignored.

        Raises:
            OSError: if the command cannot be started.
        """
        self.edition = edition
        self.seconds = seconds
        self.steps: list[Step] = []
        self.opening: tuple[Step, ...] = ()
        self._watch = watch
        self._known = known
        self._is_forgetting = False
        self._fences = 0
        self._fence_answered = 0
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        home = Path(self._home.name).resolve()
        self.folder: Path = home / "project"
        self.folder.mkdir()
        (self.folder / "file.txt").write_text("one\ntwo\n")
        self.model: ScriptedModel = ScriptedModel()
        self.state: State = State(self.model, draft=edition == DRAFT, known=known)
        try:
            self.wire: Wire = Wire(
                command,
                environment=_environment(home, self.model.url),
                on_message=self._on_message,
            )
        except OSError:
            self.model.close()
            self._home.cleanup()
            raise

    def close(self) -> None:
        """Kill the process and remove its files."""
        self.wire.kill()
        self.model.close()
        self._home.cleanup()

    def expect(self, request_id: Any, answer: Any) -> None:
        """Step: set the expected response to an id: `result`, `error`, `any` or a code."""
        self._note("expect", request_id, answer)
        self.state.expect(request_id, answer)

    def replies(self, mark: str, replies: list[Reply]) -> None:
        """Step: set the model's replies in the turn with this marker."""
        self._note("replies", mark, replies)
        self.model.replies[mark] = json.loads(self._here(json.dumps(replies)))

    def send(self, messages: Iterable[Any], cut: int = 0) -> None:
        """Step: write messages, in one write or split at a byte; bytes are an invalid body.

        Placeholders in messages: `{{workspace}}` is the workspace, `{{opened 0}}` the first chat id
        that the server assigned, `{{call ID 0}}` the id of the first call in that chat.
        """
        messages = list(messages)
        self._note("send", messages, cut)
        data = b""
        for message in map(self._placed, messages):
            self._watch("client", message)
            if isinstance(message, bytes):
                self.state.null_errors_due.append(message)
            else:
                self.state.on_sent(message)
            data += frame(message)
        self._write(data[:cut])
        self._write(data[cut:])

    def send_raw(self, data: bytes) -> None:
        """Step: write bytes that are not a frame."""
        self._note("send_raw", data)
        self.state.null_errors_due.append(data)
        self._write(data)

    def name(self, name: str) -> str:
        """Return the chat id that a name in a step refers to."""
        return _OPENED.sub(lambda match: _at(self.state.opened, int(match[1])), name)

    def _placed(self, message: Any) -> Any:
        if isinstance(message, bytes):
            return message
        text = self.name(self._here(json.dumps(message)))
        return json.loads(
            _CALL.sub(lambda call: _at(list(self.state.chat(call[1]).calls), int(call[2])), text)
        )

    def _here(self, text: str) -> str:
        return text.replace("{{workspace}}", str(self.folder))

    def open(self, gate: str) -> None:
        """Step: open a gate of the model."""
        self._note("open", gate)
        self.model.open(gate)

    def rest(self) -> None:
        """Step: wait until the server is idle.

        Raises:
            DeadlineMissed: if a required message did not come before the deadline.
        """
        self._note("rest")
        until = time.monotonic() + self.seconds
        soon = min(until, time.monotonic() + _KNOWN_SECONDS)
        while True:
            while missing := self.state.missing():
                self._read(soon if missing.requirement in self._known else until, missing)
            self._pass_a_fence(until)
            if not self.state.missing():
                break
        self.state.remove_dropped()

    def leave(self, code: int | None) -> None:
        """Step: wait for the end of the process and check its exit code."""
        self._note("leave", code)
        until = time.monotonic() + self.seconds
        missing = Violation(
            "W-13k", "the end of the process before the deadline", "a running process"
        )
        while not self.wire.ended:
            self._read(until, missing)
        got = self.wire.exit_code(until=until)
        if got is None or (code is not None and got != code):
            raise Violation("W-13d", f"the exit code {code}", got)

    def close_input(self) -> None:
        """Step: close the server's input."""
        self._note("close_input")
        self.wire.close_input()

    def stops(self) -> list[dict[str, Any]]:
        """Return messages that stop all unfinished turns."""
        return [
            {"jsonrpc": "2.0", "method": "chat/promptStop", "params": {"chatId": chat_id}}
            for chat_id, _ in self.state.running()
        ]

    def forget(self) -> None:
        """Stop and ignore everything before, reset the behaviour, and start a new list of steps.

        Raises:
            Violation: if the server does not become idle.
        """
        self._is_forgetting = True
        self.state.forget()
        selected = {"behavior": "agent"}
        again = {"jsonrpc": "2.0", "method": "chat/selectedBehaviorChanged", "params": selected}
        self.send([*self.stops(), again])
        self.rest()
        self.model.open_all()
        self.model.replies.clear()
        self._is_forgetting = False
        self.steps[:] = self.opening

    def _pass_a_fence(self, until: float) -> None:
        self._fences += 1
        name = f"{_FENCE}{self._fences}"
        method = "chat/queryContext" if self.edition == DRAFT else "chat/queryCommands"
        message = {"jsonrpc": "2.0", "id": name, "method": method}
        params = {"query": "a query that fits nothing", "chatId": "fence"}
        self._write(frame({**message, "params": params}))
        missing = Violation("BASE-17", f"a response to `{method}` with id {name!r}", "none")
        while self._fence_answered != self._fences:
            self._read(until, missing)

    def _read(self, until: float, missing: Violation) -> None:
        if self.wire.ended and missing.requirement != "W-13k":
            errors = self.wire.errors().strip()[-500:]
            got = f"the end of its output; the end of its stderr: {errors or 'empty'}"
            raise DeadlineMissed("LIFE-19", missing.expected, got)
        if not self.wire.read(until=until, wake=self.model.wake):
            raise DeadlineMissed(missing.requirement, missing.expected, missing.got)

    def _on_message(self, message: Any) -> None:
        answered = message.get("id") if "method" not in message else None
        if isinstance(answered, str) and answered.startswith(_FENCE):
            self._fence_answered = int(answered.removeprefix(_FENCE))
            return
        violations = []
        for take in (self.state.on_received, functools.partial(self._watch, "server")):
            try:
                take(message)
            except Violation as violation:
                violations.append(violation)
        if violations and not self._is_forgetting:
            raise violations[0]
        if "id" in message and "method" in message:
            error = {"code": -32601, "message": "the client has no such method"}
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            self._watch("client", answer)
            self._write(frame(answer))

    def _write(self, data: bytes) -> None:
        if data:
            self.wire.write(data, until=time.monotonic() + self.seconds)

    def _note(self, name: str, *arguments: Any) -> None:
        self.steps.append((name, arguments))


def _at(known: list[str], place: int) -> str:
    return known[place] if place < len(known) else f"none-{place}"


def _environment(home: Path, model: str) -> dict[str, str]:
    tools: dict[str, Any] = {"eca_read_file": {}, "eca__read_file": {}}
    provider = {"api": "openai-chat", "url": model, "key": "k", "models": {"any": {}}}
    config = {
        "defaultModel": "scripted/any",
        "chat": {"title": False},
        "toolCall": {"approval": {"byDefault": "ask", "allow": tools}},
        "providers": {"scripted": provider},
    }
    secret = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD")
    inherited = {
        name: value for name, value in os.environ.items() if not name.upper().endswith(secret)
    }
    return inherited | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(home),
        "ECA_CONFIG": json.dumps(config),
    }


def play(command: Sequence[str], edition: str, steps: Iterable[Step], **options: Any) -> Session:
    """Execute steps with a new server process.

    Raises:
        Violation: if the server violates a requirement.
    """
    session = Session(command, edition=edition, **options)
    try:
        for name, arguments in steps:
            getattr(session, name)(*arguments)
    finally:
        session.close()
    return session


def main(edition: str, steps: Iterable[Step], **options: Any) -> int:
    """Run a script of steps; return 1 if the violation occurs, 0 if not, 2 or 3 if unknown."""
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        sys.stderr.write(f"usage: python {sys.argv[0]} -- COMMAND...\n")
        return 2
    try:
        play(command, edition, steps, **options)
    except AssertionError as violation:
        sys.stdout.write(f"The violation occurs: {violation}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"Could not start the server: {error}\n")
        return 3
    sys.stdout.write("The violation does not occur.\n")
    return 0

"""A session with a live server, step by step, with the standard library alone.

Each method of `Session` that is called a step notes itself, so that `play` can do the same again
from the list. The rule it keeps: a step ends when the server rests, which is told by what it
wrote and by the answer to a request sent behind it (a fence), never by time.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from eca_protocol.testing.sessions.model import Reply, ScriptedModel
from eca_protocol.testing.sessions.rules import Rules
from eca_protocol.testing.sessions.wire import Fault, Stuck, Wire, frame

__all__ = ["DRAFT", "Session", "Step", "play"]

Step = tuple[str, tuple[Any, ...]]
Watch = Callable[[str, Any], None]

DRAFT = "2025-06"
_FENCE = "fence-"
_OPENED = re.compile(r"{{opened (\d+)}}")
_CALL = re.compile(r"{{call (\S+) (\d+)}}")


class Session:
    """One process of the server, the scripted model it asks, and what must hold.

    Attributes:
        steps: the steps done, for `play`; those before the last `forget` are left out.
        opening: the steps that opened the session, which are never left out.
        rules: the state of requests and chats.
        model: the scripted model.
        wire: the process.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        edition: str,
        seconds: float = 10.0,
        watch: Watch = lambda _side, _message: None,
    ) -> None:
        """Starts the process.

        Args:
            command: what starts the server.
            edition: the edition spoken, `2025-10`.
            seconds: how long one step may take.
            watch: is told every message, with the side that wrote it.

        Raises:
            OSError: the command cannot be started.
        """
        self.edition = edition
        self.seconds = seconds
        self.steps: list[Step] = []
        self.opening: tuple[Step, ...] = ()
        self._watch = watch
        self._is_forgetting = False
        self._fences = 0
        self._fence_answered = 0
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        home = Path(self._home.name).resolve()
        self.folder = home / "project"
        self.folder.mkdir()
        (self.folder / "file.txt").write_text("one\ntwo\n")
        self.model = ScriptedModel()
        self.rules = Rules(self.model, draft=edition == DRAFT)
        try:
            self.wire = Wire(
                command,
                folder=self.folder,
                environment=_environment(home, self.model.url),
                heard=self._hear,
            )
        except OSError:
            self.model.close()
            self._home.cleanup()
            raise

    def close(self) -> None:
        """End the process, however it feels."""
        self.wire.kill()
        self.model.close()
        self._home.cleanup()

    def expect(self, request_id: Any, answer: Any) -> None:
        """A step: the next answer to that id is `result`, `error`, `any` or a code."""
        self._note("expect", request_id, answer)
        self.rules.expect(request_id, answer)

    def replies(self, mark: str, replies: list[Reply]) -> None:
        """A step: what the model says in the turn of the prompt with that mark."""
        self._note("replies", mark, replies)
        self.model.replies[mark] = json.loads(self._here(json.dumps(replies)))

    def send(self, messages: Iterable[Any], cut: int = 0) -> None:
        """A step: write messages, in one piece or cut in two at a byte; bytes are a broken body.

        In a message `{{workspace}}` is the workspace, `{{opened 0}}` the id of the first chat that
        the server named, `{{call ID 0}}` the id of the first call in that chat.
        """
        messages = list(messages)
        self._note("send", messages, cut)
        data = b""
        for message in map(self._placed, messages):
            self._watch("client", message)
            if not isinstance(message, bytes):
                self.rules.sent(message)
            data += frame(message)
        self._write(data[:cut])
        self._write(data[cut:])

    def send_raw(self, data: bytes) -> None:
        """A step: write bytes that are no frame."""
        self._note("send_raw", data)
        self._write(data)

    def name(self, name: str) -> str:
        """The chat's id that a name in a step stands for."""
        return _OPENED.sub(lambda found: _at(self.rules.opened, int(found[1])), name)

    def _placed(self, message: Any) -> Any:
        """The message with what is known only here and now in it."""
        if isinstance(message, bytes):
            return message
        text = self.name(self._here(json.dumps(message)))
        return json.loads(_CALL.sub(self._call, text))

    def _here(self, text: str) -> str:
        return text.replace("{{workspace}}", str(self.folder))

    def _call(self, found: re.Match[str]) -> str:
        return _at(list(self.rules.chat(found[1]).calls), int(found[2]))

    def open(self, gate: str) -> None:
        """A step: the model goes on."""
        self._note("open", gate)
        self.model.open(gate)

    def rest(self) -> None:
        """A step: wait until the server has done all that it can do.

        Raises:
            Stuck: something has to come and did not.
        """
        self._note("rest")
        until = time.monotonic() + self.seconds
        while True:
            while missing := self.rules.missing():
                self._read(until, missing)
            self._pass_a_fence(until)
            if not self.rules.missing():
                break
        self.rules.rested()

    def leave(self, code: int | None) -> None:
        """A step: the server ends by itself; its exit code is looked at."""
        self._note("leave", code)
        until = time.monotonic() + self.seconds
        missing = Fault("W-13k", "the end of the process", "none")
        while not self.wire.ended:
            self._read(until, missing)
        got = self.wire.exit_code(until=until)
        if got is None or (code is not None and got != code):
            raise Fault("W-13d", f"exit code {code}", got)

    def close_input(self) -> None:
        """A step: nothing more is written."""
        self._note("close_input")
        self.wire.close_input()

    def stops(self) -> list[dict[str, Any]]:
        """Messages that stop all that goes on."""
        return [
            {"jsonrpc": "2.0", "method": "chat/promptStop", "params": {"chatId": chat_id}}
            for chat_id, _ in self.rules.running()
        ]

    def forget(self) -> None:
        """Begin a new list of steps; what was before is stopped and does not count any more.

        The behaviour is a server's own state: it is set back.

        Raises:
            Fault: the server does not rest even so.
        """
        self._is_forgetting = True
        self.rules.forget()
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
        missing = Fault("BASE-17", f"an answer to {method} with id {name!r}", "none")
        while self._fence_answered != self._fences:
            self._read(until, missing)

    def _read(self, until: float, missing: Fault) -> None:
        if self.wire.ended and missing.requirement != "W-13k":
            words = self.wire.errors().strip()[-500:]
            got = f"the end of its output; the last that it wrote to stderr: {words or 'nothing'}"
            raise Stuck("LIFE-19", missing.expected, got)
        if not self.wire.read(until=until, wake=self.model.wake):
            raise Stuck(missing.requirement, missing.expected, missing.got)

    def _hear(self, message: Any) -> None:
        answered = message.get("id") if "method" not in message else None
        if isinstance(answered, str) and answered.startswith(_FENCE):
            self._fence_answered = int(answered.removeprefix(_FENCE))
            return
        self.rules.heard(message)
        try:
            self._watch("server", message)
        except Fault:
            if not self._is_forgetting:
                raise
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
    """A machine on which nothing is configured but the scripted model."""
    tools: dict[str, Any] = {"eca_read_file": {}, "eca__read_file": {}}
    provider = {"api": "openai-chat", "url": model, "key": "k", "models": {"any": {}}}
    config = {
        "defaultModel": "scripted/any",
        "chat": {"title": False},
        "toolCall": {"approval": {"byDefault": "ask", "allow": tools}},
        "providers": {"scripted": provider},
    }
    kept = {"PATH", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "SYSTEMROOT", "JAVA_HOME"}
    return {name: os.environ[name] for name in kept & os.environ.keys()} | {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TMPDIR": str(home),
        "ECA_CONFIG": json.dumps(config),
    }


def play(command: Sequence[str], edition: str, steps: Iterable[Step], **options: Any) -> Session:
    """Do these steps with a new process of the server.

    Raises:
        Fault: the server broke a rule.
    """
    session = Session(command, edition=edition, **options)
    try:
        for name, arguments in steps:
            getattr(session, name)(*arguments)
    finally:
        session.close()
    return session


def main(edition: str, steps: Iterable[Step], **options: Any) -> int:
    """What a script of steps does: 1 if the fault shows, 0 if not, 2 and 3 if nobody can tell."""
    command = sys.argv[1:]
    if command[:1] == ["--"]:
        del command[0]
    if not command:
        sys.stderr.write(f"usage: python {sys.argv[0]} -- COMMAND...\n")
        return 2
    try:
        play(command, edition, steps, **options)
    except AssertionError as fault:
        sys.stdout.write(f"the fault shows: {fault}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"the server cannot be started: {error}\n")
        return 3
    sys.stdout.write("the fault does not show\n")
    return 0

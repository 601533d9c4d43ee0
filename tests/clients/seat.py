"""One client at one server, with a user who looks at the screen and presses buttons."""

from __future__ import annotations

import itertools
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from tests.clients.bridge import NodeBridge
from tests.clients.chats import Chat
from tests.clients.personality import Personality
from tests.eca_server import fork_server
from tests.eca_server.forked import PID_FILE
from tests.eca_server.stranger import SECONDS, START_SECONDS, UNSET, Stranger, environment, message

FROM_ITSELF = (sys.executable, "-P", "-m", "eca_server", "server")


class Refused(Exception):
    """A request was answered with an error."""

    def __init__(self, method: str, code: int, text: str) -> None:
        super().__init__(f"{method}: {code} {text}")
        self.code = code


@attrs.frozen(kw_only=True)
class Place:
    """A machine with one project and a console script, on which nothing else is configured."""

    home: Path
    project: Path
    script: Path

    @staticmethod
    def make(home: Path) -> Place:
        project, script = home / "project", home / "bin" / "eca-server"
        for folder in (project, script.parent):
            folder.mkdir()
        script.write_text(f'#!/bin/sh\nexec {shlex.join(fork_server.command())} "$@"\n')
        script.chmod(0o755)
        (project / "long.txt").write_text("a line of the file\n" * 500)
        return Place(home=home, project=project, script=script)


class Seat:
    """A client of that personality at a server which it starts.

    Attributes:
        screen: what its user sees.
        received: each message that the client understood, in order; an answer with the method
            that it `answers`.
        passed: each message of both sides, with its side, in the order of the client.
        request_methods: the method of each of the server's requests.
        prompted: the text of each prompt.
        opened: each chat that the user has opened.
        deleted: each chat that the user has deleted, and how much had been heard by the answer.
        behavior: the one that is selected.
        dropped: what came behind the answer to a synchronous request, in the same read.
    """

    def __init__(
        self, who: Personality, place: Place, *arguments: str, config: Mapping[str, Any]
    ) -> None:
        self.who = who
        self.place = place
        self.screen = who.screen()
        self.prompted: list[str] = []
        self.opened: set[str] = set()
        self.deleted: list[tuple[str, int]] = []
        self.behavior = ""
        self.received: list[dict[str, Any]] = []
        self.passed: list[tuple[Literal["client", "server"], dict[str, Any]]] = []
        self.request_methods: list[str] = []
        self.dropped: list[Any] = []
        self._ids = itertools.count(1)
        self._asks: dict[int, str] = {}
        self._answers: dict[int, Any] = {}
        self._awaited: int | None = None
        self._names = itertools.count(1)
        self.line = self._start(arguments, {"ECA_CONFIG": json.dumps(config)})

    def _start(self, arguments: tuple[str, ...], env: Mapping[str, str]) -> Stranger | NodeBridge:
        who, place = self.who, self.place
        env = {**env, PID_FILE: str(self._pid_file)}
        script = str(place.script)
        if who.asks_version:
            version = subprocess.run(
                [script, "--version"],
                capture_output=True,
                check=True,
                timeout=SECONDS,
                env=environment(place.home, **env),
            )
            assert version.stdout.startswith(b"eca_server ")
        start = FROM_ITSELF if who.names_itself else (script, "server")
        cwd = place.project if who.cwd == "project" else place.script.parent
        if who.on_vscode_jsonrpc:
            return NodeBridge(
                (*start, *arguments), cwd=cwd, home=place.home, env=env, answers=who.answers
            )
        return Stranger(
            (*start, *arguments),
            cwd=cwd,
            env=environment(place.home, **env),
            errors=place.home / "stderr.txt",
            reader=who.reader(),
            encode=who.encode,
            connect=who.connect,
            read_size=who.read_size,
        )

    @property
    def _pid_file(self) -> Path:
        return self.place.home / "pid"

    @property
    def server_pid(self) -> int:
        """The process of the server, which may be forked for the one that the client started."""
        file = self._pid_file
        return int(file.read_text("ascii")) if file.exists() else self.line.pid

    def _params(self, params: Any) -> Any:
        if params is UNSET:
            return self.who.nothing
        return {**params, **self.who.adds} if isinstance(params, dict) else params

    def tell(self, method: str, params: Any = UNSET) -> None:
        """Send a notification, or a request whose answer this client does not care for."""
        self._send(message(method, self._params(params)))

    def _send(self, value: dict[str, Any]) -> None:
        self.passed.append(("client", value))
        self.line.send(value)

    def ask(self, method: str, params: Any = UNSET, *, seconds: float = SECONDS) -> Any:
        """Send a request, wait, and give its result.

        Raises:
            Refused: it was answered with an error.
        """
        id_ = next(self._ids)
        self._asks[id_] = method
        self._awaited = id_ if method in self.who.drops_behind else None
        self._send(message(method, self._params(params), request_id=id_))
        self.until(lambda: id_ in self._answers, seconds=seconds)
        answer = self._answers.pop(id_)
        if "error" in answer:
            error = answer["error"]
            raise Refused(method, error["code"], error["message"])
        return answer["result"]

    @property
    def unanswered(self) -> list[str]:
        """The methods of the requests that have no answer."""
        return list(self._asks.values())

    def until(self, condition: Callable[[], object], *, seconds: float = SECONDS) -> None:
        """Read until that is so."""
        deadline = time.monotonic() + seconds
        while not condition():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                pytest.fail(f"it never comes to that: {self.screen.chats}")
            self._hear(self.line.read(remaining))

    def _hear(self, messages: list[Any]) -> None:
        for place, value in enumerate(messages):
            self.received.append(value)
            self.passed.append(("server", value))
            if "id" not in value:
                self.screen.show(value["method"], value.get("params"))
                if self.who.approves_all and value["method"] == "chat/contentReceived":
                    self._approve_what_needs_none(value["params"])
            elif "method" in value:
                self._answer(value)
            else:
                value["answers"] = self._asks.pop(value["id"])
                self._answers[value["id"]] = value
                if value["id"] == self._awaited:
                    self.dropped += messages[place + 1 :]
                    return

    def _answer(self, request: Any) -> None:
        self.request_methods.append(request["method"])
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] in self.who.answers:
            answer["result"] = self.who.answers[request["method"]]
        elif self.who.unknown == "refused":
            answer["error"] = {"code": -32601, "message": "Method not found"}
        elif self.who.unknown == "junk":
            answer["result"] = "Unknown server request"
        else:
            return
        self._send(answer)

    def _approve_what_needs_none(self, params: Any) -> None:
        content = params["content"]
        if content["type"] == "toolCallRun" and not content["manualApproval"]:
            self.press("chat/toolCallApprove", params["chatId"], content["id"])

    def hello(self, *, late: float = 0.0) -> None:
        """Initialize, `late` seconds later say so, and wait until the user can write."""
        folder = {"name": "project", "uri": self.place.project.as_uri()}
        params = {**self.who.initialize, "workspaceFolders": [folder]}
        self.screen.start(self.ask("initialize", params, seconds=START_SECONDS))
        for method, early in self.who.early:
            if method.startswith("chat/query"):
                self.ask(method, early)
            else:
                self.tell(method, early)
        assert self.line.is_silent(late), "nothing is told before `initialized`"
        self.tell("initialized")
        self.until(lambda: self.screen.can_prompt and "ECA" in self.screen.servers)
        self.behavior = self.screen.config[f"select{self.who.behavior.title()}"]
        for method in self.who.at_start:
            self.try_to(method)

    def select(self, behavior: str) -> None:
        """Select another behaviour; not each client tells of that before its next prompt."""
        self.behavior = behavior
        method = f"chat/selected{self.who.behavior.title()}Changed"
        if self.knows(method):
            self.tell(method, {self.who.behavior: behavior})

    def try_to(self, method: str, params: Any = UNSET) -> Any:
        """Ask for what the server may not know; None if so."""
        try:
            return self.ask(method, params)
        except Refused as refusal:
            if refusal.code != -32601:
                raise
            return None

    def prompt(self, text: str, chat_id: str | None = None) -> str:
        """Write into a chat, or into a new one; its id."""
        self.prompted.append(text)
        opened = chat_id
        if opened is None and self.who.mints_ids:
            opened = f"{self.who.client['name']}-{next(self._names)}"
        if opened is None:
            self.screen.unnamed += 1
        else:
            self.screen.open(opened)
        params = {
            "message": text,
            "request-id": 7,
            "model": "simulator/script",
            self.who.behavior: self.behavior,
            "chatId": opened,
            "contexts": [],
        }
        answer = self.ask("chat/prompt", params)
        named: str = answer["chatId"]
        assert opened in (None, named)
        assert answer["status"] == "prompting"
        assert answer["model"] == "simulator/script"
        if named not in self.screen.chats:
            self.screen.unnamed -= 1
            self.screen.open(named)
        assert not self.screen.unnamed
        self.opened.add(named)
        return named

    def delete(self, chat_id: str) -> None:
        """Delete a chat. Emacs shows it until the server has ended its turn, others at once not."""
        if not self.screen.keeps_deleted:
            del self.screen.chats[chat_id]
        assert self.ask("chat/delete", {"chatId": chat_id}) == {}
        self.deleted.append((chat_id, len(self.received)))
        if self.screen.keeps_deleted:
            assert chat_id not in self.screen.chats or not self.chat(chat_id).busy
            self.screen.chats.pop(chat_id, None)

    def chat(self, chat_id: str) -> Chat:
        """Return the screen of a chat."""
        return self.screen.chats[chat_id]

    def turn(self, text: str, chat_id: str | None = None) -> str:
        """Write, and read until the answer is over; the chat's id."""
        ended = self.chat(chat_id).ends if chat_id in self.screen.chats else 0
        named = self.prompt(text, chat_id)
        self.expect_finished(named, times=ended + 1)
        return named

    def expect_finished(self, chat_id: str, times: int = 1) -> None:
        """Read until that many turns of the chat have ended."""
        self.until(lambda: self.chat(chat_id).ends >= times)

    def stop(self, chat_id: str) -> None:
        """Stop the chat's turn."""
        self.tell("chat/promptStop", {"chatId": chat_id})

    def press(self, method: str, chat_id: str, call: str) -> None:
        """Press a button of a tool call."""
        self.tell(method, {"chatId": chat_id, "toolCallId": call})

    def approve(self, chat_id: str, method: str = "chat/toolCallApprove") -> str:
        """Approve the call that the user is asked about, once it asks; the call."""
        self.until(lambda: self.chat(chat_id).asking)
        call = self.chat(chat_id).asking
        assert call is not None
        self.press(method, chat_id, call)
        return call

    def reject(self, chat_id: str) -> str:
        return self.approve(chat_id, "chat/toolCallReject")

    def knows(self, method: str) -> bool:
        """Tell whether the client has a button for it."""
        return method not in self.who.never

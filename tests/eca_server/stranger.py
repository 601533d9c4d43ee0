"""The byte-exact driver: a client that shares no code with the server, at the real process.

It reads strictly what ruling W-1 lets a server write, so every test of the process also shows
that stdout holds frames and nothing else. Each wait has a deadline. One thread does all: while it
waits to write it reads as well, so that no pair of full pipes can hold it.
"""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests import promises
from tests.eca_server.fork_server import ECA, ForkedProcess, can_fork

REPOSITORY = Path(__file__).resolve().parents[2]
SERVE = (*ECA, "server")
HEADER = re.compile(rb"Content-Length: (0|[1-9][0-9]*)\r\n\r\n")
START_SECONDS = 30.0
SECONDS = 10.0
UNSET: Any = object()

Content = Mapping[str, Any]


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a machine without configuration and keys."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PYTHONPATH": str(REPOSITORY),
        "LANG": "C.UTF-8",
        **more,
    }


def message(method: str, params: Any = UNSET, *, request_id: Any = UNSET) -> dict[str, Any]:
    """Return a request, or without an id a notification."""
    value: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if request_id is not UNSET:
        value["id"] = request_id
    if params is not UNSET:
        value["params"] = params
    return value


def frame(value: Any) -> bytes:
    """Return a message, or the bytes of a body, as one frame."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def packet_sockets() -> tuple[int, int]:
    """Return two ends: each read of the first returns one write to the second."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return reader.detach(), writer.detach()


def packet_pipe() -> tuple[int, int]:
    """Return a pipe whose reads never join two writes, nor return more than 4096 bytes."""
    return os.pipe2(os.O_DIRECT)


class Reader(Protocol):
    """A client's own reader of what it reads."""

    def feed(self, read: bytes) -> list[Any]:
        """Return the messages that this read completes."""


class Stranger:
    """One server process and what it wrote.

    Attributes:
        received: every message that came, in order.
        reads: the bytes of each read.
        folder: the process's directory, the workspace's only root unless a test says otherwise.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        errors: Path,
        connect: Callable[[], tuple[int, int]] = os.pipe,
        read_size: int = 2**20,
        encode: Callable[[Any], bytes] = frame,
        reader: Reader | None = None,
        may_log_tracebacks: bool = False,
    ) -> None:
        self.folder = cwd
        self.received: list[Any] = []
        self.reads: list[bytes] = []
        self._encode = encode
        self._reader = reader
        self._shown = 0
        self._buffer = bytearray()
        self._unread: list[Any] = []
        self._last_id = 0
        self._read_size = read_size
        self._errors = errors
        self._may_log_tracebacks = may_log_tracebacks
        self._ended = False
        ours, theirs = connect()
        with errors.open("wb") as stderr:
            if can_fork(command, env):
                self.process: subprocess.Popen[bytes] | ForkedProcess = ForkedProcess(
                    command, cwd=cwd, env=env, stdout=theirs, stderr=stderr.fileno()
                )
            else:
                self.process = subprocess.Popen(
                    command,
                    cwd=cwd,
                    env=env,
                    stdin=subprocess.PIPE,
                    stdout=theirs,
                    stderr=stderr,
                    # Undo an inherited ignored SIGHUP, as under nohup.
                    preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
                )
        os.close(theirs)
        assert self.process.stdin is not None
        self._input = self.process.stdin.fileno()
        self._output = ours
        os.set_blocking(self._input, False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def errors(self) -> str:
        """The server's stderr."""
        return self._errors.read_text("utf-8", "replace")

    def write(self, data: bytes, *, seconds: float = SECONDS) -> None:
        """Write all bytes."""
        view = memoryview(data)
        deadline = time.monotonic() + seconds
        while view:
            self._wait_to_write(deadline)
            with contextlib.suppress(BlockingIOError):
                view = view[os.write(self._input, view) :]

    def _wait_to_write(self, deadline: float) -> None:
        readers = [] if self._ended else [self._output]
        remaining = deadline - time.monotonic()
        readable, writable, _ = select.select(readers, [self._input], [], max(0.0, remaining))
        if not readable and not writable:
            pytest.fail("the server reads nothing any more")
        if readable:
            self._read()

    def send(self, *messages: Any) -> None:
        """Write messages as frames, in one write."""
        self.write(b"".join(map(self._encode, messages)))

    def ask(self, method: str, params: Any = UNSET) -> int:
        """Send a request, and return its id."""
        self._last_id += 1
        self.send(message(method, params, request_id=self._last_id))
        return self._last_id

    def tell(self, method: str, params: Any = UNSET) -> None:
        self.send(message(method, params))

    def receive(self, *, seconds: float = SECONDS) -> Any:
        """Return the next message."""
        deadline = time.monotonic() + seconds
        while not self._unread:
            self.read_once(seconds=deadline - time.monotonic())
        return self._unread.pop(0)

    def read_once(self, *, seconds: float) -> None:
        """Read what is available, or wait for it."""
        if self._ended:
            pytest.fail(f"the server has ended; it had said {self.received[-3:]}\n{self.errors}")
        if not self.can_read(seconds=max(0.0, seconds)):
            pytest.fail(f"nothing came in time; before: {self.received[-3:]}")
        self._read()

    def read(self, seconds: float) -> list[Any]:
        """Return what the client's own reader understands of its next read."""
        assert self._reader is not None
        if self._shown == len(self.reads):
            self.read_once(seconds=seconds)
        came = self.reads[self._shown : self._shown + 1]
        self._shown += len(came)
        return [message for read in came for message in self._reader.feed(read)]

    def is_silent(self, seconds: float) -> bool:
        return not self.can_read(seconds=seconds)

    def can_read(self, *, seconds: float) -> bool:
        """Return whether output or its end arrives in time."""
        return bool(select.select([self._output], [], [], seconds)[0])

    def _read(self) -> None:
        try:
            data = os.read(self._output, self._read_size)
        except ConnectionResetError:
            data = b""
        if not data:
            self._ended = True
            assert not self._buffer, f"stdout ended inside a frame: {bytes(self._buffer)[:200]!r}"
            return
        self.reads.append(data)
        self._buffer += data
        position = 0
        while header := HEADER.match(self._buffer, position):
            stop = header.end() + int(header[1])
            if stop > len(self._buffer):
                break
            self._take(bytes(self._buffer[header.end() : stop]))
            position = stop
        del self._buffer[:position]
        start = bytes(self._buffer[:40])
        assert HEADER.match(start) or b"Content-Length: ".startswith(start[:16]), (
            f"stdout holds something that is no frame: {start!r}"
        )

    def _take(self, body: bytes) -> None:
        value = json.loads(body.decode("utf-8"))
        assert isinstance(value, dict), value
        assert value["jsonrpc"] == "2.0", value
        if "method" in value:
            assert not {"result", "error"} & set(value), value
        else:
            assert "id" in value, value
            assert len({"result", "error"} & set(value)) == 1, value
        self.received.append(value)
        self._unread.append(value)

    def until(self, is_last: Callable[[Any], object], *, seconds: float = SECONDS) -> list[Any]:
        """Return the messages up to the first one for which `is_last` is true."""
        came: list[Any] = []
        deadline = time.monotonic() + seconds
        while not came or not is_last(came[-1]):
            came.append(self.receive(seconds=max(0.01, deadline - time.monotonic())))
        return came

    def answer(self, request_id: Any, *, seconds: float = SECONDS) -> Any:
        """Return the answer to a request; earlier messages are in `received` only."""

        def is_answer(value: Any) -> bool:
            return (
                "method" not in value
                and value["id"] == request_id
                and type(value["id"]) is type(request_id)
            )

        return self.until(is_answer, seconds=seconds)[-1]

    def result(self, method: str, params: Any = UNSET, *, seconds: float = SECONDS) -> Any:
        """Send a request, and return the result of its success."""
        begun = time.monotonic()
        answer = self.answer(self.ask(method, params), seconds=seconds)
        took = time.monotonic() - begun
        if method == "shutdown" and "error" in answer and took > promises.SHORTEST_LIMIT:
            raise promises.TooSlow(answer["error"]["message"])  # something had not ended in time
        assert "result" in answer, answer
        return answer["result"]

    def settle(self) -> None:
        """Wait until the server has handled all messages: a later request has its answer."""
        self.answer(self.ask("chat/queryCommands"))

    def initialize(self, **params: Any) -> Any:
        """Do the handshake, and return the result of `initialize`."""
        params = {"processId": None, "workspaceFolders": [], "capabilities": {}, **params}
        result = self.result("initialize", params, seconds=START_SECONDS)
        self.tell("initialized", {})
        return result

    def introduced(self, folder: Path | None = None, **params: Any) -> list[Any]:
        """Initialize, and return the messages to the end of the server's introduction."""
        if folder is not None:
            params["workspaceFolders"] = [{"uri": folder.as_uri(), "name": "project"}]
        self.initialize(**params)
        return self.until(
            lambda m: m.get("method") == "$/progress" and m["params"]["type"] == "finish"
        )

    def prompt(self, text: str, *, chat: str | None = None, model: str = "simulator/script") -> str:
        """Send a prompt, wait for its answer, and return the chat's id."""
        params = {"message": text, "model": model}
        result = self.result("chat/prompt", params if chat is None else {**params, "chatId": chat})
        return str(result["chatId"])

    def send_prompt(self, text: str = "go", *, chat: str = "c", **params: Any) -> None:
        """Send a prompt and wait for nothing."""
        self.ask("chat/prompt", {"chatId": chat, "message": text, **params})

    def turn(
        self, text: str = "go", *, chat: str = "c", seconds: float = SECONDS, **params: Any
    ) -> list[Any]:
        """Run a whole turn without approvals, and return the messages up to its end."""
        self.send_prompt(text, chat=chat, **params)
        return self.expect_finished(chat, seconds=seconds)

    def say(self, text: str, *, chat: str = "c", **params: Any) -> str:
        """Run a whole turn, and return what the assistant and the server said in it."""
        return text_of(self.turn(text, chat=chat, **params), "assistant", "system")

    def expect_finished(self, chat: str | None = None, *, seconds: float = SECONDS) -> list[Any]:
        """Return the messages up to the end of a turn, of this chat or of any."""
        return self.until(
            lambda m: is_finished(m) and chat in (None, m["params"]["chatId"]), seconds=seconds
        )

    def expect_content(self, kind: str, chat: str | None = None, **members: Any) -> Any:
        """Read until such a content comes, for this chat or for any, and return it."""
        members = {"type": kind, **members}
        return content_of(
            self.until(
                lambda m: (
                    members.items() <= content_of(m).items()
                    and chat in (None, m["params"]["chatId"])
                )
            )[-1]
        )

    def approve(self, *calls: Mapping[str, Any], chat: str = "c") -> None:
        """Approve calls in one write."""
        self.send(*(decision("Approve", call, chat=chat) for call in calls))

    def reject(self, *calls: Mapping[str, Any], chat: str = "c") -> None:
        """Reject calls in one write."""
        self.send(*(decision("Reject", call, chat=chat) for call in calls))

    def stop(self, chat: str = "c") -> None:
        """Stop the chat's turn."""
        self.tell("chat/promptStop", {"chatId": chat})

    def leave(self) -> int:
        """Shut the server down as the protocol wants it, and return its exit code."""
        self.result("shutdown")
        self.tell("exit")
        return self.exit_code()

    def start_endless_turn(self) -> str:
        """Start a turn that runs until it is stopped; return the chat's id after its first text."""
        chat = self.prompt("say here\nwait forever")
        if not any(content_of(message).get("text") == "here" for message in self.received):
            self.expect_content("text", text="here")
        return chat

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the process a signal."""
        self.process.send_signal(number)

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def close_output(self) -> None:
        """Close the read end of the server's output."""
        if self._output >= 0:
            os.close(self._output)
        self._output, self._ended = -1, True

    def rest(self, *, seconds: float = SECONDS) -> list[Any]:
        """Return all messages until the server closes its output."""
        deadline = time.monotonic() + seconds
        while not self._ended:
            remaining = max(0.0, deadline - time.monotonic())
            if not select.select([self._output], [], [], remaining)[0]:
                pytest.fail(f"the server's output is still open after {seconds} s")
            self._read()
        rest, self._unread = self._unread, []
        return rest

    def exit_code(self, *, within: float = 3.0) -> int:
        """Read until the process has ended, and return its exit code.

        Args:
            within: seconds; W-13 grants three to every end.
        """
        with promises.within(within):
            self.rest(seconds=within + SECONDS)
            return self.process.wait(SECONDS)

    def close(self) -> None:
        """End the process if it runs, and check its log."""
        with contextlib.suppress(OSError):
            self.close_input()
        if self.process.poll() is None and not self._ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.01)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)
        self.close_output()
        assert self._may_log_tracebacks or "Traceback" not in self.errors, self.errors


def code_of(answer: Mapping[str, Any]) -> int:
    """Return the code of an error."""
    return int(answer["error"]["code"])


def content_of(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the content of a `chat/contentReceived`; of other messages, `{}`."""
    params = value.get("params")
    content = params.get("content") if isinstance(params, dict) else None
    return content if isinstance(content, dict) else {}


def frames_in(data: bytes) -> list[Any]:
    """Return the messages of bytes with whole frames alone, as a client parses one read."""
    messages, position = [], 0
    while position < len(data):
        header = HEADER.match(data, position)
        assert header, f"no frame begins at {position}: {data[position : position + 60]!r}"
        position = header.end() + int(header[1])
        assert position <= len(data), f"a frame is cut in two: {data[header.start() :][:60]!r}"
        messages.append(json.loads(data[header.end() : position]))
    return messages


def is_finished(value: Mapping[str, Any]) -> bool:
    """Return whether a message ends a turn."""
    content = content_of(value)
    return content.get("type") == "progress" and content.get("state") == "finished"


def contents_of(messages: Iterable[Any], chat: str = "c") -> list[Mapping[str, Any]]:
    """Return the contents of a chat."""
    return [
        content for m in messages if (content := content_of(m)) and m["params"]["chatId"] == chat
    ]


def decision(what: str, call: Mapping[str, Any], *, chat: str = "c") -> dict[str, Any]:
    """Return an approval or a rejection, as a message."""
    return message(f"chat/toolCall{what}", {"chatId": chat, "toolCallId": call["id"]})


def text_of(messages: Iterable[Mapping[str, Any]], *roles: str) -> str:
    """Return the joined text of these roles, or of the assistant."""
    return "".join(
        content_of(value)["text"]
        for value in messages
        if content_of(value).get("type") == "text"
        and value["params"]["role"] in (roles or ("assistant",))
    )

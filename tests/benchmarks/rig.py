"""The real server as a process, the barest of clients at its pipes, and a provider beside them.

The client is no client of ours: it blocks, reads 64 KiB at a time and parses nothing that it is
not asked for, so that what is measured is the server.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
SERVER = (sys.executable, "-m", "eca_server", "server")
SERVER_WITHOUT_ORJSON = (
    sys.executable,
    "-c",
    (
        "import sys; sys.modules['orjson'] = None; "
        "from eca_server.cli.main import run; run(['server'])"
    ),
)
ECHO, SCRIPT, SCRIPTED = "simulator/echo", "simulator/script", "scripted/any"
SILENCE = 60
FINISHED = re.compile(rb'"state":\s*"finished"')


class Rig:
    """A folder of its own, and an environment in which nothing of the user's is found.

    Byte code is kept there, as it is for installed packages: a start does not compile.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        inherited_names = {"PATH", "LANG", "LD_LIBRARY_PATH", "TMPDIR"}
        self.environment = {
            name: os.environ[name] for name in inherited_names & os.environ.keys()
        } | {
            "HOME": str(folder),
            "PYTHONPATH": str(ROOT),
            "PYTHONPYCACHEPREFIX": str(folder / "byte code"),
        }

    def configuration(self, provider: str | None) -> dict[str, str]:
        """The variable that configures a server.

        There are no titles, no call is asked about, and the provider is the one of that URL.
        """
        approval = {"byDefault": "allow"}
        config: dict[str, Any] = {"chat": {"title": False}, "toolCall": {"approval": approval}}
        if provider is not None:
            config["providers"] = {
                "scripted": {
                    "api": "openai-chat",
                    "url": provider,
                    "key": "k",
                    "models": {"any": {}},
                    "fetchModels": False,
                }
            }
        return {"ECA_CONFIG": json.dumps(config)}

    @contextmanager
    def server(
        self,
        *,
        provider: str | None = None,
        command: Sequence[str] = SERVER,
        root: Path | None = None,
        capabilities: Mapping[str, Any] | None = None,
    ) -> Iterator[BareClient]:
        """Yield an initialized server that has announced its models; end it with the block."""
        configuration = self.configuration(provider)
        with self.process(command, **configuration) as process:
            client = BareClient(process)
            client.initialize(root, capabilities)
            client.notify("initialized", {})
            client.read_until(b'"type":"finish"')
            yield client
            client.request("shutdown", None)
            client.notify("exit", {})
            process.wait(5)

    @contextmanager
    def provider(self) -> Iterator[ScriptedProvider]:
        """A scripted provider in a process of its own; see `scripted_provider`."""
        script = str(Path(__file__).with_name("scripted_provider.py"))
        with self.process((sys.executable, script)) as process:
            yield ScriptedProvider(process)

    @contextmanager
    def process(
        self, command: Sequence[str], **environment: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A process with pipes, killed at the end of the block if it still runs."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.folder,
            env=self.environment | environment,
            bufsize=0,
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


@contextmanager
def rig() -> Iterator[Rig]:
    """A rig in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield Rig(Path(folder))


class BareClient:
    """Frames out, bytes in."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        self._last_id = 0
        self._rest = b""

    def notify(self, method: str, params: Any) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, method: str, params: Any) -> None:
        """Send a request; return with what came up to its answer read."""
        self._last_id += 1
        message = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        self._write(message)
        self.read_until(b'"id":%d' % self._last_id)

    def initialize(
        self, root: Path | None = None, capabilities: Mapping[str, Any] | None = None
    ) -> None:
        client = {"name": "bench", "version": "1"}
        params: dict[str, Any] = {"processId": os.getpid(), "clientInfo": client}
        params["capabilities"] = capabilities or {}
        folders = [] if root is None else [{"name": "root", "uri": root.as_uri()}]
        self.request("initialize", {**params, "workspaceFolders": folders})

    def prompt(self, chat: str, message: str, *, model: str) -> None:
        """Send a prompt and do not wait for its answer."""
        self._last_id += 1
        params = {"chatId": chat, "message": message, "model": model}
        message = {"id": self._last_id, "method": "chat/prompt", "params": params}
        self._write({"jsonrpc": "2.0", **message})

    def stop(self, chat: str) -> None:
        self.notify("chat/promptStop", {"chatId": chat})

    def read_until(self, ending: bytes | re.Pattern[bytes]) -> None:
        """Read up to the first place where `ending` is in what comes."""
        pattern = ending if isinstance(ending, re.Pattern) else re.compile(re.escape(ending))
        data = self._rest
        while (match := pattern.search(data)) is None:
            data = data[-100:] + self.read()
        self._rest = data[match.end() :]

    def read(self) -> bytes:
        readable, _, _ = select.select([self._out], [], [], SILENCE)
        if not readable:
            raise TimeoutError(f"the server was silent for {SILENCE} s")
        data = os.read(self._out, 65_536)
        if not data:
            raise EOFError("the server is gone")
        return data

    def cpu_seconds(self) -> float:
        """CPU time of the server's main thread so far."""
        nanoseconds, *_ = Path(f"/proc/{self.pid}/schedstat").read_text().split()
        return int(nanoseconds) / 1e9

    def resident_mib(self) -> float:
        """Resident memory of the server."""
        return resident_mib(self.pid)

    def _write(self, message: Mapping[str, Any]) -> None:
        body = json.dumps(message).encode()
        os.write(self._in, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


class ScriptedProvider:
    """The provider's process: its URL, and what it says of each request."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self.url = self.next_record()["url"]

    def next_record(self) -> dict[str, Any]:
        """Return its next line: one object for each request that has ended."""
        record: dict[str, Any] = json.loads(self._lines.readline())
        return record


class ProviderByHand:
    """A provider in the client's own thread: it reads a request, and answers, on command.

    So a request's arrival is seen as soon as its last byte is there, however long it takes to
    understand.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connection: socket.socket | None = None
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if self._connection is not None:
            self._connection.close()

    def receive(self) -> None:
        """Wait for the next request, up to its last byte; a mere look whether we listen is none."""
        data = b""
        while self._connection is None:
            connection, _ = self._listener.accept()
            data = connection.recv(2**20)
            if data:
                self._connection = connection
        while b"\r\n\r\n" not in data:
            data += self._some()
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        remaining = int(length[1]) - len(body)
        while remaining:
            remaining -= len(self._some())

    def _some(self) -> bytes:
        assert self._connection is not None
        data = self._connection.recv(2**20)
        if not data:
            raise EOFError("the server has closed its connection")
        return data

    def answer(self, text: str) -> None:
        """Answer the request that was received."""
        assert self._connection is not None
        text_choice = {"index": 0, "delta": {"role": "assistant", "content": text}}
        end = {"index": 0, "delta": {}, "finish_reason": "stop"}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "any"}
        events = (json.dumps({**chunk, "choices": [choice]}) for choice in (text_choice, end))
        body = "".join(f"data: {event}\n\n" for event in (*events, "[DONE]")).encode()
        head = f"content-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        self._connection.sendall(b"HTTP/1.1 200 OK\r\n" + head.encode() + body)


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    [kib] = re.findall(r"VmRSS:\s+(\d+) kB", status)
    return int(kib) / 1024

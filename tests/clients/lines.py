"""The two ways a message gets to the server and back: a client's own framing, or vscode-jsonrpc."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.clients.readers import Reader
from tests.eca_server.stranger import SECONDS, Stranger, environment, frame
from tests.node import node, node_modules

BRIDGE = Path(__file__).with_name("vscode_bridge.js")


class Line(Protocol):
    """A client's connection with a server it has started.

    Attributes:
        pid: the server's.
    """

    @property
    def pid(self) -> int: ...

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message."""

    def read(self, seconds: float) -> list[Any]:
        """The messages that the client understands of its next read; fails if there is none."""

    def is_silent(self, seconds: float) -> bool:
        """Tell whether nothing comes for so many seconds."""

    def kill(self, number: signal.Signals) -> None:
        """Send the server a signal."""

    def close_input(self) -> None:
        """End what the server reads."""

    def exit_code(self, within: float) -> int | str:
        """Return the server's exit code, or its signal's name."""

    def close(self) -> None:
        """End the server if it still runs, and judge its log."""


class Pipes(Stranger):
    """The client's own framing over pipes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        home: Path,
        env: Mapping[str, str],
        reader: Reader,
        encode: Callable[[Any], bytes] = frame,
        connect: Callable[[], tuple[int, int]] = os.pipe,
        read_size: int = 65_536,
    ) -> None:
        super().__init__(
            command,
            cwd=cwd,
            env=environment(home, **env),
            errors=home / "stderr.txt",
            connect=connect,
            read_size=read_size,
        )
        self._reader = reader
        self._encode = encode
        self._given = 0

    def send(self, *messages: Any) -> None:
        self.write(b"".join(map(self._encode, messages)))

    def read(self, seconds: float) -> list[Any]:
        if self._given == len(self.reads):
            self.read_once(seconds=seconds)
        came = self.reads[self._given : self._given + 1]
        self._given += len(came)
        return [message for read in came for message in self._reader.feed(read)]

    def is_silent(self, seconds: float) -> bool:
        return not self.can_read(seconds=seconds)

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self, within: float = 3.0) -> Any:
        code = super().exit_code(within=within)
        return code if code >= 0 else signal.Signals(-code).name

    def close(self) -> None:
        self.stop()


class NodeBridge:
    """vscode-jsonrpc, which VS Code and Desktop have between them and the pipes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        home: Path,
        env: Mapping[str, str],
        answers: Mapping[str, Any],
    ) -> None:
        self._errors = home / "stderr.txt"
        self.trace: list[str] = []
        self._buffer = b""
        self._ended: int | str | None = None
        options = json.dumps({"cwd": str(cwd), "answers": answers})
        modules = node_modules()
        with self._errors.open("wb") as stderr:
            self._node = subprocess.Popen(
                [node(), str(BRIDGE), options, *command],
                env=environment(home, NODE_PATH=str(modules), **env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._input, self._output = self._node.stdin, self._node.stdout.fileno()
        self.pid: int = 0
        while not self.pid:
            self.read(SECONDS)

    def send(self, message: Mapping[str, Any]) -> None:
        self._input.write(json.dumps(message).encode() + b"\n")
        self._input.flush()

    def read(self, seconds: float) -> list[Any]:
        if not select.select([self._output], [], [], seconds)[0]:
            pytest.fail(f"nothing came for {seconds} s")
        data = os.read(self._output, 65_536)
        if not data:
            pytest.fail(f"the bridge has ended: {self._errors.read_text('utf-8', 'replace')}")
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        return [value for line in lines if self._is_for_the_client(value := json.loads(line))]

    def _is_for_the_client(self, value: dict[str, Any]) -> bool:
        match value:
            case {"pid": pid}:
                self.pid = pid
            case {"exit": how}:
                self._ended = how
            case {"trace": line}:
                self.trace.append(line)
            case {"fault": fault}:
                pytest.fail(f"vscode-jsonrpc: {fault}")
            case _:
                return True
        return False

    def kill(self, number: signal.Signals) -> None:
        self.send({"kill": number.name})

    def close_input(self) -> None:
        self.send({"close": True})

    def is_silent(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))[0]:
            if self.read(0):  # else it was the bridge that spoke, of what it traced
                return False
        return True

    def exit_code(self, within: float) -> int | str:
        deadline = time.monotonic() + within
        while self._ended is None:
            self.read(max(0.01, deadline - time.monotonic()))
        return self._ended

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._input.close()
        with self._node:
            try:
                self._node.wait(SECONDS)
            finally:
                self._node.kill()
        errors = self._errors.read_text("utf-8", "replace")
        assert "Traceback" not in errors, errors

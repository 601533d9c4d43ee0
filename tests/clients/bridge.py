"""The Node bridge: a client whose messages get to the server and back by vscode-jsonrpc."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import promises
from tests.eca_server.stranger import SECONDS, environment
from tests.node import node, node_modules

BRIDGE = Path(__file__).with_name("vscode_bridge.js")


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
        self._code: int | None = None
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
                self._code = how if isinstance(how, int) else -signal.Signals[how]
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

    def exit_code(self, *, within: float) -> int:
        with promises.within(within):
            while self._code is None:
                self.read(within + SECONDS)
        return self._code

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

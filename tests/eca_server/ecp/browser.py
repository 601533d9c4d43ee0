"""A headless Chromium with one page open, driven over two pipes by the DevTools protocol."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--remote-debugging-pipe", "--window-size=1200,900"),
)


class Browser:
    """A client of the DevTools protocol, which stores the events between answers."""

    def __init__(self, write_fd: int, read_fd: int) -> None:
        self._write_fd = write_fd
        self._read_fd = read_fd
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> Any:
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == self._id:
                assert "result" in got, got
                return got["result"]
            self.events.append(got)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            data = os.read(self._read_fd, 65_536)
            assert data, "the browser is gone"
            self._buffer += data
        message, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(message))

    def open(self, url: str) -> None:
        """Open a page, and wait until it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        while not self.params_of("Page.loadEventFired"):
            self.events.append(self._next())

    def params_of(self, *methods: str) -> list[dict[str, Any]]:
        """Return the params of the events of these methods."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def until(self, expression: str, expected: Any, *, seconds: float = 10.0) -> None:
        """Evaluate until an expression has the expected value."""
        deadline = time.monotonic() + seconds
        while (value := self.value(expression)) != expected:
            assert time.monotonic() < deadline, (
                f"{expression}: expected {expected!r}, got {value!r}"
            )

    def faults(self) -> list[dict[str, Any]]:
        """Return the events of errors, console messages and dialogs."""
        return self.params_of(
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )

    def requests(self) -> list[str]:
        """Return the requested URLs."""
        return [params["request"]["url"] for params in self.params_of("Network.requestWillBeSent")]


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Run a browser with its profile in a new folder."""
    folder.mkdir(exist_ok=True)
    program = shutil.which("chromium")
    assert program is not None, "these tests need the program chromium"
    (their_in, write_fd), (read_fd, their_out) = os.pipe(), os.pipe()
    script = f'exec "$0" "$@" 3<&{their_in} 4>&{their_out}'
    arguments = [*FLAGS, f"--user-data-dir={folder}"]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            ["bash", "-c", script, program, *arguments],
            pass_fds=(their_in, their_out),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    os.close(their_in)
    os.close(their_out)
    try:
        browser = Browser(write_fd, read_fd)
        yield browser
        os.write(write_fd, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        running.wait(20)
    finally:
        os.close(write_fd)
        os.close(read_fd)
        if running.poll() is None:
            os.killpg(running.pid, 9)
            running.wait()

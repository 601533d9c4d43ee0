"""A headless Chromium with one page open, driven over two pipes by the DevTools protocol."""

from __future__ import annotations

import base64
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
    """Sends commands, and keeps the events that come in between."""

    def __init__(self, to: int, come: int) -> None:
        self._to = to
        self._come = come
        self._read = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, **params: Any) -> Any:
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == self._id:
                assert "result" in got, got
                return got["result"]
            self.events.append(got)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            data = os.read(self._come, 65_536)
            assert data, "the browser is gone"
            self._read += data
        message, self._read = self._read.split(b"\0", 1)
        return dict(json.loads(message))

    def open(self, url: str) -> None:
        """Open a page, and wait until it has loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=url)
        while not self.told("Page.loadEventFired"):
            self.events.append(self._next())

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """The params of these events."""
        return [event["params"] for event in self.events if event.get("method") in methods]

    def value(self, expression: str) -> Any:
        """What an expression gives in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, and let go of it."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def until(self, expression: str, wanted: Any, *, seconds: float = 10.0) -> None:
        """Ask until an expression gives what is wanted."""
        ends = time.monotonic() + seconds
        while (given := self.value(expression)) != wanted:
            assert time.monotonic() < ends, f"{expression}: wanted {wanted!r}, got {given!r}"

    def faults(self) -> list[dict[str, Any]]:
        """What a page without fault does not bring about."""
        return self.told(
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        )

    def requests(self) -> list[str]:
        """What was loaded."""
        return [params["request"]["url"] for params in self.told("Network.requestWillBeSent")]

    def screenshot(self, file: Path) -> None:
        """The page as it is seen."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def opened(folder: Path) -> Iterator[Browser]:
    """Start a browser with its profile in `folder`; end it."""
    program = shutil.which("chromium")
    assert program is not None, "these tests need the program chromium"
    (their_in, to), (come, their_out) = os.pipe(), os.pipe()
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
        browser = Browser(to, come)
        yield browser
        os.write(to, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        running.wait(20)
    finally:
        os.close(to)
        os.close(come)
        if running.poll() is None:
            os.killpg(running.pid, 9)
            running.wait()

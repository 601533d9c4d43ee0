"""A scripted model that needs only the standard library, for scripts that replay a failure.

It implements the Chat Completions API. A prompt contains a marker (`mark-7`). The replies of a
marker answer the requests of its turn, in order. A reply is a list of steps with one verb each, as
in `eca_protocol.testing.script`:

    {"text": ...}                          a delta of text
    {"reasoning": ...}                     a delta of reasoning
    {"tool_call": NAME, "arguments": ...}  a call of the first offered tool whose name contains NAME
    {"wait": GATE}                         a pause until that gate is opened
    {"raw": ...}                           bytes to write unchanged
    {"status": CODE}                       an HTTP error instead of an answer
    {"close": True}                        the end of the connection, also inside the answer

The headers of an answer are sent with its first bytes: a gate at the start delays them, too.
"""

from __future__ import annotations

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Reply", "ScriptedModel"]

Reply = list[dict[str, Any]]
MARK = re.compile(r"mark-\d+")
_ENDED = b"0\r\n\r\n"


class ScriptedModel:
    """The endpoint, in its own threads.

    Attributes:
        url: the base URL to configure.
        wake: a file descriptor with a byte to read after a reply has reached a gate.
        waits: the gate at which the answer of each marker waits.
    """

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.request_counts: dict[str, int] = {}
        self.waits: dict[str, str] = {}
        self.wake, self._waker = os.pipe()
        self._gates: dict[str, threading.Event] = {}
        self._is_closed = False
        self._lock = threading.Lock()  # `_waker` is not written after its close
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url: str = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Open all gates and stop the server."""
        with self._lock:
            self._is_closed = True
        self.open_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        os.close(self.wake)
        os.close(self._waker)

    def open(self, gate: str) -> None:
        """Release the reply that waits, or will wait, at `gate`."""
        for mark, waits in list(self.waits.items()):
            if waits == gate:
                del self.waits[mark]
        self._gate(gate).set()

    def open_all(self) -> None:
        """Open all gates and remove them."""
        for gate in list(self._gates):
            self.open(gate)
        self._gates.clear()

    def wait(self, mark: str, gate: str) -> None:
        """Announce and await a gate; return at once after `close`."""
        with self._lock:
            event = self._gate(gate)
            if self._is_closed or event.is_set():
                return
            self.waits[mark] = gate
            os.write(self._waker, b"w")
        event.wait()

    def next_reply(self, request: dict[str, Any]) -> tuple[str, Reply]:
        """Return the marker of a request and its reply."""
        mark = _mark(request)
        number = self.request_counts[mark] = self.request_counts.get(mark, 0) + 1
        replies = self.replies.get(mark, [])
        return mark, replies[number - 1] if number <= len(replies) else []

    def _gate(self, name: str) -> threading.Event:
        return self._gates.setdefault(name, threading.Event())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Ignore errors: clients disconnect when a turn is stopped."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: ScriptedModel

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": [{"id": "any", "object": "model"}]})

    def do_POST(self) -> None:
        request = json.loads(self._body())
        title: Reply = [{"text": "A title"}]
        mark, reply = ("", title) if _is_for_a_title(request) else self.model.next_reply(request)
        self._play(mark, request, reply)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # a trailer
        return body

    def _play(self, mark: str, request: dict[str, Any], reply: Reply) -> None:
        calls, number = 0, self.model.request_counts.get(mark, 0)
        self._begun = False
        for step in reply:
            match step:
                case {"wait": gate}:
                    self.model.wait(mark, gate)
                case {"status": status}:
                    self._whole(status, {"error": {"message": "scripted error"}})
                    return
                case {"close": _}:
                    self._begin()
                    self.close_connection = True
                    return
                case {"raw": text}:
                    self._say(text.encode())
                case {"text": text}:
                    self._delta({"content": text})
                case {"reasoning": text}:
                    self._delta({"reasoning_content": text})
                case {"tool_call": name, "arguments": arguments}:
                    called = {"name": _tool(request, name), "arguments": json.dumps(arguments)}
                    head = {"index": calls, "id": f"{mark}-{number}-{calls}", "type": "function"}
                    self._delta({"tool_calls": [{**head, "function": called}]})
                    calls += 1
        self._delta({}, "tool_calls" if calls else "stop")
        counts = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self._event({"choices": [], "usage": counts})
        self._say(b"data: [DONE]\n\n")
        self.wfile.write(_ENDED)

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _event(self, value: dict[str, Any]) -> None:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "any"}
        self._say(b"data: %b\n\n" % json.dumps({**head, "created": 1, **value}).encode())

    def _say(self, data: bytes) -> None:
        self._begin()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

    def _whole(self, status: int, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def _mark(request: dict[str, Any]) -> str:
    texts = [str(each.get("content")) for each in request["messages"] if each["role"] == "user"]
    markers = MARK.findall(" ".join(texts))
    return markers[-1] if markers else ""


def _is_for_a_title(request: dict[str, Any]) -> bool:
    texts = [str(each.get("content")) for each in request["messages"] if each["role"] != "user"]
    return not request.get("tools") and "title" in " ".join(texts).lower()


def _tool(request: dict[str, Any], name: str) -> str:
    offered = [tool["function"]["name"] for tool in request.get("tools") or ()]
    return next((each for each in offered if name in each), name)

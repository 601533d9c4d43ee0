"""A scripted model with the standard library alone, for scripts that are handed on.

It speaks the Chat Completions API. A prompt's words hold a mark (`mark-7`); the replies given for
that mark are what the model says to the requests of that prompt's turn, one after the other. A
reply is a list of steps with one verb each, as in `eca_protocol.testing.script`:

    {"text": ...}                          a delta of text
    {"reasoning": ...}                     a delta of reasoning
    {"tool_call": NAME, "arguments": ...}  a call of the first offered tool whose name has NAME
    {"wait": GATE}                         nothing until that gate is opened
    {"raw": ...}                           bytes of the stream as they are
    {"status": CODE}                       an error of HTTP instead of an answer
    {"close": True}                        the connection ends, whatever is missing

The rule it keeps: the headers of an answer go with its first bytes, so that a gate which stands
first is a wait for them.
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
    """The endpoint, in threads of its own.

    Attributes:
        url: the base URL to configure.
        wake: has a byte to read whenever a reply has come to a gate.
        replies: what is said to the prompts with a mark.
        asked: how many requests came for a mark.
        waits: the gate at which the answer for a mark waits now.
    """

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.asked: dict[str, int] = {}
        self.waits: dict[str, str] = {}
        self.wake, self._waker = os.pipe()
        self._gates: dict[str, threading.Event] = {}
        self._is_closed = False
        self._lock = threading.Lock()  # once closed, nobody writes to `_waker`, or what has its fd
        handler = type("Handler", (_Handler,), {"model": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.daemon = True
        self._thread.start()

    def close(self) -> None:
        """Open all gates and serve no more."""
        with self._lock:
            self._is_closed = True
        self.open_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        os.close(self.wake)
        os.close(self._waker)

    def open(self, gate: str) -> None:
        """Let the reply that waits at `gate`, or will, go on."""
        for mark, waits in list(self.waits.items()):
            if waits == gate:
                del self.waits[mark]
        self._gate(gate).set()

    def open_all(self) -> None:
        """Open every gate that was ever waited at, and forget them."""
        for gate in list(self._gates):
            self.open(gate)
        self._gates.clear()

    def wait(self, mark: str, gate: str) -> None:
        """Wait at a gate, and let it be known; once closed, at none."""
        with self._lock:
            event = self._gate(gate)
            if self._is_closed or event.is_set():
                return
            self.waits[mark] = gate
            os.write(self._waker, b"w")
        event.wait()

    def next_reply(self, asked: dict[str, Any]) -> tuple[str, Reply]:
        """The mark of a request and what to say to it."""
        mark = _mark(asked)
        number = self.asked[mark] = self.asked.get(mark, 0) + 1
        replies = self.replies.get(mark, [])
        return mark, replies[number - 1] if number <= len(replies) else []

    def _gate(self, name: str) -> threading.Event:
        return self._gates.setdefault(name, threading.Event())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients hang up when a turn is stopped."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    model: ScriptedModel

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": [{"id": "any", "object": "model"}]})

    def do_POST(self) -> None:
        asked = json.loads(self._body())
        title: Reply = [{"text": "A title"}]
        mark, reply = ("", title) if _is_for_a_title(asked) else self.model.next_reply(asked)
        self._play(mark, asked, reply)

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

    def _play(self, mark: str, asked: dict[str, Any], reply: Reply) -> None:
        calls, number = 0, self.model.asked.get(mark, 0)
        self._begun = False
        for step in reply:
            match step:
                case {"wait": gate}:
                    self.model.wait(mark, gate)
                case {"status": status}:
                    self._whole(status, {"error": {"message": "as it was told to"}})
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
                    called = {"name": _tool(asked, name), "arguments": json.dumps(arguments)}
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
        """Say nothing."""


def _mark(asked: dict[str, Any]) -> str:
    """The last mark in the words of the user."""
    said = [str(each.get("content")) for each in asked["messages"] if each["role"] == "user"]
    found = MARK.findall(" ".join(said))
    return found[-1] if found else ""


def _is_for_a_title(asked: dict[str, Any]) -> bool:
    told = [str(each.get("content")) for each in asked["messages"] if each["role"] != "user"]
    return not asked.get("tools") and "title" in " ".join(told).lower()


def _tool(asked: dict[str, Any], name: str) -> str:
    offered = [tool["function"]["name"] for tool in asked.get("tools") or ()]
    return next((each for each in offered if name in each), name)

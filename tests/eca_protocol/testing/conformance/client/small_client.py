"""A small client for the tests of the suite: it prompts twice, decides on a call, and ends.

    python small_client.py SERVER [FAULT]

It does not use `eca_protocol`, starts fast, and has the bug FAULT, if it is given one.
"""

import itertools
import json
import re
import subprocess
import sys
import time

SLOW = ("slow to refuse", "slow to start and to refuse")
"""Behaviour that is no bug."""
HEADER = re.compile(rb"(?i)content-length:[ \t]*([0-9]+)[ \t]*\r\n")
FIELDS = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]+:[^\r\n]*\r\n)+\r\n")


class Client:
    def __init__(self, server: str, fault: str) -> None:
        self.fault = fault
        self.process = subprocess.Popen(
            [server, "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.buffer = b""
        self.ids = itertools.count(1)
        self.answers: dict[object, object] = {}
        self.pending_ids: set[int] = set()
        self.running = False
        self.finished = 0
        self.approves = True

    def has(self, fault: str) -> bool:
        return self.fault == fault

    def send(self, message: object) -> None:
        body = json.dumps(message, ensure_ascii=False).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def notify(self, method: str, params: object) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: object) -> int:
        id_ = next(self.ids)
        self.pending_ids.add(id_)
        self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
        return id_

    def wait_for(self, *ids: int) -> None:
        while not all(id_ in self.answers for id_ in ids):
            self.take()

    def take(self) -> None:
        """Read one frame and act on it."""
        body = self.read()
        try:
            message = json.loads(body)
        except ValueError:
            if not self.has("deaf to bad json"):
                self.refuse(None, -32700)
            return
        if body.find(b"NaN") >= 0:
            self.refuse(None, -32700)
        elif not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.refuse(None, -32600)
        elif "method" in message and not isinstance(message["method"], str):
            self.refuse(message.get("id"), -32600)
        elif isinstance(message.get("id"), list) or not {"id", "method"} & set(message):
            self.refuse(None, -32600)
        elif "method" not in message:
            if message["id"] not in self.pending_ids:
                if self.has("trusts ids"):
                    raise SystemExit("an answer to nobody")
                return
            if self.has("wants answers in order") and message["id"] != min(self.pending_ids):
                raise SystemExit("an answer out of order")
            self.pending_ids.discard(message["id"])
            self.answers[message["id"]] = message
        elif "id" in message:
            self.answer(message)
        else:
            self.on_notification(message["method"], message.get("params"))

    def read(self) -> bytes:
        while True:
            header = FIELDS.match(self.buffer)
            if header:
                fields = header.group()
                lengths = {int(each) for each in HEADER.findall(fields)}
                if self.has("takes any length"):
                    fields = fields.replace(b"+", b"")
                    lengths = {int(each) for each in HEADER.findall(fields)}
                if self.has("takes the last length"):
                    lengths = {max(lengths)}
                if self.has("exact headers") and b"Content-Length: " not in fields:
                    raise SystemExit("no Content-Length")
                if self.has("knows all headers") and b"X-" in fields:
                    raise SystemExit("an unknown header")
                if len(lengths) != 1 or re.search(rb"(?i)content-length:[^\r]*[^0-9 \t\r]", fields):
                    self.refuse(None, -32700)
                    raise SystemExit("no length")
                (length,) = lengths
                if len(self.buffer) >= header.end() + length:
                    body = self.buffer[header.end() : header.end() + length]
                    if self.has("counts characters") and not body.isascii():
                        raise SystemExit("lost in a frame")
                    self.buffer = self.buffer[header.end() + length :]
                    if b"utf-16" in fields:
                        self.refuse(None, -32700)
                        continue
                    return body
            elif b"\r\n\r\n" in self.buffer:
                self.refuse(None, -32700)
                raise SystemExit("no header")
            data = self.process.stdout.read(65536)
            if not data:
                raise SystemExit("the server is gone")
            if self.has("reads whole frames") and not data.startswith(b"Content") and self.buffer:
                raise SystemExit("half a frame")
            self.buffer += data

    def refuse(self, id_: object, code: int) -> None:
        if self.fault in SLOW:
            time.sleep(0.7)
        error = {"code": code, "message": "refused"}
        self.send({"jsonrpc": "2.0", "id": id_, "error": error})

    def answer(self, message: dict) -> None:
        id_ = message["id"]
        if self.has("needs params") and not isinstance(message.get("params"), dict):
            raise SystemExit("no params")
        if self.has("silent to requests"):
            return
        if self.has("ids as text"):
            id_ = str(id_)
        if message["method"] == "editor/getDiagnostics":
            self.send({"jsonrpc": "2.0", "id": id_, "result": {"diagnostics": []}})
        elif self.has("accepts all requests"):
            self.send({"jsonrpc": "2.0", "id": id_, "result": None})
        elif self.has("result and error"):
            error = {"code": -32601, "message": "unknown"}
            self.send({"jsonrpc": "2.0", "id": id_, "result": None, "error": error})
        else:
            self.refuse(id_, -32601)
            if self.has("answers twice"):
                self.refuse(id_, -32601)

    def on_notification(self, method: str, params: object) -> None:
        known = {"config/updated", "tool/serverUpdated", "chat/contentReceived", "$/showMessage"}
        if self.has("answers notifications"):
            self.send({"jsonrpc": "2.0", "id": None, "result": None})
        if self.has("knows all notifications") and method not in known:
            raise SystemExit(f"unknown: {method}")
        if self.has("fails at strange keys") and "x-strange" in (params or {}):
            raise SystemExit("a strange key")
        if method != "chat/contentReceived":
            return
        content = params["content"]
        if self.has("fails at strange contents") and content["type"] == "conformance":
            raise SystemExit("a strange content")
        if content["type"] == "toolCallRun" and content["manualApproval"]:
            call = "another" if self.has("wrong call") and self.approves else content["id"]
            decision = "Approve" if self.approves else "Reject"
            save = {"save": "session"} if self.approves else {}
            decided = {"chatId": params["chatId"], "toolCallId": call, **save}
            self.notify(f"chat/toolCall{decision}", decided)
        if content["type"] == "progress" and content["state"] == "running":
            self.running = True
        elif content["type"] == "progress" and content["state"] == "finished" and self.running:
            self.running = False
            self.finished += 1

    def run(self) -> None:
        if self.has(SLOW[1]):
            time.sleep(2)
        about = {
            "processId": None,
            "capabilities": {"codeAssistant": {"chat": True}, "editor": {"diagnostics": True}},
            "clientInfo": {"name": "small", "version": "1"},
            "workspaceFolders": [{"name": "project", "uri": "file:///project"}],
        }
        if self.has("nameless"):
            del about["clientInfo"]
        request_id = self.ask("initialize", about)
        if not self.has("early initialized"):
            self.wait_for(request_id)
        self.notify("initialized", {})
        first = self.ask("chat/prompt", {"message": "Hello"})
        self.wait_for(first)
        while not self.finished:
            self.take()
        self.approves = False
        chat = self.answers[first]["result"]["chatId"]
        second = self.ask("chat/prompt", {"message": "Again", "chatId": chat})
        self.wait_for(second)
        before = self.finished
        while self.finished == before:
            self.take()
        queries = [self.ask(f"chat/query{what}", {"query": ""}) for what in ("Context", "Commands")]
        self.wait_for(*queries)
        shutdown = self.ask("shutdown", None)
        if not self.has("leaves at once"):
            self.wait_for(shutdown)
        self.notify("exit", None)
        self.process.stdin.close()


Client(sys.argv[1], " ".join(sys.argv[2:])).run()

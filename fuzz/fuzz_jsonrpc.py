"""Each request gets one answer with its id, and each call at most one, for any messages."""

from __future__ import annotations

from collections import Counter

from runner import instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.endpoint import (
        CallAnswered,
        Endpoint,
        Event,
        NotificationReceived,
        Reply,
        RequestCancelled,
        RequestReceived,
    )
    from eca_protocol.errors import InvalidJSON, RemoteProtocolError
    from eca_protocol.jsonrpc import ErrorResponse, Id, Request, Response, classify
    from eca_protocol.lifecycle import LifecycleGate
    from eca_protocol.methods import ECA


def check(data: bytes) -> None:
    """Check `data`: each line is a message, or a sign to answer, refuse, call or abandon."""
    for conversation in (Conversation(LifecycleGate()), Conversation(None)):
        for line in data.split(b"\n"):
            conversation.take(line)
        conversation.end()


class Conversation:
    """The server's side of a connection, with its invariants."""

    def __init__(self, gate: LifecycleGate | None) -> None:
        self.endpoint = Endpoint("server", ECA, gate=gate, max_running=3)
        self.requests: Counter[Id] = Counter()
        self.answers: Counter[Id] = Counter()
        self.waiting: list[Id] = []

    def take(self, line: bytes) -> None:
        running = list(self.endpoint.running_requests)
        if line == b"=" and running:
            self.send(self.endpoint.respond(running[0], None))
        elif line == b"!" and running:
            self.send(self.endpoint.refuse(running[-1], -32603, "no"))
        elif line == b"+":
            self.waiting.append(self.endpoint.call("editor/getDiagnostics").id)
        elif line == b"-" and self.waiting:
            self.endpoint.abandon(self.waiting.pop())
        else:
            self.receive(line)
        for event in self.endpoint.take_released():
            self.see(event)

    def receive(self, line: bytes) -> None:
        try:
            value = json.loads(line)
        except InvalidJSON as fault:
            self.see(self.endpoint.reply_to_error(fault))
            return
        try:
            message = classify(value)
        except RemoteProtocolError as fault:
            if fault.request_id is not None:
                self.requests[fault.request_id] += 1
        else:
            assert classify(message.to_json()) == message
            if isinstance(message, Request):
                self.requests[message.id] += 1
        self.see(self.endpoint.receive(value))

    def see(self, event: Event | None) -> None:
        match event:
            case Reply(message=answer) | RequestCancelled(reply=ErrorResponse() as answer):
                self.send(answer)
            case CallAnswered(id=call):
                self.waiting.remove(call)
            case RequestReceived(id=request) | NotificationReceived(id=request):
                assert request is None or request in self.endpoint.running_requests

    def send(self, answer: Response | ErrorResponse) -> None:
        assert classify(json.loads(json.dumps(answer.to_json()))) == answer
        if answer.id is not None:
            self.answers[answer.id] += 1

    def end(self) -> None:
        """Answer the running requests; then every request has its answer."""
        while self.endpoint.running_requests:
            assert len(self.endpoint.running_requests) <= 3
            self.take(b"=")
        assert self.answers == self.requests
        assert list(self.endpoint.close()) == self.waiting


if __name__ == "__main__":
    main("jsonrpc", check)

"""A proxy between a client and a server on stdio that breaks some kinds of messages.

python faulty_proxy.py FAULT[,FAULT...] -- COMMAND...
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

Break = Callable[[Any], list[Any]]


def messages(stream: BinaryIO) -> Iterator[tuple[bytes, Any]]:
    """Yield the body of each frame, and its message or None."""
    while header := stream.readline():
        if header.startswith(b"Content-Length: "):
            stream.readline()
            body = stream.read(int(header.split()[1]))
            try:
                yield body, json.loads(body)
            except ValueError:
                yield body, None


def is_finished(message: Any) -> bool:
    content = message.get("params", {}).get("content") if "method" in message else None
    return isinstance(content, dict) and content.get("state") == "finished"


class Faults:
    """The planted errors of the server, and the state they need."""

    def __init__(self) -> None:
        self.deletes: set[Any] = set()
        self.stopped: set[Any] = set()

    def client_says(self, message: Any) -> None:
        if isinstance(message, dict) and message.get("method") == "chat/delete":
            self.deletes.add(message["id"])
        if isinstance(message, dict) and message.get("method") == "chat/promptStop":
            self.stopped.add(message["params"]["chatId"])

    def nothing(self, message: Any) -> list[Any]:
        return [message]

    def finishes_twice(self, message: Any) -> list[Any]:
        return [message] * (1 + is_finished(message))

    def never_answers_a_delete(self, message: Any) -> list[Any]:
        is_one = "method" not in message and message["id"] in self.deletes
        return [] if is_one else [message]

    def speaks_after_a_stop(self, message: Any) -> list[Any]:
        if not is_finished(message) or message["params"]["chatId"] not in self.stopped:
            return [message]
        late = {"role": "assistant", "content": {"type": "text", "text": "and"}}
        return [message, {**message, "params": {**message["params"], **late}}]

    def forgets_to_close_a_call(self, message: Any) -> list[Any]:
        content = message.get("params", {}).get("content") if "method" in message else None
        is_one = isinstance(content, dict) and content.get("type") == "toolCallRejected"
        return [] if is_one else [message]

    def shouts(self, message: Any) -> list[Any]:
        if is_finished(message):
            message["params"]["content"]["text"] = 5
        return [message]


def main() -> int:
    _, names, _, *command = sys.argv
    faults = Faults()
    breaks: list[Break] = [getattr(faults, name) for name in names.split(",")]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None

    def to_server() -> None:
        for body, message in messages(sys.stdin.buffer):
            faults.client_says(message)
            server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            server.stdin.flush()
        server.stdin.close()

    threading.Thread(target=to_server, daemon=True).start()
    for _, message in messages(server.stdout):
        written = [message]
        for broken in breaks:
            written = [each for message in written for each in broken(message)]
        for each in written:
            body = json.dumps(each).encode()
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        sys.stdout.buffer.flush()
    return server.wait()


if __name__ == "__main__":
    os._exit(main())  # a thread still reads the input

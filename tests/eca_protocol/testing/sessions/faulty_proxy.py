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


def is_late(message: Any) -> bool:
    return is_finished(message) and message["params"]["chatId"] in STOPPED


def speaking(message: Any) -> Any:
    """Return the message with a word of the model in place of its content."""
    late = {"role": "assistant", "content": {"type": "text", "text": "and"}}
    return {**message, "params": {**message["params"], **late}}


def closes_a_stopped_call(message: Any) -> bool:
    content = message.get("params", {}).get("content") if "method" in message else None
    is_rejected = isinstance(content, dict) and content.get("type") == "toolCallRejected"
    return is_rejected and message["params"]["chatId"] in STOPPED


def shouting(message: Any) -> Any:
    message["params"]["content"]["text"] = 5
    return message


DELETES: set[Any] = set()
STOPPED: set[Any] = set()
"""The ids of the client's deletes, and the chats that it has stopped since their last prompt."""

FAULTS: dict[str, Break] = {
    "nothing": lambda m: [m],
    "finishes_twice": lambda m: [m, m] if is_finished(m) else [m],
    "never_answers": lambda m: [m] if "method" in m else [],
    "never_answers_a_delete": lambda m: [m] if "method" in m or m["id"] not in DELETES else [],
    "speaks_after_a_stop": lambda m: [m, speaking(m)] if is_late(m) else [m],
    "forgets_to_close_a_stopped_call": lambda m: [] if closes_a_stopped_call(m) else [m],
    "shouts": lambda m: [shouting(m)] if is_finished(m) else [m],
}
"""The planted errors of the server: what it writes instead of a message."""


def note(message: Any) -> None:
    """Remember what the client wants, as far as errors depend on it."""
    if isinstance(message, dict) and message.get("method") == "chat/delete":
        DELETES.add(message["id"])
    if isinstance(message, dict) and message.get("method") == "chat/prompt":
        params = message.get("params")
        STOPPED.discard(str(params.get("chatId")) if isinstance(params, dict) else "")
    if isinstance(message, dict) and message.get("method") == "chat/promptStop":
        STOPPED.add(message["params"]["chatId"])


def main() -> int:
    _, names, _, *command = sys.argv
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None

    def to_server() -> None:
        for body, message in messages(sys.stdin.buffer):
            note(message)
            server.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            server.stdin.flush()
        server.stdin.close()

    threading.Thread(target=to_server, daemon=True).start()
    for _, message in messages(server.stdout):
        written = [message]
        for name in names.split(","):
            written = [each for message in written for each in FAULTS[name](message)]
        for each in written:
            body = json.dumps(each).encode()
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        sys.stdout.buffer.flush()
    return server.wait()


if __name__ == "__main__":
    os._exit(main())  # a thread still reads the input

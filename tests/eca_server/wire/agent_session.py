"""Fixtures of tests of whole agent sessions: the real process, a folder, a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eca_protocol.testing.provider import Reply, ThreadedProvider, finish, reply, tool_call
from tests.eca_server.stranger import SECONDS, Stranger, content_of, is_finished, message

Content = Mapping[str, Any]
ALLOW: dict[str, Any] = {"toolCall": {"approval": {"byDefault": "allow"}}}


class Agent:
    """An editor's side of a session with the real process.

    Attributes:
        server: the process.
        provider: the model it talks to.
        folder: the workspace's only root.
    """

    def __init__(self, server: Stranger, provider: ThreadedProvider, folder: Path) -> None:
        self.server = server
        self.provider = provider
        self.folder = folder

    def begin(self, text: str = "go", *, chat: str = "c", **params: Any) -> None:
        """Send a prompt and wait for nothing."""
        self.server.ask("chat/prompt", {"chatId": chat, "message": text, **params})

    def turn(
        self, text: str = "go", *, chat: str = "c", seconds: float = SECONDS, **params: Any
    ) -> list[Content]:
        """Run a whole turn without approvals; return its contents."""
        self.begin(text, chat=chat, **params)
        return self.rest(chat=chat, seconds=seconds)

    def rest(self, *, chat: str = "c", seconds: float = SECONDS) -> list[Content]:
        """Return the contents of the chat until its turn has finished."""
        came = self.server.until(lambda m: is_finished(m) and is_of(m, chat), seconds=seconds)
        return [content_of(m) for m in came if is_of(m, chat)]

    def content(self, kind: str, *, chat: str = "c", **members: Any) -> Content:
        """Read until such a content comes for the chat."""

        def wanted(value: Mapping[str, Any]) -> bool:
            content = content_of(value)
            holds = content.get("type") == kind and members.items() <= content.items()
            return holds and is_of(value, chat)

        return content_of(self.server.until(wanted)[-1])

    def contents(self, chat: str = "c") -> list[Content]:
        """All that came for the chat."""
        return [content_of(m) for m in self.server.seen if is_of(m, chat)]

    def approve(self, *calls: Content, chat: str = "c") -> None:
        """Approve calls in one write."""
        self.server.send(*(decision("Approve", call, chat=chat) for call in calls))

    def reject(self, *calls: Content, chat: str = "c") -> None:
        """Reject calls in one write."""
        self.server.send(*(decision("Reject", call, chat=chat) for call in calls))

    def stop(self, *, chat: str = "c") -> None:
        self.server.tell("chat/promptStop", {"chatId": chat})

    def results(self, request: int = -1) -> list[str]:
        """Return the results of calls in the last or the given request."""
        messages = self.provider.requests[request].body["messages"]
        return [str(each["content"]) for each in messages if each["role"] == "tool"]

    def resident(self) -> int:
        """The most bytes of memory that the process ever had."""
        status = Path(f"/proc/{self.server.pid}/status").read_text()
        found = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert found
        return int(found[1]) * 1024

    def largest_frame(self) -> int:
        """Bytes of the largest message that came."""
        return max(
            len(json.dumps(value, ensure_ascii=False).encode()) for value in self.server.seen
        )

    def largest_request(self) -> int:
        """Bytes of the largest request to the model, if there was one."""
        return max((len(json.dumps(each.body)) for each in self.provider.requests), default=0)


StartAgent = Callable[..., Agent]


def is_of(value: Mapping[str, Any], chat: str) -> bool:
    """Return whether a message is a content of that chat."""
    params = value.get("params")
    return isinstance(params, dict) and params.get("chatId") == chat and "content" in params


def decision(what: str, call: Content, *, chat: str = "c") -> dict[str, Any]:
    """An approval or a rejection, as a message."""
    return message(f"chat/toolCall{what}", {"chatId": chat, "toolCallId": call["id"]})


def calls(*made: tuple[str, Any], ids: str = "p{}") -> Reply:
    """An answer of calls: names with arguments, or with the text that stands for them."""
    steps = [
        tool_call(
            name,
            given if isinstance(given, str) else json.dumps(given),
            call_id=ids.format(index),
            index=index,
        )
        for index, (name, given) in enumerate(made)
    ]
    return reply(*steps, finish("tool_calls"))


def order(contents: Sequence[Content]) -> list[str]:
    """Return the contents of calls, with consecutive pieces of arguments joined."""
    kinds = [each["type"] for each in contents if str(each.get("type")).startswith("toolCall")]
    return [
        kind
        for before, kind in zip(["", *kinds], kinds, strict=False)
        if (before, kind) != ("toolCallPrepare", "toolCallPrepare")
    ]


def of_call(contents: Sequence[Content], call: Content) -> list[str]:
    """Return the contents of one call."""
    return order([each for each in contents if each.get("id") == call["id"]])


def ends(contents: Sequence[Content]) -> list[Content]:
    """The contents that end calls."""
    return [each for each in contents if each.get("type") in {"toolCalled", "toolCallRejected"}]


def told(content: Content) -> str:
    """The text of a call's result."""
    return "".join(output["text"] for output in content["outputs"])


def assert_a_strict_server_takes(body: Mapping[str, Any]) -> None:
    """A request's calls have legal names and ids, readable arguments, and each its one result."""
    seen: set[str] = set()
    expected: list[str] = []
    for each in body["messages"]:
        if each["role"] == "tool":
            assert expected, f"a result without its call: {each}"
            assert each["tool_call_id"] == expected.pop(0)
            continue
        assert not expected, f"calls without results: {expected}"
        for call in each.get("tool_calls") or ():
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", call["id"]), call
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", call["function"]["name"]), call
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            assert call["id"] not in seen
            seen.add(call["id"])
            expected.append(call["id"])
    assert not expected, f"calls without results: {expected}"

"""Fixtures of tests of whole agent sessions: the real process, a folder, a scripted model."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eca_protocol.testing.provider import ThreadedProvider
from tests.eca_server.agent.chat.agent_session import ALLOW, calls
from tests.eca_server.stranger import Content, Stranger, contents_of

__all__ = ["ALLOW", "Agent", "Content", "StartAgent", "calls"]


class Agent(Stranger):
    """The stranger with the model that its server talks to."""

    provider: ThreadedProvider

    def contents(self, chat: str = "c") -> list[Content]:
        """Return all that came for the chat."""
        return contents_of(self.received, chat)

    def results(self, request: int = -1) -> list[str]:
        """Return the results of calls in the last or the given request."""
        messages = self.provider.requests[request].body["messages"]
        return [str(each["content"]) for each in messages if each["role"] == "tool"]

    def resident(self) -> int:
        """Return the most bytes of memory that the process ever had."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        peak = re.search(r"VmHWM:\s*(\d+) kB", status)
        assert peak
        return int(peak[1]) * 1024

    def largest_frame(self) -> int:
        """Return the bytes of the largest message that came."""
        return max(len(json.dumps(value, ensure_ascii=False).encode()) for value in self.received)

    def largest_request(self) -> int:
        """Return the bytes of the largest request to the model, if there was one."""
        return max((len(json.dumps(each.body)) for each in self.provider.requests), default=0)


StartAgent = Callable[..., Agent]


def ends(contents: Sequence[Content]) -> list[Content]:
    """The contents that end calls."""
    return [each for each in contents if each.get("type") in {"toolCalled", "toolCallRejected"}]


def output_of(content: Content) -> str:
    """The text of a call's result."""
    return "".join(output["text"] for output in content["outputs"])


def assert_a_strict_server_takes(body: Mapping[str, Any]) -> None:
    """A request's calls have legal names and ids, readable arguments, and each its one result."""
    call_ids: set[str] = set()
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
            assert call["id"] not in call_ids
            call_ids.add(call["id"])
            expected.append(call["id"])
    assert not expected, f"calls without results: {expected}"

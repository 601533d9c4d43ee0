"""A day with each editor there is, in its own spelling: ids, empty params, timing, odd keys.

Where the framing of one of them loses something, see the tests of client profiles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pytest

from tests.eca_server.stranger import (
    START_SECONDS,
    UNSET,
    Stranger,
    content_of,
    frame,
    is_finished,
    message,
    text_of,
)

CHAT = {"codeAssistant": {"chat": True}}


@attrs.frozen(kw_only=True)
class Editor:
    """How a client speaks.

    Attributes:
        initialize: its params, beside empty `workspaceFolders`.
        first_id: the id of its first request.
        nothing: what it sends as params where there are none; UNSET: no params.
        encode: a message to a frame.
        early: requests and notifications between the answer to `initialize` and `initialized`.
        prompt: what it adds to the params of a prompt.
        beside: notifications it sends behind a prompt.
    """

    initialize: Mapping[str, Any]
    first_id: int = 1
    nothing: Any = attrs.field(factory=dict)
    encode: Callable[[Any], bytes] = frame
    early: tuple[tuple[str, Any], ...] = ()
    prompt: Mapping[str, Any] = attrs.field(factory=dict)
    beside: tuple[tuple[str, Any], ...] = ()


def with_a_line_end(value: Any) -> bytes:
    return frame(json.dumps(value, ensure_ascii=False).encode() + b"\n")


def with_escaped_slashes(value: Any) -> bytes:
    return frame(json.dumps(value).replace("/", "\\/").encode())


EDITORS = {
    "VsCode": Editor(
        initialize={
            "processId": None,
            "clientInfo": {"name": "VsCode", "version": "XXX"},
            "capabilities": CHAT,
            "initializationOptions": {},
        },
        first_id=0,
        early=(
            ("chat/queryContext", {"query": "", "contexts": []}),
            ("chat/selectedModelChanged", {"model": "x", "variant": None}),
        ),
    ),
    "Desktop": Editor(
        initialize={
            "clientInfo": {"name": "Desktop"},
            "capabilities": {"codeAssistant": {"chat": True, "chatCapabilities": {"ask": True}}},
        },
        first_id=0,
        nothing=UNSET,
    ),
    "emacs": Editor(
        initialize={
            "clientInfo": {"name": "emacs", "version": "GNU Emacs 28.2 (build 1)\n of 2023"},
            "capabilities": CHAT,
            "initializationOptions": {"chatBehavior": None, "chatAgent": None},
        },
        nothing=None,
        encode=with_a_line_end,
        prompt={"request-id": 7, "chatId": None, "agent": None, "behavior": "agent"},
    ),
    "Neovim": Editor(
        initialize={"clientInfo": {"name": "Neovim"}, "capabilities": CHAT, "contexts": []},
        nothing=[],
        encode=with_escaped_slashes,
        prompt={"contexts": [], "chatId": "nvim"},
        beside=(("chat/clear", {"contexts": []}), ("chat/queryContext", {"contexts": []})),
    ),
    "IntelliJ": Editor(
        initialize={
            "clientInfo": {"name": "IntelliJ"},
            "capabilities": CHAT,
            "initializationOptions": {
                "serverPath": None,
                "serverArgs": "",
                "usageStringFormat": "",
            },
        },
        early=(("chat/queryCommands", {"query": "", "chatId": None}),) * 3,
    ),
    "eca-cli": Editor(
        initialize={"processId": None, "clientInfo": {"name": "eca-cli"}, "capabilities": CHAT},
        beside=(
            ("chat/toolCallApprove", {"chatId": "x", "toolCallId": "none"}),
            ("chat/toolCallReject", {"chatId": None, "toolCallId": "none"}),
        ),
    ),
}


class Conversation:
    """An editor at a server."""

    def __init__(self, editor: Editor, server: Stranger) -> None:
        self.editor = editor
        self.server = server
        self._id = editor.first_id - 1

    def ask(self, method: str, params: Any = UNSET) -> Any:
        """Send a request and give its result."""
        self._id += 1
        params = self.editor.nothing if params is UNSET else params
        self.server.write(self.editor.encode(message(method, params, request_id=self._id)))
        answer = self.server.answer(self._id, seconds=START_SECONDS)
        assert "result" in answer, answer
        return answer["result"]

    def tell(self, method: str, params: Any = UNSET) -> None:
        params = self.editor.nothing if params is UNSET else params
        self.server.write(self.editor.encode(message(method, params)))

    def send_early(self) -> None:
        for method, params in self.editor.early:
            if method.startswith("chat/query"):
                self.ask(method, params)
            else:
                self.tell(method, params)

    def prompt(self, text: str) -> str:
        """Send a prompt and what goes with it; the chat's id."""
        params = {"message": text, "model": "simulator/script", **self.editor.prompt}
        chat = self.ask("chat/prompt", params)["chatId"]
        for method, more in self.editor.beside:
            self.tell(method, more)
        return str(chat)

    def wait_until(self, wanted: Callable[[Any], object], *, since: int) -> list[Any]:
        """What has come since that many messages, with the one that is wanted among it."""
        if not any(map(wanted, self.server.seen[since:])):
            self.server.until(wanted)
        return self.server.seen[since:]


@pytest.mark.requirement(
    "W-2a", "W-2b", "W-3a", "W-3b", "W-3c", "W-3e", "W-4a", "W-4c", "W-10a", "W-10d", "W-10e",
    "W-11a", "W-11b", "W-13d", "W-20a", "W-20b", "W-20d", "LIFE-7",
)  # fmt: skip
@pytest.mark.parametrize("name", EDITORS)
def test_an_editor_starts_chats_stops_and_leaves(server: Stranger, name: str) -> None:
    editor = Conversation(EDITORS[name], server)
    params = {**editor.editor.initialize, "workspaceFolders": []}
    assert isinstance(editor.ask("initialize", params)["chatWelcomeMessage"], str)
    editor.send_early()
    assert all("method" not in seen for seen in server.seen)
    editor.tell("initialized")
    introduction = server.until(lambda m: m["params"].get("type") == "finish")
    config = introduction[1]["params"]["chat"]
    for one, many in (("Model", "models"), ("Behavior", "behaviors"), ("Agent", "agents")):
        assert config[f"select{one}"] in config[many]

    begun = len(server.seen)
    text = "think hm\nsay an answer / with ünïcode"
    chat = editor.prompt(text)
    turn = editor.wait_until(is_finished, since=begun)
    contents = [content_of(seen) for seen in turn if content_of(seen)]
    assert contents[0]["type"] == "progress"
    assert contents[0]["text"]
    assert text_of(turn, "user") == text
    assert text_of(turn) == "an answer / with ünïcode"
    assert [content["type"] for content in contents[-2:]] == ["usage", "progress"]

    begun = len(server.seen)
    second = editor.prompt("say here\nwait forever")
    editor.wait_until(lambda m: content_of(m).get("text") == "here", since=begun)
    editor.tell("chat/promptStop", {"chatId": second})
    editor.wait_until(is_finished, since=begun)
    assert editor.ask("chat/delete", {"chatId": chat}) == {}
    assert editor.ask("shutdown") is None
    editor.tell("exit")
    assert server.exit_code() == 0
    nulls = [key for seen in server.seen for key, value in members(seen) if value is None]
    assert nulls == ["result"], "null is written as the result of `shutdown` only"


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Each key and value of a message, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)

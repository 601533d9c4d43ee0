"""A whole session in the draft of June 2025 with the real process (rulings W-12, W-50 to W-52)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import (
    Reply,
    finish,
    hang,
    provider_in_thread,
    reply,
    tool_call,
    usage,
)
from tests.eca_protocol.draft.letter import NOTIFICATIONS, REQUESTS, assert_is
from tests.eca_server.agent.chat.editor import provider_config
from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of
from tests.eca_server.wire.agent_session import calls

WRITE = ("eca_write_file", {"path": "new.txt", "content": "one\ntwo\n"})
EDIT = ("eca_edit_file", {"path": "old.txt", "original_content": "b", "new_content": "B"})
SHELL = ("eca_shell_command", {"command": "echo hello"})


class Draft(Stranger):
    """An editor of June 2025, and the model that the server asks.

    Attributes:
        script: what the model answers next; then it says `the end`.
        response: the answer to the last prompt.
        requests: the requests to the model.
    """

    script: deque[Reply]
    response: Any
    requests: list[Any]

    def start_turn(self, *script: Reply, **params: Any) -> None:
        self.script.extend(script)
        self.response = self.result("chat/prompt", {"chatId": "c", "message": "go", **params})

    def until_complete(self) -> list[Any]:
        """Return the messages up to the end of the turn."""
        return [each["params"] for each in self.until(is_complete)]

    def run(self, *script: Reply, **params: Any) -> list[Any]:
        """Run a whole turn without approvals."""
        begun = len(self.seen)
        self.start_turn(*script, **params)
        if not any(map(is_complete, self.seen[begun:])):
            self.until(is_complete)
        return [each["params"] for each in self.seen[begun:] if "method" in each]

    def waiting(self) -> Any:
        """Read until a change waits for the user."""
        came = self.until(lambda each: content_of(each).get("manualApproval") is True)
        return content_of(came[-1])


def is_complete(value: Any) -> bool:
    return bool(value.get("params", {}).get("isComplete"))


def text_of(messages: list[Any]) -> str:
    return "".join(each["content"].get("text", "") for each in messages)


@pytest.fixture
def draft(start_server: Start, tmp_path: Path) -> Iterator[Draft]:
    """An editor; at the end all that the process wrote is judged by the draft's letter."""
    folder, script = tmp_path / "project", deque[Reply]()
    (folder / "old.txt").write_text("a\nb\nc\n")

    def answer(_: object) -> Reply:
        return script.popleft() if script else reply("the end")

    with provider_in_thread(answer) as provider:
        config = provider_config(provider.url, chat={"title": False})
        config["providers"]["p"]["models"]["gpt-4"] = {}
        draft = start_server(kind=Draft, env={"ECA_CONFIG": json.dumps(config)})
        draft.script, draft.requests = script, provider.requests
        result = draft.initialize(
            capabilities={"codeAssistant": {"chat": True, "doc": True}},
            initializationOptions=["of any type"],
            workspaceFolders=[{"uri": folder.as_uri(), "name": "project"}],
        )
        assert_is(REQUESTS["initialize"][1], result)
        yield draft
        assert draft.leave() == 0
        for value in draft.seen:
            if "method" in value:
                assert_is(NOTIFICATIONS[value["method"]], value["params"])


@pytest.mark.requirement("W-12b", "W-50a", "W-50c", "W-50d", "W-50e")
def test_each_turn_is_deltas_and_a_closing_text_with_its_tokens(draft: Draft) -> None:
    answer = reply("Like so:\n```py\nx", " = 1\n```", finish("stop"), usage(100, 20))
    *deltas, closing = turn = draft.run(answer, message="how?")
    assert_is(REQUESTS["chat/prompt"][1], draft.response)
    assert (draft.response["chatId"], draft.response["status"]) == ("c", "success")
    assert [each["isComplete"] for each in deltas] == [False] * len(deltas)
    assert text_of(turn) == "Like so:\n```py\nx = 1\n```"
    blocks = [block for each in turn for block in each["content"].get("codeBlocks", [])]
    assert blocks == [{"code": "x = 1", "language": "py"}]
    assert closing["metadata"] == {"tokensUsed": 120}
    assert draft.run(reply("again"))[-1]["metadata"] == {"tokensUsed": 11}

    refused = draft.run(reply(status=401, body={"error": {"message": "bad key"}}))
    assert draft.response["status"] == "success"
    assert "bad key" in refused[-1]["content"]["text"]
    assert refused[-1]["metadata"]["tokensUsed"] == 0

    unable = draft.run(model="no/such")
    assert draft.response["status"] == "connection-error"
    assert "no/such" in draft.response["resultMessage"]
    assert [each["isComplete"] for each in unable] == [True]

    look = tool_call("eca_read_file", '{"path": "old.txt"}')
    draft.start_turn(reply(look, finish("tool_calls"), usage(7, 1)), reply("never", hang()))
    draft.until(lambda each: content_of(each).get("text") == "never")
    draft.stop()
    (closing,) = draft.until_complete()
    assert closing["content"] == {"type": "text", "text": "\n\nStopped."}
    assert closing["metadata"]["tokensUsed"] == 8
    assert draft.run()[-1]["metadata"]["tokensUsed"] == 11


@pytest.mark.requirement("W-52", "W-50b")
def test_a_change_waits_for_october_s_approval(draft: Draft) -> None:
    the_one = {"id": "the one"}  # the draft has no id of the call
    draft.start_turn(calls(WRITE))
    asked = draft.waiting()
    assert asked["file"] == str(draft.folder / "new.txt")
    assert asked["changes"] == [{"kind": "create", "content": "one\ntwo\n"}]
    draft.approve(the_one)
    assert text_of(draft.until_complete()).strip() == "the end"
    assert (draft.folder / "new.txt").read_text() == "one\ntwo\n"
    draft.start_turn(calls(EDIT))
    lines = {"startLine": 2, "endLine": 2}
    assert draft.waiting()["changes"] == [{"kind": "change", "content": "B\n", "range": lines}]
    draft.reject(the_one)
    assert "Rejected" in text_of(draft.until_complete())
    assert (draft.folder / "old.txt").read_text() == "a\nb\nc\n"
    draft.start_turn(calls(SHELL))
    assert "file" not in draft.waiting()
    draft.reject(the_one)
    draft.until_complete()

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
from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import Stranger, content_of, environment
from tests.eca_server.wire.agent_session import calls

WRITE = ("eca_write_file", {"path": "new.txt", "content": "one\ntwo\n"})
EDIT = ("eca_edit_file", {"path": "old.txt", "original_content": "b", "new_content": "B"})
SHELL = ("eca_shell_command", {"command": "echo hello"})


class Draft:
    """An editor of June 2025, and the model that the server asks.

    Attributes:
        folder: the workspace's only root.
        script: what the model answers next; then it says `the end`.
        response: the answer to the last prompt.
    """

    response: Any

    def __init__(self, home: Path) -> None:
        self.folder = home / "project"
        self.folder.mkdir()
        (self.folder / "old.txt").write_text("a\nb\nc\n")
        self.script: deque[Reply] = deque()
        self._model = provider_in_thread(self._answer)
        self._provider = self._model.__enter__()
        configured = provider_config(self._provider.url, chat={"title": False})
        configured["providers"]["p"]["models"]["gpt-4"] = {}
        self.server = Stranger(
            SERVE,
            cwd=self.folder,
            env=environment(home, ECA_CONFIG=json.dumps(configured)),
            errors=home / "stderr.txt",
        )

    def _answer(self, _: object) -> Reply:
        return self.script.popleft() if self.script else reply("the end")

    def close(self) -> None:
        self.server.close()
        self._model.__exit__(None, None, None)

    @property
    def asked(self) -> Any:
        """The last request to the model."""
        return self._provider.requests[-1].body

    @property
    def question(self) -> str:
        """Return the last message that the model was sent."""
        return json.dumps(self.asked["messages"][-1]["content"])

    def prompt(self, *script: Reply, chat: str = "c", **params: Any) -> None:
        self.script.extend(script)
        given = {"chatId": chat, "message": "go", **params}
        self.response = self.server.result("chat/prompt", given)

    def rest(self) -> list[Any]:
        """Return the messages up to the end of the turn."""
        return [each["params"] for each in self.server.until(is_complete)]

    def turn(self, *script: Reply, **params: Any) -> list[Any]:
        """Run a whole turn without approvals."""
        begun = len(self.server.seen)
        self.prompt(*script, **params)
        told = self.server.seen[begun:]
        if not any(map(is_complete, told)):
            told += self.server.until(is_complete)
        return [each["params"] for each in told if "method" in each]

    def waiting(self) -> Any:
        """Read until a change waits for the user."""
        return content_of(
            self.server.until(lambda each: content_of(each).get("manualApproval") is True)[-1]
        )

    def decide(self, what: str, chat: str = "c") -> None:
        """Approve as in October's edition; the draft has no id of the call."""
        self.server.tell(f"chat/toolCall{what}", {"chatId": chat, "toolCallId": "the one"})


def is_complete(value: Any) -> bool:
    return bool(value.get("params", {}).get("isComplete"))


def text_of(told: list[Any]) -> str:
    return "".join(each["content"].get("text", "") for each in told)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Draft]:
    """One process for all tests; at the end all that it wrote is judged by the draft's letter."""
    draft = Draft(tmp_path_factory.mktemp("draft"))
    server = draft.server
    try:
        result = server.initialize(
            capabilities={"codeAssistant": {"chat": True, "doc": True}},
            initializationOptions=["of any type"],
            workspaceFolders=[{"uri": draft.folder.as_uri(), "name": "project"}],
        )
        assert_is(REQUESTS["initialize"][1], result)
        yield draft
        assert server.leave() == 0
        for value in server.seen:
            if "method" in value:
                assert_is(NOTIFICATIONS[value["method"]], value["params"])
    finally:
        draft.close()


@pytest.mark.requirement("W-12b", "W-50a", "W-50d")
def test_a_turn_is_deltas_and_a_closing_text_with_its_tokens(draft: Draft) -> None:
    answer = reply("Like so:\n```py\nx", " = 1\n```", finish("stop"), usage(100, 20))
    told = draft.turn(answer, message="how?")
    assert_is(REQUESTS["chat/prompt"][1], draft.response)
    assert (draft.response["chatId"], draft.response["status"]) == ("c", "success")
    *deltas, closing = told
    assert [each["isComplete"] for each in deltas] == [False] * len(deltas)
    assert text_of(told) == "Like so:\n```py\nx = 1\n```"
    blocks = [block for each in told for block in each["content"].get("codeBlocks", [])]
    assert blocks == [{"code": "x = 1", "language": "py"}]
    assert closing["metadata"] == {"tokensUsed": 120}
    assert draft.turn(reply("again"))[-1]["metadata"] == {"tokensUsed": 11}


@pytest.mark.requirement("W-51c")
def test_the_draft_s_models_are_ours_of_that_name_or_the_default(draft: Draft) -> None:
    asked = {}
    for model in ("gpt-4", "auto", "claude-2", "p/gpt-4"):
        draft.turn(model=model)
        asked[model] = draft.asked["model"]
    assert asked == {"gpt-4": "gpt-4", "auto": "m", "claude-2": "m", "p/gpt-4": "gpt-4"}


@pytest.mark.requirement("W-51a", "W-51b")
def test_the_draft_s_contexts_reach_the_model(draft: Draft) -> None:
    file = {
        "type": "file",
        "path": str(draft.folder / "old.txt"),
        "selection": {"startLine": 2, "endLine": 3},
        "cursor": {"line": 3, "character": 1},
    }
    code = {"type": "code", "content": "SELECT 42", "language": "sql", "description": "a query"}
    told = draft.turn(context=[file, code, {"type": "terminal", "lines": []}])
    said = json.dumps(draft.asked["messages"][-1]["content"])
    for part in ("b\\n", "3:1", "SELECT 42", "a query (sql)"):
        assert part in said
    assert "'terminal'" in text_of(told)
    refused = draft.server.answer(
        draft.server.ask("chat/prompt", {"message": "x", "context": [{"type": "code"}]})
    )
    assert refused["error"]["code"] == -32602
    assert "context[0].content" in refused["error"]["message"]


@pytest.mark.requirement("W-52", "W-50b")
def test_a_change_waits_for_october_s_approval(draft: Draft) -> None:
    draft.prompt(calls(WRITE))
    asked = draft.waiting()
    assert asked["file"] == str(draft.folder / "new.txt")
    assert asked["changes"] == [{"kind": "create", "content": "one\ntwo\n"}]
    draft.decide("Approve")
    assert text_of(draft.rest()).strip() == "the end"
    assert (draft.folder / "new.txt").read_text() == "one\ntwo\n"
    draft.prompt(calls(EDIT))
    lines = {"startLine": 2, "endLine": 2}
    assert draft.waiting()["changes"] == [{"kind": "change", "content": "B\n", "range": lines}]
    draft.decide("Reject")
    assert "Rejected" in text_of(draft.rest())
    assert (draft.folder / "old.txt").read_text() == "a\nb\nc\n"
    draft.prompt(calls(SHELL))
    assert "file" not in draft.waiting()
    draft.decide("Reject")
    draft.rest()


@pytest.mark.requirement("W-50e")
def test_what_the_provider_did_is_the_closing_text(draft: Draft) -> None:
    told = draft.turn(reply(status=401, body={"error": {"message": "bad key"}}))
    assert draft.response["status"] == "success"
    assert "bad key" in told[-1]["content"]["text"]
    assert told[-1]["metadata"]["tokensUsed"] == 0


def test_a_turn_that_cannot_start_is_a_connection_error_and_ends(draft: Draft) -> None:
    told = draft.turn(model="no/such")
    assert draft.response["status"] == "connection-error"
    assert "no/such" in draft.response["resultMessage"]
    assert [each["isComplete"] for each in told] == [True]


@pytest.mark.requirement("W-50c")
def test_a_stopped_turn_has_its_closing_text_too(draft: Draft) -> None:
    look = tool_call("eca_read_file", '{"path": "old.txt"}')
    draft.prompt(reply(look, finish("tool_calls"), usage(7, 1)), reply("never", hang()))
    draft.server.until(lambda each: content_of(each).get("text") == "never")
    draft.server.stop()
    (closing,) = draft.rest()
    assert closing["content"] == {"type": "text", "text": "\n\nStopped."}
    assert closing["metadata"]["tokensUsed"] == 8
    assert draft.turn()[-1]["metadata"]["tokensUsed"] == 11

"""A subagent's messages are shown when a chat is reopened, and are stored with its call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.chat.subagent_work import LARGEST, NOT_STORED, reduced
from eca_server.models.history import (
    BlockPart,
    ImagePart,
    Message,
    ReasoningPart,
    Subagent,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor
from tests.eca_server.agent.chat.editor import call as of_script
from tests.eca_server.agent.chat.test_subagents import SCOUT, spawn

CONFIG = {"agent": {"scout": {**SCOUT["scout"], "maxSteps": 9}}}
PASSING = {"progress", "usage"}


def params_of_contents(ours: Editor, begun: int = 0) -> list[Mapping[str, Any]]:
    return [
        each["params"]
        for each in ours.received[begun:]
        if each.get("method") == "chat/contentReceived"
        and each["params"]["content"]["type"] not in PASSING
    ]


def of_child(contents: list[Mapping[str, Any]], parent: str) -> list[tuple[str, Any]]:
    """Kinds and texts of what was said in subagents' chats; pieces of one text are joined."""
    entries: list[tuple[str, Any]] = []
    for each in contents:
        kind, text = each["content"]["type"], each["content"].get("text")
        if each.get("parentChatId") != parent or (kind == "toolCallPrepare" == entries[-1][0]):
            continue
        joins = text is not None and entries[-1:] and entries[-1][0] == kind == "text"
        if joins and each["role"] == "assistant" and len(entries) > 1:
            entries[-1] = kind, entries[-1][1] + text
        else:
            entries.append((kind, text))
    return entries


def around_child(contents: list[Mapping[str, Any]]) -> list[tuple[str, Any]]:
    """The spawning call's contents from `toolCallRun` on, and where the child's stand."""
    entries: list[tuple[str, Any]] = []
    for each in contents:
        content = each["content"]
        if "parentChatId" in each:
            kind, details = "child", None
        elif content.get("name") == "spawn_agent" and content["type"] != "toolCallPrepare":
            kind, details = content["type"], content["details"]
        else:
            continue
        if entries[-1:] != [(kind, details)]:
            entries.append((kind, details))
    return entries


@pytest.mark.requirement("VALUE:SubagentDetails.type=subagent")
async def test_a_chat_that_is_opened_again_shows_what_its_subagents_did(tmp_path: Path) -> None:
    look = of_script("directory_tree", path=str(tmp_path))
    task = f"think hm\nsay first\n{look}\nsay found it"
    async with current(CONFIG, data=tmp_path, folder=tmp_path) as ours:
        await ours.turn(f"{spawn(task)}\nsay done", model=SCRIPT)
        await ours.turn("say more", model=SCRIPT)
        live = params_of_contents(ours)
    child = of_child(live, "c")
    first, last = (each["content"]["contentId"] for each in live if is_users(each))
    details = {
        "type": "subagent",
        "subagentChatId": next(each["chatId"] for each in live if "parentChatId" in each),
        "agentName": "scout",
        "model": SCRIPT,
        "maxSteps": 9,
        "step": 2,
    }
    begins = [("toolCallRun", details), ("toolCallRunning", details)]
    ends = [("toolCalled", details)]

    async with current(CONFIG, data=tmp_path, folder=tmp_path) as ours:
        begun = len(ours.received)
        await ours.ask("chat/open", {"chatId": "c"})
        opened = params_of_contents(ours, begun)
        assert len(child) > 8
        assert of_child(opened, "c") == child
        assert around_child(opened) == [*begins, ("child", None), *ends]
        assert summaries(opened) == summaries(live) == ["scout"]
        history = await ours.ask("chat/history", {"chatId": "c"})
        assert of_child(history["contents"], "c") == child
        begun = len(ours.received)
        await ours.ask("chat/fork", {"chatId": "c", "contentId": last})
        fork = params_of_contents(ours, begun)[0]["chatId"]
        assert of_child(params_of_contents(ours, begun), fork) == child
        await ours.ask("chat/delete", {"chatId": "c"})

    async with current(CONFIG, data=tmp_path, clientInfo={"name": "Neovim"}) as ours:
        begun = len(ours.received)
        await ours.ask("chat/open", {"chatId": fork})
        assert around_child(params_of_contents(ours, begun)) == [*begins, *ends]
        assert is_on_disk(b"found it", tmp_path)
        await ours.ask("chat/rollback", {"chatId": fork, "contentId": first, "include": []})
    assert not is_on_disk(b"found it", tmp_path)


def summaries(contents: list[Mapping[str, Any]]) -> list[str]:
    ends = (each["content"] for each in contents if each["content"]["type"] == "toolCalled")
    return [each["summary"] for each in ends if each["name"] == "spawn_agent"]


def is_users(params: Mapping[str, Any]) -> bool:
    return params["role"] == "user" and "parentChatId" not in params


def is_on_disk(text: bytes, folder: Path) -> bool:
    return any(text in path.read_bytes() for path in folder.rglob("chats.sqlite*"))


def call(name: str, raw: str = "{}", **arguments: Any) -> Message:
    part = ToolCallPart(id=name, name=name, raw=raw, arguments=arguments, opaque={"a": "secret"})
    return Message(role="assistant", parts=(ReasoningPart(opaque="secret"), part, BlockPart(raw=1)))


def result(name: str, text: str = "") -> Message:
    inside = Subagent(name="x", model="p/m", messages=(Message(role="user", parts=()),))
    picture = ImagePart(media_type="image/png", data=b"bytes")
    parts = (TextPart(text), picture)
    return Message(role="tool", parts=(ToolResultPart(call_id=name, parts=parts, subagent=inside),))


def test_what_is_stored_of_a_subagents_chat_can_be_shown_and_is_bounded() -> None:
    task = Message(role="user", parts=(TextPart("go"),), content_id="u")
    long = "x" * 50_000
    (part,) = reduced([task, call("a", raw=f'"{long}"', path="p", text=long)])[1].parts
    assert (part.raw, part.opaque, part.arguments and part.arguments["path"]) == ("", None, "p")
    assert len(str(part.arguments)) < 10_000
    (answer,) = reduced([result("a", long)])[0].parts
    assert (answer.subagent, len(answer.parts)) == (None, 1)
    assert len(str(answer)) < 10_000

    rounds = [each for n in range(100) for each in (call(f"{n}"), result(f"{n}", long))]
    messages = reduced([task, *rounds])
    assert messages[0] == task
    assert messages[-1].parts == (TextPart(NOT_STORED),)
    assert [each.role for each in messages[1:-1]] == ["assistant", "tool"] * (
        len(messages) // 2 - 1
    )
    assert 0.9 * LARGEST < len(str(messages)) < 1.2 * LARGEST
    assert reduced([Message(role="user", parts=(TextPart("x" * LARGEST),))])[0].role == "assistant"

"""Our client with servers of June 2025: a scripted one, and our server's process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from eca_protocol import messages as m
from eca_protocol.client import connect
from eca_protocol.errors import LocalProtocolError, RequestFailed
from eca_protocol.revisions import Revision
from eca_protocol.streams import memory_pair
from tests.eca_protocol.draft.letter import NOTIFICATIONS, REQUESTS, assert_is
from tests.eca_protocol.wire import Wire, notification, success
from tests.eca_server import fork_server

pytestmark = pytest.mark.anyio

OCTOBERS = {"chat/promptStop", "chat/toolCallApprove", "chat/toolCallReject"}
CHANGE = {"type": "fileChange", "description": "Add a line", "manualApproval": True}


async def stranger(wire: Wire) -> None:
    """Serve the draft of June 2025, checking each message against its text; fail on one day."""
    days = iter(["no network today", "sent", "sent"])
    while (message := await wire.receive()) is not None:
        method, params = message["method"], message.get("params")
        if "id" not in message:
            if method not in OCTOBERS:
                assert_is(NOTIFICATIONS[method], params)
            if method == "chat/toolCallApprove":
                await tell(wire, {"type": "text", "text": "Added."}, isComplete=True)
            continue
        assert_is(REQUESTS[method][0], params)
        result = {"initialize": {}, "shutdown": None}.get(method)
        if method == "chat/prompt":
            result_message = next(days)
            status = "success" if result_message == "sent" else "connection-error"
            result = {"chatId": params["chatId"], "status": status, "resultMessage": result_message}
        await wire.send(success(message["id"], result))
        if method == "chat/prompt" and result["status"] == "success":
            await tell(wire, {"type": "text", "text": "I will "})
            await tell(wire, CHANGE)


async def tell(wire: Wire, content: dict[str, Any], **more: Any) -> None:
    params = {"chatId": "c", "content": content, "isComplete": False, **more}
    await wire.send(notification("chat/contentReceived", params))


@pytest.mark.requirement("W-16c")
async def test_a_stranger_s_draft_server_is_spoken_with_by_its_letter() -> None:
    ours, theirs = memory_pair()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stranger, Wire(theirs))
        async with connect(transport=ours, revision=Revision.DRAFT) as client:
            assert await client.wait_for_config() == m.ChatConfig()
            chat = client.chat("c", model="openai/gpt-4")
            with pytest.raises(RequestFailed, match="no network today"):
                await chat.prompt("hi").text()
            contents = []
            async for content in chat.prompt("hi", contexts=[m.WebContext(url="https://x")]):
                contents.append(content.type)
                if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
                    assert content.summary == "Add a line"
                    chat.approve(content.id)
            assert contents == [
                "progress", "text", "toolCallPrepare", "toolCallRun", "text", "toolCallRunning",
                "toolCalled",
            ]  # fmt: skip
            with pytest.raises(LocalProtocolError, match="'other/model'"):
                await chat.prompt("hi", model="other/model").text()
            with pytest.raises(LocalProtocolError, match="2025-06"):
                await chat.delete()
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("W-16c", "W-52")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_real_server_is_spoken_with_in_the_draft(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    config = {"defaultModel": "simulator/script", "chat": {"title": False}}
    root = str(Path(__file__).parents[3])
    env = {**os.environ, **home, "PYTHONPATH": root, "ECA_CONFIG": json.dumps(config)}
    write = json.dumps({"path": "new.txt", "content": "x\n"})
    async with connect(
        command=(*fork_server.command(), "server"),
        revision=Revision.DRAFT,
        workspace_folders=[folder],
        env=env,
    ) as client:
        assert client.initialize_response == m.InitializeResponse()
        chat = client.chat()
        async with chat.prompt(f"say I will.\ncall eca_write_file {write}\nsay Well.") as turn:
            contents = []
            async for content in turn:
                contents.append(content)
                if isinstance(content, m.ChatToolCallRunContent):
                    assert content.arguments == {
                        "file": str(folder / "new.txt"),
                        "changes": [{"kind": "create", "content": "x\n"}],
                    }
                    chat.approve(content.id)
        texts = [each.text for each in contents if isinstance(each, m.ChatTextContent)]
        assert "".join(texts).split() == ["I", "will.", "Well."]
        assert (folder / "new.txt").read_text() == "x\n"
        assert isinstance(chat.usage, m.ChatUsageContent)
        assert chat.usage.session_tokens == chat.usage.tokens_used
        stopped = chat.prompt("say here\nwait forever")
        async for content in stopped:
            if isinstance(content, m.ChatTextContent):
                stopped.stop()

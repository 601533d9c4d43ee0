"""After `shutdown` no child process and no unstored chat is left, or it reports them (W-13)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.process import Child
from eca_protocol.server.roots import uri_of
from eca_server.agent.chat import Prompt, Turn
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.chat.store.store import Store
from eca_server.models.history import Message, TextPart
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor

SLEEPER = f"call eca_shell_command {json.dumps({'command': 'echo $$ > pid; exec sleep 100'})}"


UNWRITTEN = "the last changes of the chats could not be written to the disk"


async def shut_down(ours: Editor) -> dict[str, Any]:
    """The whole answer to `shutdown`."""
    asked = ours.request("shutdown")
    await ours.send(asked)
    return await ours.until(lambda message: message.get("id") == asked["id"])


async def stored(data: Path, chat: str = "c") -> StoredChat | None:
    store = Store(store_path({"XDG_DATA_HOME": str(data)}), on_problem=pytest.fail)
    found = await store.load(chat)
    await store.close()
    return found


async def run_sleeper(ours: Editor, folder: Path) -> int:
    """Start a turn whose tool runs without an end; the process of the tool."""
    await ours.start(workspaceFolders=[{"name": "w", "uri": uri_of(folder)}])
    await ours.prompt(SLEEPER, model=SCRIPT)
    call = await ours.content("toolCallRun")
    await ours.approve(call)
    noted = folder / "pid"
    while not noted.exists() or not noted.read_text().strip():
        await trio.sleep(0)
    return int(noted.read_text())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.requirement("LIFE-18")
async def test_children_are_ended_and_turns_on_disk_before_the_answer(tmp_path):
    folder, data = tmp_path / "w", tmp_path / "data"
    folder.mkdir()
    async with editor(started=False, keeps_chats=True, XDG_DATA_HOME=str(data)) as ours:
        pid = await run_sleeper(ours, folder)
        assert is_alive(pid)
        assert (await shut_down(ours))["result"] is None
        assert not is_alive(pid)
        chat = await stored(data)
        assert chat is not None
        assert [kept.message.role for kept in chat.messages] == ["user", "assistant", "tool"]


async def deaf(turn: Turn) -> None:
    """Write something, and do not end when cancelled."""
    turn.messages.append(Message(role="user", parts=(TextPart("heard"),)))
    turn.say("begun")
    with trio.CancelScope(shield=True):
        await trio.sleep(5)


async def test_a_turn_that_is_closed_without_its_body_is_on_disk_too(tmp_path, autojump_clock):
    async with editor(keeps_chats=True, XDG_DATA_HOME=str(tmp_path)) as ours:
        chat = ours.connection.chats.open("c")
        for _ in range(2):
            chat.prompt(Prompt(text="hi", body=deaf))
            await ours.content("text", text="begun")
            await ours.expect_stopped()
            await trio.sleep(10)
        await ours.turn("hello", model=ECHO)
        assert (await shut_down(ours))["result"] is None
        kept = await stored(tmp_path)
        assert kept is not None
        assert [each.message for each in kept.messages] == [*chat.history]
        assert len(chat.history) == 4


async def unheard(*_: object) -> None:
    """Send no signal at all."""


@pytest.mark.requirement("W-13c", "LIFE-21")
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_it_fails_if_a_tool_cannot_be_ended(tmp_path, monkeypatch, is_deleted):
    async with editor(started=False) as ours:
        pid = await run_sleeper(ours, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(Child, "signal_group", unheard)
            if is_deleted:
                assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
            begun = trio.current_time()
            error = (await shut_down(ours))["error"]
            assert trio.current_time() - begun < 2
        assert error == {
            "code": -32603,
            "message": "shutdown: a tool of the chat c could not be ended",
        }
        assert ours.connection.was_shut_down
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_it_fails_if_a_chat_could_not_be_stored_or_deleted(tmp_path, is_deleted):
    data = tmp_path / "data"
    data.write_text("in the way")
    async with editor(keeps_chats=True, XDG_DATA_HOME=str(data)) as ours:
        await ours.turn("hello", model=ECHO)
        if is_deleted:
            assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        error = (await shut_down(ours))["error"]
        assert error == {"code": -32603, "message": f"shutdown: {UNWRITTEN}"}


async def test_it_does_not_fail_where_there_is_nothing_to_store(tmp_path):
    data = tmp_path / "data"
    data.write_text("in the way")
    async with editor(keeps_chats=True, XDG_DATA_HOME=str(data)) as ours:
        await ours.turn("/costs")
        assert (await shut_down(ours))["result"] is None

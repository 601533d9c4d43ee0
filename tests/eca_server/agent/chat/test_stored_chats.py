"""Chats on a disk that fails, prompts that are stored at once, and what a shutdown leaves."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.process import Child
from eca_server.agent.chat import Prompt, Turn
from eca_server.agent.chat.store import queries
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.store.worker import LIMITS
from eca_server.agent.jobs import shell as jobs_shell
from eca_server.models.history import Message, TextPart
from tests.eca_server.agent.chat.current import current, set_store_limits, since
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, call, editor
from tests.eca_server.agent.chat.test_rollback import full_disk, send_prompt
from tests.promises import within

TITLES = {"chat": {"title": True}}


async def stored(data: Path) -> str:
    """Store a chat that the user named and marked; the marked message's id."""
    async with current(data=data) as ours:
        first = await send_prompt(ours, "one", model=ECHO)
        await ours.ask("chat/addFlag", {"chatId": "c", "contentId": first, "text": "here"})
        await ours.ask("chat/update", {"chatId": "c", "title": "mine"})
    return first


async def shown_title_and_texts(ours: Editor) -> tuple[str, list[str]]:
    """The title and the texts of the chat, when it is opened."""
    begun = len(ours.received)
    answer = await ours.ask("chat/open", {"chatId": "c"})
    messages = since(ours, begun)
    return answer["title"], [words for name, words in messages if name in ("text", "flag")]


def fails_once(_ours: Editor, patch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A disk that cannot be read; called, it can be."""
    patch.setattr(queries, "load", full_disk)
    return patch.undo


def hangs_once(ours: Editor, patch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A disk that does not answer; called, it does."""
    goes_on, load = threading.Event(), queries.load

    def late(*arguments: Any) -> Any:
        goes_on.wait(30)
        return load(*arguments)

    patch.setattr(queries, "load", late)
    set_store_limits(ours, read=0.1, write=0.1)

    def go_on() -> None:
        patch.undo()
        set_store_limits(ours, read=LIMITS.read, write=LIMITS.write)
        goes_on.set()

    return go_on


@pytest.mark.parametrize("trouble", [fails_once, hangs_once])
async def test_a_chat_that_could_not_be_read_is_read_back_with_a_later_turn(tmp_path, trouble):
    await stored(tmp_path)
    async with current(TITLES, data=tmp_path) as ours:
        with pytest.MonkeyPatch.context() as patch:
            mend = trouble(ours, patch)
            await ours.turn("two", model=ECHO)
            chat = ours.connection.chats.open("c")
            assert [each.role for each in chat.history] == ["user", "assistant"]
            mend()
        await ours.ask("chat/list")  # which waits for the disk
        await ours.turn("three", model=ECHO)
        assert len(chat.history.model_context) == 6
        assert chat.storage.is_restored
        texts = ["one", "here", "one", "two", "two", "three", "three"]
        assert await shown_title_and_texts(ours) == ("mine", texts)
    async with current(data=tmp_path) as ours:
        assert await shown_title_and_texts(ours) == ("mine", texts)


async def test_a_late_disk_holds_up_no_list_and_says_so(tmp_path):
    await stored(tmp_path)
    async with current(data=tmp_path) as ours:
        with pytest.MonkeyPatch.context() as patch:
            mend = hangs_once(ours, patch)
            await ours.turn("two", model=ECHO)
            set_store_limits(ours, read=25)
            with trio.fail_after(15):  # ten waits of 0.1 seconds, none of 25
                listed = await ours.ask("chat/list")
                assert not (await ours.ask("chat/open", {"chatId": "other"}))["found"]
                answer = (await ours.turn("/resume", "d")).text
            assert [each["id"] for each in listed["chats"]] == ["c"]
            assert "The stored chats cannot be read: the disk does not respond." in answer
            times = sum("Stored chats cannot be listed or opened" in each for each in ours.notices)
            assert times in (1, 2), "not with each request; a busy machine may be late before"
            mend()
        set_store_limits(ours, late=30)
        listed = await ours.ask("chat/list")
        assert {each["id"]: each["messageCount"] for each in listed["chats"]}["c"] == 4


async def test_a_deletion_that_cannot_be_written_is_reported_and_the_chat_is_not_listed(
    tmp_path, monkeypatch
):
    await stored(tmp_path)
    async with current(data=tmp_path) as ours:
        await ours.turn("two", "other", model=ECHO)
        with monkeypatch.context() as patch:
            patch.setattr(queries, "delete", full_disk)
            assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
            listed = await ours.ask("chat/list")
            assert [each["id"] for each in listed["chats"]] == ["other"]
            assert any("The chat c is not deleted" in each for each in ours.notices), ours.notices
            patch.setattr(queries, "clear", full_disk)
            await ours.ask("chat/clear", {"chatId": "other", "messages": True})
            assert "The chat other is not cleared" in ours.notices[-1]
        await ours.turn("anew", "c", model=ECHO)
        listed = await ours.ask("chat/list")
        assert {each["id"]: each["messageCount"] for each in listed["chats"]} == {"c": 2}
    async with current(data=tmp_path) as ours:
        assert await ours.ask("chat/list") == listed


async def test_a_chat_cleared_unread_keeps_its_title_and_later_messages(tmp_path, monkeypatch):
    await stored(tmp_path)
    async with current(data=tmp_path) as ours:
        with monkeypatch.context() as patch:
            patch.setattr(queries, "load", full_disk)
            await ours.turn("two", model=ECHO)
            await ours.ask("chat/clear", {"chatId": "c", "messages": True})
            await ours.turn("three", model=ECHO)
        await ours.turn("four", model=ECHO)
        texts = ["three", "three", "four", "four"]
        assert await shown_title_and_texts(ours) == ("mine", texts)
    async with current(data=tmp_path) as ours:
        assert await shown_title_and_texts(ours) == ("mine", texts)


SLEEPER = call("shell_command", command="echo $$ > pid; exec sleep 100")


UNWRITTEN = "the last changes of the chats could not be written to the disk"


async def shut_down(ours: Editor) -> dict[str, Any]:
    """The whole answer to `shutdown`."""
    request = ours.request("shutdown")
    await ours.send(request)
    return await ours.until(lambda message: message.get("id") == request["id"])


async def on_disk(data: Path, chat: str = "c") -> StoredChat | None:
    store = Store(store_path({"XDG_DATA_HOME": str(data)}), on_problem=pytest.fail)
    stored_chat = await store.load(chat)
    await store.close()
    return stored_chat


async def run_sleeper(ours: Editor, folder: Path) -> int:
    """Start a turn whose tool runs without an end; the process of the tool."""
    await ours.prompt(SLEEPER, model=SCRIPT)
    call = await ours.content("toolCallRun")
    await ours.approve(call)
    noted = folder / "pid"
    while not noted.exists() or not noted.read_text().strip():
        await trio.sleep(0)
    return int(noted.read_text())


async def test_a_turn_that_is_closed_without_its_body_is_on_disk_too(tmp_path, monkeypatch):
    monkeypatch.setattr("eca_server.agent.chat.turn.STOP_SECONDS", 0.02)
    release = trio.Event()

    async def deaf(turn: Turn) -> None:
        turn.messages.append(Message(role="user", parts=(TextPart("heard"),)))
        turn.say("begun")
        with trio.CancelScope(shield=True):
            await release.wait()

    async with editor(data=tmp_path) as ours:
        chat = ours.connection.chats.open("c")
        for _ in range(2):
            release = trio.Event()
            chat.prompt(Prompt(text="hi", body=deaf))
            await ours.content("text", text="begun")
            turn = chat.turn
            await ours.expect_stopped()
            assert not turn.ended.is_set()
            release.set()
            await turn.ended.wait()
        await ours.turn("hello", model=ECHO)
        assert (await shut_down(ours))["result"] is None
        stored_chat = await on_disk(tmp_path)
        assert [*stored_chat.messages] == [*chat.history]
        assert len(chat.history) == 6  # the two prompts and their stops, a prompt and its answer


async def send_no_signal(*_: object) -> None:
    """Send no signal at all."""


@pytest.mark.requirement("W-13c", "LIFE-21")
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_it_fails_if_a_tool_cannot_be_ended(tmp_path, monkeypatch, is_deleted):
    async with editor(folder=tmp_path) as ours:
        pid = await run_sleeper(ours, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(Child, "signal_group", send_no_signal)
            patched.setattr(jobs_shell, "_TERM_SECONDS", 30)  # it is not given up before
            if is_deleted:
                assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
            with within(2):
                error = (await shut_down(ours))["error"]
        message = "shutdown: a tool of the chat c could not be ended"
        assert error == {"code": -32603, "message": message}
        assert ours.connection.was_shut_down
        os.kill(pid, signal.SIGKILL)


@pytest.mark.requirement("W-13c", "LIFE-21")
@pytest.mark.parametrize("is_left", [False, True])
async def test_it_fails_if_a_process_is_left_of_a_tool_that_was_given_up(
    tmp_path, monkeypatch, is_left
):
    async with editor(folder=tmp_path) as ours:
        pid = await run_sleeper(ours, tmp_path)
        with monkeypatch.context() as patched:
            patched.setattr(Child, "signal_group", send_no_signal)
            turn = ours.connection.chats.open("c").turn
            assert turn is not None
            await ours.expect_stopped()
            await turn.ended.wait()
            if not is_left:
                os.kill(pid, signal.SIGKILL)
            with within(2):
                answer = await shut_down(ours)
        if is_left:
            message = f"shutdown: the process {pid} could not be ended"
            assert answer["error"] == {"code": -32603, "message": message}
            os.kill(pid, signal.SIGKILL)
        else:
            assert answer["result"] is None


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_it_fails_if_a_chat_could_not_be_stored_or_deleted(tmp_path, is_deleted):
    data = tmp_path / "data"
    data.write_text("in the way")
    async with editor(data=data) as ours:
        await ours.turn("hello", model=ECHO)
        if is_deleted:
            assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        error = (await shut_down(ours))["error"]
        assert error == {"code": -32603, "message": f"shutdown: {UNWRITTEN}"}

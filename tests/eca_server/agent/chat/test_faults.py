"""Errors of users and providers end as readable text and one `finished` (W-21)."""

from typing import Any

import pytest
import trio.testing

from eca_protocol.server.texts import Role
from eca_protocol.testing.provider import Provider, burst, provider_in_thread, reply
from eca_server.agent.chat import breakdown
from eca_server.agent.chat.store.rows import ChatRecord
from eca_server.agent.chat.store.store import Store
from eca_server.client.session import Session
from eca_server.models.calls import MAX_NESTING
from eca_server.system import threads
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Content,
    Editor,
    editor,
    finishes,
    provider_config,
    types,
)

SIMULATED = (ECHO, SCRIPT)


def error_of(received: list[Content]) -> str:
    """The system's last words of a turn that failed."""
    assert types(received)[-1] == "finished"
    assert finishes(received) == 1
    last = [each for each in received if each["type"] == "text"][-1]
    return str(last["text"])


async def assert_goes_on(ours: Editor, chat: str = "c") -> None:
    received = await ours.turn("go on", chat, model=ECHO)
    assert received.types == ["progress", "text", "progress", "text", "usage", "finished"]


async def test_a_turn_that_breaks_off_keeps_what_came_and_says_why(ours, autojump_clock):
    for script, words in (
        ("say some\nfail overloaded stop", "stop"),
        ("think hm\nfail auth stop", "stop"),
        ("say some\ncut", "broke off"),
        ("cut", "broke off"),
        ("say some\ncrash", "See the server's log for details."),
        ("crash", "See the server's log for details."),
    ):
        received = await ours.turn(script, model=SCRIPT)
        assert ("some" in [each.get("text") for each in received]) == ("say some" in script)
        assert words in error_of(received)
        await assert_goes_on(ours)


async def test_a_turn_on_a_machine_without_a_free_thread_says_so(ours, monkeypatch, autojump_clock):
    async def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(trio.to_thread, "run_sync", refuse)
        patched.setattr(threads, "_PAUSE", threads.THREAD_SECONDS)  # one more try
        received = await ours.turn("say hi", model=SCRIPT)
    assert "the system is at a limit: no thread can be started" in error_of(received)
    await assert_goes_on(ours)


@pytest.mark.parametrize("lost", ["usage", "last words", "history"])
async def test_what_fails_at_its_end_ends_a_turn_too(lost, tmp_path, monkeypatch, caplog):
    def emit(session: Session, chat_id: str, role: Role, content: Any) -> None:
        if content.type == lost or "were dropped" in getattr(content, "text", ""):
            raise ValueError("there is no JSON for it")
        written(session, chat_id, role, content)

    async def keep(store: Store, chat_id: str, workspace: str, record: ChatRecord) -> bool:
        if record.running is None or record.running.is_over:
            raise ValueError("there is no row for it")
        return await append(store, chat_id, workspace, record)

    written, append = Session.emit, Store.append
    async with editor(data=tmp_path if lost == "history" else None) as ours:
        with monkeypatch.context() as patched:
            patched.setattr(Session, "emit", emit)
            patched.setattr(Store, "append", keep)
            if lost == "last words":
                await ours.prompt("wait forever", model=SCRIPT)
                await ours.prompt("then this", model=SCRIPT)
                await ours.stop()
            else:
                await ours.prompt("say a", model=SCRIPT)
            await ours.expect_finished()
        assert ours.contents().finishes == 1
        assert [each.levelname for each in caplog.records] == ["ERROR"]
        await assert_goes_on(ours)


async def test_a_context_that_cannot_be_announced_delays_no_end(monkeypatch, caplog):
    monkeypatch.setattr(breakdown, "breakdown", lambda *_: 1 / 0)
    async with current() as ours:
        *_, usage, end = await ours.turn("say a", model=SCRIPT)
        assert (usage["type"], end["state"]) == ("usage", "finished")
        assert "contextBreakdown" not in usage
        assert [each.levelname for each in caplog.records] == ["ERROR"]
        await assert_goes_on(ours)


async def test_what_fails_in_a_clear_ends_nothing(tmp_path, monkeypatch, caplog):
    async def clear(*_: object, **__: object) -> None:
        raise RuntimeError("there is no thread for it")

    monkeypatch.setattr(Store, "clear", clear)
    async with current(data=tmp_path) as ours:
        await ours.turn("say a", model=SCRIPT)
        await ours.ask("chat/clear", {"chatId": "c"})
        assert "the stored messages of chat c cannot be deleted" in caplog.text
        assert not ours.connection.chats.open("c").history
        await assert_goes_on(ours)


@pytest.mark.requirement("GEN-1")
@pytest.mark.parametrize(
    "url", ["http://[::1:8080/v1", "https://[your-resource].example.com/v1", "http://host:port/v1"]
)
@pytest.mark.parametrize(
    ("setting", "variable", "key"),
    [("url", None, "providers.odd.url"), (None, "ODD_API_URL", "ODD_API_URL")],
)
async def test_a_url_that_cannot_be_read_costs_its_own_provider_alone(url, setting, variable, key):
    async with Provider(otherwise=reply("Good day")) as provider:
        config = provider_config(provider.url)
        config["providers"]["odd"] = {"models": {"m": {}}, **({setting: url} if setting else {})}
        async with editor(config, **({variable: url} if variable else {})) as ours:
            shown = await ours.notice()
            assert shown["type"] == "error"
            assert f"{key}: expected a url" in shown["message"]
            [updated] = ours.notified("config/updated")
            assert updated["chat"]["models"] == ["p/m", *SIMULATED]
            assert "Good day" in (await ours.turn("hi", model="p/m")).text
            assert "the url of odd: expected a url" in error_of(
                await ours.turn("hi", model="odd/m")
            )
            assert f"{key}: expected a url" in (await ours.turn("/doctor")).text
            await assert_goes_on(ours)


@pytest.mark.requirement("W-30c")
async def test_arguments_that_no_message_could_hold_are_unreadable(ours):
    def nested(levels: int) -> str:
        inner = "[" * (levels - 1) + "]" * (levels - 1)
        return f'call eca_grep {{"pattern": "x", "more": {inner}}}'

    for levels, is_read in ((MAX_NESTING, True), (MAX_NESTING + 1, False), (127, False)):
        received = await ours.turn(nested(levels), model=SCRIPT)
        [run] = [each for each in received if each["type"] == "toolCallRun"]
        assert bool(run["arguments"]) is is_read
        [called] = [each for each in received if each["type"] == "toolCalled"]
        unreadable = "expected at most 100 levels of nesting" in called["outputs"][0]["text"]
        assert unreadable is not is_read
    await assert_goes_on(ours)


DELTAS, PIECE = 50_000, "x" * 300


@pytest.mark.parametrize("model", [SCRIPT, "p/m"])
async def test_a_client_that_reads_nothing_fills_no_memory_and_can_stop(model):
    with provider_in_thread([reply(burst(DELTAS, PIECE))]) as provider:
        async with editor(provider_config(provider.url)) as ours:
            await ours.send(ours.prompt_request(f"repeat {DELTAS} {PIECE}", model=model))
            outbox = ours.connection.peer.transport._outbox
            while outbox.size < 2**16:
                await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.2)
            assert outbox.size < 2**18
            await ours.stop()
            await ours.expect_finished()
            assert len(ours.contents(kind="text")) < DELTAS / 10
            assert (await ours.turn("say on", model=SCRIPT)).answer == "on"

"""The mailbox of a chat: prompts, work on the history and clears, in order."""

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
import trio.testing

from eca_protocol.server.chat_states import ChatState
from eca_protocol.server.mailbox import Mailbox


@attrs.frozen
class Prompt:
    text: str


class Chat:
    """As much of a chat as a mailbox calls; `events` is what it did."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.events: list[str] = []
        self.mailbox: Mailbox[Prompt] = Mailbox(
            "c", nursery, begin=self.begin, clear=self.clear, restore=self.restore
        )

    def begin(self, prompt: Prompt) -> None:
        self.events.append(f"begin {prompt.text}")

    def clear(self) -> Awaitable[None]:
        self.events.append("clear")
        return trio.sleep(1)

    async def restore(self) -> None:
        await trio.lowlevel.checkpoint()

    def prompt(self, text: str) -> None:
        self.mailbox.prompt(Prompt(text))

    def end_turn(self) -> None:
        assert self.mailbox.end_turn() == (self.mailbox.state is ChatState.IDLE)
        self.mailbox.resume()

    def work(self, name: str, *, fails: bool = False) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            await trio.sleep(1)
            self.events.append(name)
            if fails:
                raise RuntimeError(name)

        return work


@pytest.fixture
async def chat(nursery: trio.Nursery) -> Chat:
    return Chat(nursery)


async def test_clears_and_work_run_as_they_came_and_no_prompt_waits_for_a_deletion(
    chat, autojump_clock
):
    chat.prompt("one")
    chat.mailbox.do(chat.work("first"))
    cleared = chat.mailbox.clear()
    done = chat.mailbox.do(chat.work("second"))
    assert chat.mailbox.clear() is cleared
    chat.end_turn()
    await done.wait()
    await chat.mailbox.idle.wait()
    assert chat.events == ["begin one", "first", "clear", "second"]
    again = chat.mailbox.clear()
    chat.prompt("two")
    assert chat.events[4:] == ["clear", "begin two"]
    assert not again.is_set()
    await chat.mailbox.finish()
    assert cleared.is_set()
    assert again.is_set()


async def test_work_that_fails_is_logged_and_the_next_runs(chat, autojump_clock, caplog):
    chat.mailbox.do(chat.work("broken", fails=True))
    chat.prompt("one")
    await chat.mailbox.do(chat.work("whole")).wait()
    await trio.testing.wait_all_tasks_blocked()
    assert chat.events == ["broken", "whole", "begin one"]
    assert "work on the history of chat c failed" in caplog.text


async def test_in_a_deleted_chat_prompts_are_dropped_and_the_work_ends(chat, autojump_clock):
    chat.prompt("one")
    chat.prompt("two")
    done, cleared = chat.mailbox.do(chat.work("work")), chat.mailbox.clear()
    assert chat.mailbox.delete()
    assert not chat.mailbox.delete()
    assert cleared.is_set()
    chat.end_turn()
    await done.wait()
    await chat.mailbox.idle.wait()
    chat.prompt("three")
    assert chat.events == ["begin one", "work"]
    assert chat.mailbox.clear().is_set()

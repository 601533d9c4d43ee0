"""Rollbacks in two servers at once, to prompts in no history, and of directories and groups."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.testing.provider import Provider, reply, wait
from eca_server.agent.chat.store.store import Store
from eca_server.config import lock
from tests.eca_server.agent.chat.agent_session import hook, hooked
from tests.eca_server.agent.chat.current import current, reopened, values
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Editor,
    call,
    contents,
    provider_config,
    writes,
)
from tests.eca_server.agent.chat.test_rollback import (
    refused_rollback,
    roll_back,
    send_prompt,
    shown_messages,
    tree,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a").write_text("as it was")
    return made


class Hold:
    """Holds the first rollback at a call of the store until another one waits for the lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
        self.is_held, self.go_on = trio.Event(), trio.Event()
        held, try_lock = getattr(Store, at), lock._try

        async def hold(store: Store, *args: Any, **more: Any) -> Any:
            if not self.is_held.is_set():
                self.is_held.set()
                await self.go_on.wait()
            return await held(store, *args, **more)

        def try_it(path: Path) -> int | None:
            descriptor = try_lock(path)
            if self.is_held.is_set():
                trio.from_thread.run_sync(self.go_on.set)
            return descriptor

        monkeypatch.setattr(Store, at, hold)
        monkeypatch.setattr(lock, "_try", try_it)


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("at", "other"),
    [
        ("note_rollback", "the same prompt"),
        ("finish_rollback", "a later prompt"),
        ("note_rollback", "an earlier prompt"),
        ("finish_rollback", "the same prompt"),
        ("note_rollback", "a later prompt"),
        ("finish_rollback", "an earlier prompt"),
    ],
)
async def test_the_second_of_two_rollbacks_forgets_too(tmp_path, folder, monkeypatch, at, other):
    async with (
        current(data=tmp_path, folder=folder) as first,
        current(data=tmp_path, folder=folder) as second,
    ):
        ids = [await send_prompt(first, writes(a=f"secret {n}", b=f"{n}")) for n in range(3)]
        await second.ask("chat/open", {"chatId": "c"})
        assert "secret 1" in second.model_context()
        hold = Hold(monkeypatch, at)
        prompt = ids[{"the same prompt": 1, "a later prompt": 2, "an earlier prompt": 0}[other]]
        messages: list[Any] = []

        async def roll_back_second() -> None:
            await hold.is_held.wait()
            try:
                messages.extend(await roll_back(second, prompt))
            finally:
                hold.go_on.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(roll_back, first, ids[1])
            nursery.start_soon(roll_back_second)
        is_earliest = other == "an earlier prompt"
        expected = {"a": "as it was"} if is_earliest else {"a": "secret 0", "b": "0"}
        assert tree(folder) == expected
        assert "chat/cleared" in [name for name, _ in messages]
        assert not [each for each in shown_messages(messages) if "Nothing was undone" in each]
        assert ("secret 0" in second.model_context()) is not is_earliest
        assert "secret 1" not in second.model_context()
        assert "secret 2" not in second.model_context()
        assert (await refused_rollback(second, prompt))["code"] == -32602
        await send_prompt(second, "say and on")
    async with current(data=tmp_path, folder=folder) as third:
        await third.ask("chat/open", {"chatId": "c"})
        replayed = third.contents().text
        assert "and on" in replayed
        assert "secret 1" not in replayed
        assert "secret 2" not in replayed


@pytest.mark.parametrize("action", ["rollback", "clear", "delete"])
async def test_a_turn_whose_prompt_the_other_server_removes_is_not_stored(tmp_path, folder, action):
    script = [reply("one"), reply("two", wait("go"), "end")]
    async with Provider(script, otherwise=reply("three")) as provider:
        config = provider_config(provider.url)
        async with (
            current(config, data=tmp_path, folder=folder) as first,
            current(config, data=tmp_path, folder=folder) as second,
        ):
            await first.turn("say one")
            await first.prompt("say two")
            await provider.until(lambda: "go" in provider.reached)
            prompts = [each for each in first.contents() if "contentId" in each]
            assert (await second.ask("chat/open", {"chatId": "c"}))["found"]
            params = {"contentId": prompts[-1]["contentId"], "messages": True}
            await second.ask(f"chat/{action}", {"chatId": "c", **params})
            await second.ask("chat/list")  # read after the deletion, which is answered before
            provider.open("go")
            await first.expect_finished()
            [warning] = first.notified("$/showMessage")
            assert "The rest of this turn is not stored" in warning["message"]
            assert "twoend" in first.contents().text
            assert "in another editor" in (await first.turn("say three")).answer
            assert "twoend" not in first.model_context()
        async with current(config, data=tmp_path, folder=folder) as later:
            assert (await later.ask("chat/open", {"chatId": "c"}))["found"]
            remaining = "say oneone" if action == "rollback" else ""
            assert later.contents().text == f"{remaining}say threethree"


async def echoed(ours: Editor, text: str, **params: Any) -> str:
    """Send a prompt; the content id of its echo, whatever becomes of its turn."""
    begun = len(ours.received)
    await ours.prompt(text, trust=True, **{"model": SCRIPT, **params})
    while not (
        known := [c["contentId"] for r, c in contents(ours.received[begun:]) if r == "user"]
    ):
        await ours.until(lambda _: True)
    return str(known[0])


HOOKS = hooked(
    slow=hook("preRequest", "grep -q later && sleep 60 || true"),
    strict=hook("preRequest", "! grep -q forbidden || exit 2"),
)


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("prompt", ["/costs", "say forbidden", "say later"])
async def test_a_chat_goes_back_to_an_unrecorded_prompt(tmp_path, folder, prompt, is_stored):
    async with current(HOOKS, data=tmp_path if is_stored else None, folder=folder) as ours:
        first = await send_prompt(ours, "say one")
        prompt_id = await echoed(ours, prompt)
        if prompt != "say later":  # that one waits for a hook
            await ours.expect_finished()
        messages = await roll_back(ours, prompt_id, "messages")
        expected = ["chat/cleared", "text", "text", "answer"]
        names = [name for name, words in messages if name in expected and words != "Stopped."]
        assert names == expected
        assert values(messages)[-2:] == ["say one", "one"]
        assert (await refused_rollback(ours, prompt_id))["code"] == -32602
        names = [name for name, _ in await roll_back(ours, first, "messages")]
        assert names == ["chat/cleared", "answer"]


async def test_a_compaction_is_gone_back_to_by_its_command(tmp_path, folder):
    async with current(data=tmp_path, folder=folder) as ours:
        await send_prompt(ours, "say one")
        compacted = await send_prompt(ours, "/compact say all of it", model=ECHO)
        await roll_back(ours, compacted)
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == ["say one", "one"]


@pytest.mark.parametrize("is_compacted", [True, False])
async def test_a_new_chat_goes_back_to_its_resume_and_into_it(tmp_path, folder, is_compacted):
    async with current(data=tmp_path, folder=folder) as ours:
        await ours.turn("say one", "old", model=SCRIPT)
        if is_compacted:
            await ours.turn("/compact say all of it", "old", model=ECHO)
        await ours.turn("say two", "old", model=SCRIPT)
        await send_prompt(ours, "/resume old")
        page = await ours.ask("chat/history", {"chatId": "c"})
        ids = [c["contentId"] for c in (e["content"] for e in page["contents"]) if "contentId" in c]
        assert len(ids) == len(set(ids)) == 2
        messages = await roll_back(ours, ids[1])
        first = ["(Summary of an earlier chat)"] if is_compacted else ["say one", "one"]
        assert [each.partition("\n")[0] for each in values(messages)] == first
        assert values(await roll_back(ours, ids[0])) == []
        await roll_back(ours, await send_prompt(ours, "/resume old"))
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == []


async def test_a_prompt_stopped_before_its_chat_was_read_is_found(tmp_path, folder, monkeypatch):
    async with current(data=tmp_path, folder=folder) as ours:
        await send_prompt(ours, "say one")
    async with current(data=tmp_path, folder=folder) as ours:
        find, begun = Store.find, trio.Event()

        async def late(store: Store, chat_id: str, workspace: str) -> Any:
            monkeypatch.setattr(Store, "find", find)
            begun.set()
            await trio.sleep_forever()

        monkeypatch.setattr(Store, "find", late)
        prompt_id = await echoed(ours, "say two")
        await begun.wait()
        messages = await roll_back(ours, prompt_id)
        texts = values(messages)
        assert texts == ["Stopped.", "say one", "one"]


def directories(folder: Path) -> set[str]:
    return {each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_dir()}


MOVES = call("move_file", source="a", destination="d/e/a")


@pytest.mark.parametrize(
    ("script", "of_user", "remaining"),
    [
        (writes(**{"d/e/f": "1"}), [], set()),
        (writes(**{"d/f": "1", "d/e/f": "2"}), [], set()),
        (writes(**{"empty/f": "1", "d/f": "1"}), [], set()),
        (writes(**{"d/e/f": "1"}), ["d/g"], {"d"}),
        (writes(**{"d/e/f": "1"}), ["d/mine/"], {"d", "d/mine"}),
        (writes(**{"d/e/f": "1"}), ["-d/e/f"], set()),
        (MOVES, [], set()),
        (f"{MOVES}\n{call('move_file', source='d', destination='x/y')}", [], set()),
        (
            f"{writes(**{'d/f': '1'})}\n{call('move_file', source='d', destination='x/y')}",
            [],
            set(),
        ),
    ],
)
async def test_created_directories_go_back_if_they_are_empty(
    stored, folder, script, of_user, remaining
):
    (folder / "empty").mkdir()
    prompt_id = await send_prompt(stored, script)
    for name in of_user:
        if name.startswith("-"):
            (folder / name[1:]).unlink()
        elif name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text("by the user")
    messages = await roll_back(stored, prompt_id)
    assert not [each for each in shown_messages(messages) if "Nothing was undone" in each]
    assert directories(folder) == {"empty", *remaining}
    assert (folder / "a").read_text() == "as it was"
    assert {*tree(folder)} == {"a", *(each for each in of_user if each[-1] == "g")}


@pytest.mark.parametrize("mode", [0o640, 0o664])
async def test_a_restored_file_has_its_group_and_mode(stored, folder, mode):
    groups = [4242] if os.geteuid() == 0 else [g for g in os.getgroups() if g != os.getegid()]
    if not groups:
        pytest.skip("this user can give a file only one group")
    os.chown(folder / "a", -1, groups[0])
    (folder / "a").chmod(mode)
    prompt_id = await send_prompt(stored, writes(a="new"))
    (folder / "a").unlink()
    await roll_back(stored, prompt_id)
    status = (folder / "a").stat()
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (groups[0], mode)

"""Any sequence of client actions and model answers.

The invariant: the wire breaks no rule of the editor's fold; the history is valid and the same
after a restart; the files can be restored.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from eca_protocol.fold import TextView
from eca_protocol.server.chat_states import ChatState
from eca_server.agent.chat.store.place import store_path
from eca_server.agent.chat.store.store import Store
from eca_server.models.history import Message
from tests.eca_server.agent.chat.agent_session import ALLOW, check_history
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, call
from tests.eca_server.agent.chat.test_rollback import tree

CHATS = ("a", "b")
IDLE = ChatState.IDLE


def calls_in(chat: str) -> st.SearchStrategy[str]:
    """Calls of every tool, on a few files of the chat's own folder."""
    paths = st.sampled_from([f"{chat}/{name}" for name in ("f", "g", "d/h", "e")])
    folders = st.sampled_from([f"{chat}/{name}" for name in ("d", "e", "f", "e/i")])
    contents = st.sampled_from(["one\ntwo\n", "two\n", ""])
    log = f"printf x >> {chat}/log"
    edits = st.builds(
        lambda tool, path, old, new: call(tool, path=path, original_content=old, new_content=new),
        st.sampled_from(["edit_file", "edit_file", "preview_file_change"]),
        paths,
        st.sampled_from(["one", "two"]),
        st.sampled_from(["three", "one\ntwo"]),
    )
    others = (
        call("shell_command", command=log),
        call("shell_command", command=f"sleep 60; {log}"),
        call("directory_tree", path=chat),
        call("grep", pattern="one", path=chat),
        call("read_file", path="../outside"),
        call("write_file", path=f"{chat}/f"),
        "call eca_write_file {",
        "call no_such_tool",
    )
    return st.one_of(
        st.builds(lambda path, text: call("write_file", path=path, content=text), paths, contents),
        edits,
        edits,
        st.builds(lambda one, two: call("move_file", source=one, destination=two), paths, folders),
        st.builds(lambda one, two: call("move_file", source=one, destination=two), folders, paths),
        st.builds(lambda path: call("read_file", path=path), paths),
        st.sampled_from(others),
    )


@st.composite
def prompts(draw: st.DrawFn, kind: str = "prompt") -> tuple[Any, ...]:
    chat = draw(st.sampled_from(CHATS))
    lines = []
    for _ in range(draw(st.integers(0, 2))):
        lines.append(draw(st.sampled_from(["say so", "think first", "empty"])))
        lines += draw(st.lists(calls_in(chat), min_size=1, max_size=4))
    ends = ["say the end", "empty", "say hanging\nwait forever", "fail auth", "say x\ncut", "crash",
            "finish length", "think hm\nfail quota"]  # fmt: skip
    lines.append(draw(st.sampled_from(ends)))
    return kind, chat, "\n".join(lines), draw(st.sampled_from([None, None, "agent", "plan"]))


NAMED = st.sampled_from(CHATS)
DECISIONS = st.tuples(
    st.just("decide"),
    st.sampled_from(["Approve", "Approve", "Reject"]),
    st.integers(0, 9),
    st.integers(1, 2),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([None, None, "session"]),
)
"""On the n-th call that waits, or on any call there ever was; once or twice; saved or not."""
STEPS = st.one_of(
    prompts(),
    prompts(),
    prompts("approved prompt"),
    DECISIONS,
    st.tuples(st.sampled_from(["stop", "delete"]), NAMED),
    st.tuples(st.just("behave"), st.sampled_from(["agent", "plan"])),
    st.tuples(st.sampled_from(["settle", "restart"])),
)


class Session:
    """A connection, and what the editor shows of it."""

    def __init__(self, ours: Editor) -> None:
        self._ours = ours
        self._decided: set[str] = set()

    def waiting(self) -> list[tuple[str, str]]:
        """Return the calls that wait for the user, each with its chat."""
        return [
            (chat.id, call.id)
            for chat in self._ours.shown.chats.values()
            for call in chat.waiting
            if call.id not in self._decided
        ]

    def called(self) -> list[tuple[str, str]]:
        """Return all calls there ever were."""
        calls = [
            (chat, each["id"]) for chat in CHATS for each in self._ours.contents(chat)
            if each["type"] == "toolCallPrepare"
        ]  # fmt: skip
        return [*dict.fromkeys(calls)]

    def waits(self, name: str) -> bool:
        """Return whether the chat's turn does nothing until the user does something."""
        chat = self._ours.shown.chats.get(name)
        if chat is None or not chat.running:
            return False
        sleeps = any(e.state == "running" and "sleep" in str(e.arguments) for e in chat.calls())
        hangs = isinstance(chat.items[-1], TextView) and chat.items[-1].text.endswith("hanging")
        return sleeps or hangs or name in dict(self.waiting())

    async def do(self, step: tuple[Any, ...]) -> None:
        ours = self._ours
        match step:
            case ("prompt", chat, script, behavior):
                more = {} if behavior is None else {"behavior": behavior}
                await ours.send(ours.prompt_request(script, chat, model=SCRIPT, **more))
            case ("approved prompt", *prompt):
                await self.do(("prompt", *prompt))
                await self.settle()
                while self.waiting():
                    await self._decide("Approve", 0, 1, None, waits=True)
                    await self.settle()
            case ("decide", what, number, times, waits, save):
                await self._decide(what, number, times, save, waits=waits)
            case ("stop", chat):
                await ours.stop(chat)
            case ("delete", chat):
                assert await ours.ask("chat/delete", {"chatId": chat}) == {}
                await self.settle()
            case ("behave", behavior):
                await ours.tell("chat/selectedBehaviorChanged", {"behavior": behavior})
            case ("settle",):
                await self.settle()

    async def _decide(
        self, what: str, number: int, times: int, save: str | None, *, waits: bool
    ) -> None:
        of_all = self.waiting() if waits else self.called()
        if of_all:
            chat, call = of_all[number % len(of_all)]
            self._decided.add(call)
            saved = {} if save is None or what == "Reject" else {"save": save}
            for _ in range(times):
                params = {"chatId": chat, "toolCallId": call, **saved}
                await self._ours.tell(f"chat/toolCall{what}", params)

    async def settle(self) -> None:
        """Wait until every chat is idle, or waits for the user; look at its history then."""
        chats = self._ours.connection.chats
        while True:
            await self._answered()
            known = len(self._ours.received)
            idle = [
                c for c in CHATS if (chat := chats.get(c)) is None or chat.mailbox.state is IDLE
            ]
            await self._answered()
            if all(each in idle or self.waits(each) for each in CHATS):
                break
            if len(self._ours.received) == known + 1:
                await self._ours.until(lambda _: True)
        for turn in tuple(chats._bodies):
            if turn.is_mute:
                await turn.ended.wait()
        for name in idle:
            assert name not in (shown := self._ours.shown.chats) or not shown[name].running
            if (chat := chats.get(name)) is not None:
                check_history(chat.history)

    async def _answered(self) -> None:
        """All that was sent has been looked at, and what was said before has come."""
        await self._ours.ask("chat/queryCommands", {"query": "none"})

    async def end(self, before: Mapping[str, list[Message]]) -> dict[str, list[Message]]:
        """Shut down; the histories in memory, behind those `before` that were not read back."""
        chats = self._ours.connection.chats
        assert await self._ours.ask("shutdown") is None
        assert not chats._bodies
        assert not any(chat.running for chat in self._ours.shown.chats.values())
        return {
            name: [*([] if chat.storage.is_restored else before.get(name, [])), *chat.history]
            for name, chat in chats._chats.items()
        }


async def check_stored(data: Path, histories: Mapping[str, list[Message]]) -> None:
    """Check that the chats on disk equal those in memory."""
    store = Store(store_path({"XDG_DATA_HOME": str(data)}), on_problem=pytest.fail)
    for name in CHATS:
        chat = await store.load(name)
        messages = [] if chat is None else [*chat.messages]
        assert messages == histories.get(name, [])
    await store.close()


async def roll_back(ours: Editor) -> None:
    """Undo what the calls of each chat have changed."""
    for chat in CHATS:
        await ours.ask("chat/open", {"chatId": chat})
        prompts = ours.contents(chat).prompt_ids
        if prompts:
            params = {"contentId": prompts[0], "include": ["tools", "rest"]}
            await ours.ask("chat/rollback", {"chatId": chat, **params})


async def play(steps: list[Any], folder: Path, data: Path, *, allow: bool) -> None:
    for chat in CHATS:
        (folder / chat / "d").mkdir(parents=True)
        (folder / chat / "f").write_text("one\ntwo\n")
        (folder / chat / "d/h").write_text("two\n")
    (folder.parent / "outside").write_text("outside")
    histories: dict[str, list[Message]] = {}
    restorable = {chat: files(folder / chat) for chat in CHATS}
    parts: list[list[Any]] = [[]]
    for step in steps:
        parts[-1].append(step)
        if step == ("restart",):
            parts.append([])
    config = ALLOW if allow else {}
    about = {"data": data, "folder": folder, "capabilities": {}}
    for part in parts:
        async with current(config, **about) as ours:
            session = Session(ours)
            for step in part:
                await session.do(step)
                if step[0] == "delete":
                    histories.pop(step[1], None)
                    restorable[step[1]] = files(folder / step[1])
            histories |= await session.end(histories)
        await check_stored(data, histories)
    async with current(config, **about) as ours:
        await roll_back(ours)
    for chat in CHATS:
        assert files(folder / chat) == restorable[chat]


def files(folder: Path) -> dict[str, str]:
    """Return the files with their texts, without what a command wrote."""
    return {path: text for path, text in tree(folder).items() if "log" not in path}


SAY = ("prompt", "b", "say the end", None)


@settings(max_examples=settings().max_examples // 2)
@given(st.lists(STEPS, min_size=1, max_size=10), st.booleans())
@example([SAY, ("restart",), SAY], False)
def test_any_session_keeps_files_history_and_wire_right(steps: list[Any], allow: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        trio.run(lambda: play(steps, Path(name).resolve() / "w", Path(name) / "data", allow=allow))

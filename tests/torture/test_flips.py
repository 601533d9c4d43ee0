"""Flipped bytes in the files of chats: the server starts and answers, and loses none in silence."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
import trio

from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, text
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import problems_in, prompts_in

CHATS = 6
TURNS = 3
SECONDS = 8.0
SECTOR = 512
FILES = ("chats.sqlite", "chats.sqlite-wal", "chats.sqlite-shm")
CHANGED = {"path": "a.txt", "content": "what a model wrote"}


@attrs.frozen
class Originals:
    """Files of the same chats: one closed in order, and one whose chats are in its log."""

    closed: Path
    killed: Path
    prompts: Mapping[str, Sequence[str]]

    @classmethod
    async def make(cls, folder: Path) -> Originals:
        """Let a server write them."""
        data, killed = folder / "closed", folder / "killed"
        (folder / "work").mkdir(parents=True)
        prompts: dict[str, list[str]] = {}
        async with current(data=data, folder=folder / "work") as ours:
            for number in range(CHATS * TURNS):
                chat = f"chat {number % CHATS}"
                prompt = f"say {'answer ' * 40}\ncall eca_write_file {json.dumps(CHANGED)}"
                prompts.setdefault(chat, []).append(f"{prompt}\nsay end of {number}")
                await ours.turn(prompts[chat][-1], chat, model=SCRIPT, trust=True)
            shutil.copytree(data, killed)
        return cls(closed=data, killed=killed, prompts=prompts)


@attrs.frozen
class Damage:
    """Damaged copies of the originals, and what servers make of them."""

    originals: Originals
    folder: Path
    torture: Torture
    log: pytest.LogCaptureFixture

    def play(self, random: Random) -> None:
        data = self.folder / f"data {self.torture.rounds}"
        shutil.copytree(random.choice([self.originals.closed, self.originals.killed]), data)
        self.torture.scene = self.flip(data, random)
        probe = self.folder / f"probe {self.torture.rounds}"
        shutil.copytree(data, probe)
        self.log.clear()
        trio.run(self.look, data, probe)
        faults = [each for each in self.log.records if each.exc_info]
        assert not faults, f"logged: {faults[0].getMessage()}: {faults[0].exc_info[1]!r}"
        shutil.rmtree(data)
        shutil.rmtree(probe)

    def flip(self, data: Path, random: Random) -> str:
        """Damage one of the files; return where."""
        files = [path for name in FILES for path in data.rglob(name) if path.stat().st_size]
        path = random.choice(files)
        content = bytearray(path.read_bytes())
        # A third of the damages is in the first page or frame, where the heads are.
        place = random.randrange(len(content) if random.random() < 2 / 3 else 4096)
        place = min(place, len(content) - 1)
        if random.random() < 0.8:
            content[place] ^= 1 << random.randrange(8)
            what = f"bit of byte {place}"
        else:
            start = place // SECTOR * SECTOR
            content[start : start + SECTOR] = bytes(len(content[start : start + SECTOR]))
            what = f"sector at {start}"
        path.write_bytes(content)
        self.torture.count(path.name.removeprefix("chats.sqlite") or "file")
        return f"{what} of {path.name} ({'closed' if len(files) == 1 else 'killed'})"

    async def look(self, data: Path, probe: Path) -> None:
        work = self.originals.closed.parent / "work"
        async with current(data=data, folder=work) as ours:
            with self.torture.timed("listing and opening", SECONDS):
                missing = await self.missing_in(ours)
            problems = problems_in(ours.received)
            silent = bool(missing) and not problems
            # A flipped letter of an id in a file that is sound cannot be noticed.
            assert not silent or is_unnoticeable(probe), f"lost in silence: {missing}"
            if any("a newer server has written it" in problem for problem in problems):
                return  # such a file is left as it is
            self.torture.count("told", bool(problems))
            self.torture.count("with loss", bool(missing))
            assert "here" in text(await ours.turn("say here", "new", model=SCRIPT))
            prompt = "say there"
            answers = text(await ours.turn(prompt, "chat 0", model=SCRIPT))
            assert "there" in answers
        async with current(data=data, folder=work) as ours:
            for chat, expected_prompt in (("new", "say here"), ("chat 0", prompt)):
                assert expected_prompt in await self.opened(ours, chat), f"{chat} is not kept"

    async def missing_in(self, ours: Editor) -> dict[str, str]:
        """Return the chats that are not as they were, and what they lack."""
        listed = {chat["id"] for chat in (await ours.ask("chat/list"))["chats"]}
        missing = {chat: "not listed" for chat in self.originals.prompts if chat not in listed}
        for chat, prompts in self.originals.prompts.items():
            shown_prompts = await self.opened(ours, chat)
            if len(shown_prompts) < len(prompts):
                missing[chat] = f"{len(shown_prompts)} of {len(prompts)} prompts"
        return missing

    async def opened(self, ours: Editor, chat: str) -> list[str]:
        begun = len(ours.received)
        answer: Any = await ours.ask("chat/open", {"chatId": chat})
        assert isinstance(answer["found"], bool)
        return prompts_in(ours.received[begun:], chat)


def is_unnoticeable(data: Path) -> bool:
    """Return whether SQLite itself sees no damage in the file of chats that has no log."""
    (path,) = data.rglob("chats.sqlite")
    if path.with_name(f"{path.name}-wal").exists():
        return False
    try:
        with closing(sqlite3.connect(path)) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False


@shares(sample=3, seconds=80)
def test_flips(
    torture: Torture, share: Share, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    originals = trio.run(Originals.make, tmp_path / "originals")
    torture.run(share, Damage(originals, tmp_path, torture, caplog).play)

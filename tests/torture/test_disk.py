"""A full, dying or late disk below the chats: turns continue, and nothing is lost in silence."""

import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.eca_server.stranger import Stranger
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import QUIET, Place, listed, problems_in, prompts_of, turn

SOURCE = Path(__file__).with_name("disk_shim.c")
ANSWER_SECONDS = 8.0
"""A turn, a list and an opened chat each take no longer, whatever the disk does."""
LATE_SECONDS = 2.0
"""Once the disk is known to be late, a list takes no longer."""
FULL = ("enospc", "eio", "short")
LATE = ("sync", "read", "write")


class BadDisk:
    """Servers on one place, one after the other, each with a disk that goes bad and recovers.

    Attributes:
        prompts: by chat, the prompts that must be stored.
    """

    def __init__(self, place: Place, shim: Path, torture: Torture) -> None:
        self.place = place
        self.torture = torture
        self.prompts: dict[str, list[str]] = {}
        self.control = place.home / "control"
        self.env = {
            **QUIET,
            "LD_PRELOAD": str(shim),
            "DISK_SHIM_PREFIX": str(place.data),
            "DISK_SHIM_CONTROL": str(self.control),
        }

    def set(self, line: str) -> None:
        """Change the disk at once, for all that runs."""
        new = self.control.with_suffix(".new")
        new.write_text(f"{line} in round {self.torture.rounds}\n")
        new.replace(self.control)

    def play(self, random: Random) -> None:
        """Look at what is stored, let the disk go bad, and good again or not."""
        chats = [f"chat {self.torture.rounds}", random.choice(["old", "older"])]
        kind = random.choice(FULL + LATE)
        number = random.randrange(30) if kind in FULL else random.choice([300, 4000, 20_000])
        recovers = random.random() < 0.7
        self.torture.scene = f"{kind} {number}, {'recovers' if recovers else 'stays'}"
        self.torture.count(kind)
        self.set("good")
        with self.place.server(self.env) as server:
            self.look(server)
            prompts_by_chat = {chat: [self.say(server, chat, "before")] for chat in chats}
            self.note(prompts_by_chat)
            self.set(f"{kind} {number}")
            begun = len(server.received)
            for chat in chats:
                prompts_by_chat[chat].append(self.say(server, chat, "meanwhile"))
            self.read(server, chats)
            if recovers:
                self.set("good")
            for chat in chats:
                prompts_by_chat[chat].append(self.say(server, chat, "after"))
            with self.torture.timed("shutdown", ANSWER_SECONDS):
                answer = server.answer(server.ask("shutdown"), seconds=2 * ANSWER_SECONDS)
            problems = [*problems_in(server.received[begun:]), *filter(None, [answer.get("error")])]
            self.torture.count("told", bool(problems))
        self.set("good")
        if (recovers and "error" not in answer) or not problems:
            self.note(prompts_by_chat)

    def say(self, server: Stranger, chat: str, when: str) -> str:
        prompt = f"{when} in round {self.torture.rounds}"
        with self.torture.timed("turn", ANSWER_SECONDS):
            answer = turn(server, prompt, chat)
        assert prompt in answer, f"the turn did not go on: {answer!r}"
        return prompt

    def read(self, server: Stranger, chats: list[str]) -> None:
        """Have chats listed and opened while the disk is bad; those of this server are there.

        One of an earlier server may not be found now, but the answer comes.
        """
        earlier = [chat for chat in self.prompts if chat not in chats]
        for _ in range(2):
            is_late = any("does not answer" in text for text in problems_in(server.received))
            within = LATE_SECONDS if is_late else ANSWER_SECONDS
            self.torture.count("known late", is_late)
            with self.torture.timed("late list" if is_late else "list", within):
                known = listed(server)
            assert set(chats) <= known, "chats of this server are not listed"
            for chat in chats + earlier[:1]:
                with self.torture.timed("late open" if is_late else "open", within):
                    shown_prompts = prompts_of(server, chat)
                assert shown_prompts or chat in earlier, f"{chat} is shown empty"

    def note(self, prompts_by_chat: dict[str, list[str]]) -> None:
        for chat, prompts in prompts_by_chat.items():
            stored = self.prompts.setdefault(chat, [])
            stored += [prompt for prompt in prompts if prompt not in stored]

    def look(self, server: Stranger) -> None:
        """Find every prompt that must be stored."""
        known = listed(server)
        assert set(self.prompts) <= known, f"not listed: {set(self.prompts) - known}"
        for chat in {*[*self.prompts][-2:], *({"old", "older"} & {*self.prompts})}:
            stored_prompts = prompts_of(server, chat)
            missing = [prompt for prompt in self.prompts[chat] if prompt not in stored_prompts]
            for prompt in missing:
                self.prompts[chat].remove(prompt)  # the loss is announced once
            assert not missing, f"{chat} has lost {missing}"


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """The library; skips the test where none can be built or loaded."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("no C compiler" if compiler is None else "LD_PRELOAD and /proc are Linux's")
    library = tmp_path / "disk_shim.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the C compiler does not build the shim: {done.stderr[:500]}")
    return library


@shares(sample=1, seconds=90)
def test_disk(torture: Torture, share: Share, shim: Path, tmp_path: Path) -> None:
    disk = BadDisk(Place(tmp_path), shim, torture)
    torture.run(share, disk.play)
    with disk.place.server() as server:
        disk.look(server)
        server.result("shutdown")

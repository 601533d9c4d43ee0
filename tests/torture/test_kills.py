"""SIGKILL in mid-turn: the prompt is there, no file is half-written, and the chat continues."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import Stranger, content_of, is_finished, text_of
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import Place, listed, prompts_of, turn

LATEST = 0.8
"""Seconds after the first prompt within which a server is killed."""
LONG_SECONDS = 4.0
LONG_SHARE = 0.15
"""The share of rounds whose answer lasts longer than that."""
LONG_ANSWER = "speed 50\nrepeat 400 words "
STORED_SECONDS = 2.5
"""An answer is stored every second; the rest is a busy machine's."""
OLD = 120.0
"""Seconds: a temporary file and its note of that age are no work in progress."""
ANSWERS = {"text", "reasonStarted", "toolCallPrepare", "toolCallRun"}


class Victims:
    """Servers on one place, each killed in a turn; the next one finds what is left.

    Attributes:
        begun: by chat, the prompts of which the model's answer was seen.
        answered: by chat, the text of the last turn that was seen long enough ago to be stored.
        files: by name, the contents that a file may have.
    """

    def __init__(self, place: Place, torture: Torture) -> None:
        self.place = place
        self.torture = torture
        self.begun: dict[str, list[str]] = {}
        self.answered: dict[str, str] = {}
        self.files: dict[str, set[str]] = {}

    def play(self, random: Random) -> None:
        """Look at what the server before has left, work, and be killed."""
        chat = f"chat {self.torture.rounds}"
        self.age_temporary()
        with self.place.server() as server:
            self.look(server)
            is_long = random.random() < LONG_SHARE
            killed_at = time.monotonic() + random.uniform(0, LATEST) + is_long * LONG_SECONDS
            while time.monotonic() < killed_at:
                prompt = LONG_ANSWER if is_long else self.script(random)
                self.prompt(server, prompt, chat, killed_at, trust=random.random() < 0.5)
            begun = children(server.pid)
            os.kill(server.pid, signal.SIGKILL)
            server.process.wait()
            self.torture.count("children", len(begun))
            assert_gone(begun, within=2)

    def prompt(
        self, server: Stranger, prompt: str, chat: str, until: float, *, trust: bool
    ) -> None:
        """Prompt, and approve what is asked, until the turn ends or the time has come."""
        place, is_begun = len(server.received), False
        params = {"chatId": chat, "message": prompt, "model": "simulator/script"}
        server.ask("chat/prompt", params | {"trust": trust})
        while server.can_read(seconds=max(0.0, until - time.monotonic())):
            server.read_once(seconds=0)
            for message in server.received[place:]:
                if self.is_answer(message) and not is_begun:
                    is_begun = True
                    self.begun.setdefault(chat, []).append(prompt)
                self.approve(server, message)
                if is_finished(message):
                    self.torture.count("whole turns")
                    return
            if time.monotonic() < until - STORED_SECONDS:
                self.answered[chat] = self.answered.get(chat, "") + text_of(server.received[place:])
            place = len(server.received)
            if time.monotonic() > until:
                return

    def is_answer(self, message: Mapping[str, Any]) -> bool:
        is_assistant = message.get("params", {}).get("role") == "assistant"
        return is_assistant and content_of(message).get("type") in ANSWERS

    def approve(self, server: Stranger, message: Mapping[str, Any]) -> None:
        content = content_of(message)
        if content.get("type") == "toolCallRun" and content["manualApproval"]:
            decision = {"chatId": message["params"]["chatId"], "toolCallId": content["id"]}
            server.tell("chat/toolCallApprove", decision)

    def script(self, random: Random) -> str:
        """Return a prompt of some work: text, reads, writes, edits, commands."""
        name = f"file {random.randrange(3)}"
        line = f"{random.randrange(10**9)}\n"
        written, edited = line * 4000 + "end", line * 4000 + "the end"
        self.files.setdefault(name, set()).update({written, edited})
        edit = {"path": name, "original_content": line + "end", "new_content": line + "the end"}
        seconds = random.choice([0.01, 0.01, 30])
        steps = [
            f"speed 100\nthink {random.randrange(10**6)}\nrepeat {random.randrange(20)} words ",
            f"call eca_read_file {json.dumps({'path': name})}",
            f"call eca_shell_command {json.dumps({'command': f'sleep {seconds}'})}",
            "say done\nwait 0.05",
        ]
        change = [
            f"call eca_write_file {json.dumps({'path': name, 'content': written})}\nspeed 0",
            f"call eca_edit_file {json.dumps(edit)}\nspeed 0",
        ]
        place, chosen = random.randrange(3), random.sample(steps, 2)
        return "\n".join([*chosen[:place], *change, *chosen[place:]])

    def look(self, server: Stranger) -> None:
        """Find every prompt, whole files only, and a chat that continues."""
        missing = self.begun.keys() - listed(server)
        for chat in missing:
            del self.begun[chat]  # the next rounds are about other chats
        assert not missing, f"not listed: {missing}"
        for chat in [*self.begun][-2:]:
            begun = len(server.received)
            shown_prompts = prompts_of(server, chat)
            answers, expected = text_of(server.received[begun:]), self.answered.pop(chat, "")
            lost = [prompt[:80] for prompt in self.begun[chat] if prompt not in shown_prompts]
            assert not lost, f"{chat} has lost {lost}"
            is_kept = len(answers) >= len(expected)
            assert is_kept, f"{len(answers)} of {len(expected)} characters of an answer are kept"
            with self.torture.timed("next turn", 10):
                assert "and now" in turn(server, "and now", chat)
        self.look_at_files(server)

    def look_at_files(self, server: Stranger) -> None:
        """Find no file half-written, and nothing left of what was being written."""
        for name, contents in self.files.items():
            path = self.place.project / name
            assert not path.exists() or path.read_text() in contents, f"{name} is half-written"
        until = time.monotonic() + 5
        while (leftovers := self.temporary()) and time.monotonic() < until:
            server.settle()
        for path in leftovers:
            path.unlink()
        assert not leftovers, f"temporary files are left: {leftovers}"

    def age_temporary(self) -> None:
        """Make the files that the killed server was writing old enough to be removed."""
        self.torture.count("temporary files", len(self.temporary()))
        for path in [*self.temporary(), *self.place.data.glob("*/temporaries/*")]:
            os.utime(path, (time.time() - OLD,) * 2)

    def temporary(self) -> list[Path]:
        return list(self.place.project.rglob(".eca-*.tmp"))


@shares(sample=1, seconds=100)
def test_kills(torture: Torture, share: Share, tmp_path: Path) -> None:
    victims = Victims(Place(tmp_path), torture)
    torture.run(share, victims.play)
    victims.age_temporary()
    with victims.place.server() as server:
        victims.look(server)
        server.result("shutdown")
    (file,) = tmp_path.rglob("chats.sqlite")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

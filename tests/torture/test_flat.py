"""One server, turn after turn: what it holds at the end is what it held at the beginning."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from random import Random

import attrs

from tests.eca_server.fork_server import ECA, MODULE
from tests.eca_server.processes import children
from tests.eca_server.stranger import Stranger, content_of, is_finished
from tests.torture.rounds import Share, Torture, shares
from tests.torture.servers import Place, listed

SERVER = "tests.torture.counted_server"
CONFIG = {"chat": {"title": False}, "mcpServers": {}}
TURNS_A_ROUND = 10
WARM_ROUNDS = 2
"""Rounds after which everything that stays open has been opened."""
STOPS = ("progress", "reasonText", "text", "toolCallPrepare", "toolCallRun", "toolCallRunning")
SLACK_MEGABYTES = 12.0
SLACK_THREADS = 4
"""Workers that wait for the next blocking call come and go."""
TURN_SECONDS = 15.0


@attrs.frozen
class Held:
    """The resources of an idle process."""

    descriptors: int
    threads: int
    tasks: list[str]
    children: int
    megabytes: float

    def is_within(self, before: Held) -> bool:
        """Return whether nothing is more than it was before."""
        return (
            self.descriptors <= before.descriptors
            and self.threads <= before.threads + SLACK_THREADS
            and len(self.tasks) <= len(before.tasks)
            and self.children <= before.children
            and self.megabytes <= before.megabytes + SLACK_MEGABYTES
        )


class Soaked:
    """A server that is used, and measured between the rounds."""

    def __init__(self, server: Stranger, place: Place, counted: Path, torture: Torture) -> None:
        self.server = server
        self.place = place
        self.counted = counted
        self.torture = torture
        self.chats = 0

    def play(self, random: Random) -> None:
        """Have turns in a chat: some stopped, rolled back, then the chat is deleted."""
        self.chats += 1
        chat = f"chat {self.chats}"
        for number in range(TURNS_A_ROUND):
            stop_at = random.choice(STOPS) if random.random() < 0.3 else None
            self.turn(chat, self.script(random, number), stop_at)
            if random.random() < 0.2:
                self.roll_back(chat)
        assert chat in listed(self.server)
        self.server.result("chat/delete", {"chatId": chat})
        assert chat not in listed(self.server)
        self.server.received.clear()
        self.server.reads.clear()

    def script(self, random: Random, number: int) -> str:
        path = f"{random.randrange(4)}.txt"
        write = json.dumps({"path": path, "content": f"{number}\n" * 50})
        steps = [
            "think of something for a while",
            f"repeat {random.randrange(300)} words and more ",
            f"call eca_write_file {write}",
            f"call eca_read_file {json.dumps({'path': path})}",
            'call eca_shell_command {"command": "echo ran"}',
            "call eca_no_such_tool {}",
            "fail auth",
        ]
        return "\n".join(random.sample(steps, 3))

    def turn(self, chat: str, text: str, stop_at: str | None) -> None:
        """Have a turn; stop it when a content of that type comes, if one does."""
        params = {"chatId": chat, "model": "simulator/script", "trust": True}
        place = len(self.server.received)
        with self.torture.timed("turn", TURN_SECONDS):
            self.server.ask("chat/prompt", {**params, "message": text})
            if stop_at is not None:
                self.server.until(lambda m: content_of(m).get("type") == stop_at or is_finished(m))
                self.server.stop(chat)
            if not any(map(is_finished, self.server.received[place:])):
                self.server.expect_finished()
        self.server.settle()
        assert sum(map(is_finished, self.server.received[place:])) == 1, "a turn has not one end"
        self.torture.count("turns")
        self.torture.count("stops", stop_at is not None)

    def roll_back(self, chat: str) -> None:
        """Go back to before one of the last prompts that are shown."""
        shown = [
            content_of(each)["contentId"]
            for each in self.server.received
            if each.get("params", {}).get("role") == "user" and content_of(each).get("contentId")
        ]
        if shown:
            answer = self.server.answer(
                self.server.ask("chat/rollback", {"chatId": chat, "contentId": shown[-1]})
            )
            assert "result" in answer, answer
            self.torture.count("rollbacks")

    def settled(self, before: Held) -> Held:
        """Measure until what still ends has ended: tasks of the last turn may."""
        until = time.monotonic() + TURN_SECONDS
        while not (held := self.measure()).is_within(before) and time.monotonic() < until:
            self.server.settle()
        return held

    def measure(self) -> Held:
        """Measure what the server holds now."""
        self.counted.unlink(missing_ok=True)
        os.kill(self.server.pid, signal.SIGUSR2)
        until = time.monotonic() + TURN_SECONDS
        while not self.counted.exists():
            assert time.monotonic() < until, "the server does not count its tasks"
            self.server.settle()
        process = Path(f"/proc/{self.server.pid}")
        status = process.joinpath("status").read_text()
        numbers = {key: int(value) for key, value in re.findall(r"(\w+):\s*(\d+)", status)}
        return Held(
            descriptors=len(list(process.joinpath("fd").iterdir())),
            threads=numbers["Threads"],
            tasks=self.counted.read_text().splitlines(),
            children=len(children(self.server.pid)),
            megabytes=numbers["VmRSS"] / 1024,
        )


@shares(sample=1, seconds=90)
def test_flat(torture: Torture, share: Share, tmp_path: Path) -> None:
    place, counted = Place(tmp_path), tmp_path / "tasks"
    command = (*ECA, MODULE, SERVER, str(counted), "server")
    with place.server({"ECA_CONFIG": json.dumps(CONFIG)}, command=command) as server:
        soaked = Soaked(server, place, counted, torture)
        for number in range(WARM_ROUNDS):
            soaked.play(Random(number))
        before = soaked.measure()
        torture.run(share, soaked.play)
        after = soaked.settled(before)
        server.result("shutdown")
    grown = after.megabytes - before.megabytes
    torture.notes |= {"MB": f"{before.megabytes:.0f}{grown:+.1f}", "tasks": len(after.tasks)}
    torture.notes |= {"threads": after.threads, "fds": after.descriptors}
    assert after.is_within(before), f"before {before}, after {after}"

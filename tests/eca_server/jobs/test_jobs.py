"""Jobs: they run behind whoever started them, are told of, killed, and end with the connection."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from eca_protocol.errors import StartFailed
from eca_server.jobs import Job, JobRefused, Jobs, start_shell
from eca_server.jobs import jobs as room
from tests.eca_server.processes import assert_gone

pytestmark = pytest.mark.trio

ENVIRONMENT = {"PATH": os.environ["PATH"]}


class Room:
    """Jobs, and what was told of them."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.told: list[list[str]] = []
        self.jobs = Jobs(nursery, self._note)

    def _note(self) -> None:
        self.told.append([job.status for job in self.jobs])

    def start(self, command: str, *, shell: str = "/bin/sh") -> Job:
        return self.jobs.start(
            shell, command, directory=Path("/"), environment=ENVIRONMENT, name="it", chat_id="c"
        )


@asynccontextmanager
async def rooms() -> AsyncIterator[Room]:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            yield Room(nursery)
            nursery.cancel_scope.cancel()


def texts(job: Job) -> list[str]:
    return [line.text for line in job.output.last(9)]


@pytest.mark.parametrize(
    ("command", "status", "code"),
    [
        ("echo a", "completed", 0),
        ("echo a; exit 3", "failed", 3),
        ("echo a; kill -9 $$", "failed", 137),
    ],
)
async def test_a_job_that_ends_by_itself_tells_how(command: str, status: str, code: int) -> None:
    async with rooms() as here:
        job = here.start(command)
        assert (job.id, job.status, job.exit_code) == ("job-1", "running", None)
        await job.ended.wait()
        assert (job.status, job.exit_code, texts(job)) == (status, code, ["a"])
        assert not job.kill()
        assert [each.id for each in here.jobs.untold("c")] == ["job-1"]
        assert here.jobs.untold("another") == []


async def test_a_job_that_is_killed_may_clean_up_and_leaves_nothing() -> None:
    async with rooms() as here:
        job = here.start("trap 'echo bye; exit' TERM; sleep 60 & echo $!; wait")
        while not texts(job):
            await trio.sleep(0.001)
        assert job.kill()
        assert not job.kill()
        await job.ended.wait()
        assert (job.status, job.exit_code, texts(job)[1:]) == ("killed", None, ["bye"])
        assert_gone({int(texts(job)[0])})


IS_TOLD_ONCE = """
from pathlib import Path
from signal import SIG_BLOCK, SIGTERM, pthread_sigmask, sigtimedwait, sigwait
pthread_sigmask(SIG_BLOCK, [SIGTERM])
Path("up").touch()
sigwait([SIGTERM])
Path("said").write_text("bye" if sigtimedwait([SIGTERM], 0.03) is None else "hurried")
"""


async def test_a_job_whose_outputs_lie_elsewhere_is_not_hurried(tmp_path: Path) -> None:
    async with rooms() as here:
        script = shlex.join([sys.executable, "-I", "-S", "-c", IS_TOLD_ONCE])
        job = here.start(f"cd {tmp_path}; exec {script} >log 2>&1")
        while not (tmp_path / "up").exists():
            await trio.sleep(0.001)
        job.kill()
        await job.ended.wait()
        assert (tmp_path / "said").read_text() == "bye"


async def test_a_job_that_cannot_be_read_is_ended_and_hurts_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rooms() as here:
        job = here.start("trap 'echo bye; exit' TERM; echo $$; while :; do sleep 0.01; done")
        read: list[bytes] = []

        def broken(_: object, data: bytes) -> None:
            read.append(data)
            raise OSError("broken")

        monkeypatch.setattr(job.output, "write", broken)
        await job.ended.wait()
        assert not job.is_left
        assert_gone({int(read[0])})


async def test_what_a_job_says_last_does_not_wait_for_those_that_flood() -> None:
    with trio.fail_after(20):
        child = start_shell("/bin/sh", "echo bye", directory=Path("/"), environment=ENVIRONMENT)
        flood = trio.Lock()
        job = Job(child, flood, job_id="job-1", command="", name="it", chat_id="c")
        async with flood:
            await job.run()
        assert (job.status, texts(job)) == ("completed", ["bye"])


async def test_changes_are_told_at_once_but_not_too_often_and_the_last_is_not_lost() -> None:
    async with rooms() as here:
        begun = trio.current_time()
        jobs = [here.start("exit 1") for _ in range(5)]
        for job in jobs:
            await job.ended.wait()
        while here.told[-1] != ["failed"] * 5:
            await trio.sleep(0.01)
        assert here.told[0] == ["running"] * 5
        assert len(here.told) <= 1 + (trio.current_time() - begun) / room.TELL_SECONDS


async def test_no_more_run_at_once_than_may_and_those_that_ended_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(room, "MOST_RUNNING", 2)
    monkeypatch.setattr(room, "MOST_ENDED", 1)
    async with rooms() as here:
        first, second = here.start("sleep 60"), here.start("sleep 60")
        with pytest.raises(JobRefused, match="2 jobs run"):
            here.start("true")
        for job in (second, first):
            job.kill()
            await job.ended.wait()
        assert [job.id for job in here.jobs] == ["job-1"]
        assert here.start("sleep 60").id == "job-3"
        with pytest.raises(StartFailed):
            here.start("true", shell="/nowhere")


async def test_all_end_at_once_with_the_connection_even_those_that_do_not_want_to() -> None:
    async with rooms() as here:
        jobs = [here.start("trap '' TERM; echo up; while :; do sleep 0.05; done") for _ in range(8)]
        for job in jobs:
            while not texts(job):
                await trio.sleep(0.001)
        begun = trio.current_time()
        assert await here.jobs.close() == []
        assert trio.current_time() - begun < 2
        assert here.told[-1] == ["killed"] * 8
        with pytest.raises(JobRefused, match="session ends"):
            here.start("true")
        assert await here.jobs.close() == []

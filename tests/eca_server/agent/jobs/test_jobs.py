"""Jobs run in the background, are announced and killed, and end with the connection."""

import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from eca_protocol.errors import StartFailed
from eca_server.agent.context.job_notice import job_notice
from eca_server.agent.jobs import jobs as jobs_module
from eca_server.agent.jobs.jobs import Job, JobRefused, Jobs
from eca_server.agent.jobs.shell import start_shell
from tests.eca_server.processes import assert_gone
from tests.promises import within

ENVIRONMENT = {"PATH": os.environ["PATH"]}


class RunningJobs:
    """Jobs, and the statuses at each notification."""

    def __init__(self, nursery: trio.Nursery, **limits: int) -> None:
        self.notifications: list[list[str]] = []
        self.jobs = Jobs(nursery, self._note, **limits)

    def _note(self) -> None:
        self.notifications.append([job.status for job in self.jobs])

    def start(self, command: str, *, shell: str = "/bin/sh") -> Job:
        start = partial(start_shell, shell, command, directory=Path("/"), environment=ENVIRONMENT)
        return self.jobs.start(start, command=command, name="it", chat_id="c")


@asynccontextmanager
async def running_jobs(**limits: int) -> AsyncIterator[RunningJobs]:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            yield RunningJobs(nursery, **limits)
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
async def test_a_job_that_ends_by_itself_has_a_status_and_an_exit_code(command, status, code):
    async with running_jobs() as running:
        job = running.start(command)
        assert (job.id, job.status, job.exit_code) == ("job-1", "running", None)
        await job.ended.wait()
        assert (job.status, job.exit_code, texts(job)) == (status, code, ["a"])
        assert not job.kill()
        assert [each.id for each in running.jobs.unreported("c")] == ["job-1"]
        assert running.jobs.unreported("another") == []


async def test_a_job_that_is_killed_may_clean_up_and_leaves_nothing():
    async with running_jobs() as running:
        job = running.start("trap 'echo bye; exit' TERM; sleep 60 & echo $!; wait")
        while not texts(job):
            await trio.sleep(0.001)
        assert job.kill()
        assert not job.kill()
        await job.ended.wait()
        assert (job.status, job.exit_code, texts(job)[1:]) == ("killed", None, ["bye"])
        assert_gone({int(texts(job)[0])})


WAITS_FOR_A_SECOND_SIGNAL = """
from pathlib import Path
from signal import SIG_BLOCK, SIGTERM, pthread_sigmask, sigtimedwait, sigwait
pthread_sigmask(SIG_BLOCK, [SIGTERM])
Path("up").touch()
sigwait([SIGTERM])
Path("said").write_text("bye" if sigtimedwait([SIGTERM], 0.03) is None else "hurried")
"""


async def test_a_job_with_redirected_outputs_has_time_to_end(tmp_path):
    async with running_jobs() as running:
        script = shlex.join([sys.executable, "-I", "-S", "-c", WAITS_FOR_A_SECOND_SIGNAL])
        job = running.start(f"cd {tmp_path}; exec {script} >log 2>&1")
        while not (tmp_path / "up").exists():
            await trio.sleep(0.001)
        job.kill()
        await job.ended.wait()
        assert (tmp_path / "said").read_text() == "bye"


async def test_a_job_that_cannot_be_read_is_killed_alone(monkeypatch):
    async with running_jobs() as running:
        job = running.start("trap 'echo bye; exit' TERM; echo $$; while :; do sleep 0.01; done")
        read: list[bytes] = []

        def broken(_: object, data: bytes) -> None:
            read.append(data)
            raise OSError("broken")

        monkeypatch.setattr(job.output, "write", broken)
        await job.ended.wait()
        assert not job.survived
        assert_gone({int(read[0])})


async def test_the_last_output_of_a_job_does_not_wait_for_flooding_jobs():
    with trio.fail_after(20):
        child = start_shell("/bin/sh", "echo bye", directory=Path("/"), environment=ENVIRONMENT)
        flood = trio.Lock()
        job = Job(child=child, flood_lock=flood, id="job-1", command="", name="it", chat_id="c")
        async with flood:
            await job.run()
        assert (job.status, texts(job)) == ("completed", ["bye"])


async def test_changes_are_announced_at_once_not_too_often_and_the_last_always():
    async with running_jobs() as running:
        begun = trio.current_time()
        jobs = [running.start("exit 1") for _ in range(5)]
        for job in jobs:
            await job.ended.wait()
        while running.notifications[-1] != ["failed"] * 5:
            await trio.sleep(0.01)
        assert running.notifications[0] == ["running"] * 5
        assert (
            len(running.notifications)
            <= 1 + (trio.current_time() - begun) / jobs_module.NOTIFY_SECONDS
        )


async def test_running_and_stored_ended_jobs_are_limited():
    async with running_jobs(max_running=2, max_ended=1) as running:
        first, second = running.start("sleep 60"), running.start("sleep 60")
        with pytest.raises(JobRefused, match="2 jobs are running"):
            running.start("true")
        for job in (second, first):
            job.kill()
            await job.ended.wait()
        assert [job.id for job in running.jobs] == ["job-1"]
        assert running.start("sleep 60").id == "job-3"
        with pytest.raises(StartFailed):
            running.start("true", shell="/nowhere")


async def test_all_jobs_end_at_once_with_the_connection_even_if_they_ignore_sigterm():
    async with running_jobs() as running:
        jobs = [
            running.start("trap '' TERM; echo up; while :; do sleep 0.05; done") for _ in range(8)
        ]
        for job in jobs:
            while not texts(job):
                await trio.sleep(0.001)
        with within(2):
            assert await running.jobs.close() == []
        assert running.notifications[-1] == ["killed"] * 8
        with pytest.raises(JobRefused, match="session is ending"):
            running.start("true")
        assert await running.jobs.close() == []


async def test_the_last_output_of_a_job_is_sent_however_long_its_lines_are():
    lines = "for each in 1 2 3 4 5 6 7 8 9; do printf '%0999d\\n' 0; done"
    async with running_jobs() as running:
        await running.start(f"{lines}; echo it broke; exit 1").ended.wait()
        notice = job_notice(running.jobs, "c")
        assert "bytes left out" in notice
        assert "it broke\n" in notice
        assert len(notice) < 5000
        assert job_notice(running.jobs, "c") == ""

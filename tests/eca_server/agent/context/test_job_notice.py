"""The notice of ended jobs that is sent to a model."""

from __future__ import annotations

import os
from pathlib import Path

import trio

from eca_server.agent.context.job_notice import job_notice
from eca_server.agent.jobs.jobs import Jobs


async def test_the_last_output_of_a_job_is_sent_however_long_its_lines_are(nursery):
    jobs = Jobs(nursery, lambda: None)
    command = "for each in 1 2 3 4 5 6 7 8 9; do printf '%0999d\\n' 0; done; echo it broke; exit 1"
    job = jobs.start(
        "/bin/sh",
        command,
        directory=Path("/"),
        environment={"PATH": os.environ["PATH"]},
        name="build",
        chat_id="c",
    )
    with trio.fail_after(20):
        await job.ended.wait()
    notice = job_notice(jobs, "c")
    assert "bytes left out" in notice
    assert "it broke\n" in notice
    assert len(notice) < 5000
    assert job_notice(jobs, "c") == ""

"""Cases of jobs: commands that run in the background, since CURRENT."""

from __future__ import annotations

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import ClientSession
from eca_protocol.testing.conformance.server.current_requests import CURRENT, request_result
from eca_protocol.testing.conformance.server.reading import calls, result_of
from eca_protocol.testing.conformance.verdicts import NotApplicable


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", "W-3g", "W-44c", since=CURRENT)
async def jobs_are_listed(session: ClientSession) -> None:
    """List jobs; read and kill an unknown one, also with the key that Emacs sends."""
    await request_result(session, "jobs/list")
    read = await session.ask("jobs/readOutput", {"jobId": "job-none"})
    known = {key: result_of(read).get(key, "missing") for key in ("lines", "status")}
    expected = "an empty list of lines and a null status for an unknown job"
    session.check("W-44c", known == {"lines": [], "status": None}, expected, read)
    ended = await request_result(session, "jobs/kill", jobId="job-none")
    answer = await session.ask("jobs/kill", {"job-id": "job-none"})
    session.check(
        "W-3g", result_of(answer) == ended, f"the result {ended} for the key `job-id`, too", answer
    )


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", since=CURRENT, needs="native-tools")
async def jobs_run_end_and_are_killed(session: ClientSession) -> None:
    """Start three commands in the background: one runs on, one succeeds, one fails."""
    shell = session.native_tools.get(session.tool("shell_command"), {})
    if "background" not in shell.get("parameters", {}).get("properties", {}):
        raise NotApplicable("no command runs in the background")
    commands = ("echo out; echo err >&2; sleep 60", "true", "false")
    made = [("shell_command", {"command": each, "background": "job"}) for each in commands]
    await session.take_approved_turn("Start them.", calls(*made))
    for job in (await request_result(session, "jobs/list"))["jobs"]:
        await request_result(session, "jobs/readOutput", jobId=job["id"])
        await request_result(session, "jobs/kill", jobId=job["id"])
    await request_result(session, "jobs/list")

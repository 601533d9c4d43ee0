"""Cases of jobs: commands that run in the background; CURRENT has them."""

from __future__ import annotations

from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import NotApplicable, case
from eca_protocol.testing.conformance.server.reading import calls, result_of
from eca_protocol.testing.conformance.server.today import CURRENT, asking
from eca_protocol.testing.conformance.server.tools import approving, listed_tools


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", "W-3g", "W-44c", since=CURRENT)
async def jobs_are_listed(bench: Bench) -> None:
    """All jobs, and the output of one that there is not, also by the key that Emacs sends."""
    async with bench.seat() as seat:
        await asking(seat, "jobs/list")
        read = await seat.ask("jobs/readOutput", {"jobId": "job-none"})
        known = {key: result_of(read).get(key, "missing") for key in ("lines", "status")}
        bench.check(
            "W-44c",
            known == {"lines": [], "status": None},
            expected="no lines and a null status",
            got=read,
        )
        ended = await asking(seat, "jobs/kill", jobId="job-none")
        answer = await seat.ask("jobs/kill", {"job-id": "job-none"})
        bench.check("W-3g", result_of(answer) == ended, expected=f"{ended} again", got=answer)


@case("FIELD:Job*", "VALUE:JobStatus=*", "FIELD:OutputLine.*", since=CURRENT, needs="native-tools")
async def jobs_run_end_and_are_killed(bench: Bench) -> None:
    """The model starts three commands in the background: one of them goes on, one fails."""
    async with bench.seat() as seat:
        shell = listed_tools(seat)[seat.tool("shell_command")]
        if "background" not in shell.get("parameters", {}).get("properties", {}):
            raise NotApplicable("no command runs in the background")
        commands = ("echo out; echo err >&2; sleep 60", "true", "false")
        made = [("shell_command", {"command": each, "background": "job"}) for each in commands]
        chat = seat.chat(calls(*made))
        await chat.prompt("Start them.")
        await approving(chat)
        for job in (await asking(seat, "jobs/list"))["jobs"]:
            await asking(seat, "jobs/readOutput", jobId=job["id"])
            await asking(seat, "jobs/kill", jobId=job["id"])
        await asking(seat, "jobs/list")

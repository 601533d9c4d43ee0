"""The cost of a tool call by the agent, and the time until a stop ends a running command.

Bounds: from `toolCallRun` to `toolCalled` a call of a tool that does nothing takes at most three
times what its four contents take alone, appended by a loop of the same process; a stop while a
command runs is `finished` within 50 ms, and within 1 s where the command is deaf to TERM, and of
its processes none is left then.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import trio
from report import Row, at_most, clock_of, machine, print_table
from rig import FINISHED, SCRIPT, BareClient, Rig, rig

from eca_protocol.framing import encode_frame
from eca_protocol.messages import ChatContent
from eca_protocol.server.texts import Role
from eca_protocol.streams import Transport, memory_pair
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.tool import PreparedCall, ToolOutput
from eca_server.client.session import Session
from eca_server.connection.features.host import Options
from eca_server.connection.server import serve
from eca_server.models.history import TextPart

CALLS, TURNS = 100, 5
STOPS, DEAF_STOPS = 20, 4
OBEDIENT = "sleep 987 & (sleep 987; true) & echo $$ > pid; sleep 987"
DEAF = "trap '' TERM; (while :; do sleep 987; done) & echo $$ > pid; while :; do sleep 987; done"


class Watched:
    """The messages appended for the client, and their times.

    Attributes:
        session: the one that is watched.
        contents: of the calls since the last look: role, content, its begin and end.
    """

    session: Session

    def __init__(self) -> None:
        self.contents: list[tuple[Role, ChatContent, float, float]] = []
        self.finished = trio.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Every session made meanwhile is watched."""
        emit = Session.emit

        def watched(session: Session, chat: str, role: Role, content: ChatContent) -> None:
            began = time.perf_counter()
            emit(session, chat, role, content)
            self.contents.append((role, content, began, time.perf_counter()))
            self.session = session
            if content.type == "progress" and content.state == "finished":
                self.finished.set()

        with patch.object(Session, "emit", watched):
            yield

    def calls(self) -> Iterator[list[tuple[Role, ChatContent, float, float]]]:
        """The contents of each call, from `toolCallRun` to `toolCalled`."""
        call: list[tuple[Role, ChatContent, float, float]] = []
        for each in self.contents:
            call = [each] if each[1].type == "toolCallRun" else [*call, each]
            if each[1].type == "toolCalled":
                yield call


async def do_nothing() -> ToolOutput:
    return ToolOutput(parts=(TextPart("done"),))


async def prepare_nothing(_tool: ReadFile, _arguments: Any) -> PreparedCall:
    return PreparedCall(run=do_nothing, summary="Doing nothing")


async def swallow(transport: Transport) -> None:
    while await transport.receive():
        pass


async def seconds_of_calls(here: Rig) -> tuple[list[float], list[float]]:
    """Return the seconds of calls by the agent, and of the same contents alone."""
    near, far = memory_pair(limit=2**20)
    options = Options(environ={"HOME": str(here.folder), **here.configuration(None)})
    script = "\n".join(["say calling", 'call eca_read_file {"path": "any"}'] * CALLS)
    watched = Watched()
    by_agent: list[float] = []
    alone: list[float] = []

    async def send(method: str, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, **message}).encode()
        await far.send(encode_frame(body))

    with watched.watching(), patch.object(ReadFile, "prepare", prepare_nothing):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(swallow, far)
            nursery.start_soon(serve, near, options)
            await send("initialize", id=0, params={"capabilities": {}, "workspaceFolders": []})
            await send("initialized")
            for turn in range(TURNS):
                prompt = {"chatId": f"{turn}", "message": script, "model": SCRIPT}
                await send("chat/prompt", id=turn + 1, params=prompt)
                await watched.finished.wait()
                calls = list(watched.calls())
                by_agent += [call[-1][3] - call[0][2] for call in calls]
                for call in calls:
                    alone.append(clock_of(partial(emit_alone, watched.session, call))())
                    await trio.lowlevel.checkpoint()
                watched.contents.clear()
                watched.finished = trio.Event()
            nursery.cancel_scope.cancel()
    assert len(by_agent) == CALLS * TURNS
    return by_agent, alone


def emit_alone(session: Session, call: Sequence[tuple[Role, ChatContent, float, float]]) -> None:
    for role, content, _, _ in call:
        session.emit("alone", role, content)


def processes_of(session: int) -> int:
    """Return the number of running processes of a session."""
    count = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of_session, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        count += int(of_session) == session and state != "Z"
    return count


def stop_once(client: BareClient, folder: Path, command: str) -> tuple[float, int]:
    """Seconds from the stop to `finished`, and how many processes there still are."""
    noted = folder / "pid"
    noted.unlink(missing_ok=True)
    client.prompt("c", f"call eca_shell_command {json.dumps({'command': command})}", model=SCRIPT)
    while not (noted.exists() and noted.read_text().endswith("\n")):
        time.sleep(0.002)
    session = int(noted.read_text())
    while processes_of(session) < 3:  # all of them have begun
        time.sleep(0.002)
    seconds = clock_of(lambda: (client.stop("c"), client.read_until(FINISHED)))()
    return seconds, processes_of(session)


def main() -> list[Row]:
    print(machine("trio"))
    with rig() as here:
        by_agent, alone = trio.run(partial(seconds_of_calls, here))
        with here.server(root=here.folder) as client:
            stops = {
                name: [stop_once(client, here.folder, command) for _ in range(count)]
                for name, command, count in (
                    ("a command", OBEDIENT, STOPS),
                    ("one deaf to TERM", DEAF, DEAF_STOPS),
                )
            }
    ratio = median(by_agent) / median(alone)
    print_table(
        "From toolCallRun to toolCalled",
        ("what", "us", "x contents alone"),
        [
            ("its contents alone", f"{median(alone) * 1e6:.1f}", "1.00"),
            ("a call of a tool that does nothing", f"{median(by_agent) * 1e6:.1f}", f"{ratio:.2f}"),
        ],
    )
    rows = [at_most("a call of an empty tool, beside its contents", ratio, 3)]
    for (name, measured), bound in zip(stops.items(), (50, 1000), strict=True):
        waits, leftovers = zip(*measured, strict=True)
        rows += [
            at_most(
                f"stop of {name}, worst of {len(waits)}", max(waits) * 1e3, bound, " ms", digits=1
            ),
            Row(f"processes left by {name}", "0", f"{sum(leftovers)}", sum(leftovers) == 0),
        ]
    return rows

"""The time of a `chat/rollback` of 200 files, relative to safe writes alone.

Bounds: 200 files of 8 KiB are back within three times what 200 files take that are written beside
their place, synced, renamed and their folder synced by a bare loop, plus half a second; a server
that is killed in the middle is followed by one that has put all of them back when it answers
`chat/open`.
"""

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report import Row, clock_of, machine, print_table
from rig import FINISHED, SCRIPT, SERVER, BareClient, Rig, rig

FILES, TURNS = 200, 2
LONGEST = 30.0  # seconds
BEFORE = "x" * 8192
TODAY = {"codeAssistant": {"chatCapabilities": {"askQuestion": True}}}
CONTENT_ID = re.compile(rb'"contentId":"([^"]+)"')


def paths(folder: Path) -> list[Path]:
    return [folder / f"file-{number}" for number in range(FILES)]


@contextmanager
def server(here: Rig, project: Path) -> Iterator[BareClient]:
    """Yield a server that is killed at the end of the block."""
    with here.process(SERVER, **here.configuration(None)) as process:
        client = BareClient(process)
        client.initialize(project, TODAY)
        client.notify("initialized", {})
        yield client


def change(client: BareClient, project: Path) -> str:
    """Have all files changed, in some turns; the content id of the first prompt."""
    ids = []
    for turn in range(TURNS):
        written = [
            f"call eca_write_file {json.dumps({'path': str(path), 'content': 'new'})}"
            for path in paths(project)[turn::TURNS]
        ]
        client.prompt("c", "\n".join(written), model=SCRIPT)
        data = b""
        while (match := CONTENT_ID.search(data)) is None:
            data += client.read()
        ids.append(match[1].decode())
        client.read_until(FINISHED)
    return ids[0]


def write_bare(project: Path) -> None:
    """Make the same writes in a loop."""
    for path in paths(project):
        beside = path.with_name("beside")
        with beside.open("w") as file:
            file.write(BEFORE)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(project, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def main() -> list[Row]:
    print(machine("trio"))
    with rig() as here:
        project = here.folder / "project"
        project.mkdir()
        for path in paths(project):
            path.write_text(BEFORE)
        bare = clock_of(lambda: write_bare(project))()
        with server(here, project) as client:
            params = {"chatId": "c", "contentId": change(client, project)}
            assert all(path.read_text() == "new" for path in paths(project))
            took = clock_of(lambda: client.request("chat/rollback", params))()
            assert all(path.read_text() == BEFORE for path in paths(project))
            params["contentId"] = change(client, project)
            order = paths(project)[TURNS - 1 :: TURNS]
            client.notify("chat/rollback", params)
            began = time.perf_counter()
            while order[len(order) // 2].read_text() == "new":
                assert time.perf_counter() - began < LONGEST, "the rollback does not come so far"
        back = sum(path.read_text() == BEFORE for path in paths(project))
        with server(here, project) as client:
            finished = clock_of(lambda: client.request("chat/open", {"chatId": "c"}))()
            all_back = all(path.read_text() == BEFORE for path in paths(project))
    print_table(
        f"{FILES} files of {len(BEFORE)} bytes put back",
        ("by", "s", "ms a file"),
        [
            (name, f"{each:.2f}", f"{each / FILES * 1e3:.2f}")
            for name, each in (("a bare loop", bare), ("chat/rollback", took))
        ],
    )
    print(f"killed with {back} of {FILES} back; the next server was done in {finished:.2f} s")
    return [
        Row(
            f"rollback of {FILES} files",
            "<= 3 x a bare loop + 0.5 s",
            f"{took:.2f} s ({bare:.2f} s)",
            took <= 3 * bare + 0.5,
        ),
        Row("one that was killed is finished", "all files back", str(all_back), all_back),
    ]

"""A small real job on a copy of this repository, done through the SDK's client and kept.

The model plays the prompts, which are scripts of `simulator/script`: it looks for the place where
names of revisions are read, writes a test, sees it fail, fixes the code and sees it pass. The user
plans first, approves edits one by one and the tests once for all, and keeps a commit to himself.

    python -m tests.eca_server.wire.real_job

does the job again and keeps what was said; look at the difference before it is committed.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trio

from eca_protocol import messages as m
from eca_protocol.client import Chat, Client, connect
from eca_protocol.framing import encode_frame
from eca_protocol.process import spawn
from eca_protocol.revisions import Revision
from eca_protocol.transcript import (
    DataEntry,
    RecordedTransport,
    Recorder,
    encode_entry,
    encode_header,
    new_file,
    read_transcript,
)
from tests.eca_server.stranger import REPOSITORY, environment

TRANSCRIPT = REPOSITORY / "tests" / "data" / "transcripts" / "real_job.jsonl"
SERVE = (sys.executable, "-P", "-m", "eca_server", "server")
WHEN = datetime(2026, 11, 21, tzinfo=UTC)
COPIED = (
    *("eca_protocol", "tests/eca_protocol", "pyproject.toml"),
    *("tests/conftest.py", "tests/promises.py", "tests/eca_server/fork_server.py"),
)

TEST = """

def test_a_revision_may_be_written_in_capitals() -> None:
    assert parse_revision("CURRENT") is Revision.CURRENT


@pytest.mark.requirement("W-12b")
"""


def call(name: str, **arguments: object) -> str:
    """The directive that lets the model call a tool."""
    return f"call eca_{name} {json.dumps(arguments)}"


TESTS = (
    "if python3 -m pytest -q tests/eca_protocol/test_revisions.py > pytest.log; "
    "then echo passed; else grep '^E   ' pytest.log; fi"
)
LOOK = "\n".join(
    [
        call("grep", path="eca_protocol", pattern="def parse_revision"),
        "think Only one place.",
        call("read_file", path="eca_protocol/revisions.py", line_offset=48, limit=12),
        "think Which tests are there?",
        call("grep", path="tests/eca_protocol/test_revisions.py", pattern="def test_.*name"),
        "say Names are looked up as they are: `parse_revision` could take them in any case.",
    ]
)
MEND = "\n".join(
    [
        "say First a test.",
        call(
            "edit_file",
            path="tests/eca_protocol/test_revisions.py",
            original_content='\n\n@pytest.mark.requirement("W-12b")\n',
            new_content=TEST,
        ),
        "say It should fail now.",
        call("shell_command", command=TESTS),
        "say It does. Now the code.",
        call(
            "edit_file",
            path="eca_protocol/revisions.py",
            original_content="return Revision(name)",
            new_content="return Revision(name.lower())",
        ),
        "say And again.",
        call("shell_command", command=TESTS),
        "say It passes.",
        call("shell_command", command="git commit -qam 'Names of revisions in any case'"),
        "say `parse_revision` takes names in any case now; nothing is committed.",
    ]
)


def place(folder: Path) -> dict[str, str]:
    """Copy what the job needs of the repository; the environment of a server that works there."""
    for name in COPIED:
        source, target = REPOSITORY / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    configured = json.dumps({"chat": {"title": False}})
    return environment(folder.parent, PATH=path, ECA_CONFIG=configured)


async def do(client: Client) -> None:
    """The user's side of the job."""
    async for event in client.events():
        if isinstance(event, m.ProgressParams) and event.type == "finish":
            break
    chat = client.chat("job", model="simulator/script")
    for prompt, behavior in ((LOOK, "plan"), (MEND, "agent")):
        async for content in chat.prompt(prompt, behavior=behavior):
            if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
                decide(chat, content)


def decide(chat: Chat, call: m.ChatToolCallRunContent) -> None:
    """Return the user's decision about a call."""
    command = str(call.arguments.get("command", ""))
    if command.startswith("git commit"):
        chat.reject(call.id)
    else:
        chat.approve(call.id, save="session" if command else None)


class Normal:
    """Messages without what differs from run to run: places, ids, times, tokens, descriptions.

    One for each run, since ids are counted as they come.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def plain(self, message: Mapping[str, Any]) -> Any:
        """A message as it is kept."""
        text = json.dumps(message).replace(self._folder, "/project")
        value = json.loads(text, object_hook=self._plain_object)
        if value.get("method") == "initialize":
            value["params"]["processId"] = None
        return value

    def actual(self, message: Mapping[str, Any]) -> Any:
        """A kept message of the client's as it has to be sent in this run."""
        text = json.dumps(message).replace("/project", self._folder)
        for actual, plain in self._ids.items():
            text = text.replace(f'"{plain}"', f'"{actual}"')
        return json.loads(text)

    def _plain_object(self, value: dict[str, Any]) -> dict[str, Any]:
        for key in value.keys() & {"contentId", "toolCallId"}:
            value[key] = self._plain_id(value[key])
        if isinstance(value.get("id"), str):
            value["id"] = self._plain_id(value["id"])
        for key in value.keys() & {"totalTimeMs", "sessionTokens", "lastMessageTokens"}:
            value[key] = 0
        for key in value.keys() & {"description", "parameters"}:
            value[key] = "..."
        return value

    def _plain_id(self, actual: str) -> str:
        return self._ids.setdefault(actual, f"id-{len(self._ids) + 1}")


async def record() -> list[bytes]:
    """Do the job; what was said, in order, as the lines of a transcript."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home).resolve() / "project"
        env = place(folder)
        file, path = new_file(Path(home) / "said.jsonl")
        recorder = Recorder(file)
        child = spawn(SERVE, cwd=folder, env=env)
        try:
            tap = RecordedTransport(child.transport, recorder, "client")
            async with connect(
                transport=tap, workspace_folders=[folder], revision=Revision.R2025_10
            ) as client:
                await do(client)
        finally:
            await child.end()
            recorder.close()
        normal = Normal(folder)
        lines = [encode_header(WHEN, ["eca-server", "server"])]
        for side, message in read_transcript(path).messages():
            body = json.dumps(normal.plain(message), ensure_ascii=False).encode()
            lines.append(
                encode_entry(DataEntry(at=0, side=side, data=encode_frame(body), body=body))
            )
        return lines


if __name__ == "__main__":
    lines = trio.run(record)
    TRANSCRIPT.parent.mkdir(parents=True, exist_ok=True)
    TRANSCRIPT.write_bytes(b"".join(lines))
    print(f"{len(lines) - 1} messages")

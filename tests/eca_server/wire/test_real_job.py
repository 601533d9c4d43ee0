"""The transcript of a small real job: the client's side is said again, the server's is the same.

Where the server has learned to say something else, `python -m tests.eca_server.wire.real_job`
does the job again and keeps it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eca_protocol.fold import Conversation
from eca_protocol.transcript import read_transcript
from tests.eca_server.conftest import Start
from tests.eca_server.wire.real_job import TRANSCRIPT, Normal, place

SECONDS = 60.0


def transcript() -> list[tuple[str, dict[str, Any]]]:
    return list(read_transcript(TRANSCRIPT).messages())


@pytest.mark.long
@pytest.mark.requirement("TOOL-15")
def test_a_real_job_is_done_as_it_was_done_before(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    server = start_server(env=place(folder), cwd=folder)
    normal = Normal(folder)
    for number, (side, message) in enumerate(transcript(), 2):
        if side == "client":
            server.send(normal.actual(message))
        else:
            said = normal.plain(server.receive(seconds=SECONDS))
            assert said == message, f"{TRANSCRIPT.name}:{number}"
    assert server.exit_code() == 0
    mended = (folder / "eca_protocol" / "revisions.py").read_text()
    assert "Revision(name.lower())" in mended


def test_the_job_found_read_edited_and_ran_tests() -> None:
    contents = [
        message["params"]["content"]
        for _, message in transcript()
        if message.get("method") == "chat/contentReceived"
    ]
    ended = [each for each in contents if each["type"] in {"toolCalled", "toolCallRejected"}]
    assert [each["name"].removeprefix("eca_") for each in ended] == [
        "grep", "read_file", "grep",
        "edit_file", "shell_command", "edit_file", "shell_command", "shell_command",
    ]  # fmt: skip
    failed, passed = (each["outputs"][0]["text"] for each in (ended[4], ended[6]))
    assert "unknown protocol revision 'CURRENT'" in failed
    assert passed == "passed\n"
    assert ended[7]["reason"] == "user-choice"


def test_a_user_interface_shows_the_job_without_an_error() -> None:
    conversation = Conversation()
    for side, message in transcript():
        assert conversation.passed(side, message) == ()
    [chat] = conversation.fold.chats.values()
    assert chat.text().endswith(
        "`parse_revision` takes names in any case now; nothing is committed."
    )
    assert [call.state for call in chat.calls()] == [*["called"] * 7, "rejected"]

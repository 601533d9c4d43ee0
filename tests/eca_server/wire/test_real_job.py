"""The transcript of a small real job: the client's side is sent again, the server's is the same.

Where the server writes something else, `python -m tests.eca_server.wire.real_job` does the
job again and stores it.
"""

from pathlib import Path

import pytest

from eca_protocol.fold import Conversation
from eca_protocol.transcript import read_transcript
from tests.eca_server.conftest import Start
from tests.eca_server.wire.real_job import TRANSCRIPT, Normal, place

TOOLS = ["grep", "read_file", "grep", *["edit_file", "shell_command"] * 2, "shell_command"]


@pytest.mark.long
@pytest.mark.requirement("TOOL-15")
def test_a_real_job_is_done_as_it_was_done_before(start_server: Start, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    server = start_server(env=place(folder), cwd=folder)
    normal = Normal(folder)
    for number, (side, message) in enumerate(read_transcript(TRANSCRIPT).messages(), 2):
        if side == "client":
            server.send(normal.actual(message))
        else:
            received = normal.plain(server.receive(seconds=60.0))
            assert received == message, f"{TRANSCRIPT.name}:{number}"
    assert server.exit_code() == 0
    fixed = (folder / "eca_protocol" / "revisions.py").read_text()
    assert "Revision(name.lower())" in fixed


def test_a_user_interface_shows_the_job_without_an_error() -> None:
    conversation = Conversation()
    for side, message in read_transcript(TRANSCRIPT).messages():
        assert conversation.passed(side, message) == ()
    [chat] = conversation.fold.chats.values()
    assert chat.text().endswith("takes names in any case now; nothing is committed.")
    job = [(call.name.removeprefix("eca_"), call.state) for call in chat.calls()]
    states = [*["called"] * 7, "rejected"]
    assert job == list(zip(TOOLS, states, strict=True))
    transcript = TRANSCRIPT.read_text()
    assert "unknown protocol revision 'CURRENT'" in transcript
    assert '"passed\\n"' in transcript

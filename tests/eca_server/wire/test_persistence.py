from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of


def opened(start_server: Start, project: Path) -> Stranger:
    server = start_server()
    server.introduced(project)
    return server


def change_a_file(server: Stranger, folder: Path, chat: str) -> None:
    (folder / "file").write_text("a secret in a file")
    call = {"path": "file", "original_content": "in a", "new_content": "out of the"}
    script = f"call eca_edit_file {json.dumps(call)}"
    server.ask("chat/prompt", {"message": script, "chatId": chat, "model": "simulator/script"})
    run = server.until(lambda m: content_of(m).get("type") == "toolCallRun")[-1]
    server.tell("chat/toolCallApprove", {"chatId": chat, "toolCallId": content_of(run)["id"]})
    server.expect_finished()
    assert (folder / "file").read_text() == "a secret out of the file"


def stored_bytes(tmp_path: Path) -> bytes:
    return b"".join(path.read_bytes() for path in tmp_path.rglob("chats.sqlite*"))


def test_a_chat_continues_after_the_process_was_killed(start_server: Start, tmp_path: Path) -> None:
    first = opened(start_server, tmp_path)
    first.say("a first message", chat="kept", model="simulator/echo")
    os.kill(first.pid, signal.SIGKILL)
    second = opened(start_server, tmp_path)
    assert "Tokens of all requests of this chat: 0" not in second.say(
        "/costs", chat="kept", model="simulator/echo"
    )
    assert "a first message" in second.say("/resume", chat="another", model="simulator/echo")
    assert "2 messages" in second.say("/resume 1", chat="another", model="simulator/echo")
    assert "from 1 to 1" in second.say("/resume 9", chat="another", model="simulator/echo")
    assert second.leave() == 0


def test_of_a_deleted_chat_no_text_is_left_in_any_file(start_server: Start, tmp_path: Path) -> None:
    server = opened(start_server, tmp_path)
    server.say("a secret that must go", chat="gone", model="simulator/echo")
    change_a_file(server, tmp_path, "gone")
    assert b"a secret that must go" in stored_bytes(tmp_path)
    assert b"a secret in a file" in stored_bytes(tmp_path)
    assert server.result("chat/delete", {"chatId": "gone"}) == {}
    assert "Tokens of all requests of this chat: 0" in server.say(
        "/costs", chat="gone", model="simulator/echo"
    )
    assert server.leave() == 0
    assert stored_bytes(tmp_path)
    assert b"secret" not in stored_bytes(tmp_path)

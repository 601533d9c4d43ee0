"""The real process, its configuration edited under it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.conftest import Start
from tests.eca_server.stranger import Stranger, content_of


def next_of(server: Stranger, method: str) -> Any:
    """The params of the next message of that method, and only messages unasked before it."""
    came = server.until(lambda each: each.get("method") == method)
    assert all("id" not in each for each in came)
    return came[-1]["params"]


def save(path: Path, content: object) -> None:
    """As editors save: the new file takes the old one's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name("new")
    new.write_text(content if isinstance(content, str) else json.dumps(content))
    new.replace(path)


@pytest.mark.long(but=1)  # the server looks each second whether the file has changed
@pytest.mark.requirement("CONF-3", "W-11g", "W-33b")
@pytest.mark.parametrize("edits_again", [False, True])
def test_a_file_that_is_edited_counts_while_a_turn_runs(
    start_server: Start, tmp_path: Path, edits_again: bool
) -> None:
    project = tmp_path / "project"
    file = project / ".eca" / "config.json"
    server = start_server()
    server.introduced(
        project,
        initializationOptions={"workspaceTrusted": True},
    )
    chat = server.start_endless_turn()

    save(file, {"welcomeMessage": "Hi", "disabledTools": ["grep"]})
    assert next_of(server, "config/updated") == {"chat": {"welcomeMessage": "Hi"}}
    tools = next_of(server, "tool/serverUpdated")["tools"]
    assert {tool["name"] for tool in tools if tool["disabled"]} >= {"eca_grep"}

    if edits_again:
        save(file, '{\n  "welcomeMessage": "Ho",\n}')
        shown = next_of(server, "$/showMessage")
        assert (shown["type"], f"{file}:2:" in shown["message"]) == ("error", True)
        save(file, {"welcomeMessage": "Ho", "disabledTools": ["grep"]})
        assert next_of(server, "config/updated") == {"chat": {"welcomeMessage": "Ho"}}

    server.stop(chat)
    finished = [each for each in server.expect_finished() if content_of(each)]
    assert finished[-1]["params"]["chatId"] == chat
    assert server.leave() == 0

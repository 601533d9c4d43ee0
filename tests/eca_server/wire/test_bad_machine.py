"""The real process on a machine's bad day: no directory for data, none left, no threads."""

from __future__ import annotations

from tests.eca_server.stranger import text_of


def test_a_data_directory_that_cannot_be_looked_at_costs_only_the_stored_chats(
    start_server, tmp_path
):
    # "File name too long" stands for "Permission denied", which the administrator never gets.
    unusable = tmp_path / ("x" * 300)
    server = start_server(env={"XDG_DATA_HOME": str(unusable)})
    server.introduced(tmp_path / "project")
    assert "hello" in text_of(server.turn("hello", model="simulator/echo"))
    shown = [m["params"]["message"] for m in server.seen if m.get("method") == "$/showMessage"]
    assert any("Chats are not stored" in message for message in shown), shown

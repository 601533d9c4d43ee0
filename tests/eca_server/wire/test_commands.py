"""Slash commands in the real process: a login that never shows its key, commands from files."""

from __future__ import annotations

import json
import stat

import pytest

from eca_protocol.testing.provider import provider_in_thread, reply, text
from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import content_of

KEY = "planted-0123456789-key"


@pytest.mark.parametrize("pasted", ["later", "at once"])
def test_a_pasted_key_is_in_its_private_file_and_in_the_next_request_and_nowhere_else(
    pasted, start_server, tmp_path
):
    with provider_in_thread([reply(text("hello")), reply(text("A title"))]) as endpoint:
        config = {"providers": {"p": {"url": endpoint.url, "models": {"m": {}}}}}
        server = start_server(
            command=(*SERVE, "--log-level", "debug"), env={"ECA_CONFIG": json.dumps(config)}
        )
        server.introduced(tmp_path)
        if pasted == "later":
            assert "Paste the key of p" in server.say("/login p", model="p/m")
            said = server.say(KEY, model="p/m")
        else:
            said = server.say(f"/login p {KEY}", model="p/m")
        assert "Stored the key of" in said
        assert "hello" in server.say("a prompt", model="p/m")
        for command in ("/doctor", "/config", "/prompt-show", "/login", "/resume"):
            server.say(command, model="p/m")
        assert server.leave() == 0
        sent = [request.headers["authorization"] for request in endpoint.requests]
    assert sent
    assert set(sent) == {f"Bearer {KEY}"}
    assert KEY.encode() not in b"".join(server.reads)
    assert KEY not in server.errors
    holders = [
        path for path in tmp_path.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()
    ]
    assert [path.name for path in holders] == ["logins.json"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(holders[0].parent.stat().st_mode) == 0o700


def test_a_stored_login_outlives_the_process_until_logout(start_server, tmp_path):
    config = {"providers": {"openai": {"models": {"m": {}}}}}
    env = {"ECA_CONFIG": json.dumps(config)}
    first = start_server(env=env)
    first.introduced()
    first.say(f"/login openai {KEY}", model="simulator/echo")
    second = start_server(env=env)
    told = second.introduced()
    (chat,) = (each["params"]["chat"] for each in told if each["method"] == "config/updated")
    assert "openai/m" in chat["models"]
    assert "found in a stored login" in second.say("/doctor", model="simulator/echo")
    assert "Removed the stored key" in second.say("/logout openai", model="simulator/echo")
    third = start_server(env=env)
    (chat,) = (
        each["params"]["chat"] for each in third.introduced() if each["method"] == "config/updated"
    )
    assert "openai/m" not in chat["models"]


@pytest.mark.requirement("CHAT-27", "CHAT-30")
def test_commands_of_the_project_and_of_the_user_are_offered_and_run(start_server, tmp_path):
    project, user = tmp_path / "project", tmp_path / ".config" / "eca" / "commands"
    for folder, name, content in (
        (project / ".eca" / "commands", "greet", "must not take the place of the user's"),
        (project / ".eca" / "commands", "guess", "Guess $1."),
        (user, "greet", "Greet $1, then $2."),
        (user, "part", "Say goodbye to"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(content)
    server = start_server()
    server.introduced(project)
    commands = server.result("chat/queryCommands", {"query": "g"})["commands"]
    names = {each["name"]: each["arguments"] for each in commands}
    assert [each["name"] for each in names["greet"]] == ["arg1", "arg2"]
    assert "part" in names
    assert server.say('/greet "a b" c', model="simulator/echo") == "Greet a b, then c."
    echoes = [
        content_of(each) for each in server.seen if each.get("params", {}).get("role") == "user"
    ]
    assert [each["text"] for each in echoes] == ['/greet "a b" c']
    assert server.say("/part Ann", model="simulator/echo") == "Say goodbye to\n\nAnn"
    assert "Guess b." in server.say("/guess b", model="simulator/echo").splitlines()

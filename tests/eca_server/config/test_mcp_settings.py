from __future__ import annotations

import pytest

from eca_server.config.mcp_settings import MCPServer, original_text

EVERYTHING = """{
  "mcpServers": {
    "git": {
      "type": "stdio",
      "command": "uvx",
      "args": ["mcp-server-git", "--verbose"],
      "env": {"A": "1", "B": null},
      "cwd": "sub",
      "protocol": "legacy",
      "startTimeoutSeconds": 5,
      "callTimeoutSeconds": 6,
      "toolTimeoutSeconds": {"git_log": 7},
      "maxConcurrency": 1
    },
    "web": {
      "url": "https://mcp.example/mcp",
      "headers": {"X-A": "b"},
      "disabled": true,
      "clientId": "id",
      "clientSecret": "not-a-real-secret",
      "clientName": "name",
      "clientMetadataUrl": "https://me.example/client.json",
      "oauthPort": 8080,
      "authScope": "workspace"
    }
  },
  "mcpTimeoutSeconds": 9,
  "mcpKeepAliveSeconds": 10
}"""


def test_everything_about_a_server_is_read_and_a_later_file_changes_only_what_it_names(house):
    house.options = {"mcpServers": {"git": {"command": "x", "disabled": True}}}
    house.in_user(EVERYTHING)
    config = house.config()
    git, web = config.mcp_servers["git"], config.mcp_servers["web"]
    assert (git.command, git.args, git.cwd) == ("uvx", ("mcp-server-git", "--verbose"), "sub")
    assert git.env == {"A": "1", "B": None}
    assert (git.start_timeout, git.call_timeout, git.tool_timeouts) == (5, 6, {"git_log": 7})
    assert (git.type, git.protocol, git.max_calls, git.disabled) == ("stdio", "legacy", 1, True)
    assert (web.url, web.headers, web.disabled) == ("https://mcp.example/mcp", {"X-A": "b"}, True)
    assert (web.client_id, web.client_name, web.oauth_port) == ("id", "name", 8080)
    assert web.client_metadata_url == "https://me.example/client.json"
    assert web.client_secret is not None
    assert web.client_secret.reveal() == "not-a-real-secret"
    assert web.auth_scope == "workspace"
    assert (config.mcp_timeout, config.mcp_keep_alive) == (9, 10)
    assert git.config_error is web.config_error is None


def test_references_and_variables_are_replaced_once(house):
    house.environ = {"TOKEN": "a$HOME_DIR", "HOME_DIR": "/h", "N": "1"}
    local = {
        "command": "$HOME_DIR/bin/x",
        "args": ["${N}", "$N.", "$UNSET", "${UNSET}", "${workspaceFolder}", "$"],
        "env": {"A": "${env:N}", "B": "$N"},
    }
    remote = {"url": "https://x/${N}", "headers": {"Authorization": "B ${env:TOKEN}"}}
    house.in_user({"mcpServers": {"s": local, "w": remote}})
    servers = house.config().mcp_servers
    assert servers["s"].command == "/h/bin/x"
    assert servers["s"].args == ("1", "1.", "$UNSET", "${UNSET}", "${workspaceFolder}", "$")
    assert servers["s"].env == {"A": "1", "B": "$N"}
    assert servers["w"].url == "https://x/1"
    assert servers["w"].headers == {"Authorization": "B a$HOME_DIR"}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"command": "x", "args": ["a", 1]}, "mcpServers.s.args[1]"),
        ({"command": "x", "env": {"A": True}}, "mcpServers.s.env.A"),
        ({"url": "http://x", "headers": {"A": "${env:UNSET}"}}, "mcpServers.s.headers.A"),
        ({"command": ["x"]}, "mcpServers.s.command"),
        ({"command": "x", "type": "pipe"}, "mcpServers.s.type"),
    ],
)
def test_a_server_that_cannot_be_read_whole_is_not_started(house, settings, key):
    house.in_user({"mcpServers": {"s": settings, "t": {"command": "y"}}})
    problem = house.problem()
    assert problem.key == key
    assert "does not start" in problem.message
    servers = house.load().config.mcp_servers
    assert servers["s"].config_error == "its configuration has errors (`/config` shows them)"
    assert servers["t"].config_error is None


def test_the_name_of_the_native_server_is_taken(house):
    for name in ("eca", "ECA", " ", ""):
        house.in_user({"mcpServers": {name: {"command": "x"}, "s": {"command": "x"}}})
        assert "a different name" in house.problem().message
        assert list(house.load().config.mcp_servers) == ["s"]


@pytest.mark.parametrize(
    ("server", "error"),
    [
        (MCPServer(command="x", url="http://x"), "expected a command or a url, got both"),
        (MCPServer(), "expected a command or a url, got neither"),
        (MCPServer(url="mcp.example/mcp"), "http://"),
        (MCPServer(url="ftp://x/"), "http://"),
        (MCPServer(url="http://[bad"), "http://"),
        (MCPServer(url="http://x:99999999/"), "http://"),
        (MCPServer(url="https://"), "http://"),
    ],
)
def test_a_server_has_either_a_command_or_a_url_that_can_be_asked(server, error):
    assert error in (server.config_error or "")
    assert MCPServer(url="http://localhost:8000/mcp").config_error is None


def test_what_must_not_be_shown_is_known_and_hidden():
    server = MCPServer(
        args=("--key=hidden-value-1",),
        headers={"Authorization": "Bearer hidden-value-2", "X-Debug": "1"},
        env={"API_TOKEN": "hidden-value-3", "MODE": "development", "SECRET_B": None},
    )
    hidden = {secret.reveal() for secret in server.secrets}
    assert hidden == {"Bearer hidden-value-2", "hidden-value-3"}
    assert "hidden" not in repr(server)


def test_the_value_of_a_reference_must_not_be_shown(house):
    house.environ |= {"HOME": "/home/somebody", "A": "a-first-secret", "B": "a-second-secret"}
    house.environ |= {"C": "a-third-secret", "D": "8080"}
    path = house.write(house.folder / "token", "a-fourth-secret\n")
    written = ["--token", "${env:A}", f"--file=${{file:{path}}}", "${D}", "$NOT_SET_AT"]
    server = {"command": "$HOME/bin/x", "args": written, "env": {"MODE": "x-${env:B}-y"}}
    house.options = {"mcpServers": {"s": {**server, "cwd": " ${C}/ "}}}
    server = house.config().mcp_servers["s"]
    assert server.cwd == "a-third-secret/"
    assert {secret.reveal() for secret in server.secrets} == {
        f"a-{which}-secret" for which in ("first", "second", "third", "fourth")
    }
    assert [original_text(each) for each in server.args] == written

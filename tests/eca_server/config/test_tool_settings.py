"""Settings of tools and of MCP servers."""

import pytest

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.config.mcp_settings import MCPServer, original_text
from eca_server.config.settings import Config
from eca_server.config.tool_settings import (
    Approval,
    ApprovalRule,
    CustomTool,
    IgnoreFile,
    NamedFile,
    SandboxSettings,
)

SHELL = "eca_shell_command"
EVERYTHING = """{
  "toolCall": {
    "approval": {
      "byDefault": "allow",
      "allow": {"eca": {}},
      "ask": {"github__create_issue": {}},
      "deny": {"eca_shell_command": {"argsMatchers": {"command": [".*rm.*"]}}}
    },
    "manualApproval": ["eca_move_file"],
    "readFile": {"maxLines": 9},
    "shellCommand": {"summaryMaxLength": 8},
    "outputTruncation": {"lines": 7, "sizeKb": 6}
  },
  "disabledTools": ["eca_grep"],
  "customTools": {"web-search": {
    "description": "Searches.",
    "command": "search '{{query}}' ${HOME}",
    "schema": {"properties": {"query": {"type": "string"}}, "required": ["query"]}
  }},
  "rules": [{"path": "RULES.md"}],
  "commands": [{"path": "~/commands/fix.md"}],
  "index": {"ignoreFiles": [{"type": "gitignore"}, {"type": "gitignore"}]},
  "lspTimeoutSeconds": 5
}"""


def test_everything_about_tools_is_read(house):
    house.in_user(EVERYTHING)
    config = house.config()
    calls = config.tool_call
    assert calls.approval == Approval(
        by_default="allow",
        allow={"eca": ApprovalRule()},
        ask={"github__create_issue": ApprovalRule()},
        deny={SHELL: ApprovalRule(args_matchers={"command": (".*rm.*",)})},
    )
    assert calls.manual_approval == ("eca_move_file",)
    assert (calls.read_file.max_lines, calls.shell_command.summary_max_length) == (9, 8)
    assert (calls.output_truncation.lines, calls.output_truncation.size_kb) == (7, 6)
    assert config.disabled_tools == ("eca_grep",)
    assert config.custom_tools["web-search"] == CustomTool(
        description="Searches.",
        command="search '{{query}}' ${HOME}",
        parameters={"properties": {"query": {"type": "string"}}, "required": ["query"]},
    )
    assert config.rules == (NamedFile(path="RULES.md"),)
    assert config.commands == (NamedFile(path="~/commands/fix.md"),)
    assert config.ignore_files == (IgnoreFile(type="gitignore"),) * 2
    assert config.lsp_timeout == 5


def test_the_defaults_of_tools_are_upstreams():
    config = Config()
    calls = config.tool_call
    assert (calls.approval, calls.manual_approval) == (Approval(), False)
    assert (calls.read_file.max_lines, calls.shell_command.summary_max_length) == (2_000, 25)
    assert (calls.output_truncation.lines, calls.output_truncation.size_kb) == (2_000, 50)
    assert config.ignore_files == (IgnoreFile(type="gitignore"),)
    assert config.lsp_timeout == 30


@pytest.mark.parametrize("value", ["auto", "off", {"mode": "auto"}, {"network": True}])
def test_a_folder_without_trust_does_not_change_the_sandbox(untrusted, value):
    """The sandbox removes questions, so even `require` and `auto` are no restriction."""
    untrusted.in_user({"toolCall": {"sandbox": {"mode": "require", "writable": ["/x"]}}})
    untrusted.in_root(0, {"toolCall": {"sandbox": value}})
    loaded = untrusted.load()
    assert loaded.withheld
    assert loaded.config.tool_call.sandbox == SandboxSettings(mode="require", writable=("/x",))
    untrusted.in_root(0, {"toolCall": {"sandbox": "auto"}})  # a mode alone changes only the mode
    sandbox = untrusted.accept().config.tool_call.sandbox
    assert sandbox == SandboxSettings(mode="auto", writable=("/x",))


@pytest.mark.parametrize("value", ["on", {"mode": "on"}, {"network": "yes"}, 1, ["auto"]])
def test_what_is_no_setting_of_the_sandbox_is_named(house, value):
    house.in_root(0, {"toolCall": {"sandbox": value}})
    assert (house.problem().key or "").startswith("toolCall.sandbox")
    assert house.load().config.tool_call.sandbox == SandboxSettings()


@pytest.mark.parametrize("key", ["disabledTools", "enabledTools"])
def test_a_selector_that_is_no_pattern_is_reported_and_is_still_a_name(house, key):
    selectors = ["eca__(write", ".*_file", "my.server__x"]
    for owner in ({key: selectors}, {"agent": {"a": {key: selectors}}}):
        house.in_user(owner)
        problem = house.problem()
        assert (problem.key or "").endswith(f"{key}[0]")
        assert problem.message.startswith("expected a regular expression, got: missing )")
    house.in_user({key: selectors})
    attribute = "disabled_tools" if key == "disabledTools" else "enabled_tools"
    assert getattr(house.load().config, attribute) == tuple(selectors)


def test_a_list_is_read_without_its_wrong_items(house):
    house.options = {"disabledTools": ["a", 3, None, "b"], "rules": [{"path": "x"}, "y"]}
    loaded = house.load()
    assert loaded.config.disabled_tools == ("a", "b")
    assert loaded.config.rules == (NamedFile(path="x"),)
    assert [problem.key for problem in loaded.problems] == ["disabledTools[1]", "rules[1]"]
    house.options = {"toolCall": {"approval": {"deny": {SHELL: 3}}}}
    house.in_user({"toolCall": {"approval": {"deny": {SHELL: {}}}}})  # whole again
    assert house.load().config.tool_call.approval.deny == {SHELL: ApprovalRule()}


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (True, ""),
        ({"argsMatcher": {"command": ["x"]}}, ".argsMatcher"),
        ({"argsMatchers": ["x"]}, ".argsMatchers"),
        ({"argsMatchers": {"command": "x"}}, ".argsMatchers.command"),
        ({"argsMatchers": {"command": [3]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["("]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["((a{99}){99}){99}"]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["a" * 1001]}}, ".argsMatchers.command[0]"),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_a_rule_that_cannot_be_read_whole_is_marked_and_named(house, rule, key, verdict):
    house.options = {"toolCall": {"approval": {verdict: {SHELL: rule, "eca_grep": {}}}}}
    loaded = house.load()
    rules = getattr(loaded.config.tool_call.approval, verdict)
    assert rules[SHELL].is_damaged
    assert rules["eca_grep"] == ApprovalRule()
    errors = [problem for problem in loaded.problems if problem.level == "error"]
    assert [problem.key for problem in errors] == [f"toolCall.approval.{verdict}.{SHELL}{key}"]


def test_a_selector_that_is_a_pattern_is_an_error(house):
    house.options = {"toolCall": {"approval": {"deny": {"github__.*": {}, "github": {}}}}}
    problem = house.problem()
    assert (problem.level, problem.key) == ("error", 'toolCall.approval.deny."github__.*"')
    house.options = {"hooks": {"h": {"type": "preToolCall", "matcher": {"*": {}}}}}
    assert house.problem().key == 'hooks.h.matcher."*"'


def test_ordinary_patterns_are_taken_and_hostile_ones_are_not():
    for pattern in (".*rm.*", r"\p{Alpha}+", "(?i)sudo .*", "a{1,1000}", "x{3,}"):
        assert compile_matcher(pattern).pattern == pattern
    for pattern in ("(", "[", "*", "a{1001}", "a{1,1001}", "(x{50,}){50}"):
        with pytest.raises(BadMatcher, match="expected"):
            compile_matcher(pattern)


SERVERS = """{
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
    house.in_user(SERVERS)
    config = house.config()
    git, web = config.mcp_servers["git"], config.mcp_servers["web"]
    assert (git.command, git.args, git.cwd) == ("uvx", ("mcp-server-git", "--verbose"), "sub")
    assert git.env == {"A": "1", "B": None}
    assert (git.start_timeout, git.call_timeout, git.tool_timeouts) == (5, 6, {"git_log": 7})
    assert (git.type, git.protocol, git.max_calls, git.disabled) == ("stdio", "legacy", 1, True)
    assert (web.url, web.headers, web.disabled) == ("https://mcp.example/mcp", {"X-A": "b"}, True)
    assert (web.client_id, web.client_name, web.oauth_port) == ("id", "name", 8080)
    assert web.client_metadata_url == "https://me.example/client.json"
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
        args=("--key=hidden-value-1", "serve-all", "--token", "hidden-value-4", "--verbosely"),
        headers={"Authorization": "Bearer hidden-value-2", "X-Debug": "1"},
        env={"API_TOKEN": "hidden-value-3", "MODE": "development", "SECRET_B": None},
        url="https://me:hidden-value-5@example.org/mcp?sig=hidden-value-6&features=everything",
    )
    hidden = {secret.reveal() for secret in server.secrets}
    numbered = {f"hidden-value-{number}" for number in range(1, 7)}
    assert hidden == {"Bearer hidden-value-2", *numbered}
    only_user = MCPServer(url="https://hidden-value-7@example.org/mcp")
    assert [secret.reveal() for secret in only_user.secrets] == ["hidden-value-7"]
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

"""`${cmd:...}`: run only for the user's own settings, with limits and a cache."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from eca_server.config import command_output
from eca_server.config.command_output import LARGEST, CommandOutputs
from eca_server.config.interpolation import UnresolvedReference
from eca_server.secret import Secret

if TYPE_CHECKING:
    from conftest import House


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, house: House) -> None:
    """Clear the cache, and let the commands find their programs."""
    monkeypatch.setattr(command_output, "_cache", {})
    house.home.mkdir(parents=True, exist_ok=True)
    house.environ["PATH"] = os.environ["PATH"]


def key_of(house: House, command: str) -> Any:
    house.in_user({"providers": {"p": {"url": "http://a", "key": f"${{cmd:{command}}}"}}})
    return house.load().config.providers["p"].key


def error_of(house: House, command: str) -> str:
    house.in_user({"providers": {"p": {"url": "http://a", "key": f"${{cmd:{command}}}"}}})
    problem = house.problem()
    assert problem.key == "providers.p.key"
    return problem.message


def is_alive(group: int) -> bool:
    """Return whether the group has a process left, even a zombie."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_output_of_a_command_is_put_in_and_is_a_secret(house):
    assert key_of(house, "printf 'planted-%s\\n' key") == Secret("planted-key")
    assert house.load().secrets == (Secret("planted-key"),)


def test_a_command_may_hold_braces_and_runs_at_home(house):
    assert key_of(house, "pwd | awk '{print $1}'") == Secret(str(house.home))
    assert key_of(house, "A=a; echo ${A}b") == Secret("ab")


def test_what_succeeded_is_not_run_again_for_five_minutes(house, monkeypatch):
    command = "echo x >> runs; wc -l < runs | tr -d ' '"
    assert key_of(house, command) == key_of(house, command) == Secret("1")
    now = time.monotonic() + command_output.CACHE_SECONDS
    monkeypatch.setattr(command_output.time, "monotonic", lambda: now)
    assert key_of(house, command) == Secret("2")


def test_a_failure_says_no_more_than_the_exit_code_and_is_tried_again(house):
    command = "echo secret-word; echo x >> runs; exit 3"
    assert error_of(house, command).endswith("failed with exit code 3")
    error_of(house, command)
    assert (house.home / "runs").read_text() == "x\nx\n"
    assert "secret-word\n" not in error_of(house, command)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(house):
    run = CommandOutputs(house.environ, house.home, may_run=True)
    run.timeout = 0.3
    with pytest.raises(UnresolvedReference, match=r"took longer than 0\.3 s"):
        run("echo $$ > pid; sleep 60 & sleep 60")
    group = int((house.home / "pid").read_text())
    deadline = time.monotonic() + 10
    while is_alive(group) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(group)


def test_an_output_that_is_too_long_or_no_text_is_refused(house):
    assert "printed more than" in error_of(house, f"head -c {LARGEST + 1} /dev/zero")
    assert "expected text" in error_of(house, "printf '\\377'")


def test_without_leave_no_command_is_run(house):
    house.in_user({"welcomeMessage": "${cmd:touch ran}"})
    loaded = house.load(runs_commands=False)
    assert loaded.awaits_commands
    assert not (house.home / "ran").exists()
    assert not house.load().awaits_commands
    assert (house.home / "ran").exists()


@pytest.mark.parametrize("reads_all", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        {"welcomeMessage": "${cmd:touch ran}"},
        {"mcpServers": {"s": {"command": "x", "env": {"K": "${cmd:touch ran}"}}}},
        {
            "hooks": {
                "h": {
                    "type": "preRequest",
                    "actions": [{"type": "shell", "file": "${cmd:touch ran}"}],
                }
            }
        },
        {"disabledTools": ["${cmd:touch ran}"]},
        {"rules": [{"path": "${cmd:touch ran}"}]},
        {"extraConfigs": ["${cmd:touch ran}"]},
        {"providers": {"${cmd:touch ran}": {"key": "${file:${cmd:touch ran}}"}}},
    ],
    ids=["text", "server", "hook", "list", "path", "extra", "name"],
)
def test_a_folder_runs_none_until_the_user_accepts_it(house, content, *, reads_all):
    house.accepts = False
    house.in_root(0, content)
    loaded = house.load(trusts_workspace=reads_all)
    lines = [line for item in loaded.withheld for line in item.lines]
    assert "${cmd:touch ran}" in " ".join(lines) or (not lines and "extraConfigs" in content)
    assert not (house.home / "ran").exists()


def test_an_accepted_setting_of_a_folder_runs_its_command(house):
    house.in_root(0, {"welcomeMessage": "${cmd:echo hello}"})
    assert house.load().config.welcome_message == "hello"


def test_the_home_is_where_nothing_of_the_folder_lies(house, tmp_path):
    assert key_of(house, "ls -a | grep -c config.json || true") == Secret("0")

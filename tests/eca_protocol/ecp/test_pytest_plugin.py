"""The pytest plugin, in a pytest of its own."""

import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.eca_protocol.ecp.agents import stepping

REPOSITORY = Path(__file__).resolve().parents[3]

TESTS = """
import pytest

def test_one(ecp_agent):
    assert "initialized" not in repr({ecp_agent})
    assert ecp_agent.initialized.name == "bad"
    assert ecp_agent.step("x").public_output == "ok"

@pytest.mark.ecp(target="no-such-agent")
def test_another(ecp_agent):
    raise AssertionError("expected a missing agent")
"""


@pytest.mark.long
def test_each_test_has_its_own_agent_and_a_missing_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_agent.py").write_text(TESTS, "utf-8")
    plugin = ["-p", "eca_protocol.ecp.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_agent.py"]
    target = ["--ecp-target", shlex.join(stepping("done(r)"))]
    done = subprocess.run(
        [*command, *plugin, *target],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed, 1 error" in done.stdout
    assert "no-such-agent" in done.stdout


def test_it_is_never_loaded_by_itself() -> None:
    loaded = [entry.value for entry in entry_points(group="pytest11")]
    assert not [value for value in loaded if value.startswith("eca_")]

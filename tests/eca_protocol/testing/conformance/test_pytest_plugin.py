"""The suite as tests, and its fixtures in tests of one's own."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eca_server import fork_server

REPOSITORY = Path(__file__).resolve().parents[4]
REFERENCE = "tests.eca_protocol.testing.conformance.reference"

OWN = """
import pytest
from eca_protocol.testing.script import reply

pytestmark = pytest.mark.anyio

@pytest.fixture
def anyio_backend():
    return "trio"

async def test_it_greets(eca_session):
    chat = eca_session.chat(reply("Hello!"))
    await chat.prompt("Hi")
    await chat.finished()
    assert chat.assistant_text == "Hello!"
"""


def run_pytest(
    folder: Path, *arguments: str, server: str | None = None, mutant: str | None = None
) -> str:
    """Return the output of a test run with the plugin; its server is the reference, or a mutant."""
    if server is None:
        change = () if mutant is None else ("--mutant", mutant)
        server = shlex.join([*fork_server.command(REFERENCE), *change])
    plugins = [
        "anyio.pytest_plugin",
        "eca_protocol.testing.conformance.pytest_plugin",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *(f"-p{plugin}" for plugin in plugins)]
    done = subprocess.run(
        [*command, "--eca-command", server, *arguments, str(folder)],
        cwd=REPOSITORY,
        env={
            **{name: value for name, value in os.environ.items() if name != "CI"},
            "PYTHONPATH": str(REPOSITORY),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


def test_a_case_is_a_test_and_its_error_is_reported_by_its_row(tmp_path):
    (tmp_path / "test_own.py").write_text(OWN)
    case = "turns.a_turn_has_its_parts_in_order"
    output = run_pytest(tmp_path, "--eca-cases", case, mutant="FinishesTwice")
    assert f"conformance::{case}" in output
    row = "W-22e (Rulings: chat): Each started turn ends with exactly one `finished`."
    assert output.count(row) == 2, "once for the case, once for the test, however often it happened"
    assert "got:      a second `finished` (2 times)" in output
    assert "Traceback" not in output
    assert "1 failed, 2 passed, 1 error" in output, "the error is what the watcher saw meanwhile"


@pytest.mark.long
def test_what_is_owed_when_all_is_over_fails_the_leave_taking(tmp_path):
    output = run_pytest(tmp_path, "-k", "is_one_request_more", mutant="W-20d: no usage")
    assert "leave_taking ____" in output
    assert "W-20d (Rulings: chat): " in output
    assert "1 failed, 1 passed" in output


@pytest.mark.long
def test_a_target_that_cannot_be_started_is_reported_without_a_traceback(tmp_path):
    output = run_pytest(tmp_path, "--eca-cases", "titles.*", server="/no/such/server")
    assert output.count("The target cannot be started: cannot start '/no/such/server'") == 3
    assert "pytest_plugin.py" not in output


@pytest.mark.long
def test_the_usage_error_of_a_different_plugin_is_shown_alone(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "import pytest\n@pytest.hookimpl(tryfirst=True)\n"
        "def pytest_configure():\n    raise pytest.UsageError('use it well')\n"
    )
    output = run_pytest(tmp_path)
    assert "ERROR: use it well" in output
    assert "Traceback" not in output


@pytest.mark.long
def test_what_is_known_fails_no_test(tmp_path):
    known = tmp_path / "known.txt"
    options = ["--eca-cases", "titles", "--eca-known-failures", str(known)]
    assert "--eca-known-failures: [Errno 2]" in run_pytest(tmp_path, *options)
    known.write_text("W-22e")
    output = run_pytest(tmp_path, *options, mutant="FinishesTwice")
    assert "4 passed" in output


@pytest.mark.long
def test_a_client_is_judged_case_by_case(tmp_path):
    client = Path(__file__).with_name("client") / "small_client.py"
    options = ["--eca-client", "--eca-cases", "*Headers*"]
    output = run_pytest(
        tmp_path, *options, server=f"{sys.executable} -I -S {client} {{{{server}}}} exact headers"
    )
    assert "BASE-5 (Header Part)" in output
    assert "1 failed, 1 passed" in output


@pytest.mark.long
def test_a_client_is_judged_in_the_draft_too(tmp_path):
    client = Path(__file__).with_name("client") / "small_client.py"
    options = ["--eca-client", "--eca-edition", "2025-06", "--eca-cases", "*InLowerCase"]
    command = f"{sys.executable} -I -S {client} {{{{server}}}}"
    assert "1 passed" in run_pytest(tmp_path, *options, server=command)


@pytest.mark.long
def test_what_needs_no_server_starts_none(tmp_path):
    (tmp_path / "test_own.py").write_text("def test_nothing():\n    assert True\n")
    output = run_pytest(tmp_path, "--eca-cases", "none", server="/no/such/server")
    assert "1 passed" in output


@pytest.mark.long
def test_a_whole_run_passes_but_for_what_cannot_be_judged(tmp_path):
    (tmp_path / "test_own.py").write_text(OWN)
    output = run_pytest(tmp_path, "--eca-cases", "[jt]u*.*", "--eca-edition", "2025-10")
    assert " failed" not in output
    assert " passed" in output

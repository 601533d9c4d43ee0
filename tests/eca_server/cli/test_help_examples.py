"""The examples in the help of each command, run in a shell."""

import os
import re
import sys
from pathlib import Path

import pytest

from eca_server.cli.completion import parsers
from tests.eca_server.fork_server import write_programs
from tests.eca_server.processes import run_to_end
from tests.eca_server.stranger import environment

EXAMPLES: dict[str, list[str]] = {}
"""The examples by command; those of a subcommand may need what the one before it made."""
for path, parser in parsers()["eca-server"].items():
    lines = re.findall(r"^ +\$ (.*)$", parser.format_help(), re.MULTILINE)
    assert lines, path
    EXAMPLES.setdefault(" ".join(path.split()[:1]), []).extend(lines)


def assert_succeeds(script: list[str], folder: Path) -> None:
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)
    write_programs(folder / "bin")
    python = Path(sys.executable).parent  # the examples start `python3`
    programs = os.pathsep.join((str(folder / "bin"), str(python), os.environ["PATH"]))
    environ = environment(folder) | {"PATH": programs}
    done = run_to_end(["bash", "-exc", "\n".join(script)], cwd=folder, env=environ, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.long if each == "ecp" else ()) for each in EXAMPLES],
)
def test_the_examples_of_a_command_succeed(tmp_path: Path, command: str) -> None:
    chatted = EXAMPLES["chat"][:1] if command == "read-chat" else []
    assert_succeeds([*chatted, *dict.fromkeys(EXAMPLES[command])], tmp_path)

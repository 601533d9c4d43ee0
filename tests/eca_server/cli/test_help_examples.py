"""The examples in the help of each command, run in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from eca_server.cli.completion import parsers
from tests.eca_server.stranger import environment


def examples() -> list[str]:
    """Return the examples of all commands, each of which has some."""
    commands = []
    for path, parser in parsers()["eca-server"].items():
        mine = re.findall(r"^ +\$ (.*)$", parser.format_help(), re.MULTILINE)
        assert mine, path
        commands += mine
    return list(dict.fromkeys(commands))


def test_every_example_of_the_help_succeeds(tmp_path: Path) -> None:
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-exc", "\n".join(examples())],
        cwd=tmp_path,
        env=environment(tmp_path) | {"PATH": programs},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

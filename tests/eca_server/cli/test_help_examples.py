"""The examples in the help of each command, run in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eca_server.cli import arguments
from eca_server.ecp import help_texts
from tests.eca_server.stranger import environment


def ecp_help() -> str:
    return "\n".join(page.more for page in (help_texts.MAIN, *help_texts.PAGES.values()))


def server_help() -> str:
    return "\n".join(text for text in vars(arguments).values() if isinstance(text, str))


@pytest.mark.parametrize(("text", "least"), [(ecp_help(), 14), (server_help(), 8)])
def test_every_example_of_the_help_succeeds(tmp_path: Path, text: str, least: int) -> None:
    examples = list(dict.fromkeys(re.findall(r"^ +\$ (.*)$", text, re.MULTILINE)))
    assert len(examples) >= least
    (tmp_path / ".config" / "fish" / "completions").mkdir(parents=True)
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-exc", "\n".join(examples)],
        cwd=tmp_path,
        env=environment(tmp_path) | {"PATH": programs},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

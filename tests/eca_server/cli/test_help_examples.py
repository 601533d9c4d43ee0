"""The examples in the help of each command, run in a shell."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from eca_server.cli import arguments
from eca_server.ecp import help_texts
from tests.eca_server.fork_server import write_programs
from tests.eca_server.stranger import environment


def examples(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"^ +\$ (.*)$", text, re.MULTILINE)))


ECP = examples("\n".join(page.more for page in (help_texts.MAIN, *help_texts.PAGES.values())))
SERVER = examples("\n".join(text for text in vars(arguments).values() if isinstance(text, str)))


def assert_succeeds(script: str, folder: Path) -> None:
    (folder / ".config" / "fish" / "completions").mkdir(parents=True)
    write_programs(folder / "bin")
    programs = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-exc", script],
        cwd=folder,
        env=environment(folder) | {"PATH": programs},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_both_commands_have_examples() -> None:
    assert len(ECP) >= 14
    assert len(SERVER) >= 8


@pytest.mark.parametrize("example", SERVER)
def test_an_example_of_the_help_succeeds(tmp_path: Path, example: str) -> None:
    assert_succeeds(example, tmp_path)


@pytest.mark.long
def test_the_examples_of_the_evaluator_succeed_one_after_another(tmp_path: Path) -> None:
    assert_succeeds("\n".join(ECP), tmp_path)

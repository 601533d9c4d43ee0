"""Types of the public names, as mypy and pyright see them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import node

FILE = Path(__file__).with_name("revealed_types.py")
REPOSITORY = FILE.parents[3]


def expected() -> dict[int, str]:
    lines = FILE.read_text("utf-8").splitlines()
    return {
        number: match[1]
        for number, line in enumerate(lines, 1)
        if (match := re.search(r"  # (.+)$", line)) is not None
    }


def compare(reported: dict[int, str]) -> None:
    """Compare each line's report, an error or a type, with the comment on the line."""
    assert reported.keys() == expected().keys()
    for number, text in expected().items():
        shown = re.sub(r"\b[\w]+\.(?=\w)", "", reported[number]).replace("typing.", "")
        assert shown.startswith(text.removesuffix("...]")), f"line {number}: {shown}"


def test_mypy_reveals_the_types(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path}", str(FILE)]
    done = subprocess.run(
        [*command, "--config-file=", "--hide-error-context", "--no-error-summary"],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    reported: dict[int, str] = {}
    for line in done.stdout.splitlines():
        match = re.match(r".*revealed_types\.py:(\d+): (error|note): (.*)", line)
        if match is not None and match[2] == "error":
            reported[int(match[1])] = "error"
        elif match is not None and (kind := re.match(r'Revealed type is "(.*)"', match[3])):
            reported[int(match[1])] = kind[1]
    compare(reported)


@pytest.mark.long
def test_pyright_reveals_the_types() -> None:
    spec = importlib.util.find_spec("pyright")
    if spec is None or spec.origin is None:
        pytest.skip("pyright is not installed")
    script = Path(spec.origin).parent / "dist" / "index.js"
    done = subprocess.run(
        [node(), str(script), "--outputjson", f"--pythonpath={sys.executable}", str(FILE)],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    reported: dict[int, str] = {}
    for each in json.loads(done.stdout)["generalDiagnostics"]:
        line = each["range"]["start"]["line"] + 1
        kind = re.match(r'Type of ".*" is "(.*)"', each["message"], re.DOTALL)
        reported[line] = kind[1] if each["severity"] == "information" and kind else "error"
    compare(reported)

"""Types of the public names, as pyright sees them; mypy checks the same file with the packages."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.node import node


@pytest.mark.long
def test_pyright_agrees_with_each_type_and_refuses_each_wrong_call() -> None:
    file = Path(__file__).with_name("typed_requests.py")
    spec = importlib.util.find_spec("pyright")
    if spec is None or spec.origin is None:
        pytest.skip("pyright is not installed")
    script = Path(spec.origin).parent / "dist" / "index.js"
    done = subprocess.run(
        [node(), str(script), "--outputjson", f"--pythonpath={sys.executable}", str(file)],
        cwd=file.parents[3], capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert json.loads(done.stdout)["generalDiagnostics"] == []

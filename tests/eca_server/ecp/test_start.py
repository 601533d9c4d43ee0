"""The modules that a command of `ecp` loads: only those that it needs, for a fast start."""

import json
import subprocess
import sys

import pytest

from tests.eca_server.ecp.test_run import REPOSITORY, manifest

LOADED = """
import json, sys
from eca_server.ecp.cli import run
try:
    code = run(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps([code, *sys.modules]))
"""

NEVER = {"httpx", "jinja2", "eca_server.config.loading", "eca_server.connection.server"}
CHECKED = NEVER | {"trio", "anyio", "ssl", "importlib.metadata", "regex"}
RAN = NEVER | {"regex", "multiprocessing", "eca_server.ecp.reports.html", "eca_server.models"}


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("command", "spared"),
    [
        (["--help"], CHECKED | {"attrs", "yaml", "importlib.resources"}),
        (["validate", "m.yaml"], CHECKED),
        (["run", "--manifest", "m.yaml"], RAN),
    ],
    ids=["--help", "validate", "run"],
)
def test_a_command_loads_no_more_than_it_needs(command, spared, tmp_path):
    manifest(tmp_path, "good")
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *command],
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, *loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert not spared & set(loaded)

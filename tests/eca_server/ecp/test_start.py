"""The modules that a command of `ecp` loads: only those that it needs, for a fast start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
MANIFEST = """
manifest_version: v1
name: n
target: {target}
scenarios:
- name: s
  steps: [{{input: x, graders: [{{type: text_match, condition: equals, value: x}}]}}]
"""
AGENT = r"""
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    results = {"agent/initialize": {"name": "n", "capabilities": {}},
               "agent/step": {"status": "done", "public_output": "x"}}
    answer = {"jsonrpc": "2.0", "id": request["id"], "result": results[request["method"]]}
    print(json.dumps(answer), flush=True)
"""
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
    (tmp_path / "agent.py").write_text(AGENT, "utf-8")
    target = f"{sys.executable} -S -E agent.py"
    (tmp_path / "m.yaml").write_text(MANIFEST.format(target=target), "utf-8")
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

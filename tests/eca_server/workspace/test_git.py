from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.eca_server.processes import assert_gone, children

LISTING = """
import sys
from pathlib import Path
from eca_server.workspace.git import list_paths
from eca_server.workspace.opening import Directory

top = Path(sys.argv[1])
start = Directory(text=str(top), fd=None)
for path in list_paths(start, "--others", top=top, checkpoint=lambda: None):
    print(path, flush=True)
"""


def test_git_ends_with_a_killed_server(tmp_path: Path) -> None:
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nprintf '%s\\0' $$\nexec sleep 60\n")
    program.chmod(0o755)
    command = [sys.executable, "-c", LISTING, str(tmp_path)]
    paths = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": paths}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        git = int(server.stdout.readline())
        assert git in children(server.pid)
        server.kill()
    assert_gone({git})

"""Whatever else writes to the standard output, the client reads frames (design decision 15).

`Stranger` fails at the first byte that is no frame, so these tests only have to make the noise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import REPOSITORY, text_of

NOISE = """
import os, subprocess, sys, threading, warnings

def noise():
    while True:
        print("printed")
        print("printed at once", flush=True)
        sys.__stdout__.write("written")
        os.write(1, b"written to descriptor 1\\n")
        warnings.warn("warned")
        subprocess.run(["sh", "-c", "echo said by a child; cat"], timeout=20)

print("printed before the first line of the server's")
import eca_server.connection.server
serve = eca_server.connection.server.serve
async def noisy_serve(*args, **options):
    threading.Thread(target=noise, daemon=True).start()
    return await serve(*args, **options)
eca_server.connection.server.serve = noisy_serve
from eca_server.cli.main import run
sys.exit(run(["server"]))
"""


def test_prints_warnings_and_children_never_reach_the_wire(start_server, tmp_path):
    (tmp_path / "noisy.py").write_text(NOISE)
    server = start_server(
        command=(sys.executable, "-P", "-W", "always", str(tmp_path / "noisy.py"))
    )
    server.introduced()
    server.prompt("repeat 2000 delta")
    assert text_of(server.expect_finished()) == "delta" * 2000
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0
    for said in ("printed", "printed at once", "written", "to descriptor 1", "warned", "a child"):
        assert said in server.errors
    assert "before the first line" in server.errors


def test_a_child_neither_reads_the_wire_nor_keeps_it_open(start_server, tmp_path):
    """A child that outlives the server holds none of its pipes: the client sees the end."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import subprocess, sys\n"
        "import eca_server.connection.server\n"
        "serve = eca_server.connection.server.serve\n"
        "async def with_child(*args, **options):\n"
        "    subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "    child = subprocess.Popen(['sh', '-c', 'cat; echo $$ read to the end >&2; sleep 60'])\n"
        "    try:\n"
        "        return await serve(*args, **options)\n"
        "    finally:\n"
        "        child.kill()\n"
        "eca_server.connection.server.serve = with_child\n"
        "from eca_server.cli.main import run\n"
        "sys.exit(run(['server']))\n"
    )
    server = start_server(command=(sys.executable, "-P", str(script)))
    server.initialize()
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0
    assert "read to the end" in server.errors


@pytest.mark.requirement("W-13g", "W-13k")
@pytest.mark.parametrize(
    ("closed", "said"), [("<&-", "standard input is closed"), (">&-", "standard output is closed")]
)
def test_a_stream_that_is_closed_from_the_start_is_reported(tmp_path, closed, said):
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *SERVE],
        input=b"" if "<" not in closed else None,
        capture_output=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        timeout=20,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_closed_stderr_is_no_error(start_server):
    server = start_server(command=("sh", "-c", 'exec "$@" --verbose 2>&-', "sh", *SERVE))
    server.introduced()
    server.prompt("crash")
    server.expect_finished()
    descriptors = Path(f"/proc/{server.pid}/fd")
    for name in ("0", "1"):
        assert (descriptors / name).readlink() == Path("/dev/null")
    assert os.path.lexists(descriptors / "2")  # the null device's, or a library's
    server.answer(server.ask("shutdown"))
    server.tell("exit")
    assert server.exit_code() == 0


def test_the_log_goes_to_stderr(start_server):
    server = start_server(command=(*SERVE, "--verbose"), may_log_tracebacks=True)
    server.introduced()
    server.prompt("crash")
    server.expect_finished()
    server.close_input()
    assert server.exit_code() == 0
    assert "INFO eca_server: ending" in server.errors
    assert "RuntimeError: the simulator crashed" in server.errors
    assert all("crashed" not in str(seen) for seen in server.seen)

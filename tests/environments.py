"""Environments with Python packages of others, for tests and benchmarks that meet them.

What cannot be installed beside our own packages, or in two versions, gets an environment of its
own: `pinned/NAME.txt` says what is in it, to the last package. It is made once, into a folder that
git ignores, and made again when that file changes.
"""

import fcntl
import functools
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "pinned"


@functools.cache
def programs(name: str) -> Path:
    """The folder with the `python` and the console scripts of an environment.

    Raises:
        RuntimeError: it could not be made; the text says what to look at.
    """
    requirements, environment = FOLDER / f"{name}.txt", FOLDER / name
    stamp = environment / "installed.txt"
    with requirements.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # tests run in several processes
        pins = file.read()
        if not (stamp.exists() and stamp.read_bytes() == pins):
            shutil.rmtree(environment, ignore_errors=True)
            _do("make", name, sys.executable, "-m", "venv", str(environment))
            pip = (str(environment / "bin" / "python"), "-m", "pip", "install", "--no-deps")
            _do("fill", name, *pip, "--disable-pip-version-check", "-r", str(requirements))
            stamp.write_bytes(pins)
    return environment / "bin"


def _do(what: str, name: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(
            f"could not {what} the environment {name} that this test compares with; its packages "
            f"come from the package index that pip is set up for: can it be reached?\n"
            f"{done.stderr[-2000:]}"
        )

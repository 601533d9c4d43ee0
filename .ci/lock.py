"""Renew `requirements-dev.lock`, the versions and hashes that the checks install.

    python .ci/lock.py             after a change of the requirements in pyproject.toml
    python .ci/lock.py --upgrade   and take the newest version of everything
    python .ci/lock.py --check     only say whether it is stale (needs no network)

One lock serves every system and Python version (uv's universal resolution). Its first lines have a
digest of the requirements that it was made from; a test compares it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-dev.lock"


def header() -> str:
    """Return the first lines that the lock has if it is fresh."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = pyproject["project"]
    names = ("requires-python", "dependencies", "optional-dependencies")
    requirements = {name: project[name] for name in names}
    digest = hashlib.sha256(json.dumps(requirements, sort_keys=True).encode()).hexdigest()
    return (
        "# The versions that the checks run with, for `pip install -r`. Renew: python .ci/lock.py\n"
        f"# The requirements of pyproject.toml: {digest}\n"
    )


def is_stale() -> bool:
    """Return whether the lock was made from other requirements."""
    return not LOCK.read_text("utf-8").startswith(header())


def renew(*, upgrade: bool) -> None:
    """Resolve again; versions that still fit remain, unless they are to be upgraded."""
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--extra", "dev"),
        *(
            "--python-version",
            "3.11",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
            "--no-strip-extras",
        ),
        *(["--upgrade"] if upgrade else []),
        *("--output-file", str(LOCK), "pyproject.toml"),
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    LOCK.write_text(header() + LOCK.read_text("utf-8"), "utf-8")


def main() -> int:
    """Do what the command line asks; return the exit code."""
    parser = argparse.ArgumentParser(description="Renew requirements-dev.lock.")
    parser.add_argument("--upgrade", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not arguments.check:
        renew(upgrade=arguments.upgrade)
    elif is_stale():
        print("requirements-dev.lock is stale: run python .ci/lock.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

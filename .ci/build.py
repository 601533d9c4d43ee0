"""Build what a release has, and check it: `python .ci/build.py DIRECTORY`.

The directory gets the source archive and the wheel of `eca-protocol` and the wheel of `eca-server`.
The wheel is built from the unpacked source archive, so the archive is known to be complete. Nothing
is fetched: the tools are those of the extra `dev`.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a Python module; its output is shown only if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


def build(out: Path) -> list[Path]:
    """Build the three files and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    hatchling = ("hatchling", "build", "-d", str(out))
    run(*hatchling, "-t", "sdist")
    (archive,) = out.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(archive) as tar:
            tar.extractall(scratch, filter="data")
        (source,) = Path(scratch).iterdir()
        run(*hatchling, "-t", "wheel", cwd=source)
    run(*hatchling, "-t", "wheel", cwd=ROOT / ".ci" / "packages" / "eca-server")
    return [archive, *sorted(out.glob("*.whl"))]


def check(files: list[Path]) -> None:
    """Check metadata and contents of the files that were built."""
    run("twine", "check", "--strict", *map(str, files))
    for wheel in files[1:]:
        package = ROOT if "protocol" in wheel.name else ROOT / ".ci" / "packages" / "eca-server"
        run("check_wheel_contents", "--config", str(package / "pyproject.toml"), str(wheel))


def main() -> int:
    """Build, check and list the files; return the exit code."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    files = build(Path(sys.argv[1]).resolve())
    check(files)
    for file in files:
        print(f"{file.stat().st_size:>9,} bytes  {file.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Build what a release has, and check it: `python .ci/build.py DIRECTORY`.

The directory gets the source archive and the wheel of `eca-protocol` and the wheel of `eca-server`.
The wheel is built from the unpacked source archive, so the archive is known to be complete. Nothing
is fetched: the tools are those of the extra `dev`.

Its folder `acp-registry` is the entry of `eca-server acp` for the registry of ACP agents.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import tomllib
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


def write_registry_entry(out: Path) -> Path:
    """Write the entry for the registry of ACP agents, with the version; return its directory."""
    source = ROOT / ".ci" / "packages" / "acp-registry" / "eca-server"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    entry = out / "acp-registry" / source.name
    entry.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        text = file.read_text("utf-8").replace("{version}", version)
        (entry / file.name).write_text(text, "utf-8")
    return entry


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
    write_registry_entry(Path(sys.argv[1]).resolve())
    for file in files:
        print(f"{file.stat().st_size:>9,} bytes  {file.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

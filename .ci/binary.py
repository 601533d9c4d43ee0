"""Build the single-file binary of this system: `python .ci/binary.py DIRECTORY`.

The directory gets an archive named as upstream's, such as `eca-native-static-linux-amd64.zip`, with
the one file `eca`, and its SHA-256. PyInstaller bundles this interpreter, the installed
`eca-protocol` and its dependencies (and `orjson`); nothing else of the environment. The file is not
static for all that: on Linux it needs the C library of the building machine, or a newer one.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENTRY = ROOT / ".ci" / "packages" / "eca" / "eca.py"
NAMES = {
    ("Linux", "x86_64"): "static-linux-amd64",
    ("Linux", "aarch64"): "linux-aarch64",
    ("Darwin", "x86_64"): "macos-amd64",
    ("Darwin", "arm64"): "macos-aarch64",
    ("Windows", "AMD64"): "windows-amd64",
}
EXTRAS = ("orjson",)


def archive_name(system: str, machine: str) -> str:
    """Return the name that upstream gives the archive of a system.

    Raises:
        KeyError: upstream has no binary for it.
    """
    return f"eca-native-{NAMES[system, machine]}.zip"


def normal_name(requirement: str) -> str:
    """Return the normal form of a requirement's name."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def dependencies(*names: str) -> set[str]:
    """Return these distributions and all that they require without extras."""
    required: set[str] = set()
    pending = list(names)
    while pending:
        name = normal_name(pending.pop())
        if name in required:
            continue
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # one of a different system
            continue
        required.add(name)
        pending += [each for each in requirements if "extra ==" not in each]
    return required


def unwanted_modules() -> list[str]:
    """Return the top-level modules of this environment that the binary does not need."""
    needed = dependencies("eca-protocol", *EXTRAS)
    modules = importlib.metadata.packages_distributions()
    return sorted(
        module
        for module, owners in modules.items()
        if module.isidentifier() and not needed & {normal_name(owner) for owner in owners}
    )


def build(scratch: Path) -> Path:
    """Build the binary and return its path."""
    collected = [
        option
        for package in ("eca_protocol", "eca_server")
        for option in ("--collect-submodules", package, "--collect-data", package)
    ]
    excluded = [option for name in unwanted_modules() for option in ("--exclude-module", name)]
    command = [
        *(sys.executable, "-m", "PyInstaller", "--onefile", "--noconfirm", "--log-level", "ERROR"),
        *("--name", "eca", "--copy-metadata", "eca-protocol", "--paths", str(ROOT)),
        *("--python-option", "X utf8"),
        *("--distpath", str(scratch / "dist"), "--workpath", str(scratch / "work")),
        *("--specpath", str(scratch), *collected, *excluded, str(ENTRY)),
    ]
    subprocess.run(command, check=True)
    (binary,) = (scratch / "dist").iterdir()
    return binary


def main() -> int:
    """Build, archive, and print the sizes; return the exit code."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    archive = out / archive_name(platform.system(), platform.machine())
    with tempfile.TemporaryDirectory() as scratch:
        binary = build(Path(scratch))
        size = binary.stat().st_size
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            zipped.write(binary, binary.name)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    archive.with_name(f"{archive.name}.sha256").write_text(f"{digest}\n", "utf-8")
    print(f"{size:>10,} bytes  {binary.name}\n{archive.stat().st_size:>10,} bytes  {archive.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

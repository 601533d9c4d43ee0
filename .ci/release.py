"""Cut a release: the version in `pyproject.toml`, its section in `CHANGELOG.md`.

python .ci/release.py cut 0.2.0      write both; then commit, and tag with v0.2.0
python .ci/release.py check v0.2.0   compare a tag with both
python .ci/release.py notes 0.2.0    print the section of a version
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
HEADING = re.compile(r"^## \[([^]]+)\].*$", re.MULTILINE)
PHASES = {"a": 0, "b": 1, "rc": 2, None: 3}


class ReleaseError(Exception):
    """A release that cannot be cut; the text says why."""


def order(version: str) -> tuple[int, int, int, int, int]:
    """Return a key that orders versions such as 1.2.3 and 1.3.0rc1.

    Raises:
        ReleaseError: the text is no such version.
    """
    match = VERSION.fullmatch(version)
    if match is None:
        raise ReleaseError(f"expected a version such as 1.2.3 or 1.3.0rc1, got {version!r}")
    major, minor, patch, phase, number = match.groups()
    return int(major), int(minor), int(patch), PHASES[phase], int(number or 0)


def current_version(root: Path) -> str:
    """Return the version in `pyproject.toml`."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def notes(changelog: str, version: str) -> str:
    """Return the text of a version's section, without its heading.

    Raises:
        ReleaseError: there is no such section.
    """
    headings = list(HEADING.finditer(changelog))
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            return changelog[heading.end() : following and following.start()].strip()
    raise ReleaseError(f"CHANGELOG.md has no section [{version}]")


def cut(root: Path, version: str, date: dt.date) -> None:
    """Write the version, and turn the section [Unreleased] into the version's.

    Raises:
        ReleaseError: the version is not above the current one, unless that one has no section yet;
            or the section is empty.
    """
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    current = current_version(root)
    sections = HEADING.findall(changelog)
    if order(version) < order(current) or version in sections:
        raise ReleaseError(f"expected a version above {current}, got {version}")
    if not notes(changelog, "Unreleased"):
        raise ReleaseError("CHANGELOG.md: the section [Unreleased] is empty")
    heading = f"## [Unreleased]\n\n## [{version}] - {date.isoformat()}"
    project = (root / "pyproject.toml").read_text("utf-8")
    written = project.replace(f'\nversion = "{current}"\n', f'\nversion = "{version}"\n', 1)
    (root / "pyproject.toml").write_text(written, "utf-8")
    (root / "CHANGELOG.md").write_text(changelog.replace("## [Unreleased]", heading, 1), "utf-8")


def check(root: Path, tag: str) -> None:
    """Compare a tag with the version and the newest section.

    Raises:
        ReleaseError: they differ, or the section is empty.
    """
    version = current_version(root)
    if tag != f"v{version}":
        raise ReleaseError(f"expected the tag v{version}, got {tag}")
    if not notes((root / "CHANGELOG.md").read_text("utf-8"), version):
        raise ReleaseError(f"CHANGELOG.md: the section [{version}] is empty")


def main() -> int:
    """Do what the command line asks; return the exit code."""
    parser = argparse.ArgumentParser(description="Cut a release.")
    parser.add_argument("action", choices=["cut", "check", "notes"])
    parser.add_argument("version", help="a version; for `check`, a tag")
    arguments = parser.parse_args()
    try:
        if arguments.action == "cut":
            cut(ROOT, arguments.version, dt.datetime.now(dt.UTC).date())
        elif arguments.action == "check":
            check(ROOT, arguments.version)
        else:
            print(notes((ROOT / "CHANGELOG.md").read_text("utf-8"), arguments.version))
    except ReleaseError as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Builds the documentation site.

    python docs/build.py [--out FOLDER]

It ends with 1 at any warning: a link that leads nowhere, a docstring that cannot be read, a
page that would load something from elsewhere.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx.cmd.build import build_main

DOCS = Path(__file__).resolve().parent

_LOADED = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=["'](?:https?:)?//[^"']*"""
)


def main() -> int:
    """Run Sphinx over this folder; the exit code."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=DOCS / "site", help="default: docs/site")
    out = parser.parse_args().out
    with TemporaryDirectory() as scratch:
        code = build_main(["-q", "-W", "--keep-going", "-d", scratch, str(DOCS), str(out)])
    for page, what in _loaded_from_elsewhere(out):
        sys.stderr.write(f"{page}: expected no network, got {what}\n")
        code = 1
    if code == 0:
        sys.stdout.write(f"{out / 'index.html'}\n")
    return code


def _loaded_from_elsewhere(site: Path) -> Iterator[tuple[Path, str]]:
    for page in sorted(site.rglob("*.html")):
        for match in _LOADED.finditer(page.read_text("utf-8")):
            yield page, match[0]


if __name__ == "__main__":
    sys.exit(main())

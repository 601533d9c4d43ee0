"""The browser that is opened for a login."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eca_server.system.browser import open_page

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have programs of their own"
)
URL = "https://login.example/page?a=b&c=$(d)"


def opener(folder: Path, name: str) -> Path:
    """Install a program that replaces the browser and records its arguments."""
    folder.mkdir()
    notes = folder / "notes"
    program = folder / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf "{name} %s\\n" "$@" >> "{notes}"\n')
    program.chmod(0o755)
    return notes


async def test_a_page_is_opened_by_the_desktop_s_program(tmp_path):
    notes = opener(tmp_path / "bin", "bin")
    await open_page(URL, {"PATH": str(tmp_path / "bin"), "DISPLAY": ":7"})
    assert notes.read_text() == f"bin {URL}\n"


async def test_no_program_of_the_current_folder_is_run(tmp_path, monkeypatch):
    notes = opener(tmp_path / "bin", "bin")
    planted = opener(tmp_path / "planted", "planted")
    monkeypatch.chdir(planted.parent)
    await open_page(URL, {"PATH": f".::{tmp_path / 'bin'}", "BROWSER": "any"})
    assert notes.read_text() == f"bin {URL}\n"
    assert not planted.exists()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "--help"])
async def test_only_pages_of_the_web_are_opened(tmp_path, url):
    notes = opener(tmp_path / "bin", "bin")
    await open_page(url, {"PATH": str(tmp_path / "bin"), "DISPLAY": ":7"})
    assert not notes.exists()


async def test_without_a_screen_or_a_program_nothing_is_opened(tmp_path):
    notes = opener(tmp_path / "bin", "bin")
    await open_page(URL, {"PATH": str(tmp_path / "bin")})
    await open_page(URL, {"PATH": str(tmp_path), "DISPLAY": ":7"})
    assert not notes.exists()
    notes.with_name("xdg-open").write_bytes(b"no program")
    await open_page(URL, {"PATH": str(tmp_path / "bin"), "DISPLAY": ":7"})

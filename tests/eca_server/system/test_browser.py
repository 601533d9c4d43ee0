"""The browser that is opened for a login."""

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


async def test_no_program_of_the_current_folder_is_run(tmp_path, monkeypatch):
    notes = opener(tmp_path / "bin", "bin")
    planted = opener(tmp_path / "planted", "planted")
    monkeypatch.chdir(planted.parent)
    await open_page(URL, {"PATH": f".::{tmp_path / 'bin'}", "BROWSER": "any"})
    assert notes.read_text() == f"bin {URL}\n"
    assert not planted.exists()


async def test_only_pages_of_the_web_are_opened_where_there_is_a_screen_and_a_program(tmp_path):
    notes = opener(tmp_path / "bin", "bin")
    path = {"PATH": str(tmp_path / "bin")}
    for url in ("file:///etc/passwd", "javascript:alert(1)", "--help"):
        await open_page(url, {**path, "DISPLAY": ":7"})
    await open_page(URL, path)
    await open_page(URL, {"PATH": str(tmp_path), "DISPLAY": ":7"})
    assert not notes.exists()
    await open_page(URL, {**path, "DISPLAY": ":7"})
    assert notes.read_text() == f"bin {URL}\n"
    notes.with_name("xdg-open").write_bytes(b"no program")
    await open_page(URL, {**path, "DISPLAY": ":7"})

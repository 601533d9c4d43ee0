"""The server in the process of its client."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import trio

from eca_protocol import connect
from eca_server.connection.features.host import Options
from eca_server.connection.server import Server


def open_files(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open."""
    targets = (each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return [target.name for target in targets if target.is_relative_to(folder)]


@pytest.mark.skipif(sys.platform != "linux", reason="the open files are read from /proc")
async def test_a_cancelled_server_has_its_store_closed(tmp_path: Path) -> None:
    options = Options(environ={"HOME": str(tmp_path), "PATH": os.defpath}, keeps_chats=True)
    with trio.CancelScope() as scope:
        async with connect(server=Server(options)) as client:
            assert await client.chat().prompt("Hi.", model="simulator/echo").text() == "Hi."
            assert "chats.sqlite" in open_files(tmp_path)
            scope.cancel()
            await trio.lowlevel.checkpoint()
    assert open_files(tmp_path) == []

"""The end of a connection on platforms with fewer features."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.eca_server.agent.chat.editor import editor


@pytest.mark.requirement("W-14a")
async def test_a_client_s_process_is_watched_without_a_descriptor_for_it(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr("eca_protocol.process.WATCH_SECONDS", 0.01)
    with subprocess.Popen(["sleep", "60"]) as client:
        try:
            async with editor(started=False) as ours:
                await ours.start(processId=client.pid)
                client.kill()
                client.wait()
                with pytest.raises(AssertionError, match="the server has closed the connection"):
                    await ours.until(lambda _: False)
        finally:
            client.kill()

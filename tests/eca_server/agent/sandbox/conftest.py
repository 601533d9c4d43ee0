"""A home and a workspace outside `/tmp`, which a sandbox replaces by a private one."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eca_server.agent.sandbox.driver import World


@pytest.fixture
def world() -> Iterator[World]:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    caches.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="eca-sandbox-", dir=caches)).resolve()
    try:
        yield World(place)
    finally:
        shutil.rmtree(place)

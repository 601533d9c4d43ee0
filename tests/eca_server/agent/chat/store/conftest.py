"""A busy machine is no dead disk: the tests here wait long, but where they are about waiting."""

from __future__ import annotations

import pytest

from tests.eca_server.agent.chat.store.keeping import PATIENCE


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in PATIENCE.items():
        monkeypatch.setattr(f"eca_server.agent.chat.store.worker.{name}", seconds)

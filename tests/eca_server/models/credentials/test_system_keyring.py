"""Logins in the system's keyring: the content of the file, and errors of keyrings."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest

from eca_server.models.credentials import system_keyring
from eca_server.models.credentials.logins import Logins, LoginsError
from eca_server.secret import Secret
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring

KEY = "planted-0123456789-key"


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    return keyring


def logins(tmp_path: Path) -> Logins:
    return Logins({"XDG_DATA_HOME": str(tmp_path)}, in_keyring=lambda: True)


def test_the_file_shows_only_that_there_is_a_login(fake, tmp_path):
    ours = logins(tmp_path)
    ours.store("openai", Secret(KEY))
    assert ours.read().keys == {"openai": Secret(KEY)}
    assert KEY not in ours.path.read_text()
    assert KEY in json.dumps(list(fake.stored.values()))
    later = logins(tmp_path)
    assert later.is_locked
    assert [*later.names()] == ["openai"]
    assert later.read().keys == {}, "the event loop does not wait for a keyring"
    later.unlock()
    assert not later.is_locked
    assert later.read().keys == {"openai": Secret(KEY)}
    assert later.remove("openai")
    assert fake.stored == {}
    assert not logins(tmp_path).is_locked


def test_a_login_that_the_user_took_away_is_none(fake, tmp_path):
    logins(tmp_path).store("openai", Secret(KEY))
    fake.stored.clear()
    later = logins(tmp_path)
    later.unlock()
    assert later.read().keys == {}
    assert later.remove("openai")


def test_a_keyring_that_fails_is_reported_and_nothing_is_stored(fake, tmp_path):
    def refuse(*_: str) -> None:
        raise RuntimeError("it is locked")

    fake.set_password = refuse
    ours = logins(tmp_path)
    with pytest.raises(LoginsError, match="the system's keyring: it is locked"):
        ours.store("openai", Secret(KEY))
    assert not ours.path.exists()


def test_a_keyring_that_hangs_is_not_waited_for(fake, tmp_path, monkeypatch):
    logins(tmp_path).store("openai", Secret(KEY))
    go_on = threading.Event()
    monkeypatch.setattr(system_keyring, "SECONDS", 0.05)
    fake.get_password = lambda *_: go_on.wait(20) and None
    with pytest.raises(LoginsError, match="did not answer"):
        logins(tmp_path).unlock()
    go_on.set()


def test_a_missing_package_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(LoginsError, match=r"eca-protocol\[keyring\]"):
        logins(tmp_path).store("openai", Secret(KEY))

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest

from eca_server.models.credentials.logins import Logins, LoginsError, StoredKeys
from eca_server.models.credentials.oauth import Client, TokenSet
from eca_server.secret import Secret

KEY = "planted-0123456789-key"


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins({"XDG_DATA_HOME": str(tmp_path / "data")})


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_stored_key_is_read_back_and_removed(logins):
    assert logins.read().keys == {}
    logins.store("openai", Secret(KEY))
    logins.store("groq", Secret("another"))
    logins.store("groq", Secret("a later one"))
    assert logins.read().keys == {"openai": Secret(KEY), "groq": Secret("a later one")}
    assert logins.remove("groq")
    assert not logins.remove("groq")
    assert logins.read().keys == {"openai": Secret(KEY)}


def test_only_the_user_can_read_it(logins):
    before = os.umask(0)
    try:
        logins.store("openai", Secret(KEY))
    finally:
        os.umask(before)
    assert mode_of(logins.path) == 0o600
    assert mode_of(logins.path.parent) == 0o700
    logins.path.chmod(0o644)
    logins.read()
    assert mode_of(logins.path) == 0o600


@pytest.mark.parametrize(
    "damaged", ["{", "[]", "{}", '{"version": 1, "providers": []}', "[" * 9999]
)
def test_a_damaged_file_is_reported_and_set_aside(logins, damaged):
    logins.path.parent.mkdir(parents=True)
    logins.path.write_text(damaged)
    stored = logins.read()
    assert stored.keys == {}
    assert stored.problem is not None
    assert stored.problem.source == str(logins.path)
    with pytest.raises(LoginsError, match="expected"):
        logins.remove("openai")
    assert logins.path.read_text() == damaged
    aside = logins.store("openai", Secret(KEY))
    assert aside is not None
    assert aside.read_text() == damaged
    assert logins.read().keys == {"openai": Secret(KEY)}
    assert logins.store("openai", Secret(KEY)) is None


def test_the_file_of_another_version_stays_as_it_is(logins):
    logins.path.parent.mkdir(parents=True)
    later = '{"version": 2, "providers": {}}'
    logins.path.write_text(later)
    with pytest.raises(LoginsError, match="different version"):
        logins.store("openai", Secret(KEY))
    assert logins.path.read_text() == later


def test_a_token_set_is_read_back_as_it_was(logins):
    tokens = TokenSet(
        access=Secret(KEY),
        refresh=Secret("refreshing"),
        expires_at=2_000_000.5,
        obtained_at=1_000_000.0,
        client=Client(id="ours", token_url="https://login.example/token"),
    )
    lasting = attrs.evolve(tokens, refresh=None, expires_at=None)
    logins.store("one", tokens)
    logins.store("two", lasting)
    stored = logins.read()
    assert stored.tokens == {"one": tokens, "two": lasting}
    assert stored.keys == {"one": Secret(KEY), "two": Secret(KEY)}
    logins.store("one", Secret("a key"))
    assert logins.read().tokens == {"two": lasting}


@pytest.mark.parametrize(
    "entry",
    [
        *(7, [], {}, {"key": 7}, {"key": ""}, {"key": "a\nb"}, {"access": KEY}),
        {"access": KEY, "refresh": 7, "expiresAt": None, "obtainedAt": 1, "clientId": "x"},
        {"access": KEY, "refresh": None, "expiresAt": 10**400},
    ],
)
def test_an_entry_that_is_no_login_is_passed_over(logins, entry):
    logins.store("good", Secret(KEY))
    content = json.loads(logins.path.read_text())
    content["providers"]["odd"] = entry
    logins.path.write_text(json.dumps(content))
    assert logins.read() == StoredKeys(keys={"good": Secret(KEY)})


def test_what_it_does_not_know_is_left_alone(logins):
    logins.path.parent.mkdir(parents=True)
    later = {"version": 1, "more": [1], "providers": {"x": {"token": "t"}, "y": {"key": "a\nb"}}}
    logins.path.write_text(json.dumps(later))
    assert logins.read().keys == {}
    logins.store("openai", Secret(KEY))
    later["providers"]["openai"] = {"key": KEY}  # type: ignore[index]  # a dict, two lines above
    assert json.loads(logins.path.read_text()) == later


def test_a_login_that_cannot_be_written_changes_nothing_and_shows_no_key(tmp_path):
    (tmp_path / "data").write_text("no folder")
    logins = Logins({"XDG_DATA_HOME": str(tmp_path / "data")})
    with pytest.raises(LoginsError) as raised:
        logins.store("openai", Secret(KEY))
    assert KEY not in str(raised.value)
    assert (tmp_path / "data").read_text() == "no folder"


def test_a_key_that_a_killed_server_was_writing_is_gone_after_the_next_change(logins):
    logins.store("openai", Secret("a good one"))
    code = (
        "import os, signal\n"
        "from eca_server.models.credentials.logins import Logins, Secret\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGTERM)\n"
        f"logins = Logins({{'XDG_DATA_HOME': {str(logins.path.parents[1])!r}}})\n"
        f"logins.store('x', Secret({KEY!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode
    files = logins.path.parent.iterdir
    assert [file for file in files() if KEY in file.read_text()]
    assert not logins.remove("x")
    assert [file for file in files() if KEY in file.read_text()] == []


def test_a_failed_write_leaves_the_file_as_it_was(logins, monkeypatch):
    logins.store("openai", Secret("before"))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LoginsError, match="No space left"):
        logins.store("openai", Secret(KEY))
    assert logins.read().keys == {"openai": Secret("before")}
    assert sorted(path.name for path in logins.path.parent.iterdir()) == [
        ".gitignore",
        "logins.json",
        "logins.json.lock",
    ]


def test_two_servers_do_not_lose_each_others_logins(logins):
    def store(first: int) -> None:
        for number in range(first, first + 10):
            logins.store(f"p{number}", Secret(KEY))

    threads = [threading.Thread(target=store, args=(10 * each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(logins.read().keys) == 40

"""Stored logins: the file, its errors, and the system's keyring."""

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest

from eca_server.models.credentials import system_keyring
from eca_server.models.credentials.logins import Logins, LoginsError, StoredKeys
from eca_server.secret import Secret
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring
from tests.eca_server.models.credentials.login_server import tokens_of

KEY = "planted-0123456789-key"
OURS = {"openai": Secret(KEY)}


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins({"XDG_DATA_HOME": str(tmp_path / "data")})


def write(logins: Logins, content: object) -> None:
    logins.path.parent.mkdir(parents=True, exist_ok=True)
    logins.path.write_text(content if isinstance(content, str) else json.dumps(content))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_stored_key_is_read_back_and_removed(logins):
    assert logins.read().keys == {}
    logins.store("openai", Secret(KEY))
    logins.store("groq", Secret("another"))
    logins.store("groq", Secret("a later one"))
    assert logins.read().keys == {**OURS, "groq": Secret("a later one")}
    assert logins.remove("groq")
    assert not logins.remove("groq")
    assert logins.read().keys == OURS


def test_only_the_user_can_read_it(logins):
    before = os.umask(0)
    try:
        logins.store("openai", Secret(KEY))
    finally:
        os.umask(before)
    assert (mode_of(logins.path), mode_of(logins.path.parent)) == (0o600, 0o700)
    logins.path.chmod(0o644)
    logins.read()
    assert mode_of(logins.path) == 0o600


@pytest.mark.parametrize(
    "damaged", [b"{", b"[]", b"{}", b'{"version": 1, "providers": []}', b"[" * 9999, b"\xff"]
)
def test_a_damaged_file_is_reported_and_set_aside(logins, damaged):
    write(logins, {})
    logins.path.write_bytes(damaged)
    stored = logins.read()
    assert stored.keys == {}
    assert stored.problem.source == str(logins.path)
    with pytest.raises(LoginsError, match="expected"):
        logins.remove("openai")
    assert logins.path.read_bytes() == damaged
    aside = logins.store("openai", Secret(KEY))
    assert aside.read_bytes() == damaged
    assert logins.read().keys == OURS
    assert logins.store("openai", Secret(KEY)) is None


def test_the_file_of_another_version_stays_as_it_is(logins):
    later = '{"version": 2, "providers": {}}'
    write(logins, later)
    with pytest.raises(LoginsError, match="different version"):
        logins.store("openai", Secret(KEY))
    assert logins.path.read_text() == later


def test_a_token_set_is_read_back_as_it_was(logins):
    tokens = tokens_of(access=Secret(KEY), expires_at=2_000_000.5, obtained_at=1_000_000.0)
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
def test_an_entry_that_is_no_login_is_passed_over_and_left_alone(logins, entry):
    content = {"version": 1, "more": [1], "providers": {"odd": entry}}
    write(logins, content)
    assert logins.read() == StoredKeys()
    logins.store("openai", Secret(KEY))
    assert logins.read() == StoredKeys(keys=OURS)
    providers = {"odd": entry, "openai": {"key": KEY}}
    assert json.loads(logins.path.read_text()) == {**content, "providers": providers}


def test_a_login_that_cannot_be_written_changes_nothing_and_shows_no_key(logins, tmp_path):
    (tmp_path / "data").write_text("no folder")
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
    names = {path.name for path in logins.path.parent.iterdir()}
    assert names == {".gitignore", "logins.json", "logins.json.lock"}


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_link_to_the_file_stays_and_the_file_it_leads_to_is_replaced(
    logins, tmp_path, is_relative
):
    dotfiles = tmp_path / "dotfiles"
    dotfiles.mkdir()
    logins.path.parent.mkdir(parents=True)
    target = dotfiles / "eca-logins.json"
    logins.path.symlink_to("../../dotfiles/eca-logins.json" if is_relative else target)
    logins.store("openai", Secret(KEY))  # the link leads to no file yet
    target.chmod(0o644)
    inode = target.stat().st_ino
    logins.store("groq", Secret("another"))
    assert logins.path.is_symlink()
    assert (mode_of(target), target.stat().st_ino != inode) == (0o600, True)
    assert Logins({"XDG_DATA_HOME": str(tmp_path / "data")}).read().keys.keys() == {
        "openai",
        "groq",
    }
    target.write_text("{")
    aside = logins.store("openai", Secret(KEY))
    assert (aside.parent, aside.read_text(), logins.path.is_symlink()) == (dotfiles, "{", True)
    assert {each.name for each in dotfiles.iterdir()} == {target.name, aside.name}
    shutil.rmtree(dotfiles)
    with pytest.raises(LoginsError, match=r"the link leads to .*eca-logins.json, which cannot be"):
        logins.store("openai", Secret(KEY))


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


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    return keyring


def in_keyring(tmp_path: Path) -> Logins:
    return Logins({"XDG_DATA_HOME": str(tmp_path)}, in_keyring=lambda: True)


def test_with_a_keyring_the_file_shows_only_that_there_is_a_login(fake, tmp_path):
    ours = in_keyring(tmp_path)
    ours.store("openai", Secret(KEY))
    assert ours.read().keys == OURS
    assert KEY not in ours.path.read_text()
    assert KEY in json.dumps(list(fake.stored.values()))
    later = in_keyring(tmp_path)
    assert later.is_locked
    assert [*later.names()] == ["openai"]
    assert later.read().keys == {}, "the event loop does not wait for a keyring"
    later.unlock()
    assert not later.is_locked
    assert later.read().keys == OURS
    assert later.remove("openai")
    assert fake.stored == {}
    assert not in_keyring(tmp_path).is_locked


def test_a_login_that_the_user_took_from_the_keyring_is_none(fake, tmp_path):
    in_keyring(tmp_path).store("openai", Secret(KEY))
    fake.stored.clear()
    later = in_keyring(tmp_path)
    later.unlock()
    assert later.read().keys == {}
    assert later.remove("openai")


def test_a_keyring_that_fails_hangs_or_is_missing_is_reported(fake, tmp_path, monkeypatch):
    def refuse(*_: str) -> None:
        raise RuntimeError("it is locked")

    def quote(service: str, name: str, text: str) -> None:
        raise RuntimeError(f"cannot store {json.loads(text)}")

    def leave(*_: str) -> None:
        raise SystemExit

    def needs_a_module(*_: str) -> None:
        raise ModuleNotFoundError("No module named 'dbus'", name="dbus")

    ours = in_keyring(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(fake, "set_password", refuse, raising=False)
        with pytest.raises(LoginsError, match="the system's keyring: it is locked"):
            ours.store("openai", Secret(KEY))
    assert not ours.path.exists()
    with monkeypatch.context() as patch:
        patch.setattr(fake, "set_password", quote, raising=False)
        with pytest.raises(LoginsError, match=r"cannot store \{'key': '\*\*\*'\}"):
            ours.store("openai", Secret(KEY))
    ours.store("openai", Secret(KEY))
    with monkeypatch.context() as patch:
        patch.setattr(fake, "get_password", leave, raising=False)
        with pytest.raises(LoginsError, match="the system's keyring: SystemExit"):
            in_keyring(tmp_path).unlock()
    for answer in (lambda *_: "[" * 100_000, needs_a_module):
        with monkeypatch.context() as patch:
            patch.setattr(fake, "get_password", answer, raising=False)
            with pytest.raises(LoginsError, match=r"recursion|No module named"):
                in_keyring(tmp_path).unlock()
    go_on = threading.Event()
    fake.get_password = lambda *_: go_on.wait(20) and None
    with monkeypatch.context() as patch:
        patch.setattr(system_keyring, "SECONDS", 0.05)
        with pytest.raises(LoginsError, match="did not answer"):
            in_keyring(tmp_path).unlock()
    go_on.set()
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(LoginsError, match=r"eca-protocol\[keyring\]"):
        ours.store("openai", Secret(KEY))

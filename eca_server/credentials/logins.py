"""What `/login` was given or has got, keys and tokens, in a file of its own.

The rules it keeps: nobody but the user can read the file; it is replaced as a whole and by one
server at a time, so that none loses what another stored; one that is damaged is told, and kept
aside when a new one takes its place; nothing that is said of it shows a key.

Everything here touches the disk: call it in a worker thread, but for the first `read`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config import Problem, data_directory, make_data_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.lock import Locked, lock_in_thread
from eca_server.config.private_file import make_private, replace_file
from eca_server.credentials import system_keyring
from eca_server.credentials.oauth import Authentication, Client, TokenSet
from eca_server.secret import Secret, parse_key

__all__ = ["Logins", "LoginsFault", "StoredKeys"]

_LOCK_SECONDS = 2.0
_IN_KEYRING: Final = {"in": "keyring"}
"""What the file has of a login that is in the system's keyring."""


class LoginsFault(ECAError):
    """The file of logins cannot be read or written, and why."""


class _Damaged(LoginsFault):
    """The file holds no logins, of whatever version."""


@attrs.frozen(kw_only=True)
class StoredKeys:
    """What `read` found.

    Attributes:
        keys: by provider; of a token set what requests carry now.
        tokens: the token sets among them.
        problem: why there may be more that cannot be read.
    """

    keys: Mapping[str, Secret] = attrs.field(factory=dict)
    tokens: Mapping[str, TokenSet] = attrs.field(factory=dict)
    problem: Problem | None = None


class Logins:
    """The user's stored logins.

    Args:
        environ: tells where the file is.
        in_keyring: whether new ones are kept in the system's keyring; the file then only tells
            that there is one.

    Attributes:
        path: the file; it need not exist.
    """

    def __init__(
        self, environ: Mapping[str, str], *, in_keyring: Callable[[], bool] = lambda: False
    ) -> None:
        self.path = data_directory(environ) / "logins.json"
        self._in_keyring = in_keyring
        self._unlocked: dict[str, dict[str, Any]] = {}

    @property
    def is_locked(self) -> bool:
        """Whether there is something in the keyring that was not read yet; touches the disk."""
        with suppress(LoginsFault):
            return any(name not in self._unlocked for name in self._kept_in_keyring())
        return False

    def unlock(self) -> None:
        """Read what is in the keyring, which may ask the user first; never on the event loop.

        Raises:
            LoginsFault: it cannot be read.
        """
        try:
            for name in self._kept_in_keyring():
                found = json.loads(system_keyring.get(name) or "{}")
                self._unlocked[name] = found if isinstance(found, dict) else {}
        except (system_keyring.KeyringFault, ValueError) as fault:
            raise LoginsFault(str(fault)) from None

    def _kept_in_keyring(self) -> list[str]:
        providers = self._load()["providers"]
        return [name for name, login in providers.items() if login == _IN_KEYRING]

    def read(self) -> StoredKeys:
        """The stored keys. A file that others could read is made private."""
        try:
            providers = self._load()["providers"]
        except LoginsFault as fault:
            return StoredKeys(problem=Problem(source=str(self.path), message=str(fault)))
        keys: dict[str, Secret] = {}
        tokens: dict[str, TokenSet] = {}
        for name, entry in providers.items():
            login = self._unlocked.get(name, {}) if entry == _IN_KEYRING else entry
            # Only an editor can have put there what is none.
            with suppress(ValueError, TypeError, KeyError, OverflowError):
                if "access" in login:
                    tokens[name] = _tokens(login)
                    keys[name] = tokens[name].access
                else:
                    keys[name] = _key(login["key"])
        return StoredKeys(keys=keys, tokens=tokens)

    def store(self, provider: str, login: Secret | TokenSet) -> Path | None:
        """Keep a provider's login, in place of the one it had.

        Returns:
            Where a damaged file of logins is now, whose place was taken.

        Raises:
            LoginsFault: it cannot be kept; what was stored before is unchanged.
        """
        plain = _plain(login)
        in_keyring = self._in_keyring()

        def change(providers: dict[str, Any]) -> None:
            if in_keyring:
                system_keyring.put(provider, json.dumps(plain))
                self._unlocked[provider] = plain
            providers[provider] = _IN_KEYRING if in_keyring else plain

        return self._change(change, over_damage=True)

    def remove(self, provider: str) -> bool:
        """Forget a provider's login; whether there was one.

        Raises:
            LoginsFault: as in `store`.
        """
        removed = []

        def change(providers: dict[str, Any]) -> None:
            if providers.get(provider) == _IN_KEYRING:
                system_keyring.take_away(provider)
            removed.append(providers.pop(provider, None))

        self._change(change)
        return removed[0] is not None

    @property
    def renewal_lock(self) -> Path:
        """The lock of whoever renews a token; the file itself stays free meanwhile."""
        return self.path.with_name(f"{self.path.name}.renewal.lock")

    def _change(
        self, change: Callable[[dict[str, Any]], None], *, over_damage: bool = False
    ) -> Path | None:
        aside = None
        try:
            make_data_directory(self.path.parent)
            lock = self.path.with_name(f"{self.path.name}.lock")
            with lock_in_thread(lock, seconds=_LOCK_SECONDS):
                try:
                    content = self._load()
                except _Damaged:
                    if not over_damage:
                        raise
                    aside = self.path.with_name(f"{self.path.name}.damaged-{time.time_ns()}")
                    self.path.rename(aside)
                    content = _empty()
                change(content["providers"])
                replace_file(self.path, json.dumps(content, indent=2).encode())
        except system_keyring.KeyringFault as fault:
            raise LoginsFault(str(fault)) from None
        except Locked:
            raise LoginsFault("another server is writing it") from None
        except OSError as fault:
            raise LoginsFault(fault.strerror or type(fault).__name__) from None
        return aside

    def _load(self) -> dict[str, Any]:
        try:
            text = read_text(self.path)
        except Unreadable as fault:
            if fault.absent:
                return _empty()
            raise LoginsFault(fault.message) from None
        make_private(self.path)
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            raise _Damaged("expected JSON, got something else") from None
        if not isinstance(content, dict) or "version" not in content:
            raise _Damaged("expected logins of version 1, got something else")
        if content["version"] != 1:
            raise LoginsFault("expected logins of version 1, got those of another version")
        if not isinstance(content.get("providers"), dict):
            raise _Damaged("expected logins of version 1, got something else")
        return content


def _empty() -> dict[str, Any]:
    return {"version": 1, "providers": {}}


def _plain(login: Secret | TokenSet) -> dict[str, Any]:
    """A login as the file has it."""
    if isinstance(login, Secret):
        return {"key": login.reveal()}
    client = login.client
    return {
        "access": login.access.reveal(),
        "refresh": login.refresh and login.refresh.reveal(),
        "expiresAt": login.expires_at,
        "obtainedAt": login.obtained_at,
        "clientId": client.id,
        "tokenUrl": client.token_url,
        **(
            {"clientSecret": client.secret.reveal(), "clientAuthentication": client.authentication}
            if client.secret
            else {}
        ),
        **({"resource": client.resource} if client.resource else {}),
    }


def _tokens(login: Mapping[str, Any]) -> TokenSet:
    """The token set in the file; raises ValueError, TypeError or KeyError for what is none."""
    ends = login["expiresAt"]
    return TokenSet(
        access=_key(login["access"]),
        refresh=None if login["refresh"] is None else _key(login["refresh"]),
        expires_at=None if ends is None else float(ends),
        obtained_at=float(login["obtainedAt"]),
        client=Client(
            id=str(login["clientId"]),
            token_url=str(login["tokenUrl"]),
            secret=_key(login["clientSecret"]) if "clientSecret" in login else None,
            authentication=_authentication(login),
            resource=str(login["resource"]) if "resource" in login else None,
        ),
    )


def _authentication(login: Mapping[str, Any]) -> Authentication:
    in_header = login.get("clientAuthentication") == "client_secret_basic"
    return "client_secret_basic" if in_header else "client_secret_post"


def _key(text: Any) -> Secret:
    key = parse_key(text) if isinstance(text, str) else None
    if key is None:
        raise ValueError("expected a key, got none")
    return key

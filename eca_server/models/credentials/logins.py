"""Keys and tokens stored by `/login`, in a file of their own.

- Only the user can read the file.
- The file is replaced as a whole, under a lock, so that servers do not overwrite each other.
- A damaged file is reported, and moved aside when a login is stored.
- Messages about the file never contain a key.

Everything here touches the disk: call it in a worker thread, except the first `read`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.data_file import DamagedFile, DataFile, DataFileError
from eca_server.config.directories import logins_file
from eca_server.config.problems import Problem
from eca_server.models.credentials import system_keyring
from eca_server.models.credentials.oauth import Authentication, Client, TokenSet
from eca_server.secret import Secret, parse_key

_IN_KEYRING: Final = {"in": "keyring"}
"""The file's entry for a login that is in the system's keyring."""


_SECRETS: Final = ("key", "access", "refresh", "clientSecret")  # members of a stored login


class LoginsError(ECAError):
    """The file of logins cannot be read or written; the message says why."""


@attrs.frozen(kw_only=True)
class StoredKeys:
    """The result of `Logins.read`.

    Attributes:
        keys: the keys by provider; for a token set, its access token.
        problem: the reason why stored logins may be missing.
    """

    keys: Mapping[str, Secret] = attrs.field(factory=dict)
    tokens: Mapping[str, TokenSet] = attrs.field(factory=dict)
    problem: Problem | None = None

    @property
    def fixed(self) -> Mapping[str, Secret | None]:
        """The keys by provider, None for a token set: what a renewal of tokens leaves unchanged."""
        return {name: None if name in self.tokens else key for name, key in self.keys.items()}


class Logins:
    """The user's stored logins.

    Args:
        environ: the environment variables, which determine the path of the file.
        in_keyring: returns whether new logins go to the system's keyring; the file then only
            notes that a login exists.

    Attributes:
        path: the file; it need not exist.
    """

    def __init__(
        self, environ: Mapping[str, str], *, in_keyring: Callable[[], bool] = lambda: False
    ) -> None:
        self.path = logins_file(environ)
        self._file = DataFile(self.path, "logins")
        self._in_keyring = in_keyring
        self._unlocked: dict[str, dict[str, Any]] = {}

    @property
    def is_locked(self) -> bool:
        """True if the keyring has a login that was not read yet. Touches the disk."""
        with suppress(DataFileError):
            return any(name not in self._unlocked for name in self._names_in_keyring())
        return False

    def unlock(self) -> None:
        """Read the logins in the keyring, which may prompt the user; not for the event loop.

        Raises:
            LoginsError: the keyring cannot be read.
        """
        try:
            for name in self._names_in_keyring():
                content = json.loads(system_keyring.get(name) or "{}")
                self._unlocked[name] = content if isinstance(content, dict) else {}
        except DataFileError as error:
            raise LoginsError(error.reason) from None
        except (system_keyring.KeyringError, ValueError, RecursionError) as error:
            raise LoginsError(str(error)) from None

    def _names_in_keyring(self) -> list[str]:
        providers = self._load()["providers"]
        return [name for name, login in providers.items() if login == _IN_KEYRING]

    def read(self) -> StoredKeys:
        """Return the stored keys. A file that others can read is made private first."""
        try:
            providers = self._load()["providers"]
        except DataFileError as error:
            return StoredKeys(problem=Problem(source=str(self.path), message=error.reason))
        keys: dict[str, Secret] = {}
        tokens: dict[str, TokenSet] = {}
        for name, entry in providers.items():
            login = self._unlocked.get(name, {}) if entry == _IN_KEYRING else entry
            # Only manual edits can make an entry invalid.
            with suppress(ValueError, TypeError, KeyError, OverflowError):
                if "access" in login:
                    tokens[name] = _tokens(login)
                    keys[name] = tokens[name].access
                else:
                    keys[name] = _key(login["key"])
        return StoredKeys(keys=keys, tokens=tokens)

    def names(self) -> Collection[str]:
        """Return the names of the providers with a login, also of those in a locked keyring."""
        with suppress(DataFileError):
            return tuple(self._load()["providers"])
        return ()

    def store(
        self, provider: str, login: Secret | TokenSet, *, is_renewal: bool = False
    ) -> Path | None:
        """Store a provider's login and replace its previous one.

        `is_renewal`: store it only in place of the same login; a damaged file is left alone.

        Returns:
            The new path of a damaged file of logins, if one was moved aside.

        Raises:
            LoginsError: the login cannot be stored; earlier logins are unchanged.
        """
        plain = _plain(login)
        in_keyring = self._in_keyring()

        def change(providers: dict[str, Any]) -> None:
            if is_renewal:
                self.unlock()  # another server may have changed the keyring
                stored = self.read().tokens.get(provider)
                if stored is None or stored.logged_in_at != plain["loggedInAt"]:
                    raise LoginsError("it was removed or replaced meanwhile")
            if in_keyring:
                secrets = (Secret(plain[name]) for name in _SECRETS if plain.get(name))
                system_keyring.put(provider, json.dumps(plain), secrets)
                self._unlocked[provider] = plain
            providers[provider] = _IN_KEYRING if in_keyring else plain

        return self._change(change, over_damage=not is_renewal)

    def remove(self, provider: str) -> bool:
        """Remove a provider's login and return whether there was one.

        Raises:
            LoginsError: as in `store`.
        """
        removed = []

        def change(providers: dict[str, Any]) -> None:
            if providers.get(provider) == _IN_KEYRING:
                system_keyring.remove_stored(provider)
            removed.append(providers.pop(provider, None))

        self._change(change)
        return removed[0] is not None

    def renewal_lock(self, provider: str) -> Path:
        """Return the lock held while a login is renewed; the file itself stays unlocked."""
        digest = hashlib.sha256(provider.encode()).hexdigest()[:16]
        return self.path.with_name(f"{self.path.name}.renewal-{digest}.lock")

    def _change(
        self, change: Callable[[dict[str, Any]], None], *, over_damage: bool = False
    ) -> Path | None:
        aside = None
        try:
            with self._file.changing():
                try:
                    content = self._load()
                except DamagedFile:
                    if not over_damage:
                        raise
                    aside = self._file.set_aside()
                    content = {"providers": {}}
                change(content["providers"])
                self._file.write(**content)
        except system_keyring.KeyringError as error:
            raise LoginsError(str(error)) from None
        except DataFileError as error:
            raise LoginsError(error.reason) from None
        return aside

    def _load(self) -> dict[str, Any]:
        """Return the content of the file, an entry for each of `providers`; raise DataFileError."""
        content = self._file.read() or {"providers": {}}
        if not isinstance(content.get("providers"), dict):
            raise self._file.damaged("expected logins of version 1")
        return content


def _plain(login: Secret | TokenSet) -> dict[str, Any]:
    """Return a login in the form that the file stores."""
    if isinstance(login, Secret):
        return {"key": login.reveal()}
    client = login.client
    return {
        "access": login.access.reveal(),
        "refresh": login.refresh and login.refresh.reveal(),
        "expiresAt": login.expires_at,
        "obtainedAt": login.obtained_at,
        "loggedInAt": login.logged_in_at,
        "clientId": client.id,
        "tokenUrl": client.token_url,
        **(
            {"clientSecret": client.secret.reveal(), "clientAuthentication": client.authentication}
            if client.secret
            else {}
        ),
        **({"resource": client.resource} if client.resource else {}),
        **({"issuer": client.issuer} if client.issuer else {}),
    }


def _tokens(login: Mapping[str, Any]) -> TokenSet:
    """Read a token set of the file; raise ValueError, TypeError or KeyError if it is invalid."""
    ends = login["expiresAt"]
    return TokenSet(
        access=_key(login["access"]),
        refresh=None if login["refresh"] is None else _key(login["refresh"]),
        expires_at=None if ends is None else float(ends),
        obtained_at=float(login["obtainedAt"]),
        logged_in_at=float(login.get("loggedInAt", login["obtainedAt"])),
        client=Client(
            id=str(login["clientId"]),
            token_url=str(login["tokenUrl"]),
            secret=_key(login["clientSecret"]) if "clientSecret" in login else None,
            authentication=_authentication(login),
            resource=str(login["resource"]) if "resource" in login else None,
            issuer=str(login["issuer"]) if "issuer" in login else None,
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

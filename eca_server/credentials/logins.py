"""The keys that users paste into `/login`, in a file of their own.

The rules it keeps: nobody but the user can read the file; it is replaced as a whole and by one
server at a time, so that none loses what another stored; one that is damaged is told and never
written over; nothing that is said of it shows a key.

Everything here touches the disk: call it in a worker thread, but for the first `read`.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config import Problem, data_folder, make_data_folder
from eca_server.config.files import Unreadable, read_text
from eca_server.secret import Secret, key_from

__all__ = ["Logins", "LoginsFault", "StoredKeys"]

_CREATE: Final = os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_LOCK_SECONDS = 2.0
_LOCK_PAUSE = 0.02


class LoginsFault(ECAError):
    """The file of logins cannot be read or written, and why."""


@attrs.frozen(kw_only=True)
class StoredKeys:
    """What `read` found.

    Attributes:
        keys: by provider.
        problem: why there may be more that cannot be read.
    """

    keys: Mapping[str, Secret] = attrs.field(factory=dict)
    problem: Problem | None = None


class Logins:
    """The user's stored logins.

    Attributes:
        path: the file; it need not exist.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = data_folder(environ) / "logins.json"

    def read(self) -> StoredKeys:
        """The stored keys. A file that others could read is made private."""
        try:
            providers = self._load()["providers"]
        except LoginsFault as fault:
            return StoredKeys(problem=Problem(source=str(self.path), message=str(fault)))
        keys: dict[str, Secret] = {}
        for name, login in providers.items():
            if isinstance(login, dict) and isinstance(login.get("key"), str):
                with suppress(ValueError):  # only an editor can have put it there
                    key = key_from(login["key"])
                    if key is not None:
                        keys[name] = key
        return StoredKeys(keys=keys)

    def store(self, provider: str, key: Secret) -> None:
        """Keep a provider's key, in place of the one it had.

        Raises:
            LoginsFault: it cannot be kept; what was stored before is unchanged.
        """

        def change(providers: dict[str, Any]) -> None:
            providers[provider] = {"key": key.reveal()}

        self._change(change)

    def remove(self, provider: str) -> bool:
        """Forget a provider's login; whether there was one.

        Raises:
            LoginsFault: as in `store`.
        """
        removed = []

        def change(providers: dict[str, Any]) -> None:
            removed.append(providers.pop(provider, None))

        self._change(change)
        return removed[0] is not None

    def _change(self, change: Callable[[dict[str, Any]], None]) -> None:
        try:
            make_data_folder(self.path.parent)
            with self._locked():
                content = self._load()
                change(content["providers"])
                self._replace(json.dumps(content, indent=2).encode())
        except OSError as fault:
            raise LoginsFault(fault.strerror or type(fault).__name__) from None

    def _load(self) -> dict[str, Any]:
        try:
            text = read_text(self.path)
        except Unreadable as fault:
            if fault.absent:
                return {"version": 1, "providers": {}}
            raise LoginsFault(fault.message) from None
        self._make_private()
        try:
            content = json.loads(text)
        except (ValueError, RecursionError):
            raise LoginsFault("expected JSON, got something else") from None
        is_ours = isinstance(content, dict) and isinstance(content.get("providers"), dict)
        if not is_ours or content.get("version") != 1:
            raise LoginsFault("expected logins of version 1, got something else")
        return dict(content)

    def _make_private(self) -> None:
        with suppress(OSError):  # some file systems have no modes
            if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
                self.path.chmod(0o600)

    def _replace(self, data: bytes) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_EXCL | _CREATE, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other servers from writing meanwhile; what dies lets go."""
        if sys.platform == "win32":
            yield
            return
        import fcntl  # noqa: PLC0415 - POSIX only

        lock = self.path.with_name(f"{self.path.name}.lock")
        descriptor = os.open(lock, os.O_RDWR | _CREATE, 0o600)
        try:
            deadline = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise LoginsFault("another server is writing it") from None
                    time.sleep(_LOCK_PAUSE)
                else:
                    break
            yield
        finally:
            os.close(descriptor)

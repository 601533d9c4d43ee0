"""The user's decisions about workspace folders: a file in the server's data directory.

The file holds, for the real path of each root, digests of the settings that the user has accepted
or declined (`trust_items.TrustItem`). No configuration key can change it. The file is replaced
atomically, by one server at a time; a damaged file trusts nothing and is left alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.directories import data_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.lock import changing
from eca_server.config.private_file import make_private, replace_file

_VERSION: Final = 1
_MOST_DIGESTS: Final = 2_000  # of one root; the oldest are forgotten first


class TrustStoreError(ECAError):
    """The error of a file of decisions that cannot be read or written; the message says why."""


@attrs.frozen(kw_only=True, repr=False)
class RootTrust:
    """The decisions about one root.

    Attributes:
        is_trusted: the user has accepted this root, perhaps an earlier state of its settings.
        accepted: digests of accepted settings, the oldest first.
        refused: digests of declined settings; there is no question about them.
    """

    is_trusted: bool = False
    accepted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def real_root(root: Path) -> str:
    """Return the name under which decisions about a root are stored: its real path."""
    return os.path.realpath(root)


class TrustStore:
    """The file of decisions. Every method touches the disk: call it in a worker thread."""

    def __init__(self, environ: Mapping[str, str], home: Path | None = None) -> None:
        self.path = data_directory(environ, home) / "trust.json"

    def read(self) -> dict[str, RootTrust]:
        """Return the decisions by the real path of their root.

        Raises:
            TrustStoreError: the file cannot be read, or is not a file of decisions.
        """
        try:
            text = read_text(self.path)
        except Unreadable as error:
            if error.absent:
                return {}
            raise TrustStoreError(f"{self.path}: {error.message}") from None
        try:
            return _parse(text)
        except TrustStoreError as error:
            raise TrustStoreError(f"{self.path}: {error}") from None

    def accept(self, root: Path, digests: Iterable[str], *, trusts_root: bool = True) -> None:
        """Accept settings of a root.

        `trusts_root`: whether the root becomes trusted, too.

        Raises:
            TrustStoreError: the decision cannot be stored.
        """

        def change(trust: RootTrust) -> RootTrust:
            accepted = dict.fromkeys([*trust.accepted, *digests])
            refused = [digest for digest in trust.refused if digest not in accepted]
            return RootTrust(
                is_trusted=trusts_root or trust.is_trusted,
                accepted=tuple(accepted)[-_MOST_DIGESTS:],
                refused=tuple(refused),
            )

        self._change(root, change)

    def refuse(self, root: Path, digests: Collection[str]) -> None:
        """Do not ask about these settings of a root again.

        Raises:
            TrustStoreError: the decision cannot be stored.
        """

        def change(trust: RootTrust) -> RootTrust:
            refused = dict.fromkeys([*trust.refused, *digests])
            accepted = [digest for digest in trust.accepted if digest not in refused]
            return attrs.evolve(
                trust, accepted=tuple(accepted), refused=tuple(refused)[-_MOST_DIGESTS:]
            )

        self._change(root, change)

    def forget(self, root: Path) -> bool:
        """Delete every decision about a root; return whether there was one.

        Raises:
            TrustStoreError: the file cannot be read or written.
        """
        known = real_root(root) in self.read()
        if known:
            self._change(root, lambda _: None)
        return known

    def _change(self, root: Path, change: Callable[[RootTrust], RootTrust | None]) -> None:
        try:
            with changing(self.path):
                roots = self.read()
                name = real_root(root)
                new = change(roots.pop(name, RootTrust()))
                if new is not None:
                    roots[name] = new
                replace_file(self.path, _content(roots).encode(), is_locked=True)
                make_private(self.path)
        except OSError as error:
            raise TrustStoreError(
                f"{self.path}: {error.strerror or type(error).__name__}"
            ) from None


def _content(roots: Mapping[str, RootTrust]) -> str:
    content = {
        "version": _VERSION,
        "roots": {
            # A path may not be UTF-8; JSON can hold the surrogates that stand for other bytes.
            root: {
                "trusted": trust.is_trusted,
                "accepted": list(trust.accepted),
                "refused": list(trust.refused),
            }
            for root, trust in roots.items()
        },
    }
    return json.dumps(content, indent=2)


def _parse(text: str) -> dict[str, RootTrust]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise TrustStoreError("expected JSON, got something else") from None
    if not isinstance(content, dict) or content.get("version") != _VERSION:
        raise TrustStoreError(f"expected decisions of version {_VERSION}, got something else")
    roots = content.get("roots")
    if not isinstance(roots, dict):
        raise TrustStoreError("expected an object under `roots`, got something else")
    return {root: _root_trust(root, stored) for root, stored in roots.items()}


def _root_trust(root: str, stored: Any) -> RootTrust:
    stored = stored if isinstance(stored, dict) else {}
    digests = {key: stored.get(key) for key in ("accepted", "refused")}
    for each in digests.values():
        if not isinstance(each, list) or not all(isinstance(digest, str) for digest in each):
            raise TrustStoreError(f"roots.{root}: expected lists of digests, got something else")
    lists = {key: tuple(each or ()) for key, each in digests.items()}
    return RootTrust(is_trusted=stored.get("trusted") is True, **lists)

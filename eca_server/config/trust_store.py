"""The user's decisions about workspace folders: a file in the server's data directory.

The file holds, for the real path of each root, digests of the settings that the user has accepted
or declined (`trust_items.TrustItem`). No configuration key can change it. The file is replaced
atomically, by one server at a time; a damaged file trusts nothing and is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from eca_server.config.data_file import DataFile
from eca_server.config.directories import data_directory

_MOST_DIGESTS: Final = 2_000  # of one root; the oldest are forgotten first


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
        self._file = DataFile(self.path, "decisions")

    def read(self) -> dict[str, RootTrust]:
        """Return the decisions by the real path of their root.

        Raises:
            DataFileError: the file cannot be read, or is not a file of decisions.
        """
        content = self._file.read()
        if content is None:
            return {}
        roots = content.get("roots")
        if not isinstance(roots, dict):
            raise self._file.damaged("expected an object under `roots`")
        return {root: self._root_trust(root, stored) for root, stored in roots.items()}

    def _root_trust(self, root: str, stored: Any) -> RootTrust:
        stored = stored if isinstance(stored, dict) else {}
        digests = {key: stored.get(key) for key in ("accepted", "refused")}
        for each in digests.values():
            if not isinstance(each, list) or not all(isinstance(digest, str) for digest in each):
                raise self._file.damaged(f"roots.{root}: expected lists of digests")
        lists = {key: tuple(each or ()) for key, each in digests.items()}
        return RootTrust(is_trusted=stored.get("trusted") is True, **lists)

    def accept(self, root: Path, digests: Iterable[str], *, trusts_root: bool = True) -> None:
        """Accept settings of a root.

        `trusts_root`: whether the root becomes trusted, too.

        Raises:
            DataFileError: the decision cannot be stored.
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
            DataFileError: the decision cannot be stored.
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
            DataFileError: the file cannot be read or written.
        """
        known = real_root(root) in self.read()
        if known:
            self._change(root, lambda _: None)
        return known

    def _change(self, root: Path, change: Callable[[RootTrust], RootTrust | None]) -> None:
        with self._file.changing():
            roots = self.read()
            name = real_root(root)
            new = change(roots.pop(name, RootTrust()))
            if new is not None:
                roots[name] = new
            # A path may not be UTF-8; JSON can hold the surrogates that stand for other bytes.
            self._file.write(
                roots={
                    root: {
                        "trusted": trust.is_trusted,
                        "accepted": trust.accepted,
                        "refused": trust.refused,
                    }
                    for root, trust in roots.items()
                }
            )

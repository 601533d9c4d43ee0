"""`eca-server trust add|list|remove`: which opened folders the user trusts, without an editor.

The rules it keeps: what is accepted was printed before; without a terminal only `--yes` accepts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from eca_server.config import LoadedConfig, load
from eca_server.config.trust_store import RootTrust, TrustStore, TrustStoreError, real_root
from eca_server.config.trust_texts import count, guards_off, list_items, shown
from eca_server.credentials import Logins
from eca_server.llm.known_providers import KNOWN_PROVIDERS

__all__ = ["run_trust"]

_WHOLE: Final = 10**7  # characters: nothing is cut for a reader who can scroll
_ACCEPTED, _DECLINED, _USAGE = 0, 1, 2


def run_trust(action: str, folder: Path | None, *, is_agreed: bool) -> int:
    """Run the command.

    Args:
        action: `add`, `list` or `remove`.
        folder: the folder; None, for `list`: all that there is a decision about.
        is_agreed: the user has said `--yes`.

    Returns:
        The exit code: 0 done, 1 declined, unknown or failed, 2 wrong usage.
    """
    store = TrustStore(os.environ)
    try:
        if folder is None:
            return _list_all(store)
        root = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay, as in an editor's URI
        if action == "remove":
            return _remove(store, root)
        if not root.is_dir():
            return _refuse(f"expected a folder, got {shown(folder)!r}")
        return _add(store, root, is_agreed) if action == "add" else _list(store, root)
    except TrustStoreError as fault:
        sys.stderr.write(f"eca-server trust: {fault}\n")
        return _DECLINED


def _add(store: TrustStore, root: Path, is_agreed: bool) -> int:
    loaded = _load(root)
    _print_waiting(loaded, root)
    if not is_agreed:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return _refuse("no terminal to ask at; `--yes` accepts what is listed")
        sys.stderr.write(f"Trust {shown(root)}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            sys.stderr.write("Nothing changed.\n")
            return _DECLINED
    store.accept(root, [item.digest for item in loaded.withheld])
    sys.stdout.write(f"{shown(root)} is trusted: {count(loaded.withheld)} accepted.\n")
    if loaded.withheld and (more := _load(root).withheld):  # in files outside, read from now on
        sys.stdout.write(f"{count(more)} more, in files that were not read before, now wait.\n")
    return _ACCEPTED


def _list_all(store: TrustStore) -> int:
    decisions = store.read()
    for root, trust in decisions.items():
        sys.stdout.write(f"{shown(root)}: {_state(trust)}\n")
    if not decisions:
        sys.stdout.write("No folder is trusted.\n")
    return _ACCEPTED


def _list(store: TrustStore, root: Path) -> int:
    trust = store.read().get(real_root(root), RootTrust())
    sys.stdout.write(f"{shown(root)}: {_state(trust)}\n")
    _print_waiting(_load(root), root)
    return _ACCEPTED


def _remove(store: TrustStore, root: Path) -> int:
    if store.forget(root):
        sys.stdout.write(f"{shown(root)} is no longer trusted.\n")
        return _ACCEPTED
    sys.stderr.write(f"eca-server trust: there is no decision about {shown(root)}\n")
    return _DECLINED


def _load(root: Path) -> LoadedConfig:
    """Load what the server would: the same names are the user's, so the same settings wait."""
    return load(
        initialization_options=None,
        roots=[root],
        environ=os.environ,
        known_providers=KNOWN_PROVIDERS.keys,
        logins=lambda: Logins(os.environ).read().keys,
    )


def _print_waiting(loaded: LoadedConfig, root: Path) -> None:
    items = loaded.withheld
    if not items:
        sys.stdout.write("Nothing in it waits for your trust.\n")
        return
    waits = "waits" if len(items) == 1 else "wait"
    text = list_items(items, longest=_WHOLE, most=_WHOLE).text
    sys.stdout.write(f"{count(items)} of {shown(root)} {waits} for your trust:\n\n{text}\n\n")
    sys.stdout.write(f"{guards_off(items).strip()}\n\n" if guards_off(items) else "")
    sys.stdout.flush()


def _state(trust: RootTrust) -> str:
    state = "trusted" if trust.is_trusted else "not trusted"
    parts = [f"{len(trust.accepted)} accepted"] if trust.accepted else []
    parts += [f"{len(trust.refused)} refused"] if trust.refused else []
    return f"{state} ({', '.join(parts)})" if parts else state


def _refuse(why: str) -> int:
    sys.stderr.write(f"eca-server trust: {why}\n")
    return _USAGE

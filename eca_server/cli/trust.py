"""`eca-server trust add|list|remove`: the user's trust in folders, without an editor.

Invariants: settings are printed before they are accepted; without a terminal only `--yes` accepts.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from eca_server.config.data_file import DataFileError
from eca_server.config.loading import LoadedConfig, load
from eca_server.config.trust_store import RootTrust, TrustStore, real_root
from eca_server.config.trust_texts import count, guards_off, list_items, shown
from eca_server.models.credentials.logins import Logins
from eca_server.models.known_providers import KNOWN_PROVIDERS
from eca_server.system.command_line import fail

_PROGRAM: Final = "eca-server trust"
_WHOLE: Final = 10**7  # characters; a terminal can scroll
_ACCEPTED, _DECLINED, _USAGE = 0, 1, 2


def run_trust(action: str, folder: Path | None, *, is_agreed: bool) -> int:
    """Run the command.

    Args:
        action: `add`, `list` or `remove`.
        folder: the folder; None, for `list`: all folders with a decision.
        is_agreed: whether `--yes` was given.

    Returns:
        The exit code: 0 done, 1 declined, no decision, or failed, 2 wrong usage.
    """
    store = TrustStore(os.environ)
    try:
        if folder is None:
            return _list_all(store)
        root = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay, as in an editor's URI
        if action == "remove":
            return _remove(store, root)
        if not root.is_dir():
            return fail(_PROGRAM, f"expected a folder, got {shown(folder)!r}", _USAGE)
        return _add(store, root, is_agreed) if action == "add" else _list(store, root)
    except DataFileError as error:
        return fail(_PROGRAM, error, _DECLINED)


def _add(store: TrustStore, root: Path, is_agreed: bool) -> int:
    loaded = _load(root)
    _print_waiting(loaded, root)
    if not is_agreed:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            purpose = "accept these settings" if loaded.withheld else "trust the folder"
            return fail(_PROGRAM, f"cannot ask without a terminal; use --yes to {purpose}", _USAGE)
        sys.stderr.write(f"Trust {shown(root)}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            sys.stderr.write("Nothing changed.\n")
            return _DECLINED
    store.accept(root, [item.digest for item in loaded.withheld])
    sys.stdout.write(f"{shown(root)} is trusted: {count(loaded.withheld)} accepted.\n")
    if loaded.withheld and (more := _load(root).withheld):  # in files that are now accepted
        waits = "waits" if len(more) == 1 else "wait"
        sys.stdout.write(
            f"{count(more)} in files that were just accepted {waits}: run `trust add` again.\n"
        )
    return _ACCEPTED


def _list_all(store: TrustStore) -> int:
    decisions = store.read()
    for root, trust in decisions.items():
        sys.stdout.write(f"{shown(root)}: {_state(trust)}\n")
    if not decisions:
        sys.stdout.write("You have not decided about any folder yet.\n")
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
    return fail(_PROGRAM, f"you have not decided about {shown(root)}", _DECLINED)


def _load(root: Path) -> LoadedConfig:
    """Load the configuration as the server does, so that the same settings wait."""
    return load(
        initialization_options=None,
        roots=[root],
        environ=os.environ,
        known_providers=KNOWN_PROVIDERS.keys,
        logins=Logins(os.environ).names,
    )


def _print_waiting(loaded: LoadedConfig, root: Path) -> None:
    items = loaded.withheld
    if not items:
        sys.stdout.write("No setting of this folder waits for your trust.\n")
        return
    waits = "waits" if len(items) == 1 else "wait"
    text = list_items(items, longest=_WHOLE, most=_WHOLE).text
    sys.stdout.write(f"{count(items)} of {shown(root)} {waits} for your trust:\n\n{text}\n\n")
    sys.stdout.write(f"{guards_off(items).strip()}\n\n" if guards_off(items) else "")
    sys.stdout.flush()


def _state(trust: RootTrust) -> str:
    state = "trusted" if trust.is_trusted else "not trusted"
    parts = [f"{len(trust.accepted)} accepted"] if trust.accepted else []
    parts += [f"{len(trust.refused)} declined"] if trust.refused else []
    return f"{state} ({', '.join(parts)})" if parts else state

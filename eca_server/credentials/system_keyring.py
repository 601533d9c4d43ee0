"""The system's keyring, if the user wants logins there: by the package `keyring`, the extra.

The rule it keeps: it may ask the user something first, or hang: each question to it has a thread
of its own and a deadline.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, Final

from eca_protocol.errors import ECAError

__all__ = ["KeyringFault", "get", "put", "take_away"]

SECONDS: Final = 15.0
"""For one question, with whatever the user is asked for it."""

_SERVICE: Final = "eca-python"


class KeyringFault(ECAError):
    """The keyring cannot be used, and why."""


def get(provider: str) -> str | None:
    """What is kept for a provider; raises KeyringFault."""
    found = _answer(lambda keyring: keyring.get_password(_SERVICE, provider))
    return None if found is None else str(found)


def put(provider: str, text: str) -> None:
    """Keep something for a provider; raises KeyringFault."""
    _answer(lambda keyring: keyring.set_password(_SERVICE, provider, text))


def take_away(provider: str) -> None:
    """Forget what is kept for a provider; raises KeyringFault."""

    def delete(keyring: Any) -> None:
        if keyring.get_password(_SERVICE, provider) is not None:
            keyring.delete_password(_SERVICE, provider)

    _answer(delete)


def _answer(ask: Callable[[Any], object]) -> object:
    answers: list[object] = []
    faults: list[str] = []

    def run() -> None:
        try:
            answers.append(ask(importlib.import_module("keyring")))
        except ImportError:
            faults.append("it needs the package keyring (pip install 'eca-protocol[keyring]')")
        except Exception as fault:  # noqa: BLE001 - every backend has errors of its own
            faults.append(str(fault) or type(fault).__name__)

    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if faults:
        raise KeyringFault(f"the system's keyring: {faults[0]}")
    if not answers:
        raise KeyringFault(f"the system's keyring did not answer within {SECONDS:g} s")
    return answers[0]

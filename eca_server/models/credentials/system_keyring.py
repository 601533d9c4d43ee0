"""The system's keyring, by the optional package `keyring`.

A keyring may prompt the user, or hang: each access has a thread of its own and a deadline.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from eca_protocol.errors import ECAError
from eca_server.secret import Secret, mask

SECONDS: Final = 15.0
"""The deadline of one access, including a prompt to the user."""

_SERVICE: Final = "eca-python"


class KeyringError(ECAError):
    """The keyring cannot be used; the message says why."""


def get(provider: str) -> str | None:
    """Return the text stored for a provider, or None; raise KeyringError."""
    text = _answer(lambda keyring: keyring.get_password(_SERVICE, provider))
    return None if text is None else str(text)


def put(provider: str, text: str, secrets: Iterable[Secret]) -> None:
    """Store a text with these secrets for a provider; raise KeyringError."""
    _answer(lambda keyring: keyring.set_password(_SERVICE, provider, text), secrets)


def remove_stored(provider: str) -> None:
    """Remove the text stored for a provider; raise KeyringError."""

    def delete(keyring: Any) -> None:
        if keyring.get_password(_SERVICE, provider) is not None:
            keyring.delete_password(_SERVICE, provider)

    _answer(delete)


def _answer(ask: Callable[[Any], object], secrets: Iterable[Secret] = ()) -> object:
    answers: list[object] = []
    faults: list[str] = []

    def run() -> None:
        try:
            answers.append(ask(importlib.import_module("keyring")))
        except BaseException as error:  # noqa: BLE001 - each backend has its own errors
            if isinstance(error, ModuleNotFoundError) and error.name == "keyring":
                faults.append("the package keyring is missing: pip install 'eca-protocol[keyring]'")
            else:
                faults.append(mask(str(error), *secrets) or type(error).__name__)

    thread = threading.Thread(target=run, name="keyring", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if faults:
        raise KeyringError(f"the system's keyring: {faults[0]}")
    if not answers:
        raise KeyringError(f"the system's keyring did not answer within {SECONDS:g} s")
    return answers[0]

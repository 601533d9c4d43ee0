"""The introduction: announcements to the client after `initialized` (ruling W-11)."""

from __future__ import annotations

import trio

from eca_protocol.errors import ECAError
from eca_server.connection.features.composition import Composition

KEYRING_SECONDS = 2.0
"""Longest wait of servers and problem reports for the keyring, which may ask the user."""


def introduce(parts: Composition) -> None:
    """Announce everything to a new client, and start what runs unasked."""
    options, nursery = parts.host.options, parts.host.nursery
    parts.announcer.introduce()
    if options.only_answers:  # what the introduction permits to begin, as hooks, does not begin
        parts.announcer.is_introduced = False
        return
    parts.hooks.begin_session()
    nursery.start_soon(parts.folders.remove_leftovers)
    if parts.settings.config.keyring:
        nursery.start_soon(_begin_with_keyring, parts)
    else:
        _begin(parts)
    if options.discovers:
        parts.models.begin_discovery(nursery)
    if options.watch_seconds is not None:
        nursery.start_soon(parts.settings.watch, options.watch_seconds)


def _begin(parts: Composition) -> None:
    parts.announcer.announce_problems()
    parts.follow_servers()


async def _begin_with_keyring(parts: Composition) -> None:
    """Begin after a short wait for the system's keyring, to which settings may refer."""
    is_open = trio.Event()

    async def unlock() -> None:
        await _unlock_logins(parts)
        is_open.set()

    parts.host.nursery.start_soon(unlock)
    with trio.move_on_after(KEYRING_SECONDS):
        await is_open.wait()
    _begin(parts)


async def _unlock_logins(parts: Composition) -> None:
    """Unlock the logins in the system's keyring, which may ask the user."""
    logins = parts.logins.get()
    if not await trio.to_thread.run_sync(lambda: logins.is_locked):
        return
    try:
        await trio.to_thread.run_sync(logins.unlock, abandon_on_cancel=True)
    except ECAError as error:
        parts.session.show("warning", f"Logins cannot be read: {error}")
        return
    parts.models.renew()
    await parts.settings.reload()  # references may become readable

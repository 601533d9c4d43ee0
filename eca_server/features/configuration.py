"""The configuration during a connection: its announcements and its changes.

Invariants: after the introduction, only differences from the last announcement are sent (ruling
W-11). A changed file is used once it was unchanged between two checks, so that a file still being
written is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.messages import ChatConfig, ConfigUpdatedParams, UnknownValue
from eca_server.config import AGENT_ALIASES, Behavior, LoadedConfig
from eca_server.features.connection import Connection
from eca_server.features.tools import announce_tools

__all__ = [
    "Watcher",
    "note_selection",
    "put_in_force",
    "select_behavior",
    "tell_changes",
    "tell_offer",
    "tell_problems",
    "tell_variants",
    "unlock_logins",
    "variant_in_force",
]


class Watcher:
    """A watcher that reloads the configuration when one of its files has changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._in_force = self._read = connection.loaded

    async def run(self, seconds: float) -> None:
        """Check the files every so many seconds, for ever."""
        while True:
            await trio.sleep(seconds)
            await self.look()

    async def look(self) -> None:
        """Reload changed files; apply the result if they are unchanged at the next check."""
        connection = self._connection
        if connection.loaded is not self._in_force:  # reloaded elsewhere
            self._in_force = self._read = connection.loaded
        # In a thread: a file may be on a disk that does not answer.
        if not await trio.to_thread.run_sync(self._read.is_current, abandon_on_cancel=True):
            load = partial(connection.load, previous=connection.loaded)
            self._read = await trio.to_thread.run_sync(load, abandon_on_cancel=True)
        elif connection.loaded is self._in_force and self._read is not self._in_force:
            self._in_force = self._read
            put_in_force(connection, self._read)


def put_in_force(connection: Connection, loaded: LoadedConfig) -> None:
    """Use a configuration for all new work, and announce its changes."""
    connection.adopt(loaded)
    tell_changes(connection)
    if connection.is_introduced:
        connection.follow_mcp_servers()


async def unlock_logins(connection: Connection) -> None:
    """Unlock the logins in the system's keyring, which may ask the user."""
    logins = connection.logins
    if not await trio.to_thread.run_sync(lambda: logins.is_locked):
        return
    try:
        await trio.to_thread.run_sync(logins.unlock, abandon_on_cancel=True)
    except ECAError as error:
        connection.session.show("warning", f"Logins cannot be read: {error}")
        return
    connection.renew_models()
    load = partial(connection.load, previous=connection.loaded)  # references may become readable
    put_in_force(connection, await trio.to_thread.run_sync(load))


def tell_changes(connection: Connection) -> None:
    """Announce the present models, tools and problems; do nothing before the introduction."""
    if connection.is_introduced:
        tell_offer(connection)
        tell_problems(connection)


def tell_offer(connection: Connection, *, keeps_selection: bool = False) -> None:
    """Announce the changed selections and tools.

    Args:
        connection: the connection.
        keeps_selection: keep the model that the client selected itself.
    """
    offer, announced = _offer(connection), connection.announced.config
    changes = {
        field.name: getattr(offer, field.name)
        for field in attrs.fields(ChatConfig)
        if getattr(offer, field.name) not in (None, getattr(announced, field.name))
    }
    if keeps_selection and connection.client_model not in (None, announced.select_model):
        changes.pop("select_model", None)
    if connection.client_model in {*(announced.models or ())} - {*(offer.models or ())}:
        changes["select_model"] = offer.select_model
    connection.client_model = changes.get("select_model", connection.client_model)
    variants = connection.models.variants(connection.client_model or "")
    variant = announced.select_variant
    if connection.session.writes(ChatConfig, "variants"):
        if variants != announced.variants:
            changes["variants"] = variants
        if variants != announced.variants or "select_model" in changes:
            selected = connection.variant if connection.model == connection.client_model else None
            variant = variant_in_force(connection, connection.client_model or "", selected)
            if variant != announced.select_variant:
                changes["select_variant"] = variant
    connection.announced.config = attrs.evolve(offer, variants=variants, select_variant=variant)
    if changes:
        params = ConfigUpdatedParams(chat=ChatConfig(**changes))
        connection.session.notify("config/updated", params)
    announce_tools(connection, select_behavior(connection))
    if connection.announced.providers is not None:
        from eca_server.features.providers import tell_providers  # noqa: PLC0415 - seldom asked for

        tell_providers(connection)


def variant_in_force(
    connection: Connection, model: str, selected: str | None, behavior: str | None = None
) -> str:
    """Return the variant of a model: the selected one, else the agent's own, else an empty text."""
    config = connection.config
    own = config.behaviors.get(behavior or select_behavior(connection), Behavior()).variant
    variants = connection.models.variants(model)
    return next((each for each in (selected, own) if each in variants), "")


def tell_variants(
    connection: Connection, model: str, variant: str | None, chat_id: str | None, *, is_own: bool
) -> None:
    """Announce the variants of a selected model, and the one in force.

    Args:
        connection: the connection.
        model: the selected model.
        variant: the variant in force; None: no variant.
        chat_id: the chat; None: all chats.
        is_own: whether the client selected that variant itself.
    """
    if not connection.session.writes(ChatConfig, "variants"):
        return
    selected = ChatConfig(variants=connection.models.variants(model), select_variant=variant or "")
    if chat_id is None:
        before = connection.announced.config
        connection.announced.config = attrs.evolve(
            before, variants=selected.variants, select_variant=selected.select_variant
        )
        if is_own and selected.variants == before.variants:
            return
    params = ConfigUpdatedParams(chat=selected, chat_id=chat_id)
    connection.session.notify("config/updated", params)


def note_selection(connection: Connection) -> None:
    """Record the client's own selection as announced, so that it is not sent back (ruling W-28)."""
    offer = _offer(connection)
    connection.announced.config = attrs.evolve(
        connection.announced.config,
        select_model=offer.select_model,
        select_behavior=offer.select_behavior,
        select_agent=offer.select_agent,
    )


def tell_problems(connection: Connection) -> None:
    """Show the problems of the configuration that were not shown yet."""
    present = {key: (level, text) for key, level, text in _problems(connection)}
    for key, (level, text) in present.items():
        if key not in connection.announced.problems:
            connection.session.show(level, text)
    connection.announced.problems = present.keys()
    if connection.loaded.withheld:
        connection.trust.announce()


def select_behavior(connection: Connection, *requested: str | None) -> str:
    """Return the behaviour in force, the first selectable one of several candidates.

    These are `requested`, the last selected, the client's initial and the configured one.

    Args:
        connection: the connection.
        requested: the behaviour of the prompt, then the one selected for its chat.
    """
    selectable = connection.config.selectable_behaviors
    candidates = (
        *requested,
        connection.behavior,
        connection.initial_behavior,
        connection.config.default_behavior,
    )
    ours = (AGENT_ALIASES.get(name, name) for name in candidates if name is not None)
    return next((name for name in ours if name in selectable), selectable[0])


def _offer(connection: Connection) -> ChatConfig:
    spelled = connection.session.profile.agent_name
    behaviors = tuple(map(spelled, connection.config.selectable_behaviors))
    selected = select_behavior(connection)
    return ChatConfig(
        models=connection.models.names,
        select_model=connection.models.default_for(selected),
        behaviors=tuple(map(UnknownValue, behaviors)),
        select_behavior=UnknownValue(spelled(selected)),
        agents=behaviors,
        select_agent=spelled(selected),
        welcome_message=connection.config.welcome_message,
    )


def _problems(
    connection: Connection,
) -> Iterator[tuple[object, Literal["error", "warning"], str]]:
    """Yield each problem: its identity (without its line, which may move), severity and text."""
    for text in connection.tools().problems:
        yield text, "warning", text
    for problem in (*connection.loaded.problems, *connection.models.problems):
        yield attrs.evolve(problem, line=None, column=None), problem.level, str(problem)

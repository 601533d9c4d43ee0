"""The configuration while the connection lives: what the client is told of it, and its changes.

The rules it keeps: once introduced, the client is told what differs from what it was told last,
and nothing else (ruling W-11); a file counts when it has not changed between two looks at it, so
that one which is just being written does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_protocol.messages import ChatConfig, ConfigUpdatedParams, UnknownValue
from eca_server.config import OTHER_NAMES, Behavior, Loaded
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
    """Puts the configuration in force again when one of its files has changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._in_force = self._read = connection.loaded

    async def run(self, seconds: float) -> None:
        """Look at the files every so many seconds; it never returns."""
        while True:
            await trio.sleep(seconds)
            await self.look()

    async def look(self) -> None:
        """Read the files if they changed; what was read counts if they stay so until the next."""
        connection = self._connection
        if connection.loaded is not self._in_force:  # somebody else has read other places, or later
            self._in_force = self._read = connection.loaded
        # A thread, for a file may lie on a disk that does not answer.
        if not await trio.to_thread.run_sync(self._read.is_current, abandon_on_cancel=True):
            load = partial(connection.load, before=connection.loaded)
            self._read = await trio.to_thread.run_sync(load, abandon_on_cancel=True)
        elif connection.loaded is self._in_force and self._read is not self._in_force:
            self._in_force = self._read
            put_in_force(connection, self._read)


def put_in_force(connection: Connection, loaded: Loaded) -> None:
    """Let a configuration govern what begins from now on, and tell the client what it changes."""
    connection.adopt(loaded)
    tell_changes(connection)
    if connection.is_introduced:
        connection.follow_mcp_servers()


async def unlock_logins(connection: Connection) -> None:
    """Let the logins count that are in the system's keyring; it may ask the user for that."""
    logins = connection.logins
    if not await trio.to_thread.run_sync(lambda: logins.is_locked):
        return
    try:
        await trio.to_thread.run_sync(logins.unlock, abandon_on_cancel=True)
    except ECAError as fault:
        connection.session.show("warning", f"Logins cannot be read: {fault}")
        return
    connection.renew_models()
    load = partial(connection.load, before=connection.loaded)  # it may refer to secrets there
    put_in_force(connection, await trio.to_thread.run_sync(load))


def tell_changes(connection: Connection) -> None:
    """Tell the client what configuration and keys offer now; nothing before the introduction."""
    if connection.is_introduced:
        tell_offer(connection)
        tell_problems(connection)


def tell_offer(connection: Connection, *, keeps_selection: bool = False) -> None:
    """Tell the client what it can select, and the tools there are, as far as that is news.

    Args:
        connection: whose client.
        keeps_selection: leave it the model that it selected itself.
    """
    offer, told = _offer(connection), connection.told.config
    news = {
        field.name: getattr(offer, field.name)
        for field in attrs.fields(ChatConfig)
        if getattr(offer, field.name) not in (None, getattr(told, field.name))
    }
    if keeps_selection and connection.client_model not in (None, told.select_model):
        news.pop("select_model", None)
    if connection.client_model in {*(told.models or ())} - {*(offer.models or ())}:
        news["select_model"] = offer.select_model
    connection.client_model = news.get("select_model", connection.client_model)
    variants = connection.models.variants(connection.client_model or "")
    variant = told.select_variant
    if connection.session.writes(ChatConfig, "variants"):
        if variants != told.variants:
            news["variants"] = variants
        if variants != told.variants or "select_model" in news:
            selected = connection.variant if connection.model == connection.client_model else None
            variant = variant_in_force(connection, connection.client_model or "", selected)
            if variant != told.select_variant:
                news["select_variant"] = variant
    connection.told.config = attrs.evolve(offer, variants=variants, select_variant=variant)
    if news:
        params = ConfigUpdatedParams(chat=ChatConfig(**news))
        connection.session.notify("config/updated", params)
    announce_tools(connection, select_behavior(connection))
    if connection.told.providers is not None:
        from eca_server.features.providers import tell_providers  # noqa: PLC0415 - seldom asked for

        tell_providers(connection)


def variant_in_force(
    connection: Connection, model: str, selected: str | None, behavior: str | None = None
) -> str:
    """Return the variant of a model: the selected one, else the agent's own; empty: none."""
    config = connection.config
    own = config.behaviors.get(behavior or select_behavior(connection), Behavior()).variant
    variants = connection.models.variants(model)
    return next((each for each in (selected, own) if each in variants), "")


def tell_variants(
    connection: Connection, model: str, variant: str | None, chat_id: str | None, *, asked: bool
) -> None:
    """Tell the client the variants of a model it selected, and which of them is in force.

    Args:
        connection: whose client.
        model: the selected model.
        variant: the variant in force; None: no variant.
        chat_id: the chat; None: all chats.
        asked: whether the client selected that variant itself.
    """
    if not connection.session.writes(ChatConfig, "variants"):
        return
    told = ChatConfig(variants=connection.models.variants(model), select_variant=variant or "")
    if chat_id is None:
        before = connection.told.config
        connection.told.config = attrs.evolve(
            before, variants=told.variants, select_variant=told.select_variant
        )
        if asked and told.variants == before.variants:
            return
    params = ConfigUpdatedParams(chat=told, chat_id=chat_id)
    connection.session.notify("config/updated", params)


def note_selection(connection: Connection) -> None:
    """The client knows what it selected itself: it is not told (ruling W-28)."""
    offer = _offer(connection)
    connection.told.config = attrs.evolve(
        connection.told.config,
        select_model=offer.select_model,
        select_behavior=offer.select_behavior,
        select_agent=offer.select_agent,
    )


def tell_problems(connection: Connection) -> None:
    """Show what is wrong with the configuration and was not shown already."""
    standing = {key: (level, text) for key, level, text in _problems(connection)}
    for key, (level, text) in standing.items():
        if key not in connection.told.problems:
            connection.session.show(level, text)
    connection.told.problems = standing.keys()
    if connection.loaded.withheld:
        connection.trust.announce()


def select_behavior(connection: Connection, *asked: str | None) -> str:
    """The behaviour in force: what is asked for, the last selected, the client's, the configured.

    Args:
        connection: whose client.
        asked: the prompt's, then what was selected for its chat.
    """
    selectable = connection.config.selectable_behaviors
    wanted = (
        *asked,
        connection.behavior,
        connection.initial_behavior,
        connection.config.default_behavior,
    )
    ours = (OTHER_NAMES.get(name, name) for name in wanted if name is not None)
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
    """What is wrong: what tells it from others (its line may move), how bad, in words."""
    for text in connection.tools().problems:
        yield text, "warning", text
    for problem in (*connection.loaded.problems, *connection.models.problems):
        yield attrs.evolve(problem, line=None, column=None), problem.level, str(problem)

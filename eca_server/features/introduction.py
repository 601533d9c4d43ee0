"""What a client is told before its first prompt, once it has said `initialized` (ruling W-11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from eca_protocol.messages import (
    ChatConfig,
    ConfigUpdatedParams,
    InitializedParams,
    ProgressParams,
)
from eca_protocol.peer import Handler
from eca_server.chat import BEHAVIORS
from eca_server.features.connection import Connection
from eca_server.features.tools import announce_tools

__all__ = ["handlers_of", "select_behavior"]

START_TASK = "eca-start"


def handlers_of(connection: Connection) -> Mapping[str, Handler]:
    """The introduction's handler."""

    def initialized(_: InitializedParams) -> None:
        _introduce(connection)

    return {"initialized": initialized}


def _introduce(connection: Connection) -> None:
    session, models = connection.session, connection.models
    title = "Starting ECA"
    session.notify("$/progress", ProgressParams(type="start", task_id=START_TASK, title=title))
    selected = select_behavior(connection)
    session.notify(
        "config/updated",
        ConfigUpdatedParams(
            chat=ChatConfig(
                models=models.names,
                select_model=models.selected,
                behaviors=BEHAVIORS,
                select_behavior=selected,
                agents=BEHAVIORS,
                select_agent=selected,
                welcome_message=connection.config.welcome_message,
            )
        ),
    )
    announce_tools(connection, selected)
    session.notify("$/progress", ProgressParams(type="finish", task_id=START_TASK, title=title))
    for notice in (*connection.notices, *connection.tools().problems):
        session.show("warning", notice)
    for problem in (*connection.loaded.problems, *models.problems):
        session.show(problem.level, str(problem))


def select_behavior(connection: Connection, asked: str | None = None) -> Literal["agent", "plan"]:
    """The behaviour in force: the prompt's, the last selected, the client's, the configured."""
    for name in (
        asked,
        connection.behavior,
        connection.initial_behavior,
        connection.config.default_behavior,
    ):
        for behavior in BEHAVIORS:
            if behavior == name:
                return behavior
    return BEHAVIORS[0]

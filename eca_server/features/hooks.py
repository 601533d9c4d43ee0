"""The user's hooks on a connection: those of turns, and those in the background.

Without hooks, their package is not imported. Events of the session and of chats never wait for a
hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from eca_server.config.directories import home_directory

if TYPE_CHECKING:
    from eca_server.chat import Turn
    from eca_server.chat.hooked import TurnHooks
    from eca_server.chat.outlet import Outlet
    from eca_server.config import Config
    from eca_server.config.hook_settings import HookEvent
    from eca_server.features.connection import Connection
    from eca_server.hooks import BackgroundHooks, Hooks

__all__ = [
    "begin_session",
    "begin_session_of_added",
    "end_session",
    "hook_fields",
    "make_beside",
    "tell_end",
    "tell_status",
    "turn_hooks",
]


def make_beside(connection: Connection) -> BackgroundHooks:
    """Return the runner of background hooks."""
    from eca_server.hooks import BackgroundHooks  # noqa: PLC0415 - only where there are hooks

    return BackgroundHooks(
        connection.nursery, lambda text: connection.session.show("warning", text)
    )


async def turn_hooks(
    connection: Connection, turn: Turn, config: Config, fields: Mapping[str, str]
) -> TurnHooks | None:
    """Return the hooks of a turn, after those at the session's start have ended, or None.

    Args:
        connection: the connection.
        turn: the turn.
        config: the turn's configuration.
        fields: the input of each hook.
    """
    if not config.hooks:
        return None
    from eca_server.chat.hooked import TurnHooks  # noqa: PLC0415 - as above

    await connection.beside.wait("sessionStart")
    hooks = _hooks(connection, config)
    return TurnHooks(hooks, turn, fields, connection.beside)


def begin_session(connection: Connection) -> None:
    """Run the hooks at the session's start."""
    if _has_hook(connection, "sessionStart"):
        connection.beside.fire(_hooks(connection, connection.config), "sessionStart", {})


def begin_session_of_added(connection: Connection, before: Config) -> None:
    """Run the hooks at the session's start that the user has accepted only now."""
    hooks = connection.config.hooks
    added = {name: hook for name, hook in hooks.items() if before.hooks.get(name) != hook}
    if connection.is_introduced and added:
        config = attrs.evolve(connection.config, hooks=added)
        connection.beside.fire(_hooks(connection, config), "sessionStart", {})


async def end_session(connection: Connection) -> None:
    """Run the hooks at the session's end, within a deadline."""
    await connection.beside.close(_hooks(connection, connection.config), {})


def tell_status(connection: Connection, chat: Outlet) -> None:
    """Run the hooks for a changed status of a chat that is not deleted."""
    if not _has_hook(connection, "chatStatusChanged"):
        return
    hooks = _hooks(connection, connection.config)
    fields = {**_fields_of_chat(connection, chat), **_status(chat)}
    connection.beside.fire(hooks, "chatStatusChanged", fields, chat.id)


def tell_end(connection: Connection, chat_id: str) -> None:
    """Run the hooks at a chat's end, before its deletion; look up a stored chat first."""
    if "beside" in vars(connection):
        connection.beside.forget(chat_id)
    if not (chat_id and _has_hook(connection, "chatEnd")):
        return
    hooks = _hooks(connection, connection.config)
    if connection.chats.subagent(chat_id) is not None:
        return
    known = connection.chats.get(chat_id)
    chat = connection.chats.open(chat_id) if known is None else known

    def tell() -> None:
        if not chat.is_blank:
            connection.beside.fire(hooks, "chatEnd", _fields_of_chat(connection, chat), chat_id)

    async def look_up() -> None:
        tell()

    if known is None:
        chat.mailbox.do(look_up)
    else:
        tell()


def hook_fields(
    connection: Connection,
    chat: Outlet,
    *,
    model: str | None,
    variant: str | None,
    behavior: str | None,
) -> dict[str, str]:
    """Return the hooks' input about a chat.

    Args:
        connection: the connection.
        chat: the chat.
        model: its model.
        variant: the variant of that model.
        behavior: its behaviour.
    """
    if behavior is not None:
        behavior = connection.session.profile.agent_name(behavior)
    fields = {
        "chat_id": chat.id,
        "agent": behavior,
        "behavior": behavior,
        "full_model": model,
        "variant": variant,
        "parent_chat_id": chat.parent_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _fields_of_chat(connection: Connection, chat: Outlet) -> dict[str, str]:
    last = chat.settings
    return hook_fields(
        connection, chat, model=last.model, variant=last.variant, behavior=last.behavior
    )


def _status(chat: Outlet) -> dict[str, Any]:
    """Return the hooks' input about a chat's status."""
    from eca_server.chat.tool_call import CallState  # noqa: PLC0415 - as above
    from eca_server.content_formatting import NATIVE, PREFIX  # noqa: PLC0415
    from eca_server.tools.ask_user import AskUser  # noqa: PLC0415

    approvals, questions, running = [], [], []
    for call in chat.open_calls:
        own_name = call.naming.name.removeprefix(PREFIX)
        is_question = (call.naming.server, own_name) == (NATIVE, AskUser.name)
        if call.state is CallState.WAITING:
            approvals.append(call.naming.id)
        elif is_question:
            questions.append(call.naming.id)
        else:
            running.append(call.naming.id)
    status: dict[str, Any] = {
        "status": chat.status,
        "awaiting_user_input": bool(approvals or questions),
        "pending_approval_tool_call_ids": sorted(approvals),
        "pending_question_tool_call_ids": sorted(questions),
        "running_tool_call_ids": sorted(running),
    }
    if approvals or questions:
        status["waiting_reason"] = "toolApproval" if approvals else "userQuestion"
    return status


def _has_hook(connection: Connection, event: HookEvent) -> bool:
    """Return whether an event has a hook; before the introduction, none runs (W-10)."""
    hooks = connection.config.hooks.values()
    return connection.is_introduced and any(hook.type == event for hook in hooks)


def _hooks(connection: Connection, config: Config) -> Hooks:
    from eca_server.hooks import Hooks  # noqa: PLC0415 - as above

    roots = connection.workspace.roots
    directory = roots[0].path if roots else home_directory(connection.options.environ)
    return Hooks(
        hooks=config.hooks,
        directory=directory,
        environment=connection.child_variables,
        common_payload={"workspaces": [str(root.path) for root in roots], "cwd": str(directory)},
    )

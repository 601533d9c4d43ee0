"""The user's hooks on a connection: those of its turns, and those that run beside them.

The rules it keeps: nothing is loaded for a user who has none; what happens to the session or to a
chat waits for no hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from eca_server.config.folders import home_folder

if TYPE_CHECKING:
    from eca_server.chat import Chat, Turn
    from eca_server.chat.hooked import TurnHooks
    from eca_server.config import Config
    from eca_server.config.hook_settings import HookEvent
    from eca_server.features.connection import Connection
    from eca_server.hooks import BackgroundHooks, Hooks

__all__ = [
    "begin_session",
    "begin_session_of_added",
    "end_session",
    "make_beside",
    "tell_end",
    "tell_status",
    "told_of",
    "turn_hooks",
]


def make_beside(connection: Connection) -> BackgroundHooks:
    """What runs the hooks beside a session."""
    from eca_server.hooks import BackgroundHooks  # noqa: PLC0415 - only where there are hooks

    return BackgroundHooks(
        connection.nursery, lambda text: connection.session.show("warning", text)
    )


async def turn_hooks(
    connection: Connection, turn: Turn, config: Config, told: Mapping[str, str]
) -> TurnHooks | None:
    """The hooks of a turn, once those at the session's start are over; None: there are none.

    Args:
        connection: the client's.
        turn: the turn.
        config: what governs it.
        told: what each is told of it.
    """
    if not config.hooks:
        return None
    from eca_server.chat.hooked import TurnHooks  # noqa: PLC0415 - as above

    await connection.beside.wait("sessionStart")
    hooks = _hooks(connection, config)
    return TurnHooks(hooks, turn, told, connection.greeted, connection.beside)


def begin_session(connection: Connection) -> None:
    """Tell hooks that the client listens."""
    if _has(connection, "sessionStart"):
        connection.beside.fire(_hooks(connection, connection.config), "sessionStart", {})


def begin_session_of_added(connection: Connection, before: Config) -> None:
    """Run the hooks at the session's start that the user has accepted since, by trust."""
    hooks = connection.config.hooks
    added = {name: hook for name, hook in hooks.items() if before.hooks.get(name) != hook}
    if connection.is_introduced and added:
        config = attrs.evolve(connection.config, hooks=added)
        connection.beside.fire(_hooks(connection, config), "sessionStart", {})


async def end_session(connection: Connection) -> None:
    """Tell hooks that it is over; however long they want to run, none is left soon."""
    await connection.beside.close(_hooks(connection, connection.config), {})


def tell_status(connection: Connection, chat: Chat) -> None:
    """Tell hooks where a chat and its calls stand; of one that is deleted they are not told."""
    if not _has(connection, "chatStatusChanged"):
        return
    from eca_server.chat.states import ChatState  # noqa: PLC0415 - as above

    if chat.state is not ChatState.DELETED:
        hooks = _hooks(connection, connection.config)
        told = {**_told_of_chat(chat), **_status(chat)}
        connection.beside.fire(hooks, "chatStatusChanged", told, chat.id)


def tell_end(connection: Connection, chat_id: str) -> None:
    """Tell hooks of a chat that is deleted next; one that is only stored is looked up first."""
    if "beside" in vars(connection):
        connection.beside.forget(chat_id)
    if not (chat_id and _has(connection, "chatEnd")):
        return
    hooks = _hooks(connection, connection.config)
    known = connection.chats.get(chat_id)
    chat = connection.chats.open(chat_id) if known is None else known

    def tell() -> None:
        if not chat.is_blank:
            connection.beside.fire(hooks, "chatEnd", _told_of_chat(chat), chat_id)

    async def look_up() -> None:
        tell()

    if known is None:
        chat.between_turns.do(look_up)
    elif chat.parent_id is None:
        tell()


def told_of(
    chat: Chat, *, model: str | None, variant: str | None, behavior: str | None
) -> dict[str, str]:
    """What each hook is told of a chat.

    Args:
        chat: the chat.
        model: who answers in it.
        variant: of that model.
        behavior: how.
    """
    if behavior is not None:
        behavior = chat.session.profile.agent_name(behavior)
    told = {
        "chat_id": chat.id,
        "agent": behavior,
        "behavior": behavior,
        "full_model": model,
        "variant": variant,
        "parent_chat_id": chat.parent_id,
    }
    return {name: value for name, value in told.items() if value is not None}


def _told_of_chat(chat: Chat) -> dict[str, str]:
    last = chat.settings
    return told_of(chat, model=last.model, variant=last.variant, behavior=last.behavior)


def _status(chat: Chat) -> dict[str, Any]:
    """Where a chat stands, all of it."""
    from eca_server.chat.tool_call import CallState  # noqa: PLC0415 - as above
    from eca_server.spelling import NATIVE, PREFIX  # noqa: PLC0415
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


def _has(connection: Connection, event: HookEvent) -> bool:
    """Whether there is one, and the client listens: nothing happens for hooks before (W-10)."""
    hooks = connection.config.hooks.values()
    return connection.is_introduced and any(hook.type == event for hook in hooks)


def _hooks(connection: Connection, config: Config) -> Hooks:
    from eca_server.hooks import Hooks  # noqa: PLC0415 - as above

    roots = connection.workspace.roots
    directory = roots[0].path if roots else home_folder(connection.options.environ)
    return Hooks(
        hooks=config.hooks,
        directory=directory,
        environment=connection.child_variables,
        common_payload={"workspaces": [str(root.path) for root in roots], "cwd": str(directory)},
    )

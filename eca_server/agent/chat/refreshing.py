"""Chats that another server has changed meanwhile, such as that of a second editor.

Rule: a chat that is opened again has what others have added, and no chat shows or sends what others
have deleted; messages that only this server has, since they could not be stored, stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from eca_server.agent.chat.chat import Chat
from eca_server.agent.chat.outlet import Selection
from eca_server.agent.chat.store.rows import ChatSettings, LoadResult
from eca_server.agent.chat.turn import Turn
from eca_server.agent.chat.usage import SessionUsage
from eca_server.models.history import Message

SECONDS: Final = 1.0
"""Seconds that a turn waits for a slow disk to say what others have deleted."""

_DELETED = (
    "This chat was deleted in another editor. It begins anew with this prompt: nothing before it "
    "is sent to the model."
)
_SHORTENED = (
    "Messages of this chat were removed in another editor, by a rollback or a clear. They are not "
    "sent to the model."
)


async def refresh(chat: Chat) -> None:
    """Take what another server has added to the stored chat or deleted from it, if it is idle.

    A chat that was deleted is blank afterwards.
    """
    known = tuple(chat.history)

    def is_still_idle() -> bool:
        is_idle = not chat.is_busy and chat.mailbox.idle.is_set()
        return is_idle and tuple(chat.history) == known

    if known and is_still_idle():
        changed = await chat.storage.read_changed(known, only_shortened=False)
        if changed is not None and is_still_idle():
            _take(chat, changed)
            if changed.chat is None:
                chat.settings, chat.selection = ChatSettings(), Selection()


async def forget_deleted(chat: Chat, turn: Turn) -> str | None:
    """Forget the messages that another server has deleted, before a turn sends them to a model.

    Returns:
        The notice that the user is shown if there were any, else None.
    """
    known, changed = tuple(chat.history), None
    with trio.move_on_after(SECONDS):
        if known:
            changed = await chat.storage.read_changed(known, only_shortened=True)
    if changed is None or tuple(chat.history) != known:
        return None
    _take(chat, changed)
    notice = _DELETED if changed.chat is None else _SHORTENED
    turn.report(notice)
    return notice


def replace_history(chat: Chat, messages: Sequence[Message]) -> None:
    """Replace all messages of a chat, and what depends on them."""
    chat.history.replace(messages)
    chat.truncate(len(messages))


def _take(chat: Chat, loaded: LoadResult) -> None:
    """Take the stored part of a chat, or that it was deleted."""
    stored = loaded.chat
    chat.storage.note_last(loaded.last)
    messages = () if stored is None else stored.messages
    if stored is None:
        chat.set(is_named_by_user=False)
        chat.systems.clear()
    chat.usage = SessionUsage(() if stored is None else stored.usages)
    replace_history(chat, messages)
    if stored is not None:
        chat.set(context=stored.settings.context)
        chat.titling.title = stored.title or chat.titling.title
    content_ids = {each.content_id for each in messages}
    chat.storage.unstored_changes = [
        each for each in chat.storage.unstored_changes if each.content_id in content_ids
    ]

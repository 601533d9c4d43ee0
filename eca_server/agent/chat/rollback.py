"""Rollback: a chat returns to its state before a message, and so do the files it changed since.

Rule: nothing is undone unless everything can be, or a partial rollback is requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeGuard

import attrs
import trio

from eca_server.agent.chat.chat import Chat
from eca_server.agent.chat.history import Cut
from eca_server.agent.chat.refreshing import replace_history
from eca_server.agent.chat.restoring import RollbackRefused, Rollbacks
from eca_server.agent.chat.store.rows import Change, ChatRecord, Rollback
from eca_server.agent.chat.undo import Plan, SkippedFile, skipped_lines
from eca_server.agent.tools.output import counted
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models.history import Message, ToolCallPart, ToolResultPart, parts_in

BODY_SECONDS = 2.0
"""Seconds to wait for a stopped call, which may still be writing."""

_COMMAND: Final = (NATIVE, f"{PREFIX}shell_command")


@attrs.frozen(kw_only=True)
class RollbackRequest:
    """The parameters of a rollback.

    Attributes:
        content_id: the user's message to which the chat returns.
        messages: remove that message and all later ones.
        files: restore the files that calls changed since.
        allow_partial: restore files even if others cannot be restored.
    """

    content_id: str
    messages: bool = True
    files: bool = True
    allow_partial: bool = False


@attrs.frozen(kw_only=True)
class RollbackResult:
    """The result of a rollback.

    Attributes:
        restored: the number of files with their previous content.
        deleted: the number of deleted files, which did not exist before.
        skipped: which are not, and why.
        is_unknown: changes of files are not recorded.
        has_commands: shell commands ran, whose changes are not recorded.
    """

    restored: int = 0
    deleted: int = 0
    skipped: tuple[SkippedFile, ...] = ()
    is_unknown: bool = False
    has_commands: bool = False

    def message(self) -> str:
        """Return the result as a text for the user; empty if no file was concerned."""
        done = [f"{counted(self.restored, 'file')} restored"] * bool(self.restored)
        if self.deleted:
            done.append(f"{counted(self.deleted, 'new file')} deleted")
        lines = [f"{', '.join(done)}."] if done else []
        if self.skipped:
            lines.append(f"Not restored:\n{skipped_lines(self.skipped)}")
        if self.has_commands:
            lines.append("Changes made by shell commands were not undone.")
        if self.is_unknown:
            lines.append("No file was restored: this server stores no chats and file contents.")
        return "\n\n".join(lines)


async def roll_back(
    chat: Chat, rollbacks: Rollbacks | None, request: RollbackRequest
) -> RollbackResult:
    """Roll a chat back while no turn of it runs.

    Raises:
        UnknownMessage: the chat has no such message.
        RollbackRefused: files were changed since, or may still change, or the store cannot be used.
    """
    cut = chat.history.cut_at(request.content_id)
    if rollbacks is None:
        called = any(parts_in(chat.history[cut.place :], ToolCallPart))
        if request.messages:
            chat.truncate(cut.place)
        return RollbackResult(is_unknown=request.files and called)
    if request.files and not await _bodies_ended(chat):
        raise RollbackRefused(
            "Nothing was undone: a stopped tool call is still running. Try again in a moment."
        )
    first = await rollbacks.first_change(chat.id, cut.content_ids, needed=request.files)
    if first is None or not request.files:
        stored = await _stored_cut(chat, rollbacks, cut)
        return await _undo(chat, rollbacks, request, stored or cut)
    async with rollbacks.alone(chat.id):  # no other server changes the stored chat from here on
        stored = await _stored_cut(chat, rollbacks, cut)
        if stored is None:
            await _reload(chat, rollbacks, cut)
            return RollbackResult()
        return await _undo(chat, rollbacks, request, stored)


async def _stored_cut(chat: Chat, rollbacks: Rollbacks, cut: Cut) -> Cut | None:
    """Return the cut, named by a message that is stored; None: another server has removed all.

    The store has lost the first messages if its file was removed or replaced.
    """
    if cut.named_by is None:
        return cut
    stored = await rollbacks.store.first_stored(chat.id, [cut.named_by, *cut.content_ids])
    if stored in {None, cut.named_by}:
        return cut
    return attrs.evolve(cut, named_by=stored, earlier=0) if stored else None


async def _bodies_ended(chat: Chat) -> bool:
    """Wait until the bodies of the chat's closed turns have ended; return whether they have."""
    running = [turn.ended for turn in chat.bodies if turn.outlet is chat]
    with trio.move_on_after(BODY_SECONDS):
        for ended in running:
            await ended.wait()
    return all(ended.is_set() for ended in running)


async def _reload(chat: Chat, rollbacks: Rollbacks, cut: Cut) -> None:
    """Load the stored history, from which another server has removed the messages."""
    loaded = await rollbacks.store.find(chat.id)
    if loaded is None:  # it cannot be read, since just now
        chat.truncate(cut.place)
    else:
        replace_history(chat, () if loaded.chat is None else loaded.chat.messages)
    chat.storage.unstored_changes = [
        each for each in chat.storage.unstored_changes if each.content_id not in cut.content_ids
    ]


async def _undo(
    chat: Chat, rollbacks: Rollbacks, request: RollbackRequest, cut: Cut
) -> RollbackResult:
    """Undo what the request names; read the stored changes again."""
    first = await rollbacks.first_change(chat.id, cut.content_ids, needed=request.files)
    changes: Sequence[Change] = ()
    if request.files and first is not None:
        changes = await rollbacks.changes_from(chat.id, first)
    gone = len(chat.history) - cut.place
    has_commands = request.files and _contain_commands(chat.history[cut.place :])
    unstored_changes = [
        each for each in chat.storage.unstored_changes if each.content_id in cut.content_ids
    ]
    unstored = [each for each in unstored_changes if each.numbers is None]
    lost = {path for each in unstored for path in {*each.paths} - each.directories}
    planned = await rollbacks.plan(changes, lost) if request.files else Plan()
    if planned.skipped and not request.allow_partial:
        raise RollbackRefused(
            "Nothing was undone, because these files cannot be restored:\n"
            f"{skipped_lines(planned.skipped)}\n\n"
            "Roll back only the messages, or repeat the rollback to restore the other files.",
            planned.skipped,
        )
    rollback = Rollback(
        chat=chat.id,
        cut=cut.named_by if request.messages else None,
        earlier=cut.earlier,
        last_remaining=cut.last_remaining,
        first_change=first,
        undoes=request.files,
        steps=planned.steps,
    )

    def settle() -> ChatRecord:
        for each in unstored_changes:
            each.content_id = cut.last_remaining if cut.last_remaining and not request.files else ""
        remaining = (each for each in chat.storage.unstored_changes if each.content_id)
        chat.storage.unstored_changes = [*remaining]
        if request.messages:
            chat.truncate(len(chat.history) - gone)  # it may have been read back meanwhile
        return chat.describe() or ChatRecord()

    skipped = await rollbacks.carry_out(rollback, settle, allow_partial=request.allow_partial)
    skipped_paths = {each.path for each in skipped}
    deleted = sum(each.is_deletion and each.path not in skipped_paths for each in planned.steps)
    return RollbackResult(
        restored=planned.files - len(skipped_paths) - deleted,
        deleted=deleted,
        skipped=planned.skipped + skipped,
        has_commands=has_commands,
    )


def _contain_commands(messages: Sequence[Message]) -> bool:
    """Return whether messages, or their subagents' messages, contain commands that may have run."""
    parts = [part for message in messages for part in message.parts]
    rejected = {part.call_id for part in parts if _is_rejection(part)}
    for part in parts:
        match part:
            case ToolCallPart(id=call_id, server=server, tool=tool) if (server, tool) == _COMMAND:
                if call_id not in rejected:
                    return True
            case ToolResultPart(subagent=subagent) if subagent is not None:
                if _contain_commands(subagent.messages):
                    return True
    return False


def _is_rejection(part: object) -> TypeGuard[ToolResultPart]:
    """Return whether a part is the result of a call that did not run."""
    if not isinstance(part, ToolResultPart) or part.view is None:
        return False
    return part.view.reason not in {None, "interrupted"}

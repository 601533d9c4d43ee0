"""Rollback: a chat returns to its state before a message, and so do the files it changed since.

Rules: nothing is undone unless everything can be, or a partial rollback is requested; the steps are
recorded first, so that another server finishes a rollback whose server was killed; only one server
at a time restores files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_server.chat.store import Change, ChatSettings, Rollback, Store
from eca_server.chat.stored_messages import restored
from eca_server.chat.undo import Disk, Plan, SkippedFile, apply_step, plan, skipped_lines
from eca_server.config.lock import Locked, lock
from eca_server.content_formatting import NATIVE, PREFIX
from eca_server.llm.history import CompactionPart, Message, ToolCallPart, ToolResultPart
from eca_server.tools.output import counted
from eca_server.workspace import Workspace

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat

__all__ = [
    "RollbackRefused",
    "RollbackRequest",
    "RollbackResult",
    "Rollbacks",
    "UnknownMessage",
    "place_of",
    "roll_back",
]

LOCK_SECONDS = 2.0
"""Seconds to wait for a server that restores files, before a chat is read."""

ALONE_SECONDS = 10.0
"""Seconds to wait for the same before a rollback; without it the messages would stay."""

BODY_SECONDS = 2.0
"""Seconds to wait for a stopped call, which may still be writing."""

_UNREADABLE = "its previous content cannot be read now"
_COMMAND: Final = (NATIVE, f"{PREFIX}shell_command")


class UnknownMessage(ECAError):
    """The chat has no message of the user with this id."""


class RollbackRefused(ECAError):
    """A rollback that undid nothing; the text gives the user the reason.

    Attributes:
        skipped: the files that cannot be restored.
    """

    def __init__(self, words: str, skipped: tuple[SkippedFile, ...] = ()) -> None:
        super().__init__(words)
        self.skipped = skipped


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

    Args:
        chat: the chat, whose history is loaded.
        rollbacks: restores files; None: chats and before-images are not stored.
        request: what is undone.

    Raises:
        UnknownMessage: the chat has no such message.
        RollbackRefused: files were changed since, or may still change, or the store cannot be used.
    """
    cut = _cut_of(chat, request.content_id)
    if rollbacks is None:
        gone = chat.history[cut.place :]
        called = any(isinstance(part, ToolCallPart) for m in gone for part in m.parts)
        if request.messages:
            chat.truncate(cut.place)
        return RollbackResult(is_unknown=request.files and called)
    if request.files and not await chat.bodies_ended(BODY_SECONDS):
        raise RollbackRefused(
            "Nothing was undone: a stopped tool call is still running. Try again in a moment."
        )
    if (
        not await rollbacks.changes(chat.id, cut.content_ids, needed=request.files)
        or not request.files
    ):
        return await _undo(chat, rollbacks, request, cut)
    async with rollbacks.alone(chat.id):  # no other server changes the stored chat from here on
        if await rollbacks.reload_if_gone(chat, cut):
            return RollbackResult()
        return await _undo(chat, rollbacks, request, cut)


async def _undo(
    chat: Chat, rollbacks: Rollbacks, request: RollbackRequest, cut: _Cut
) -> RollbackResult:
    """Undo what the request names; read the stored changes again."""
    changes = await rollbacks.changes(chat.id, cut.content_ids, needed=request.files)
    gone = len(chat.history) - cut.place
    has_commands = request.files and _contain_commands(chat.history[cut.place :])
    unstored_changes = [
        each for each in chat.unstored_changes if each.content_id in cut.content_ids
    ]
    lost = {path for each in unstored_changes if each.numbers is None for path in each.paths}
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
        first_change=changes[0].number if changes else None,
        undoes=request.files,
        steps=planned.steps,
    )

    def settle() -> tuple[str | None, ChatSettings | None]:
        for each in unstored_changes:
            each.content_id = cut.last_remaining if cut.last_remaining and not request.files else ""
        chat.unstored_changes = [each for each in chat.unstored_changes if each.content_id]
        if request.messages:
            chat.truncate(len(chat.history) - gone)  # it may have been read back meanwhile
        return chat.title, chat.settings_to_store

    skipped = await rollbacks.carry_out(rollback, settle, allow_partial=request.allow_partial)
    skipped_paths = {each.path for each in skipped}
    deleted = sum(each.is_deletion and each.path not in skipped_paths for each in planned.steps)
    return RollbackResult(
        restored=planned.files - len(skipped_paths) - deleted,
        deleted=deleted,
        skipped=planned.skipped + skipped,
        has_commands=has_commands,
    )


class Rollbacks:
    """Restores files for the chats of one workspace.

    Args:
        store: the store with the before-images.
        workspace: the workspace under which the chats are listed.
        boundary: returns the workspace with its current folders.
        notify: shows the user a sentence.
    """

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        boundary: Callable[[], Workspace],
        notify: Callable[[str], None],
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._boundary = boundary
        self._notify = notify
        self._recovering = trio.Lock()

    async def changes(
        self, chat_id: str, content_ids: Sequence[str], *, needed: bool
    ) -> Sequence[Change]:
        """Return the changes of files in a chat since one of these messages.

        Raises:
            RollbackRefused: the changes are needed and cannot be read.
        """
        changes = await self._store.changes_since(chat_id, content_ids)
        if changes is None and needed:
            raise RollbackRefused("Nothing was undone: the stored chats cannot be read now.")
        return changes or ()

    @asynccontextmanager
    async def alone(self, chat_id: str) -> AsyncIterator[None]:
        """Hold the lock for restoring files inside the block.

        An interrupted rollback of the chat is finished first.

        Raises:
            RollbackRefused: another server holds the lock too long, or the disk refuses.
        """
        try:
            async with lock(self._store.rollback_lock, seconds=ALONE_SECONDS):
                await self._finish(chat_id)
                yield
        except OSError as fault:
            is_locked = isinstance(fault, Locked)
            why = "another server is restoring files" if is_locked else fault.strerror
            raise RollbackRefused(f"Nothing was undone: {why}. Try again in a moment.") from fault

    async def reload_if_gone(self, chat: Chat, cut: _Cut) -> bool:
        """Load the stored history if another server has rolled the chat back; return whether."""
        if (
            cut.named_by is None
            or await self._store.has_message(chat.id, cut.named_by) is not False
        ):
            return False
        loaded = await self._store.find(chat.id)
        if loaded is None:  # since just now
            chat.truncate(cut.place)
        else:
            messages = () if loaded.chat is None else loaded.chat.messages
            chat.history[:] = [restored(each) for each in messages]
            chat.truncate(len(messages))
        chat.unstored_changes = [
            each for each in chat.unstored_changes if each.content_id not in cut.content_ids
        ]
        return True

    async def plan(self, changes: Sequence[Change], lost: Collection[str] = ()) -> Plan:
        """Plan how to undo changes, except in files that are `lost`; write nothing."""
        disk = Disk(self._boundary(), checkpoint=trio.from_thread.check_cancelled)
        return await trio.to_thread.run_sync(plan, changes, disk, lost)

    async def carry_out(
        self,
        rollback: Rollback,
        settle: Callable[[], tuple[str | None, ChatSettings | None]],
        *,
        allow_partial: bool,
    ) -> tuple[SkippedFile, ...]:
        """Restore the files, then remove the messages; call it inside `alone` if there are files.

        Args:
            rollback: the rollback.
            settle: called once the files are restored; returns the chat's new title and settings.
            allow_partial: remove the messages even if a file cannot be restored.

        Returns:
            The files that were not restored.

        Raises:
            RollbackRefused: the rollback cannot be recorded, and nothing was undone; or a file
                could not be restored, and the messages and before-images stay.
        """
        if not rollback.steps:
            title, settings = settle()
            await self._store.finish_rollback(rollback, title=title, settings=settings)
            return ()
        if not await self._store.note_rollback(rollback):  # or not yet
            await self._store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused("Nothing was undone: the rollback cannot be recorded on disk.")
        skipped = await self._apply(rollback)
        if skipped and not (allow_partial and _is_readable(skipped)):
            await self._store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused(
                "These files could not be restored, so the messages were kept:\n"
                f"{skipped_lines(skipped)}\n\n"
                "Roll back only the messages, or repeat the rollback to skip these files.",
                skipped,
            )
        title, settings = settle()
        await self._store.finish_rollback(rollback, title=title, settings=settings)
        return skipped

    async def recover(self, chat_id: str = "") -> None:
        """Finish interrupted rollbacks of this workspace and of one chat."""
        async with self._recovering:
            for rollback in await self._store.unfinished_rollbacks(self._workspace, chat_id):
                try:
                    async with lock(self._store.rollback_lock, seconds=LOCK_SECONDS):
                        await self._finish(rollback.chat)
                except OSError:  # another server finishes them
                    return

    async def _finish(self, chat_id: str) -> None:
        for rollback in await self._store.unfinished_rollbacks("", chat_id):
            skipped = await self._apply(rollback)
            if not _is_readable(skipped):
                return
            await self._store.finish_rollback(_without_loss(rollback) if skipped else rollback)
            text = "An interrupted rollback was finished"
            stay = (
                f". The messages were kept. Files that were not restored:\n{skipped_lines(skipped)}"
                if skipped
                else "."
            )
            self._notify(text + stay)

    async def _apply(self, rollback: Rollback) -> tuple[SkippedFile, ...]:
        """Do the remaining steps; end at an unreadable content, since later steps depend on it."""
        skipped = []
        workspace = self._boundary()
        for step in rollback.steps:
            content = None
            if step.change is not None:
                content = await self._store.content(step.change)
                if content is None:
                    skipped.append(SkippedFile(step.path, _UNREADABLE))
                    break
            why = await trio.to_thread.run_sync(apply_step, step, content, workspace, rollback.chat)
            if why:
                skipped.append(SkippedFile(step.path, why))
            await self._store.note_step(rollback.chat, step.path)
        return tuple(skipped)


def _contain_commands(messages: Sequence[Message]) -> bool:
    """Return whether messages, or their subagents' messages, contain calls of commands."""
    for part in (part for message in messages for part in message.parts):
        match part:
            case ToolCallPart(server=server, tool=tool) if (server, tool) == _COMMAND:
                return True
            case ToolResultPart(subagent=subagent) if subagent is not None:
                if _contain_commands(subagent.messages):
                    return True
    return False


def _is_readable(skipped: Sequence[SkippedFile]) -> bool:
    return all(each.why != _UNREADABLE for each in skipped)


def _without_loss(rollback: Rollback) -> Rollback:
    """Return a rollback that ends without removing messages or before-images."""
    return attrs.evolve(rollback, cut=None, first_change=None)


@attrs.frozen(kw_only=True)
class _Cut:
    """The position where a history is cut.

    Attributes:
        place: the position of the first removed message.
        named_by: the id of the cut in the store: see `Rollback.cut`.
        earlier: see `Rollback.earlier`.
        content_ids: the content ids of the removed messages.
        last_remaining: the content id of the last remaining message of the user.
    """

    place: int
    named_by: str | None
    earlier: int
    content_ids: Sequence[str]
    last_remaining: str | None


def _cut_of(chat: Chat, content_id: str) -> _Cut:
    """Find the position where a rollback cuts the history.

    Raises:
        UnknownMessage: the chat has no such message, or the store cannot identify it.
    """
    place, named_by, earlier = _place_of_cut(chat, content_id)
    last_remaining = [
        each.content_id for each in chat.history[:place] if each.content_id is not None
    ]
    return _Cut(
        place=place,
        named_by=named_by,
        earlier=earlier,
        content_ids=[
            each.content_id for each in chat.history[place:] if each.content_id is not None
        ],
        last_remaining=last_remaining[-1] if last_remaining else None,
    )


def _place_of_cut(chat: Chat, content_id: str) -> tuple[int, str | None, int]:
    history = chat.history
    cut = chat.unrecorded_prompts.get(content_id)
    if cut is None:
        place, earlier = place_of(history, content_id)
        return place - earlier, content_id, earlier
    if cut == len(history):
        return cut, None, 0
    for place in (*range(cut, len(history)), *reversed(range(cut))):
        if (near := history[place].content_id) is not None:
            return cut, near, place - cut
    raise UnknownMessage


def place_of(history: Sequence[Message], content_id: str) -> tuple[int, int]:
    """Return the position of a user's message, and the number of its prompt's messages before it.

    Raises:
        UnknownMessage: the history has no such message.
    """
    for place, message in enumerate(history):
        if message.content_id == content_id:
            earlier = 0
            while earlier < place and _opens_with(history[place - earlier - 1]):
                earlier += 1
            return place, earlier
    raise UnknownMessage


def _opens_with(message: Message) -> bool:
    """Return whether a message belongs to a prompt without being the user's message."""
    return (
        message.content_id is None
        and message.origin is None
        and not message.interrupted
        and message.role != "tool"
        and not any(isinstance(part, CompactionPart) for part in message.parts)
    )

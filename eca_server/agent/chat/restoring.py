"""The restoring of files for rollbacks.

Rules: the steps are recorded first, so that another server finishes a rollback whose server was
killed; only one server at a time restores files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from eca_protocol.errors import ECAError
from eca_server.agent.chat.store.rows import Change, ChatRecord, Rollback
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.undo import Disk, Plan, SkippedFile, apply_step, plan, skipped_lines
from eca_server.config.lock import Locked, lock
from eca_server.system.threads import run_in_thread, run_on_disk
from eca_server.workspace.boundary import Workspace

LOCK_SECONDS = 2.0
"""Seconds to wait for a server that restores files, before a chat is read."""

ALONE_SECONDS = 10.0
"""Seconds to wait for the same before a rollback; without it the messages would stay."""

_UNREADABLE = "its previous content cannot be read now"
_NO_CHANGES = "Nothing was undone: the stored chats cannot be read now."


class RollbackRefused(ECAError):
    """A rollback that undid nothing; the text gives the user the reason.

    Attributes:
        skipped: the files that cannot be restored.
    """

    def __init__(self, words: str, skipped: tuple[SkippedFile, ...] = ()) -> None:
        super().__init__(words)
        self.skipped = skipped


@attrs.define
class Rollbacks:
    """Restores files for the chats of one workspace.

    Attributes:
        store: the stored chats.
        workspace: the workspace under which the chats are listed.
        boundary: returns the workspace with its current folders.
        notify: shows the user a sentence.
    """

    store: Store
    _workspace: str
    _boundary: Callable[[], Workspace] = attrs.field(kw_only=True)
    _notify: Callable[[str], None] = attrs.field(kw_only=True)
    _recovering: trio.Lock = attrs.field(init=False, factory=trio.Lock)

    async def first_change(
        self, chat_id: str, content_ids: Sequence[str], *, needed: bool
    ) -> int | None:
        """Return the number of the first change of a file of these messages, or None.

        Raises:
            RollbackRefused: it is needed and cannot be read.
        """
        number = await self.store.first_change(chat_id, content_ids)
        if number is None and needed:
            raise RollbackRefused(_NO_CHANGES)
        return number or None

    async def changes_from(self, chat_id: str, first: int) -> Sequence[Change]:
        """Return the changes of files in a chat from a number on.

        Raises:
            RollbackRefused: they cannot be read.
        """
        changes = await self.store.changes_from(chat_id, first)
        if changes is None:
            raise RollbackRefused(_NO_CHANGES)
        return changes

    @asynccontextmanager
    async def alone(self, chat_id: str) -> AsyncIterator[None]:
        """Hold the lock for restoring files inside the block.

        An interrupted rollback of the chat is finished first.

        Raises:
            RollbackRefused: another server holds the lock too long, or the disk refuses.
        """
        try:
            async with lock(self.store.rollback_lock, seconds=ALONE_SECONDS):
                await self._finish(chat_id)
                yield
        except OSError as fault:
            is_locked = isinstance(fault, Locked)
            why = "another server is restoring files" if is_locked else fault.strerror
            raise RollbackRefused(f"Nothing was undone: {why}. Try again in a moment.") from fault

    async def plan(self, changes: Sequence[Change], lost: Collection[str] = ()) -> Plan:
        """Plan how to undo changes, except in files that are `lost`; write nothing."""
        disk = Disk(self._boundary(), checkpoint=trio.from_thread.check_cancelled)
        return await run_on_disk(partial(plan, changes, disk, lost))

    async def carry_out(
        self,
        rollback: Rollback,
        settle: Callable[[], ChatRecord],
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
            await self.store.finish_rollback(rollback, settle())
            return ()
        if not await self.store.note_rollback(rollback):  # or not yet
            await self.store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused("Nothing was undone: the rollback cannot be recorded on disk.")
        skipped = await self._apply(rollback)
        if skipped and not (allow_partial and _is_readable(skipped)):
            await self.store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused(
                "These files could not be restored, so the messages were not removed:\n"
                f"{skipped_lines(skipped)}\n\n"
                "Roll back only the messages, or repeat the rollback to skip these files.",
                skipped,
            )
        await self.store.finish_rollback(rollback, settle())
        return skipped

    async def recover(self, chat_id: str = "") -> None:
        """Finish interrupted rollbacks of this workspace and of one chat."""
        async with self._recovering:
            for rollback in await self.store.unfinished_rollbacks(self._workspace, chat_id):
                try:
                    async with lock(self.store.rollback_lock, seconds=LOCK_SECONDS):
                        await self._finish(rollback.chat)
                except OSError:  # another server finishes them
                    return

    async def _finish(self, chat_id: str) -> None:
        for rollback in await self.store.unfinished_rollbacks("", chat_id):
            skipped = await self._apply(rollback)
            if not _is_readable(skipped):
                return
            await self.store.finish_rollback(_without_loss(rollback) if skipped else rollback)
            text = "An interrupted rollback was finished"
            stay = (
                ". The messages were not removed. Files that were not restored:\n"
                f"{skipped_lines(skipped)}"
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
                content = await self.store.content(step.change)
                if content is None:
                    skipped.append(SkippedFile(step.path, _UNREADABLE))
                    break
            why = await run_in_thread(partial(apply_step, step, content, workspace, rollback.chat))
            if why:
                skipped.append(SkippedFile(step.path, why))
            await self.store.note_step(rollback.chat, step.path)
        return tuple(skipped)


def _is_readable(skipped: Sequence[SkippedFile]) -> bool:
    return all(each.why != _UNREADABLE for each in skipped)


def _without_loss(rollback: Rollback) -> Rollback:
    """Return a rollback that ends without removing messages or before-images."""
    return attrs.evolve(rollback, cut=None, first_change=None)

"""A chat that goes back to before a message, and the files it has changed since with it.

The rules it keeps: nothing is undone unless all of it can be, or the rest was asked for; what is
to be undone is noted first, so that a server that is killed in the middle is followed by one that
finishes it; of two servers only one puts files back at a time.
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
from eca_server.chat.undo import Disk, LeftAlone, Plan, named, plan, take
from eca_server.config.lock import Locked, lock
from eca_server.content_formatting import NATIVE, PREFIX
from eca_server.llm.history import CompactionPart, Message, ToolCallPart, ToolResultPart
from eca_server.tools.output import counted
from eca_server.workspace import Workspace

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat

__all__ = [
    "RollbackRefused",
    "Rollbacks",
    "RolledBack",
    "UnknownMessage",
    "Wanted",
    "place_of",
    "roll_back",
]

LOCK_SECONDS = 2.0
"""How long another server that puts files back is waited for, where a chat is read."""

ALONE_SECONDS = 10.0
"""The same for a rollback: without an answer its words would go on to the model."""

BODY_SECONDS = 2.0
"""How long a call that was stopped, and may be writing, is waited for."""

_UNREADABLE = "what it was cannot be read now"
_COMMAND: Final = (NATIVE, f"{PREFIX}shell_command")


class UnknownMessage(ECAError):
    """The chat has no such message of the user's."""


class RollbackRefused(ECAError):
    """Nothing was undone, and why; the text is for the user.

    Attributes:
        left: the files that cannot be put back.
    """

    def __init__(self, words: str, left: tuple[LeftAlone, ...] = ()) -> None:
        super().__init__(words)
        self.left = left


@attrs.frozen(kw_only=True)
class Wanted:
    """What a rollback is to undo.

    Attributes:
        content_id: the message of the user's before which the chat goes back.
        messages: that message and what came after it.
        files: what calls changed since.
        rest: files that can be put back are, even if others cannot.
    """

    content_id: str
    messages: bool = True
    files: bool = True
    rest: bool = False


@attrs.frozen(kw_only=True)
class RolledBack:
    """What has come of a rollback.

    Attributes:
        restored: how many files are as they were.
        deleted: how many files that did not exist before are gone.
        left: which are not, and why.
        is_unknown: nobody knows whether files were changed.
        has_commands: there were some, and nobody knows what those changed.
    """

    restored: int = 0
    deleted: int = 0
    left: tuple[LeftAlone, ...] = ()
    is_unknown: bool = False
    has_commands: bool = False

    def told(self) -> str:
        """It, for the user; empty where no file was concerned."""
        done = [f"{counted(self.restored, 'file')} restored"] * bool(self.restored)
        if self.deleted:
            done.append(f"{counted(self.deleted, 'new file')} deleted")
        lines = [f"{', '.join(done)}."] if done else []
        if self.left:
            lines.append(f"Left as they are:\n{named(self.left)}")
        if self.has_commands:
            lines.append("What commands changed stays as it is.")
        if self.is_unknown:
            lines.append("Chats are not stored here: files stay as they are.")
        return "\n\n".join(lines)


async def roll_back(chat: Chat, rollbacks: Rollbacks | None, wanted: Wanted) -> RolledBack:
    """Let a chat go back, while no turn of it runs.

    Args:
        chat: it is restored.
        rollbacks: puts files back; None: chats are not stored, so nobody knows what they were.
        wanted: what is undone.

    Raises:
        UnknownMessage: there is nothing to go back to.
        RollbackRefused: files were changed since, or may yet be, or the store cannot be used.
    """
    cut = _cut_of(chat, wanted.content_id)
    if rollbacks is None:
        gone = chat.history[cut.place :]
        called = any(isinstance(part, ToolCallPart) for m in gone for part in m.parts)
        if wanted.messages:
            chat.go_back(cut.place)
        return RolledBack(is_unknown=wanted.files and called)
    if wanted.files and not await chat.bodies_ended(BODY_SECONDS):
        raise RollbackRefused("A call that was stopped has not ended yet. Nothing was undone.")
    if not await rollbacks.changes(chat.id, cut.said, needed=wanted.files) or not wanted.files:
        return await _undo(chat, rollbacks, wanted, cut)
    async with rollbacks.alone(chat.id):  # from here on what is stored is final
        if await rollbacks.reload_if_gone(chat, cut):
            return RolledBack()
        return await _undo(chat, rollbacks, wanted, cut)


async def _undo(chat: Chat, rollbacks: Rollbacks, wanted: Wanted, cut: _Cut) -> RolledBack:
    """Undo what is wanted; read the changes of files as they are now."""
    changes = await rollbacks.changes(chat.id, cut.said, needed=wanted.files)
    gone = len(chat.history) - cut.place
    has_commands = wanted.files and _have_commands(chat.history[cut.place :])
    unkept = [each for each in chat.unkept if each.content_id in cut.said]
    lost = {path for each in unkept if each.numbers is None for path in each.paths}
    planned = await rollbacks.plan(changes, lost) if wanted.files else Plan()
    if planned.left and not wanted.rest:
        raise RollbackRefused(
            "Nothing was undone, for these files cannot be put back:\n"
            f"{named(planned.left)}\n\n"
            "Roll back the messages alone, or ask once more to have the other files put back.",
            planned.left,
        )
    rollback = Rollback(
        chat=chat.id,
        cut=cut.named_by if wanted.messages else None,
        earlier=cut.earlier,
        kept=cut.kept,
        first_change=changes[0].number if changes else None,
        undoes=wanted.files,
        steps=planned.steps,
    )

    def settle() -> tuple[str | None, ChatSettings | None]:
        for each in unkept:
            each.content_id = cut.kept if cut.kept and not wanted.files else ""
        chat.unkept = [each for each in chat.unkept if each.content_id]
        if wanted.messages:
            chat.go_back(len(chat.history) - gone)  # it may have been read back meanwhile
        return chat.title, chat.kept_settings

    left = await rollbacks.carry_out(rollback, settle, rest=wanted.rest)
    stay = {each.path for each in left}
    deleted = sum(each.is_deletion and each.path not in stay for each in planned.steps)
    return RolledBack(
        restored=planned.files - len(stay) - deleted,
        deleted=deleted,
        left=planned.left + left,
        has_commands=has_commands,
    )


class Rollbacks:
    """Puts files back for the chats of one workspace.

    Args:
        store: where it is noted what they were.
        workspace: the workspace the chats are listed under.
        boundary: what its folders are now.
        tell: shows the user a sentence.
    """

    def __init__(
        self,
        store: Store,
        workspace: str,
        *,
        boundary: Callable[[], Workspace],
        tell: Callable[[str], None],
    ) -> None:
        self._store = store
        self._workspace = workspace
        self._boundary = boundary
        self._tell = tell
        self._recovering = trio.Lock()

    async def changes(
        self, chat_id: str, content_ids: Sequence[str], *, needed: bool
    ) -> Sequence[Change]:
        """Return what a chat has changed since one of these messages.

        Raises:
            RollbackRefused: that cannot be read, and is needed.
        """
        changes = await self._store.changes_since(chat_id, content_ids)
        if changes is None and needed:
            raise RollbackRefused("The stored chats cannot be read now. Nothing was undone.")
        return changes or ()

    @asynccontextmanager
    async def alone(self, chat_id: str) -> AsyncIterator[None]:
        """Let no other server put files back inside the block.

        What a server that was killed has left of the chat is finished first.

        Raises:
            RollbackRefused: another server is at it for too long, or the disk refuses.
        """
        try:
            async with lock(self._store.rollback_lock, seconds=ALONE_SECONDS):
                await self._finish(chat_id)
                yield
        except OSError as fault:
            why = "another server puts files back" if isinstance(fault, Locked) else fault.strerror
            raise RollbackRefused(f"It cannot be done now: {why}. Nothing was undone.") from fault

    async def reload_if_gone(self, chat: Chat, cut: _Cut) -> bool:
        """Give a chat the stored history if another server has rolled it back."""
        if (
            cut.named_by is None
            or await self._store.has_message(chat.id, cut.named_by) is not False
        ):
            return False
        found = await self._store.find(chat.id)
        if found is None:  # since just now
            chat.go_back(cut.place)
        else:
            messages = () if found.chat is None else found.chat.messages
            chat.history[:] = [restored(each) for each in messages]
            chat.go_back(len(messages))
        chat.unkept = [each for each in chat.unkept if each.content_id not in cut.said]
        return True

    async def plan(self, changes: Sequence[Change], lost: Collection[str] = ()) -> Plan:
        """How these changes are undone, but for files that are `lost`; nothing is written."""
        disk = Disk(self._boundary(), checkpoint=trio.from_thread.check_cancelled)
        return await trio.to_thread.run_sync(plan, changes, disk, lost)

    async def carry_out(
        self,
        rollback: Rollback,
        settle: Callable[[], tuple[str | None, ChatSettings | None]],
        *,
        rest: bool,
    ) -> tuple[LeftAlone, ...]:
        """Put the files back, then let the messages go; `alone` is around it if there are files.

        Args:
            rollback: what is undone.
            settle: called once the files are back; the chat's title and settings from now on.
            rest: the messages go even if a file cannot be put back.

        Returns:
            The files that were left alone.

        Raises:
            RollbackRefused: it cannot be noted, and nothing was undone; or a file could not be
                put back, and the messages stay with what the files were.
        """
        if not rollback.steps:
            title, settings = settle()
            await self._store.finish_rollback(rollback, title=title, settings=settings)
            return ()
        if not await self._store.note_rollback(rollback):  # or not yet
            await self._store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused("It cannot be noted on disk. Nothing was undone.")
        left = await self._take(rollback)
        if left and not (rest and _is_readable(left)):
            await self._store.finish_rollback(_without_loss(rollback))
            raise RollbackRefused(
                "These files could not be put back, and the messages stay:\n"
                f"{named(left)}\n\n"
                "Roll back the messages alone, or ask once more to do it without them.",
                left,
            )
        title, settings = settle()
        await self._store.finish_rollback(rollback, title=title, settings=settings)
        return left

    async def recover(self, chat_id: str = "") -> None:
        """Finish what a server that was killed has left, of this workspace and of that chat."""
        async with self._recovering:
            for found in await self._store.unfinished_rollbacks(self._workspace, chat_id):
                try:
                    async with lock(self._store.rollback_lock, seconds=LOCK_SECONDS):
                        await self._finish(found.chat)
                except OSError:  # another server is at it
                    return

    async def _finish(self, chat_id: str) -> None:
        for rollback in await self._store.unfinished_rollbacks("", chat_id):
            left = await self._take(rollback)
            if not _is_readable(left):
                return
            await self._store.finish_rollback(_without_loss(rollback) if left else rollback)
            words = "A rollback that was interrupted is finished now"
            stay = f", but the messages stay, and these files:\n{named(left)}" if left else "."
            self._tell(words + stay)

    async def _take(self, rollback: Rollback) -> tuple[LeftAlone, ...]:
        """Do what is left to do, up to a content that cannot be read: a step builds on another."""
        left = []
        workspace = self._boundary()
        for step in rollback.steps:
            content = None
            if step.change is not None:
                content = await self._store.content(step.change)
                if content is None:
                    left.append(LeftAlone(step.path, _UNREADABLE))
                    break
            why = await trio.to_thread.run_sync(take, step, content, workspace, rollback.chat)
            if why:
                left.append(LeftAlone(step.path, why))
            await self._store.note_step(rollback.chat, step.path)
        return tuple(left)


def _have_commands(messages: Sequence[Message]) -> bool:
    """Whether they call for commands, or an agent that worked in one of their calls does."""
    for part in (part for message in messages for part in message.parts):
        match part:
            case ToolCallPart(server=server, tool=tool) if (server, tool) == _COMMAND:
                return True
            case ToolResultPart(subagent=subagent) if subagent is not None:
                if _have_commands(subagent.messages):
                    return True
    return False


def _is_readable(left: Sequence[LeftAlone]) -> bool:
    return all(each.why != _UNREADABLE for each in left)


def _without_loss(rollback: Rollback) -> Rollback:
    """One that ends without anything being forgotten."""
    return attrs.evolve(rollback, cut=None, first_change=None)


@attrs.frozen(kw_only=True)
class _Cut:
    """The place where a history is cut.

    Attributes:
        place: the first message that goes.
        named_by: how the store finds it: see `Rollback.cut`.
        earlier: see `Rollback.earlier`.
        said: the content ids of the messages that go.
        kept: that of the last one of the user's that stays.
    """

    place: int
    named_by: str | None
    earlier: int
    said: Sequence[str]
    kept: str | None


def _cut_of(chat: Chat, content_id: str) -> _Cut:
    """Find the place to which a chat goes back.

    Raises:
        UnknownMessage: there is nothing to go back to, or nothing by which it can be found.
    """
    place, named_by, earlier = _place_of_cut(chat, content_id)
    kept = [each.content_id for each in chat.history[:place] if each.content_id is not None]
    return _Cut(
        place=place,
        named_by=named_by,
        earlier=earlier,
        said=[each.content_id for each in chat.history[place:] if each.content_id is not None],
        kept=kept[-1] if kept else None,
    )


def _place_of_cut(chat: Chat, content_id: str) -> tuple[int, str | None, int]:
    history = chat.history
    cut = chat.unheard.get(content_id)
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
    """Where a message of the user's stands, and how many before it belong to its prompt.

    Raises:
        UnknownMessage: it is none of the history.
    """
    for place, message in enumerate(history):
        if message.content_id == content_id:
            earlier = 0
            while earlier < place and _opens_with(history[place - earlier - 1]):
                earlier += 1
            return place, earlier
    raise UnknownMessage


def _opens_with(message: Message) -> bool:
    """Whether a prompt put a message before the user's words that nobody said."""
    return (
        message.content_id is None
        and message.origin is None
        and not message.interrupted
        and message.role != "tool"
        and not any(isinstance(part, CompactionPart) for part in message.parts)
    )

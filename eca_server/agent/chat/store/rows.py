"""The stored values of a chat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

import attrs

from eca_protocol.errors import ECAError
from eca_server.agent.chat.flags import Flag
from eca_server.models.history import Message

GENERATED: Final = "-"
"""The beginning of the id of a stored message that has no content id."""

FOLDER: Final = b"folder"
"""The state of a directory, in place of the digest of a file's content."""


@attrs.frozen(kw_only=True)
class TurnUsage:
    """The usage of one turn: its tokens, and its cost in US dollars; None: unknown."""

    tokens: int
    cost: Decimal | None = None


@attrs.frozen(kw_only=True)
class ChatSettings:
    """The settings of a chat.

    Attributes:
        model: the model of its last prompt, as `provider/model`.
        behavior: the behavior of its last prompt.
        trust: calls that need approval run without it.
        is_named_by_user: the user gave the title, and no generated title replaces it.
        flags: the user's flags, by their content ids.
        kind: `inline` if its answers are shown in the text; None: an ordinary chat.
        acp_session: the session of an ACP agent with the chat's last prompt: the agent's name, the
            prompt's content id and the session's id, as JSON.
        context: the tokens of the model's context at the end of the last turn: `used`, and where
            they are known its limits, `context` and `output`; empty: unknown.
    """

    model: str | None = None
    variant: str | None = None
    behavior: str | None = None
    trust: bool = False
    is_named_by_user: bool = False
    flags: Mapping[str, Flag] = attrs.field(factory=dict)
    kind: str | None = None
    acp_session: str | None = None
    context: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class StoredChat:
    """A stored chat.

    Attributes:
        title: its title; None: it has none.
        messages: its whole history, oldest first.
        usages: the usage of each of its turns, oldest first.
        created: the time it was first stored, in seconds since the epoch.
        updated: the time of the last addition.
    """

    id: str
    title: str | None
    messages: tuple[Message, ...]
    usages: tuple[TurnUsage, ...]
    created: float
    updated: float
    settings: ChatSettings = ChatSettings()


@attrs.frozen
class LoadResult:
    """The result of loading a chat.

    Attributes:
        chat: None if there is none with this id.
        has_unfinished_rollbacks: a rollback was interrupted, and has to be finished first.
        last: the number and the id of the chat's last message, or 0 and an empty text.
    """

    chat: StoredChat | None
    has_unfinished_rollbacks: bool = False
    last: tuple[int, str] = (0, "")


@attrs.frozen(kw_only=True)
class ChatSummary:
    """An entry in a list of chats; `beginning`: the first words of a chat without title."""

    id: str
    title: str | None
    beginning: str
    created: float
    updated: float
    messages: int = 0
    model: str | None = None
    kind: str | None = None


@attrs.frozen(kw_only=True)
class BeforeImage:
    """A file before a call changes it; a turn may have several of one path.

    It is stored before the change, which may therefore have failed. Before a file is restored, the
    last change first, its content must be compared with `after`. A directory that a call creates
    is stored like a new file whose content is `FOLDER`.

    Attributes:
        content_id: the id of the user's last message before the change.
        path: the real path of the file, or of the directory that was moved there.
        moved_from: the real path it was moved from, if it was: moved back, it is restored.
        existed: whether there was a file.
        mode: its permission bits.
        group: its group.
        data: its bytes; None if there was no file, or it was too large to be stored.
        after: the digest of its content after the change (see `Fingerprint`).
    """

    content_id: str
    path: str
    moved_from: str | None = None
    existed: bool
    mode: int | None = None
    group: int | None = None
    data: bytes | None = attrs.field(default=None, repr=False)
    after: bytes | None = attrs.field(default=None, repr=False)


@attrs.define(kw_only=True, eq=False)
class BeforeImageBatch:
    """The before-images of one call.

    Attributes:
        content_id: the id of the user's last message before the changes.
        directories: which of `paths` are created directories.
        numbers: their numbers in the store; None: they are not stored, or not yet.
    """

    chat: str
    content_id: str
    paths: tuple[str, ...]
    directories: frozenset[str] = frozenset()
    numbers: tuple[int, ...] | None = None


@attrs.frozen
class Change:
    """A change of a file without its previous bytes: enough to plan how to undo it.

    Attributes:
        number: the number of its before-image in the store.
        path: the real path of the file, or of the directory that was moved there.
        moved_from: the real path it was moved from, if it was.
        existed: whether there was a file.
        before: the digest of its content; None: there was none, or it is not stored.
        after: the digest of its content after the change.
    """

    number: int
    path: str
    moved_from: str | None = None
    existed: bool = True
    before: bytes | None = None
    after: bytes | None = None


@attrs.frozen(kw_only=True)
class StoredContent:
    """The previous permission bits, group and bytes of a file."""

    mode: int | None
    group: int | None = None
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class UndoStep:
    """One step that undoes changes on the disk.

    Attributes:
        path: the real path of the file or directory.
        moved_to: the real path it is moved back to, if it is.
        present: the digest of its current content; None: nothing is there.
        change: the number of the change whose before-image is restored; None: the file is deleted
            or moved.
    """

    path: str
    moved_to: str | None = None
    present: bytes | None = None
    change: int | None = None

    @property
    def is_deletion(self) -> bool:
        """True if the file did not exist before, and is deleted."""
        return self.moved_to is None and self.change is None and self.present != FOLDER


@attrs.frozen
class Rollback:
    """A rollback of a chat to one of its messages, in the order of the columns of its row.

    Attributes:
        cut: the id of the message; None: no messages are removed.
        earlier: the number of messages directly before it that are removed, too; below zero: the
            number of messages, from it on, that remain.
        last_remaining: the id of the last remaining message of the user.
        first_change: the number of the first change of a file that came after it.
        undoes: files are restored, too.
        last_message: the number of the last message to remove; None: all later ones.
        last_change: the number of the last change to undo; None: all later ones.
        steps: the remaining steps, in order.
    """

    chat: str
    cut: str | None
    earlier: int = 0
    last_remaining: str | None = None
    first_change: int | None = None
    undoes: bool = attrs.field(default=False, converter=bool)
    last_message: int | None = None
    last_change: int | None = None
    steps: tuple[UndoStep, ...] = ()


@attrs.frozen
class ChatRow:
    """The row of a chat; times are in seconds since the epoch."""

    id: str
    workspace: str
    title: str | None
    created: float
    updated: float


CHAT_COLUMNS: Final = tuple(field.name for field in attrs.fields(ChatRow))
"""The columns of the table of chats, in the order of a `ChatRow`."""


class UnreadableRow(ECAError):
    """A row without a readable message."""


@attrs.frozen(kw_only=True)
class Piece:
    """A piece of a message of a running turn.

    Attributes:
        message: the number of the message in its turn.
        number: of the piece in its message; the first one takes the place of all there are.
        body: the new part of the message.
    """

    message: int
    number: int
    body: Message


@attrs.frozen(kw_only=True)
class Running:
    """The state of a turn in the store.

    Attributes:
        turn: the content id of its prompt.
        stored: the number of its messages that are stored as such.
        is_over: the turn has ended, and all of its messages are stored.
    """

    turn: str
    stored: int = 0
    is_over: bool = False


@attrs.frozen(kw_only=True)
class ChatRecord:
    """Additions to a stored chat.

    Attributes:
        messages: a turn's messages, in order.
        title: the chat's title; None: keep the stored one.
        settings: the chat's settings; None: keep the stored ones.
        usage: the turn's usage; None: it called no model.
        running: the state of the running turn with the messages; None: do not record it.
    """

    messages: Sequence[Message] = attrs.field(default=(), converter=tuple[Message, ...])
    title: str | None = None
    settings: ChatSettings | None = None
    usage: TurnUsage | None = None
    running: Running | None = None


NOTHING_NEW: Final = ChatRecord()

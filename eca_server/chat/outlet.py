"""The outlet of a turn: its chat, as the turn and its body see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import attrs
import trio

from eca_protocol.messages import ChatContent, ChatImageContent, ChatStatus
from eca_server.chat.history import History
from eca_server.chat.store import ChatSettings
from eca_server.chat.store.running import Piece
from eca_server.chat.stored_messages import ChatRecord
from eca_server.chat.tool_call import ToolCall
from eca_server.chat.usage import SessionUsage
from eca_server.content_formatting import Role
from eca_server.session import Session
from eca_server.tools.tool import FileChange

__all__ = ["ChatServices", "Outlet", "TurnStorage"]


class TurnStorage(Protocol):
    """The stored part of a chat, as its turn sees it; all writes have a time limit."""

    @property
    def is_persistent(self) -> bool:
        """True if chats are stored."""
        ...

    async def store(self, record: ChatRecord) -> None:
        """Store messages of the turn; never raise."""
        ...

    async def store_pieces(self, turn: str, pieces: Sequence[Piece]) -> bool:
        """Store pieces of the draft of a turn; return whether they are on disk."""
        ...

    async def store_before_images(
        self, content_id: str, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store the content of files before they are changed.

        Args:
            content_id: the id of the user's last message.
            changes: the changes.

        Returns:
            A function to call if nothing was changed.
        """
        ...

    async def store_picture(self, picture: ChatImageContent) -> None:
        """Store a picture as a file."""
        ...


class Outlet(Protocol):
    """A chat that runs one turn."""

    @property
    def id(self) -> str:
        """The chat's id."""
        ...

    @property
    def parent_id(self) -> str | None:
        """The chat whose agent started this subagent; None: a chat of the user."""
        ...

    @property
    def services(self) -> ChatServices:
        """The services that the chat shares with others."""
        ...

    @property
    def history(self) -> History:
        """The messages before the turn."""
        ...

    @property
    def usage(self) -> SessionUsage:
        """The usage before the turn."""
        ...

    @property
    def storage(self) -> TurnStorage:
        """The stored part of the chat."""
        ...

    @property
    def settings(self) -> ChatSettings:
        """The settings of the chat."""
        ...

    @property
    def status(self) -> ChatStatus:
        """The status, as the protocol names it."""
        ...

    @property
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run or wait for the user."""
        ...

    def emit(self, role: Role, content: ChatContent) -> None:
        """Send a content to the client."""
        ...

    def changed(self) -> None:
        """Note that the status, or the state of a call, has changed."""
        ...

    def request_title(self, make_title: Callable[[], Awaitable[str | None]]) -> None:
        """Request a title in the background, if there is none (W-25)."""
        ...

    async def restore(self) -> None:
        """Load the stored chat, if there may be one and it is not loaded yet."""
        ...

    def closed(self) -> None:
        """Take the messages of the turn, which is closed, and write its end."""
        ...


@attrs.frozen(kw_only=True)
class ChatServices:
    """The services that the chats of one connection share.

    Attributes:
        session: the connected client.
        nursery: the nursery of the chats' tasks.
        watch: called when the status of a chat or of a call changes.
    """

    session: Session
    nursery: trio.Nursery
    watch: Callable[[Outlet], None] = lambda _: None

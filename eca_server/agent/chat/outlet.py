"""The outlet of a turn: its chat, as the turn and its body see it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import trio

from eca_protocol.messages import ChatContent, ChatStatus
from eca_protocol.server.chat_states import STATUSES, ChatState
from eca_protocol.server.texts import Role
from eca_server.agent.chat.history import History
from eca_server.agent.chat.instructions import System
from eca_server.agent.chat.memory import Storage
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.agent.chat.title import MakeTitle
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.usage import SessionUsage
from eca_server.agent.tools.files import Ledger
from eca_server.client.session import Session


@attrs.frozen(kw_only=True)
class ChatServices:
    """The services that the chats of one connection share.

    Attributes:
        watch: called when the status of a chat that is not deleted, or of a call, changes.
    """

    session: Session
    nursery: trio.Nursery
    watch: Callable[[Outlet], None] = lambda _: None


@attrs.define(kw_only=True)
class Selection:
    """The client's selection; None: not selected.

    Attributes:
        model: as `provider/model`.
    """

    model: str | None = None
    variant: str | None = None
    behavior: str | None = None


class Outlet(ABC):
    """A chat that runs turns, of the user or of a subagent.

    Attributes:
        parent_id: the chat whose agent started this subagent; None: a chat of the user.
        history: the messages, without those of the running turn.
        usage: tokens and costs, without those of the running turn.
        settings: the stored settings; changed by `set`.
        selection: the client's selection for this chat alone.
        ledger: the files that the chat's model has seen.
        systems: the instructions by behavior, built once.
    """

    def __init__(
        self, chat_id: str, services: ChatServices, storage: Storage, parent_id: str | None = None
    ) -> None:
        self.id = chat_id
        self.services = services
        self.storage = storage
        self.parent_id = parent_id
        self.history = History()
        self.usage = SessionUsage()
        self.settings = ChatSettings()
        self.selection = Selection()
        self.ledger = Ledger()
        self.systems: dict[str, System] = {}

    @property
    @abstractmethod
    def state(self) -> ChatState:
        """The state."""

    @property
    @abstractmethod
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run or wait for the user."""

    @abstractmethod
    def closed(self) -> None:
        """Take the messages of the turn, which is closed, and write its end."""

    @property
    def status(self) -> ChatStatus:
        """The status, as the protocol names it."""
        return STATUSES[self.state]

    def emit(self, role: Role, content: ChatContent) -> None:
        """Send a content to the client."""
        self.services.session.emit(self.id, role, content)

    def set(self, **changes: Any) -> None:
        """Change some of `settings`."""
        self.settings = attrs.evolve(self.settings, **changes)

    def changed(self) -> None:
        """Note that the status, or the state of a call, has changed."""
        if self.state is not ChatState.DELETED:
            self.services.watch(self)

    def request_title(self, make_title: MakeTitle) -> None:  # noqa: B027 - not for a subagent's chat
        """Request a title in the background, if the chat needs one (W-25)."""

    async def restore(self) -> None:  # noqa: B027 - a subagent's chat is new
        """Load the stored part, if there may be one and it is not loaded yet."""

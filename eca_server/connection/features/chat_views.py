"""The client's views of chats: what a replay shows, and chats that begin with others' messages.

A fork begins with the messages up to and including the named one; afterwards the chats are
independent. Before-images of files stay with the first chat: a rollback of the fork undoes only
changes of the fork (W-43; chapter "Chat fork").
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import attrs

from eca_protocol import messages as m
from eca_protocol.errors import INVALID_PARAMS, RPCError
from eca_protocol.server.calls import Naming
from eca_protocol.server.chat_states import STATUSES
from eca_server.agent.chat import Chat
from eca_server.agent.chat.flags import flags_within
from eca_server.agent.chat.history import Page, context_used, page_of
from eca_server.agent.chat.replay import ReplayedContent, replayed
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.agent.chat.title import title_of_fork
from eca_server.agent.chat.usage import with_use
from eca_server.agent.tools.approval import policy_of
from eca_server.agent.tools.schemas import check_arguments
from eca_server.agent.tools.tasks import Tasks, lists_in, reserved_for
from eca_server.agent.tools.tool import ToolError
from eca_server.agent.tools.toolbox import ToolBox
from eca_server.client.content_formatting import NATIVE
from eca_server.connection.features.composition import Feature
from eca_server.models.history import Message, ToolCallPart
from eca_server.printable import printable_line

if TYPE_CHECKING:
    import anyio


class ChatViews(Feature):
    """The client's views of all chats."""

    async def find(self, chat_id: str) -> Chat:
        """Return the chat with this id.

        Raises:
            RPCError: it does not exist.
        """
        chat = await self.chats.find(chat_id)
        if chat is None:
            raise RPCError(
                INVALID_PARAMS,
                f"params.chatId: there is no chat {chat_id[:100]!r}",
                {"code": "chat_not_found"},
            )
        return chat

    def announce_cleared(self, chat: Chat) -> None:
        """Clear the client's view of a chat."""
        cleared = m.ChatClearedParams(chat_id=chat.id, messages=True)
        self.session.notify("chat/cleared", cleared, newest=True)

    def announce_opened(self, chat: Chat) -> None:
        """Announce a chat that the client did not open itself."""
        opened = m.ChatOpenedParams(chat_id=chat.id, title=chat.title)
        self.session.notify("chat/opened", opened, newest=True)

    def announce_status(self, chat: Chat) -> None:
        """Announce whether a chat runs, to a client that may have missed it.

        A chat of a server that was killed is running for the client, and a page that was loaded
        again does not know of a running chat.
        """
        status = m.ChatStatusChangedParams(chat_id=chat.id, status=STATUSES[chat.state])
        self.session.notify("chat/statusChanged", status)

    async def fork_chat(
        self, chat: Chat, messages: Sequence[Message], title: str | None = None
    ) -> Chat:
        """Create a chat that begins with messages of an existing one, and show it.

        Without a title, it has that of the existing chat, with a number.
        """
        flags = flags_within(chat.settings.flags, messages)
        context = chat.settings.context
        if len(messages) != len(chat.history):
            context = with_use(context, context_used(messages))
        settings = attrs.evolve(
            chat.settings,
            trust=False,
            flags=flags,
            is_named_by_user=True,
            kind=None,
            acp_session=None,
            context=context,
        )
        title = title or title_of_fork(chat.title, await self.chats.titles())
        return await self.begin_chat(messages, title, settings)

    async def begin_chat(
        self, messages: Sequence[Message], title: str, settings: ChatSettings
    ) -> Chat:
        """Create a chat with messages of an existing one, and show it to the client."""
        chat = await self.chats.begin(messages, title=title, settings=settings)
        self.selection.restore(chat)
        await self._show_new(chat)
        return chat

    async def _show_new(self, chat: Chat) -> None:
        self.announce_opened(chat)
        await chat.replayer.run(self.contents_of(chat, page_of(chat.history)))
        chat.show_usage()
        chat.titling.announce()

    async def show_again(self, chat: Chat, notice: str | None = None) -> None:
        """Clear the client's view of a chat and replay its history, with a notice at its end."""
        self.announce_cleared(chat)
        contents = self.contents_of(chat, page_of(chat.history))
        await chat.replayer.run(contents if notice is None else _with_notice(contents, notice))
        chat.show_usage()
        chat.titling.announce()

    def show_after_turn(self, chat: Chat, notice: str | None = None) -> anyio.Event:
        """Show a chat again once no turn runs, unless it is deleted by then.

        Args:
            chat: the chat.
            notice: a text of the turn that must stay on the screen; no history has it.

        Returns:
            An event that is set when it was shown.
        """

        async def show() -> None:
            if self.chats.get(chat.id) is chat:
                await self.show_again(chat, notice)

        return chat.mailbox.do(show)

    def contents_of(self, chat: Chat, page: Page) -> Generator[ReplayedContent]:
        """Yield the contents of a page of a chat, for a replay."""
        behavior = self.selection.choose(chat).behavior
        policy = policy_of(self.settings.config, behavior)
        lists = dict(lists_in(chat.history))
        described = partial(_described, self.tools.described(behavior).toolbox(policy), lists)
        return replayed(
            page.messages,
            flags=chat.settings.flags,
            describe=described,
            shows_subagents=self.session.profile.display.shows_subagents,
            ends_code=self.session.profile.display.shows_one_text,
        )


def _with_notice(contents: Generator[ReplayedContent], notice: str) -> Generator[ReplayedContent]:
    yield from contents
    yield ReplayedContent("system", m.ChatTextContent(text=notice))


def _described(
    toolbox: ToolBox, lists: Mapping[str, Tasks], part: ToolCallPart
) -> tuple[Naming, str | None]:
    """Return the names, the task list and the present summary of a past call."""
    server, name = (part.server, part.tool) if part.server else toolbox.resolve(part.name)
    tool = toolbox.find(server, name)
    summary = None
    if tool is not None:
        try:
            arguments = check_arguments(part.arguments or {}, tool.parameters)
            summary = printable_line(tool.summary(arguments))
        except ToolError:
            summary = None
    origin: Literal["native", "mcp"] = "native" if server == NATIVE else "mcp"
    shows = lists[part.id].details if part.id in lists else reserved_for(server, name)
    return Naming(id=part.id, name=name, server=server, origin=origin, shows=shows), summary


def messages_so_far(chat: Chat) -> Sequence[Message]:
    """Return a chat's messages with those of the turn that runs, up to a call without result."""
    turn = chat.turn
    return [*chat.history, *(() if turn is None else turn.calls.complete(turn.messages))]

"""The connected client, and all output to it.

All output for the user goes through `Session`, which formats contents for the client
(`content_formatting`) and drops output after the connection has closed. Only `drained` and
`request` wait.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import trio

from eca_protocol.codec import Codec
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed
from eca_protocol.message_transport import StreamTransport
from eca_protocol.messages import (
    ClientCapabilities,
    ClientInfo,
    ConfigUpdatedParams,
    ShowMessageParams,
)
from eca_protocol.methods import ECA
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_protocol.server.connected_client import writes
from eca_protocol.server.roots import Root
from eca_server.client.profiles import DEFAULT_PROFILE, ClientProfile

if TYPE_CHECKING:
    from eca_protocol.endpoint import CallAnswered
    from eca_protocol.messages import (
        ChatAskQuestionParams,
        ChatAskQuestionResponse,
        ChatContent,
        ChatImageContent,
    )
    from eca_protocol.server.texts import Role
    from eca_server.client.content_formatting import ContentFormatter

_log = logging.getLogger("eca_server")

_NEWEST = Codec(ECA, Revision.CURRENT)

REQUEST_ERRORS: Final = (ConnectionClosed, DeadlineExceeded, DecodeError, RequestFailed)
"""The errors of a request to the client: no answer, none in time, an unreadable one, a refusal."""

MessageKind: TypeAlias = Literal["error", "warning", "info"]

_LEVELS: Final[Mapping[MessageKind, int]] = {
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
}


_KEY_SECONDS = 0.25
"""The time in which no user can press two keys: one for a message, one for an approval."""


class Session:
    """The state of the client since `initialize`, and the output to it.

    Attributes:
        link: returns the URI of the file of a picture in a chat, if there is one.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.client_info = ClientInfo()
        self.capabilities = ClientCapabilities()
        self.revision = Revision.R2025_10
        self.roots: tuple[Root, ...] = ()
        self._profile = DEFAULT_PROFILE
        self._shown_once: set[str] = set()
        self._unshown: list[str] = []
        self._text_received_at = -math.inf
        self.link: Callable[[str, ChatImageContent], str | None] = lambda _chat_id, _picture: None

    @property
    def profile(self) -> ClientProfile:
        """The profile of the client."""
        return self._profile

    @profile.setter
    def profile(self, profile: ClientProfile) -> None:
        self._profile = profile
        vars(self).pop("formatter", None)
        if isinstance(self._peer.transport, StreamTransport):
            self._peer.transport.shape = profile.writing.shape

    def note_text(self) -> None:
        """Note that the user has sent a message to a running turn, or the answer to a question."""
        self._text_received_at = trio.current_time()

    def has_sent_text_since(self, asked_at: float) -> bool:
        """Return whether the key that just sent a text also approves a call.

        Args:
            asked_at: the time since which the call waits.
        """
        if not self._profile.enter_approves or asked_at > self._text_received_at:
            return False
        return trio.current_time() - self._text_received_at <= _KEY_SECONDS

    def writes(self, model: type[Any], field: str) -> bool:
        """Return whether the client's revision has this field of a message."""
        return writes(self.revision, model, field)

    @property
    def has_selections_of_chats(self) -> bool:
        """True if the client's revision has a selection of its own for each chat."""
        return self.writes(ConfigUpdatedParams, "chat_id")

    @cached_property
    def formatter(self) -> ContentFormatter:
        """The formatter of contents for this client."""
        from eca_server.client.content_formatting import (  # noqa: PLC0415 - not needed at the start
            ContentFormatter,
        )

        return ContentFormatter(self._profile, self.link)

    def emit(
        self, chat_id: str, role: Role, content: ChatContent, *, parent_chat_id: str | None = None
    ) -> None:
        """Append a content of a chat to the output, in pieces if it is long."""
        for message in self.formatter.messages(chat_id, role, content, parent_chat_id):
            self.notify("chat/contentReceived", message)

    def show(self, kind: MessageKind, message: str, *, chat_id: str | None = None) -> None:
        """Log a message and show it to the user outside of any chat (`$/showMessage`; W-15).

        A client that does not show it gets the same text in a chat.

        `chat_id`: the chat that it concerns; None: the next turn of any chat repeats it.
        """
        if self._profile.logs_messages:
            _log.log(_LEVELS[kind], "%s", message)
        if not self._profile.display.shows_messages:
            if chat_id is not None:
                self.emit(chat_id, "system", _text(message))
            elif message not in self._unshown:
                self._unshown.append(message)
        self._show_message(kind, message)

    def show_once(self, kind: MessageKind, message: str) -> None:
        """Show the user a message, unless this method has shown the same one before."""
        if self.is_first(message):
            self.show(kind, message)

    def is_first(self, message: str) -> bool:
        """Return whether this is the first call with a message, for notes that are shown once."""
        is_first = message not in self._shown_once
        self._shown_once.add(message)
        return is_first

    def withdraw(self, message: str) -> None:
        """Do not repeat a message in the next turn: what it says has changed."""
        if message in self._unshown:
            self._unshown.remove(message)

    def take_unshown(self) -> Sequence[str]:
        """Return and clear the messages that the client did not show and no turn has repeated."""
        taken, self._unshown = self._unshown, []
        return taken

    def notify(self, method: str, params: Any, *, newest: bool = False) -> None:
        """Append a notification to the output; do nothing on a closed connection.

        `newest`: use the newest revision: the message belongs to a request that only newer
        revisions have.
        """
        if self._peer.closed:
            return
        try:
            self._peer.notify(method, params, codec=_NEWEST if newest else None)
        except ConnectionClosed:
            return

    def drained(self) -> Awaitable[None]:
        """Wait until the client has read most of the output."""
        return self._peer.transport.drain()

    async def request(self, method: str, params: Any, *, deadline: float) -> Any:
        """Send the editor a request; raise `REQUEST_ERRORS`. `deadline` is in seconds."""
        return await self._peer.call(method, params, deadline=deadline)

    async def ask(
        self, question: ChatAskQuestionParams, *, deadline: float
    ) -> ChatAskQuestionResponse:
        """Ask the user a question; raise as `request`.

        Some editors show it still after it was cancelled; the user is then notified that the answer
        was not used.
        """
        call = self._peer.start_call("chat/askQuestion", question)

        def receive(answered: CallAnswered) -> None:
            answer = answered.result.get("answer") if isinstance(answered.result, dict) else None
            if isinstance(answer, str):
                self.note_text()
                if is_over:
                    self._return_answer(answer)

        is_over = False
        call.on_answer = receive
        try:
            response: ChatAskQuestionResponse = await call.result(deadline=deadline)
        finally:
            is_over = True
        return response

    def _return_answer(self, answer: str) -> None:
        """Show the user an answer that was not used, as `show` does; it is not logged."""
        note = (
            f'Your answer "{answer}" was not used, because the question had ended before. '
            "If it is a message, send it again."
        )
        if not self._profile.display.shows_messages:
            self._unshown.append(note)
        self._show_message("warning", note)

    def _show_message(self, kind: MessageKind, message: str) -> None:
        if self._profile.display.formats_messages:
            message = message.replace("%", "%%")
        self.notify("$/showMessage", ShowMessageParams(type=kind, message=message))


def _text(message: str) -> ChatContent:
    from eca_protocol.messages import ChatTextContent  # noqa: PLC0415 - not needed at the start

    return ChatTextContent(text=f"\n\n{message}\n\n")

"""The connected client and the one outlet to it.

Everything that is written for the user goes through `Session`: it splits what is too long for
one frame (ruling W-6) and drops what nobody can read any more. Nothing here waits but `drained`
and `request`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import attrs

from eca_protocol.codec import Codec
from eca_protocol.errors import ConnectionClosed
from eca_protocol.messages import (
    ChatContent,
    ChatContentReceivedParams,
    ChatReasonTextContent,
    ChatTextContent,
    ChatToolCalledContent,
    ChatToolCallPrepareContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    ClientCapabilities,
    ClientInfo,
    ShowMessageParams,
)
from eca_protocol.methods import ECA
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision, window_of
from eca_server.clients import DEFAULT_PROFILE, ClientProfile
from eca_server.workspace import Root

__all__ = ["NATIVE", "PREFIX", "Role", "Session"]

Role = Literal["user", "system", "assistant"]

_DEAREST = 6  # bytes of JSON that one character takes at most

NATIVE = "eca"
"""The server of the native tools in the contents of a call."""

PREFIX = "eca_"
"""Before a native tool's name, towards the model and in older editions of the protocol (W-33)."""

_NEWEST = Codec(ECA, Revision.CURRENT)

_OF_CALLS = (
    ChatToolCallPrepareContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    ChatToolCalledContent,
    ChatToolCallRejectedContent,
)

_TEXTS: Mapping[type, str] = {
    ChatTextContent: "text",
    ChatReasonTextContent: "text",
    ChatToolCallPrepareContent: "arguments_text",
}
"""The contents whose text may come in pieces that the client joins."""


class Session:
    """What is known of the client since `initialize`, and the way to it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.client_info = ClientInfo()
        self.capabilities = ClientCapabilities()
        self.revision = Revision.R2025_10
        self.roots: tuple[Root, ...] = ()
        self._profile = DEFAULT_PROFILE

    @property
    def profile(self) -> ClientProfile:
        """How this client wants to be written to."""
        return self._profile

    @profile.setter
    def profile(self, profile: ClientProfile) -> None:
        self._profile = profile
        self._peer.shape = profile.shape

    def writes(self, model: type[Any], field: str) -> bool:
        """Whether the edition this client speaks has that field of a message."""
        return window_of(attrs.fields_dict(model)[field].metadata).written_in(self.revision)

    def emit(self, chat_id: str, role: Role, content: ChatContent) -> None:
        """Append a content of a chat, in pieces if it is long."""
        for piece in self._pieces(role, self.spelled(content)):
            self.notify(
                "chat/contentReceived",
                ChatContentReceivedParams(chat_id=chat_id, role=role, content=piece),
            )

    def spelled(self, content: ChatContent) -> ChatContent:
        """A content with the native tool's name as this client knows it."""
        if (
            self._profile.prefixes_tools
            or not isinstance(content, _OF_CALLS)
            or content.server != NATIVE
        ):
            return content
        return attrs.evolve(content, name=content.name.removeprefix(PREFIX))

    def _pieces(self, role: Role, content: ChatContent) -> Iterable[ChatContent]:
        field = _TEXTS.get(type(content))
        if field is None or (role == "user" and not self._profile.splits_echo):
            return (content,)
        text: str = getattr(content, field)
        limit = self._profile.text_limit
        if len(text) * _DEAREST <= limit:
            return (content,)
        part: Any = content
        return (attrs.evolve(part, **{field: piece}) for piece in pieces(text, limit))

    def show(self, kind: Literal["error", "warning", "info"], message: str) -> None:
        """Show the user a message outside of any chat (`$/showMessage`)."""
        self.notify("$/showMessage", ShowMessageParams(type=kind, message=message))

    def notify(self, method: str, params: Any, *, asked: bool = False) -> None:
        """Append a notification; a client that is gone is no error.

        Args:
            method: its name.
            params: its typed params.
            asked: it belongs to a request that only newer editions have: who sent that knows it,
                whatever edition the rest of the connection is in.
        """
        if self._peer.closed:
            return
        try:
            self._peer.notify(method, params, codec=_NEWEST if asked else None)
        except ConnectionClosed:
            return

    async def drained(self) -> None:
        """Wait until the client has taken most of what was appended."""
        await self._peer.drained()

    async def request(self, method: str, params: Any, *, deadline: float) -> Any:
        """Ask the editor; see `Peer.call` for what is raised. `deadline` is in seconds."""
        return await self._peer.call(method, params, deadline=deadline)


def pieces(text: str, limit: int) -> Iterator[str]:
    """Cut a text into pieces of at most `limit` bytes of JSON each; they join to the text.

    A piece ends behind a line's end where one lies in its second half.
    """
    start = size = line_end = line_size = 0
    for position, character in enumerate(text):
        cost = _json_cost(character)
        while size + cost > limit and position > start:
            cut, kept = (line_end, line_size) if line_size * 2 > size else (position, size)
            yield text[start:cut]
            start, size, line_size = cut, size - kept, 0
        size += cost
        if character == "\n":
            line_end, line_size = position + 1, size
    if start < len(text):
        yield text[start:]


def _json_cost(character: str) -> int:
    number = ord(character)
    if number < 0x20:
        return 2 if character in "\b\t\n\f\r" else 6
    if number < 0x80:
        return 2 if character in '"\\' else 1
    if number < 0x800:
        return 2
    return 3 if number < 0x10000 else 4

"""The title of one chat: the user's, or one that a model makes in the background (W-25)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from eca_protocol.messages import ChatContent, ChatMetadataContent

__all__ = ["Titling"]

_log = logging.getLogger("eca_server.chat")


class Titling:
    """The title of a chat, and the request for one.

    Args:
        nursery: the nursery of the request.
        write: writes a content of the chat.
        store: stores the title.

    Attributes:
        title: the title, once the model or the user has given one.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        write: Callable[[ChatContent], None],
        store: Callable[[], Awaitable[None]],
    ) -> None:
        self.title: str | None = None
        self._nursery = nursery
        self._write = write
        self._store = store
        self._scope: trio.CancelScope | None = None
        self._is_over = False

    def request(self, make_title: Callable[[], Awaitable[str | None]]) -> None:
        """Request a title in the background, if there is none."""
        if self.title is None and self._scope is None:
            self._scope = trio.CancelScope()
            self._nursery.start_soon(self._find, make_title, self._scope)

    def cancel(self) -> None:
        """End the request."""
        if self._scope is not None:
            self._scope.cancel()
            self._scope = None

    def end(self) -> None:
        """End the request, and announce nothing more: the chat is deleted (W-24)."""
        self.cancel()
        self._is_over = True

    def rename(self, title: str | None) -> None:
        """Replace the title; a request does not replace the new one."""
        self.cancel()
        self.title = title

    def announce(self) -> None:
        """Notify the client of the title, if there is one."""
        if self.title and not self._is_over:
            self._write(ChatMetadataContent(title=self.title))

    async def _find(
        self, make_title: Callable[[], Awaitable[str | None]], scope: trio.CancelScope
    ) -> None:
        title = None
        try:
            with scope:
                title = await make_title()
        except Exception as error:  # noqa: BLE001 - a missing title must not fail the turn
            _log.info("no title: %s", error)
        if self._scope is scope:
            self._scope = None
            if title:
                self.title = title
                self.announce()
                await self._store()

"""A store under test, and what is put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs

from eca_server.chat.store import BeforeImage, Store, StoredChat, StoredMessage
from eca_server.llm.history import (
    Message,
    Origin,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

WORKSPACE = "w"
PATIENCE = {
    "WRITE_SECONDS": 30.0,
    "READ_SECONDS": 30.0,
    "CLOSE_SECONDS": 30.0,
    "_REWRITE_SECONDS": 30.0,
}
"""Seconds that the store may take under test."""


@attrs.define
class Kept:
    """A store, and the problems that it reported."""

    store: Store
    problems: list[str]

    async def texts(self, chat_id: str) -> list[str]:
        """The texts of a chat that is kept."""
        return texts_of(await self.store.load(chat_id))


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[Kept]:
    """A store on that file, closed at the end."""
    problems: list[str] = []
    store = Store(path, on_problem=problems.append)
    try:
        yield Kept(store, problems)
    finally:
        await store.close()


def said(*texts: str) -> tuple[StoredMessage, ...]:
    """One message of the user for each text; the text is its id, too."""
    return tuple(
        StoredMessage(id=text[:60], message=Message(role="user", parts=(TextPart(text),)))
        for text in texts
    )


def turn(name: str, *, filler: str = "") -> tuple[StoredMessage, ...]:
    """A turn in which the model calls a tool."""
    origin = Origin(api="openai-chat", provider="p", model="m")
    messages: Iterable[Message] = (
        Message(role="user", parts=(TextPart(f"{name} asks {filler}"),)),
        Message(
            role="assistant",
            parts=(
                ReasoningPart(text="hm", opaque={"signature": "s"}),
                ToolCallPart(id=f"call-{name}", name="f", raw="{}", arguments={}),
            ),
            origin=origin,
        ),
        Message(
            role="tool",
            parts=(ToolResultPart(call_id=f"call-{name}", parts=(TextPart("done"),)),),
        ),
        Message(role="assistant", parts=(TextPart(f"{name} answered"),), origin=origin),
    )
    return tuple(
        StoredMessage(id=f"{name}-{number}", message=message)
        for number, message in enumerate(messages)
    )


def image(content_id: str, path: str, *, existed: bool = True, **more: Any) -> BeforeImage:
    """Return the before-image of a file."""
    return BeforeImage(content_id=content_id, path=path, existed=existed, **more)


def texts_of(chat: StoredChat | None) -> list[str]:
    """All texts of a chat's messages."""
    return [
        part.text
        for each in (chat.messages if chat is not None else ())
        for part in each.message.parts
        if isinstance(part, TextPart)
    ]

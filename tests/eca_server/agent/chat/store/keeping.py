"""A store under test, and what is put into it."""

import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs
import pytest

from eca_server.agent.chat.store import queries
from eca_server.agent.chat.store.file import ChatFile
from eca_server.agent.chat.store.rollbacks import decode_mode
from eca_server.agent.chat.store.rows import BeforeImage, ChatRecord, ChatRow, StoredChat
from eca_server.agent.chat.store.store import Store
from eca_server.agent.chat.store.view import ServerView
from eca_server.agent.chat.store.worker import FileThreads, Limits
from eca_server.models import history as h

WORKSPACE = "w"
PATIENT = Limits(write=30.0, read=30.0, close=30.0, rewrite=30.0)
"""A busy machine is no dead disk: a test waits long, unless it is about waiting."""


@attrs.define
class OpenStore:
    """A store, and the problems that it reported."""

    store: Store
    problems: list[str]

    def set_limits(self, **limits: float) -> None:
        self.store._thread.limits = attrs.evolve(self.store.limits, **limits)

    async def append(
        self, chat_id: str, *messages: h.Message, workspace: str = WORKSPACE, **more: Any
    ) -> bool:
        return await self.store.append(chat_id, workspace, ChatRecord(messages=messages, **more))

    async def chat(self, chat_id: str) -> StoredChat:
        chat = await self.store.load(chat_id)
        assert chat is not None
        return chat

    async def texts(self, chat_id: str) -> list[str]:
        return texts_of(await self.store.load(chat_id))

    async def before_images(self, chat_id: str) -> Sequence[BeforeImage]:
        return await before_images(self.store, chat_id)


@asynccontextmanager
async def opened(
    path: Path, threads: FileThreads | None = None, **limits: float
) -> AsyncIterator[OpenStore]:
    """Open a store on that file, with these limits, and close it at the end."""
    problems: list[str] = []
    store = Store(
        path,
        on_problem=problems.append,
        limits=attrs.evolve(PATIENT, **limits),
        threads=threads,
    )
    try:
        yield OpenStore(store, problems)
    finally:
        await store.close()


async def before_images(store: Store, chat_id: str) -> Sequence[BeforeImage]:
    def read(file: ChatFile) -> list[BeforeImage]:
        return [
            BeforeImage(
                content_id=content_id,
                path=os.fsdecode(path),
                moved_from=None if moved_from is None else os.fsdecode(moved_from),
                existed=bool(existed),
                mode=decode_mode(mode)[0],
                group=decode_mode(mode)[1],
                data=data,
                after=after,
            )
            for content_id, path, moved_from, existed, mode, data, after in file.execute(
                "SELECT content_id, path, moved_from, existed, mode, data, after"
                " FROM before_image WHERE chat = ? ORDER BY number",
                (chat_id,),
            )
        ]

    return tuple(await store.read(read) or ())


def rows(path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Run a statement on the file by itself; its rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(query, values).fetchall()


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the file, so that no other may read or write it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        yield holder


def set_aside(path: Path) -> list[Path]:
    """Return the damaged files that were renamed."""
    return [*path.parent.glob("*.corrupt-*")]


@contextmanager
def opened_file(path: Path) -> Iterator[ChatFile]:
    """Return the file of chats for this thread, closed at the end without being rewritten."""
    file = ChatFile(path).serve(ServerView(pytest.fail))
    try:
        yield file
    finally:
        file.close(lambda: True)


def append(file: ChatFile, chat: str, *messages: h.Message, title: str | None = None) -> None:
    row, record = ChatRow(chat, WORKSPACE, title, 1.0, 2.0), ChatRecord(messages=messages)
    ids = [f"{each.content_id}" for each in messages]
    query = partial(queries.append, chat=row, record=record, ids=ids, turn=f"{uuid4()}")
    assert file.write(chat, query)


def messages_of(*texts: str) -> tuple[h.Message, ...]:
    """One message of the user for each text; the text is its id, too."""
    return tuple(
        h.Message(role="user", parts=(h.TextPart(text),), content_id=text[:60]) for text in texts
    )


def turn(name: str, *, filler: str = "") -> tuple[h.Message, ...]:
    """A turn in which the model calls a tool."""
    origin = h.Origin(api="openai-chat", provider="p", model="m")
    messages: Iterable[h.Message] = (
        h.Message(role="user", parts=(h.TextPart(f"{name} asks {filler}"),)),
        h.Message(
            role="assistant",
            parts=(
                h.ReasoningPart(text="hm", opaque={"signature": "s"}),
                h.ToolCallPart(id=f"call-{name}", name="f", raw="{}", arguments={}),
            ),
            origin=origin,
        ),
        h.Message(
            role="tool",
            parts=(h.ToolResultPart(call_id=f"call-{name}", parts=(h.TextPart("done"),)),),
        ),
        h.Message(role="assistant", parts=(h.TextPart(f"{name} answered"),), origin=origin),
    )
    return tuple(
        attrs.evolve(message, content_id=f"{name}-{number}")
        for number, message in enumerate(messages)
    )


def image(content_id: str, path: str, *, existed: bool = True, **more: Any) -> BeforeImage:
    return BeforeImage(content_id=content_id, path=path, existed=existed, **more)


def texts_of(chat: StoredChat | None) -> list[str]:
    return [
        part.text
        for each in (chat.messages if chat is not None else ())
        for part in each.parts
        if isinstance(part, h.TextPart)
    ]

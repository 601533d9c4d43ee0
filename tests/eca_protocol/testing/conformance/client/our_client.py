"""The SDK's own client as a client under test: it does what an editor's user would.

python our_client.py SERVER
"""

import contextlib
import sys
from pathlib import Path

import anyio

import eca_protocol
from eca_protocol.client import Client
from eca_protocol.errors import RequestFailed
from eca_protocol.messages import (
    ChatQueryCommandsParams,
    ChatQueryContextParams,
    ChatToolCallRunContent,
    EditorDiagnostic,
)
from eca_protocol.methods import CHAT_QUERY_COMMANDS, CHAT_QUERY_CONTEXT


async def diagnostics(uri: str | None) -> list[EditorDiagnostic]:
    return []


async def query(client: Client, what: str) -> None:
    with contextlib.suppress(RequestFailed):
        if what == "contexts":
            await client.request(CHAT_QUERY_CONTEXT, ChatQueryContextParams())
        else:
            await client.request(CHAT_QUERY_COMMANDS, ChatQueryCommandsParams())


async def main() -> None:
    async with eca_protocol.connect(
        command=[sys.argv[1], "server"],
        workspace_folders=[Path(__file__).parent],
        diagnostics=diagnostics,
    ) as client:
        chat = client.chat()
        async for content in chat.prompt("Hello"):
            if isinstance(content, ChatToolCallRunContent) and content.manual_approval:
                chat.approve(content.id, save="session")
        async for content in chat.prompt("Again"):
            if isinstance(content, ChatToolCallRunContent) and content.manual_approval:
                chat.reject(content.id)
        async with anyio.create_task_group() as group:
            group.start_soon(query, client, "contexts")
            group.start_soon(query, client, "commands")


anyio.run(main, backend="trio")

"""Types that mypy and pyright reveal of the public names; never run, see `test_types.py`.

The comment behind a line is the revealed type, without the names of modules.
"""

from __future__ import annotations

from typing import reveal_type

import eca_protocol
from eca_protocol import Client, connect, methods, sync
from eca_protocol import messages as m


async def with_async_code(client: Client) -> None:
    async with connect(command=["x"]) as connected:
        reveal_type(connected)  # Client
    reveal_type(await client.request(methods.CHAT_LIST, m.ChatListParams()))  # ChatListResponse
    reveal_type(client.chat())  # Chat
    reveal_type(await client.chat().prompt("x").text())  # str
    reveal_type(await client.chat().query_commands())  # tuple[ChatCommand, ...]


def without_async_code(client: sync.Client) -> None:
    with sync.connect(command=["x"]) as connected:
        reveal_type(connected)  # Client
    reveal_type(sync.open(command=["x"], deadline=3.0))  # Client
    reveal_type(client.request(methods.CHAT_LIST, m.ChatListParams()))  # ChatListResponse
    reveal_type(client.models)  # tuple[str, ...]
    chat = client.chat("c", model="x")
    reveal_type(chat)  # Chat
    reveal_type(chat.title)  # str | None
    reveal_type(chat.prompt("x", trust=True).text())  # str
    reveal_type(chat.query_commands("x"))  # tuple[ChatCommand, ...]
    reveal_type(chat.stop())  # None
    reveal_type(m.dumps(m.ChatListParams()))  # str
    reveal_type(client.events())  # Iterator[ChatContentReceivedParams | ...]


def refused(client: sync.Client) -> None:
    eca_protocol.sync.open(commands=["x"])  # error
    sync.connect(deadline="x")  # error
    client.request(methods.CHAT_LIST, m.ChatOpenParams(chat_id="c"))  # error
    client.chat().prompt(7)  # error
    client.on(m.ConfigUpdatedParams, len)  # error
    m.ChatPromtParams()  # error
    eca_protocol.conect()  # error


def prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
    return m.ChatPromptResponse(chat_id=params.chat_id or "", model="a/b", status="prompting")


async def later_prompt(params: m.ChatPromptParams) -> m.ChatPromptResponse:
    return prompt(params)


async def later_exit(params: None) -> None: ...


def handlers() -> None:
    methods.CHAT_PROMPT.handled_by(prompt)
    methods.CHAT_PROMPT.handled_by(later_prompt)
    methods.SHUTDOWN.handled_by(lambda _: None)
    methods.EXIT.handled_by(lambda _: None)
    methods.CHAT_LIST.handled_by(prompt)  # error
    methods.CHAT_LIST.handled_by(later_prompt)  # error
    methods.EXIT.handled_by(later_exit)  # error

"""Types of the public names, checked by mypy and by pyright (`test_types.py`); never run.

Both report an unused `type: ignore`, so each wrong call here is one that they refuse.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

from collections.abc import Iterator
from typing import assert_type

import eca_protocol
from eca_protocol import Client, connect, methods, sync
from eca_protocol import messages as m
from eca_protocol.client import Chat, Event


async def with_async_code(client: Client) -> None:
    async with connect(["x"], deadline=3.0) as connected:
        assert_type(connected, Client)
    listed = await client.request(methods.CHAT_LIST, m.ChatListParams(limit=3))
    assert_type(listed, m.ChatListResponse)
    login = await client.request(
        methods.PROVIDERS_LOGIN, m.ProvidersLoginParams(provider="p"), deadline=60.0
    )
    assert_type(login, m.ProvidersLoginResult)
    assert_type(await client.request(methods.SHUTDOWN, None), None)
    client.notify(methods.MCP_STOP_SERVER, m.MCPStopServerParams(name="files"))
    client.on(m.ConfigUpdatedParams, lambda params: print(params.chat))
    assert_type(client.chat(), Chat)
    for agent in client.config.agents or ():
        assert_type(await client.chat(behavior=agent).prompt("x", behavior="code").text(), str)
    assert_type(await client.chat().query_commands(), tuple[m.ChatCommand, ...])


def without_async_code(client: sync.Client) -> None:
    with sync.connect(command=["x"]) as connected:
        assert_type(connected, sync.Client)
    assert_type(sync.open(command=["x"], deadline=3.0), sync.Client)
    assert_type(client.request(methods.CHAT_LIST, m.ChatListParams()), m.ChatListResponse)
    assert_type(client.models, tuple[str, ...])
    chat = client.chat("c", model="x", behavior="code")
    assert_type(chat, sync.Chat)
    assert_type(chat.title, str | None)
    assert_type(chat.prompt("x", trust=True).text(), str)
    assert_type(chat.query_commands("x"), tuple[m.ChatCommand, ...])
    assert_type(m.dumps(m.ChatListParams()), str)
    assert_type(client.events(), Iterator[Event])


def on_message(message: m.ShowMessageParams) -> None: ...


async def refused(client: Client, synchronous: sync.Client) -> None:
    open_params = m.ChatOpenParams(chat_id="c")
    await client.request(methods.CHAT_LIST, open_params)  # type: ignore[misc]
    await client.request(methods.CHAT_LIST, None)  # type: ignore[misc]
    await client.request(methods.EXIT, None)  # type: ignore[arg-type]
    server_params = m.EditorGetDiagnosticsParams()
    await client.request(methods.EDITOR_GET_DIAGNOSTICS, server_params)  # type: ignore[arg-type]
    client.notify(methods.SHUTDOWN, None)  # type: ignore[arg-type]
    client.notify(methods.MCP_STOP_SERVER, m.MCPStartServerParams(name="x"))  # type: ignore[misc]
    listed = await client.request(methods.CHAT_LIST, m.ChatListParams())
    opened: m.ChatOpenResponse = listed  # type: ignore[assignment]
    print(opened)
    client.on(m.ConfigUpdatedParams, on_message)  # type: ignore[arg-type]
    client.on(str, print)  # type: ignore[type-var]
    eca_protocol.sync.open(commands=["x"])  # type: ignore[call-arg]
    sync.connect(["x"], None)  # type: ignore[call-arg]
    sync.connect(deadline="x")  # type: ignore[arg-type]
    synchronous.request(methods.CHAT_LIST, open_params)  # type: ignore[misc]
    synchronous.chat().prompt(7)  # type: ignore[arg-type]
    synchronous.on(m.ConfigUpdatedParams, len)  # type: ignore[arg-type]
    m.ChatPromtParams()  # type: ignore[attr-defined]
    eca_protocol.conect()  # type: ignore[attr-defined]


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
    methods.CHAT_LIST.handled_by(prompt)  # type: ignore[arg-type]
    methods.CHAT_LIST.handled_by(later_prompt)  # type: ignore[arg-type]
    methods.EXIT.handled_by(later_exit)  # type: ignore[arg-type]

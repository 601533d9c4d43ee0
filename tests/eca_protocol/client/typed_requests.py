"""Requests and notifications whose types mypy checks against the method table; never run.

mypy reports an unused `type: ignore`, so each wrong call here is one that it refuses.
"""

from __future__ import annotations

from typing import assert_type

from eca_protocol import Client, methods
from eca_protocol import messages as m


async def request_and_notify(client: Client) -> None:
    listed = await client.request(methods.CHAT_LIST, m.ChatListParams(limit=3))
    assert_type(listed, m.ChatListResponse)
    login = await client.request(
        methods.PROVIDERS_LOGIN, m.ProvidersLoginParams(provider="p"), deadline=60.0
    )
    assert_type(login, m.ProvidersLoginResult)
    assert_type(await client.request(methods.SHUTDOWN, None), None)
    client.notify(methods.MCP_STOP_SERVER, m.MCPStopServerParams(name="files"))


def events(client: Client) -> None:
    client.on(m.ConfigUpdatedParams, lambda params: print(params.chat))
    client.on(m.ConfigUpdatedParams, on_message)  # type: ignore[arg-type]
    client.on(str, print)  # type: ignore[type-var]


def on_message(message: m.ShowMessageParams) -> None: ...


async def refused(client: Client) -> None:
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

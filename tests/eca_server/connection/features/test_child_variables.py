"""The variables that child processes get: none with a secret that they do not need."""

import json
from collections.abc import Mapping
from typing import Any

import trio.testing

from eca_server.agent.mcp.server_log import ServerLog
from eca_server.connection.features import mcp
from eca_server.secret import Secret
from tests.eca_server.agent.chat.editor import editor
from tests.eca_server.agent.mcp.fake import Place

OURS = {
    "CLIENT_SECRET": "planted-oauth-client-0123456789",
    "COLLECTOR_KEY": "planted-collector-key-0123456789",
    "GATEWAY_PASSWORD": "planted-gateway-password",
    "HEADER_TOKEN": "planted-provider-header-0123",
    "Q_API_URL": "https://me:planted-url-password@gateway.example/v1",
    "MIRROR": "planted-catalog-password",
    "COLLECTOR": "planted-collector-password",
}
OF_SERVERS = {
    "ONE_TOKEN": "planted-token-of-one-0123456789",
    "TWO_KEY": "planted-key-of-two-0123456789",
    "TWO_MORE": "planted-behind-an-option",
    "PLAIN": "planted-in-an-authorization",
    "QUERY": "planted-in-a-query-0123456789",
    "USER": "planted-in-front-of-a-host",
}
OF_NONE = {
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "SSH_AUTH_SOCK": "/run/user/1000/agent",
    "REGION": "eu-central",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
}
CONFIG: Mapping[str, Any] = {
    "mcpServers": {
        "one": {
            "command": "one",
            "env": {"TOKEN": "${env:ONE_TOKEN}", **{n: f"${n}" for n in OF_NONE}},
        },
        "two": {
            "command": "two",
            "args": ["--key", "${env:TWO_KEY}", "--token=$TWO_MORE", "--at=$REGION", "$REGION"],
        },
        "three": {
            "url": "https://${env:USER}@mcp.example/mcp?token=${QUERY}&region=$REGION",
            "headers": {"Authorization": "Bearer ${env:PLAIN}", "X-Region": "${env:REGION}"},
            "clientId": "me",
            "clientSecret": "${env:CLIENT_SECRET}",
            "disabled": True,
        },
        "four": {"command": "four", "env": {"ONE_TOKEN": "${env:ONE_TOKEN}"}},
    },
    "providers": {
        "p": {
            "api": "openai-chat",
            "url": "https://me:${env:GATEWAY_PASSWORD}@gateway.example/v1",
            "extraHeaders": {"X-API-Key": "${env:HEADER_TOKEN}"},
        },
        "q": {"api": "openai-chat", "models": {"m": {}}},
    },
    "catalog": {"url": "https://me:${env:MIRROR}@mirror.example/catalog.json"},
    "otlp": {
        "otel.exporter.otlp.endpoint": "https://me:${env:COLLECTOR}@collector.example",
        "otel.exporter.otlp.headers": "Authorization=Bearer%20${env:COLLECTOR_KEY},x-team=a",
        "otel.exporter.otlp.protocol": "http/protobuf",
    },
}


async def test_a_secret_of_the_configuration_reaches_only_those_that_need_it(tmp_path, monkeypatch):
    got: dict[str, Mapping[str, str]] = {}

    def connect(_: Any, *, environment: Mapping[str, str], log: ServerLog, **_more: Any) -> Any:
        got[log.name] = environment
        return Place().connect()

    monkeypatch.setattr(mcp, "connect", connect)
    file = tmp_path / "config" / "eca" / "config.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(CONFIG))
    hidden: list[Secret] = []
    variables = {**OURS, **OF_SERVERS, **OF_NONE, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    async with editor(started=False, **variables) as ours:
        ours.connection.parts.models.hide = hidden.extend
        await ours.start()
        while got.keys() < {"one", "two", "four"}:
            await trio.testing.wait_all_tasks_blocked()
        commands = ours.connection.parts.models.child_variables
    planted = {*OURS, *OF_SERVERS, *OF_NONE}
    assert commands.keys() & planted == {*OF_SERVERS, *OF_NONE}  # the user's commands may need them
    of_servers = {name: set(got[name]) & planted - set(OF_NONE) for name in got}
    assert of_servers == {
        "one": {"ONE_TOKEN"},
        "two": {"TWO_KEY", "TWO_MORE"},
        "four": {"ONE_TOKEN"},
    }
    assert all(set(OF_NONE) <= set(got[name]) for name in got)
    shown = {"Q_API_URL": "planted-url-password"}
    assert {Secret(shown.get(name, OURS[name])) for name in OURS} <= set(hidden)

"""Whole chats over Copilot: one login, several APIs, who wants each request."""

from __future__ import annotations

import json
import logging
from typing import Any

from eca_protocol.testing.provider import Provider, Reply, reply, tool_call
from tests.eca_server.agent.chat.editor import editor, text
from tests.eca_server.models.github_copilot.github import LOGIN, GitHub, github


def config(shop: GitHub, **more: Any) -> dict[str, Any]:
    own = {"auth": {"url": shop.url}, "models": {"m": {}}}
    return {"providers": {"github-copilot": own}, "defaultModel": "github-copilot/m", **more}


async def test_a_prompt_is_the_users_once_and_what_follows_is_the_agents(tmp_path):
    script = [
        Reply(status=429, headers={"retry-after": "0"}, body={}),
        reply(tool_call("no_such_tool", "{}")),
        reply("Done"),
        reply("Again"),
    ]
    planned = {"chat": {"title": True}}
    async with Provider(script) as provider, github(provider.url) as shop:
        environ = {"XDG_DATA_HOME": str(tmp_path), "GITHUB_COPILOT_API_KEY": LOGIN}
        async with editor(config(shop, **planned), **environ) as ours:
            await ours.turn("go")
            assert "Again" in text(await ours.turn("more"))
            await ours.title()
        told = [request.headers["x-initiator"] for request in provider.requests]
        assert told == ["user", "user", "agent", "user"], "another try is the same request"
        assert provider.title_requests[0].headers["x-initiator"] == "agent"
        assert len(shop.requests) == 1


async def test_the_login_stays_with_github_and_no_token_is_ever_shown(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    quoting = Reply(status=400, body={"error": {"message": f"{LOGIN} and tid=planted1;exp=1"}})
    async with Provider([reply("Hi"), quoting]) as provider, github(provider.url) as shop:
        async with editor(config(shop), XDG_DATA_HOME=str(tmp_path)) as ours:
            await ours.turn(f"/login github-copilot {LOGIN}")
            assert "Hi" in text(await ours.turn("hello"))
            assert "*** and ***" in text(await ours.turn("hello"))
            seen = json.dumps(ours.seen) + caplog.text
        assert all(LOGIN not in str(request.headers) for request in provider.requests)
    assert LOGIN not in seen
    assert "tid=planted1" not in seen


async def test_a_missing_or_refused_login_is_reported():
    async with Provider([]) as provider, github(provider.url) as shop:
        async with editor(config(shop)) as ours:
            said = text(await ours.turn("hello", model="github-copilot/m"))
        assert "`/login github-copilot`" in said
        shop.refuses = (401, {"message": "Bad credentials"})
        async with editor(config(shop), GITHUB_COPILOT_API_KEY=LOGIN) as ours:
            said = text(await ours.turn("hello"))
    assert "GitHub refused the login" in said


async def test_a_model_is_asked_by_the_api_that_copilot_lists_for_it(tmp_path):
    def model(name: str, endpoint: str) -> dict[str, Any]:
        return {"id": name, "supported_endpoints": [endpoint]}

    endpoints = ("/chat/completions", "/responses", "/v1/messages")
    models = [model(f"m{number}", each) for number, each in enumerate(endpoints)]
    listing = Reply(body={"data": models})
    environ = {"XDG_CACHE_HOME": str(tmp_path), "GITHUB_COPILOT_API_KEY": LOGIN}
    refusal = Reply(status=400, body={"error": {"message": "seen"}})
    async with (
        Provider(otherwise=refusal, others={"/models": listing}) as provider,
        github(provider.url.removesuffix("/v1")) as shop,
        editor(config(shop), discovers=True, **environ) as ours,
    ):
        names = [f"github-copilot/{each['id']}" for each in models]
        while not set(names) <= set(ours.connection.models.names):
            await ours.until(lambda _: True)
        for name in names:
            assert "seen" in text(await ours.turn("hello", model=name))
        assert tuple(request.target for request in provider.requests) == endpoints
        assert {request.headers["x-initiator"] for request in provider.requests} == {"user"}
        carried = {request.headers["authorization"] for request in provider.requests}
        assert carried == {"Bearer tid=planted1;exp=1"}
        assert len(shop.requests) == 1

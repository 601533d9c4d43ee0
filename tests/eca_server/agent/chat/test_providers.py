"""Providers with habits: Copilot's login, models that are loaded, authorities of one's own."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trustme

from eca_protocol.testing.provider import Provider, Reply, reply, tool_call
from tests.eca_protocol.http_peers import mutual_tls, server
from tests.eca_server.agent.chat.editor import editor, provider_config
from tests.eca_server.models.anthropic import scripted as claude
from tests.eca_server.models.github_copilot.github import LOGIN, GitHub, github
from tests.eca_server.models.ollama import scripted as ollama


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
            assert "Again" in (await ours.turn("more")).text
            await ours.title()
        initiators = [request.headers["x-initiator"] for request in provider.requests]
        assert initiators == ["user", "user", "agent", "user"], "another try is the same request"
        assert provider.title_requests[0].headers["x-initiator"] == "agent"
        assert len(shop.requests) == 1


async def test_the_login_stays_with_github_and_no_token_is_ever_shown(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    quoting = Reply(status=400, body={"error": {"message": f"{LOGIN} and tid=planted1;exp=1"}})
    async with Provider([reply("Hi"), quoting]) as provider, github(provider.url) as shop:
        async with editor(config(shop), XDG_DATA_HOME=str(tmp_path)) as ours:
            await ours.turn(f"/login github-copilot {LOGIN}")
            assert "Hi" in (await ours.turn("hello")).text
            assert "*** and ***" in (await ours.turn("hello")).text
            output = json.dumps(ours.received) + caplog.text
        assert all(LOGIN not in str(request.headers) for request in provider.requests)
    assert LOGIN not in output
    assert "tid=planted1" not in output


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
            assert "seen" in (await ours.turn("hello", model=name)).text
        assert tuple(request.target for request in provider.requests) == endpoints
        assert {request.headers["x-initiator"] for request in provider.requests} == {"user"}
        carried = {request.headers["authorization"] for request in provider.requests}
        assert carried == {"Bearer tid=planted1;exp=1"}
        assert len(shop.requests) == 1


async def test_it_is_reported_that_a_model_is_loaded_and_what_it_cannot_do() -> None:
    others = {
        "/api/ps": Reply(body={"models": []}),
        "/api/show": Reply(body=ollama.shown("completion", context=40_960)),
    }
    async with (
        Provider(
            [ollama.reply(ollama.text("Hi")), ollama.reply(ollama.text("Ho"))], others=others
        ) as provider,
        editor(
            provider_config(provider.url.removesuffix("/v1"), provider={"api": "ollama"})
        ) as ours,
    ):
        received = await ours.turn("Hello", model="p/m")
        again = await ours.turn("And?", model="p/m")
        window = ours.connection.models.find("p/m").capabilities.context
    states = [each["text"] for each in received if each["type"] == "progress"]
    assert states.index("Loading the model") < states.index("Generating")
    assert "This model does not support tools; the chat continues without them." in received.text
    assert again.text == "And?Ho", "the note is shown once in a chat"
    assert received.finishes == 1
    assert window == 40_960
    [usage] = [each for each in again if each["type"] == "usage"]
    assert usage["limit"] == {"context": 40_960, "output": 40_960}


async def test_a_configured_authority_and_client_certificate_count(tmp_path: Path) -> None:
    authority = trustme.CA()
    mine = authority.issue_cert("me@example.org")
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "me.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "me.key"))
    known = {"caCertFile": str(tmp_path / "own.pem"), "clientCert": str(tmp_path / "me.pem")}
    missing = f"expected the key of the client certificate in PEM in {tmp_path}/me.pem"
    async with server(mutual_tls(authority, "127.0.0.1")) as listener:
        config = provider_config(f"https://127.0.0.1:{listener.port}/v1", retry={"maxRetries": 0})
        for network, words in (({}, "TLS failed"), (known, missing)):
            async with editor({**config, "network": network}) as ours:
                assert words in (await ours.turn("hello")).text
        assert listener.heads == []
        key = {"ECA_CLIENT_KEY": str(tmp_path / "me.key")}
        async with editor({**config, "network": known}, **key) as ours:
            await ours.turn("hello")
        assert listener.heads[0].startswith("POST /v1/chat/completions ")


@pytest.mark.parametrize("shown", [claude.text("a"), claude.tool_use("no_such_tool", "{}")])
async def test_a_thought_ends_where_the_answer_continues_even_if_its_server_ends_it_later(shown):
    thought, other = claude.thinking("Hm")(0), shown(1)
    events = [claude.started(), *thought[:-1], *other, thought[-1], *claude.stopped("end_turn")]
    script = [Reply(steps=claude.steps(events)), claude.reply(claude.text("b"))]
    async with Provider(script) as there:
        config = {"providers": {"p": {"api": "anthropic", "url": there.url, "models": {"m": {}}}}}
        async with editor(config) as ours:
            types = (await ours.turn("hi", model="p/m")).types
    continued = {"text", "toolCallPrepare"}
    thinking = types.index("reasonStarted")
    assert next(each for each in types[thinking:] if each in continued | {"reasonFinished"}) == (
        "reasonFinished"
    )
    assert types.count("reasonFinished") == 1

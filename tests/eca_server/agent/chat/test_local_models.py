"""Providers on one's own machine or network: models that are loaded, authorities of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import trustme

from eca_protocol.testing.provider import Provider, Reply
from tests.eca_protocol.http_peers import mutual_tls, server, tls
from tests.eca_server.agent.chat.editor import editor, finishes, provider_config, text
from tests.eca_server.models.ollama.scripted import reply, running, shown
from tests.eca_server.models.ollama.scripted import text as said


def configured(provider: Provider) -> dict[str, Any]:
    return provider_config(provider.url.removesuffix("/v1"), provider={"api": "ollama"})


async def test_it_is_reported_that_a_model_is_loaded_and_what_it_cannot_do() -> None:
    others = {
        "/api/ps": Reply(body={"models": []}),
        "/api/show": Reply(body=shown("completion", context=40_960)),
    }
    async with (
        Provider([reply(said("Hi")), reply(said("Ho"))], others=others) as provider,
        editor(configured(provider)) as ours,
    ):
        received = await ours.turn("Hello", model="p/m")
        again = await ours.turn("And?", model="p/m")
        window = ours.connection.models.find("p/m").capabilities.context
    told = [each["text"] for each in received if each["type"] == "progress"]
    assert told.index("Loading the model") < told.index("Generating")
    assert "This model does not support tools; the chat continues without them." in text(received)
    assert text(again) == "And?Ho", "the note is shown once in a chat"
    assert finishes(received) == 1
    assert window == 40_960
    [usage] = [each for each in again if each["type"] == "usage"]
    assert usage["limit"] == {"context": 40_960, "output": 40_960}


async def test_a_model_in_memory_is_not_reported_as_loading() -> None:
    others = {
        "/api/ps": Reply(body=running("m:latest", 32_768)),
        "/api/show": Reply(body=shown("completion", "tools")),
    }
    async with Provider([reply(said("Hi"))], others=others) as provider:
        async with editor(configured(provider)) as ours:
            received = await ours.turn("Hello", model="p/m")
        assert provider.requests[0].body["options"] == {"num_ctx": 32_768}
    assert "Loading the model" not in [each["text"] for each in received if "text" in each]
    assert text(received) == "HelloHi"


async def test_a_configured_authority_is_trusted(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    async with server(tls(authority, "127.0.0.1")) as seen:
        config = provider_config(f"https://127.0.0.1:{seen.port}/v1", retry={"maxRetries": 0})
        async with editor(config) as ours:
            assert "TLS failed" in text(await ours.turn("hello"))
        assert seen.heads == []
        config["network"] = {"caCertFile": str(tmp_path / "own.pem")}
        async with editor(config) as ours:
            await ours.turn("hello")
        assert seen.heads[0].startswith("POST /v1/chat/completions ")


async def test_a_configured_client_certificate_is_shown_to_a_provider(tmp_path: Path) -> None:
    authority = trustme.CA()
    mine = authority.issue_cert("me@example.org")
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    mine.cert_chain_pems[0].write_to_path(str(tmp_path / "me.pem"))
    mine.private_key_pem.write_to_path(str(tmp_path / "me.key"))
    async with server(mutual_tls(authority, "127.0.0.1")) as seen:
        config = provider_config(f"https://127.0.0.1:{seen.port}/v1", retry={"maxRetries": 0})
        named = {"caCertFile": "own.pem", "clientCert": "me.pem"}
        config["network"] = {key: str(tmp_path / name) for key, name in named.items()}
        async with editor(config) as ours:
            told = text(await ours.turn("hello"))
        assert f"expected the key of the client certificate in PEM in {tmp_path}/me.pem" in told
        assert "Correct the configuration." in told
        assert seen.heads == []
        async with editor(config, ECA_CLIENT_KEY=str(tmp_path / "me.key")) as ours:
            await ours.turn("hello")
        assert seen.heads[0].startswith("POST /v1/chat/completions ")

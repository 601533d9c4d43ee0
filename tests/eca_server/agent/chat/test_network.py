"""A provider behind an authority of the user's own, as a whole turn."""

from __future__ import annotations

from pathlib import Path

import trustme

from tests.eca_protocol.http_peers import mutual_tls, server, tls
from tests.eca_server.agent.chat.editor import editor, provider_config, text


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
        config["network"] = {
            "caCertFile": str(tmp_path / "own.pem"),
            "clientCert": str(tmp_path / "me.pem"),
        }
        async with editor(config) as ours:
            told = text(await ours.turn("hello"))
        assert f"expected the key of the client certificate in PEM in {tmp_path}/me.pem" in told
        assert "Correct the configuration." in told
        assert seen.heads == []
        async with editor(config, ECA_CLIENT_KEY=str(tmp_path / "me.key")) as ours:
            await ours.turn("hello")
        assert seen.heads[0].startswith("POST /v1/chat/completions ")

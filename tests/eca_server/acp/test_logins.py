"""ACP's `authenticate` and `logout` by the logins of an ECA server."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from eca_protocol.acp import AUTHENTICATION_REQUIRED
from eca_protocol.acp import messages as m
from eca_protocol.errors import RPCError
from eca_protocol.http import HTTPClient
from eca_server.acp import logins
from tests.eca_server.acp.bench import Editor, editing
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring
from tests.eca_server.models.credentials.login_server import login_server


async def authenticate(editor: Editor, method: str) -> Any:
    return await editor.call("authenticate", m.AuthenticateRequest(method_id=method))


def stored(tmp_path: Path) -> Mapping[str, Any]:
    file = tmp_path / "home" / ".local" / "share" / "eca-python" / "logins.json"
    providers: Mapping[str, Any] = json.loads(file.read_text())["providers"]
    return providers


async def test_a_missing_key_is_an_error_and_a_configured_one_counts(tmp_path: Path) -> None:
    async with editing(tmp_path) as editor:
        with pytest.raises(RPCError, match=r"^no key was found") as refused:
            await authenticate(editor, "environment")
        assert refused.value.code == AUTHENTICATION_REQUIRED
        with pytest.raises(RPCError, match="no login method"):
            await authenticate(editor, "magic")
    config = {"providers": {"corp": {"url": "https://corp.example", "key": "a-planted-key"}}}
    async with editing(tmp_path, json.dumps(config)) as editor:
        assert await authenticate(editor, "environment") == m.Empty()


async def test_a_login_in_the_systems_keyring_counts(tmp_path, monkeypatch):
    keyring = FakeKeyring()
    keyring.stored["eca-python", "p"] = json.dumps({"key": "a-planted-key"})
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    file = tmp_path / "home" / ".local" / "share" / "eca-python" / "logins.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"version": 1, "providers": {"p": {"in": "keyring"}}}))
    provider = {"url": "https://corp.example/v1", "models": {"m": {}}}
    config = json.dumps({"keyring": True, "providers": {"p": provider}})
    async with editing(tmp_path, config) as editor:
        assert await authenticate(editor, "environment") == m.Empty()


@pytest.mark.parametrize("answer", ["code=planted", "error=access_denied"])
async def test_a_login_in_the_browser_is_stored_until_a_logout_or_fails(
    tmp_path, monkeypatch, answer
):
    async def visit(url: str, _environ: object) -> None:
        query = parse_qs(urlsplit(url).query)
        back = f"{query['redirect_uri'][0]}?{answer}&state={query['state'][0]}"
        async with HTTPClient() as browser, browser.stream("GET", back):
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(logins, "open_page", visit)
    async with login_server() as server:
        auth = {"clientId": "ours", "tokenUrl": f"{server.url}/token"}
        auth["authorizeUrl"] = "https://login.example/authorize"
        provider = {"url": "https://corp.example/v1", "models": {"m": {}}, "auth": auth}
        async with editing(tmp_path, json.dumps({"providers": {"p": provider}})) as editor:
            if answer == "code=planted":
                assert await authenticate(editor, "login") == m.Empty()
                assert "p" in stored(tmp_path)
                assert await authenticate(editor, "environment") == m.Empty()
                assert await editor.call("logout", m.Empty()) == m.Empty()
                assert stored(tmp_path) == {}
            else:
                with pytest.raises(RPCError, match="login with p failed"):
                    await authenticate(editor, "login")

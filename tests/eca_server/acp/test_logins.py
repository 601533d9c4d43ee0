"""ACP's `authenticate` and `logout` by the logins of an ECA server."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.acp import AUTHENTICATION_REQUIRED
from eca_protocol.acp import messages as m
from eca_protocol.errors import RPCError
from eca_server.acp import logins
from tests.eca_server.acp.bench import Editor, editing
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring
from tests.eca_server.models.credentials.login_server import come_back, stored_logins
from tests.eca_server.models.credentials.login_server import server as server  # noqa: PLC0414


async def authenticate(editor: Editor, method: str) -> Any:
    return await editor.call("authenticate", m.AuthenticateRequest(method_id=method))


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
    tmp_path, monkeypatch, server, answer
):
    async def visit(url: str, _environ: object) -> None:
        await come_back(url, answer)

    monkeypatch.setattr(logins, "open_page", visit)
    data = tmp_path / "home" / ".local" / "share"
    config = server.config(authorizeUrl="https://login.example/authorize")
    async with editing(tmp_path, json.dumps(config)) as editor:
        if answer == "code=planted":
            assert await authenticate(editor, "login") == m.Empty()
            assert "p" in stored_logins(data)
            assert await authenticate(editor, "environment") == m.Empty()
            assert await editor.call("logout", m.Empty()) == m.Empty()
            assert stored_logins(data) == {}
        else:
            with pytest.raises(RPCError, match="login with p failed"):
                await authenticate(editor, "login")

"""A key, from whatever source it comes, is in the requests to its provider and nowhere else.

The real process at its most talkative: the log at `debug`, a provider that quotes what it was sent,
a child that prints its environment, every command that reports something.
"""

import base64
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import Reply, provider_in_thread, reply, tool_call
from tests.eca_server.conftest import SERVE

KEY = "planted/key+that=looks~like.none-0123456789"
REFRESH = "planted/refresh+0123456789"
PASSWORD = "planted-in-an-address-0123"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()

Source = Callable[[dict[str, Any], Path], dict[str, str]]
"""Puts the key where it comes from: into the provider's settings, a file, or these variables."""


def configured(provider: dict[str, Any], _: Path) -> dict[str, str]:
    provider["key"] = KEY
    return {}


def named_variable(provider: dict[str, Any], _: Path) -> dict[str, str]:
    provider["keyEnv"] = "MY_OWN_NAME"
    return {"MY_OWN_NAME": KEY, "THE_SAME_AGAIN": f"prefix:{KEY}"}


def providers_variable(_provider: dict[str, Any], _: Path) -> dict[str, str]:
    return {"P_API_KEY": f" {KEY}\n"}


def variable_in_text(provider: dict[str, Any], _: Path) -> dict[str, str]:
    provider["key"] = "${env:SOME_NAME}"
    return {"SOME_NAME": KEY}


def file_in_text(provider: dict[str, Any], home: Path) -> dict[str, str]:
    (home / "key.txt").write_text(KEY)
    provider["key"] = f"${{file:{home / 'key.txt'}}}"
    return {}


def netrc(provider: dict[str, Any], home: Path) -> dict[str, str]:
    (home / "netrc.txt").write_text(f"machine model.example login me password {KEY}\n")
    provider["keyRc"] = "me@model.example"
    return {"NETRC": str(home / "netrc.txt")}


def header(provider: dict[str, Any], _: Path) -> dict[str, str]:
    provider["extraHeaders"] = {"Authorization": "Bearer ${env:SOME_NAME}"}
    return {"SOME_NAME": KEY}


def address(provider: dict[str, Any], _: Path) -> dict[str, str]:
    provider["key"] = KEY
    return {"P_API_URL": provider.pop("url").replace("//", f"//me:{PASSWORD}@")}


def login(_provider: dict[str, Any], home: Path) -> dict[str, str]:
    tokens = {"access": KEY, "refresh": REFRESH, "expiresAt": None, "obtainedAt": 1.0}
    client = {"clientId": "ours", "tokenUrl": "http://127.0.0.1:1/token"}
    folder = home / "data" / "eca-python"
    folder.mkdir(parents=True)
    content = {"version": 1, "providers": {"p": tokens | client}}
    (folder / "logins.json").write_text(json.dumps(content))
    return {"XDG_DATA_HOME": str(home / "data")}


def pasted(_provider: dict[str, Any], _: Path) -> dict[str, str]:
    return {}


SOURCES = (
    *(configured, login, pasted, address),
    *(named_variable, providers_variable, variable_in_text, file_in_text, netrc, header),
)


@pytest.mark.long(but=3)
@pytest.mark.parametrize("source", SOURCES)
def test_a_key_goes_to_its_provider_and_shows_nowhere(source: Source, start_server, tmp_path):
    quoting = Reply(status=400, body={"error": {"message": f"Wrong: {KEY} {PASSWORD}"}})
    printing = reply(tool_call("eca_shell_command", json.dumps({"command": "env"})))
    with provider_in_thread([printing, reply("Done"), quoting, quoting]) as endpoint:
        provider = {"url": endpoint.url, "models": {"m": {}}, "fetchModels": source is not pasted}
        environ = source(provider, tmp_path)
        sources = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        config = {
            "providers": {"p": provider},
            "chat": {"title": False},
            "toolCall": {"approval": {"byDefault": "allow"}},
        }
        server = start_server(
            command=(*SERVE, "--log-level", "debug"),
            env={"ECA_CONFIG": json.dumps(config), **environ},
        )
        server.introduced(tmp_path)
        if source is pasted:
            assert "Paste the key of p" in server.say("/login p", model="p/m")
            assert "Stored the key of" in server.say(KEY, model="p/m")
            (file,) = tmp_path.rglob("logins.json")
            sources[file] = file.read_bytes()
            assert KEY.encode() in sources[file]
            modes = [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)]
            assert modes == [0o600, 0o700]
        assert "Done" in server.say("go", model="p/m")
        assert "Wrong: ***" in server.say("again", model="p/m")
        for command in ("/doctor", "/config", "/prompt-show", "/login", "/costs", "/resume"):
            server.say(command, model="p/m")
        assert server.leave() == 0
        requests = list(endpoint.requests)
    proof = f"Basic {BASIC}" if source is address else f"Bearer {KEY}"
    assert {request.headers["authorization"] for request in requests} == {proof}
    sent_to_models = json.dumps([request.body for request in requests])
    assert "PATH=" in sent_to_models, "the child did print its environment"
    files = (path for path in tmp_path.rglob("*") if path.is_file() and path not in sources)
    outputs = {
        "the wire": b"".join(server.reads),
        "the log": server.errors.encode(),
        "the model's prompt": sent_to_models.encode(),
        **{str(path): path.read_bytes() for path in files},
    }
    planted = (KEY, REFRESH, *([PASSWORD, BASIC] if source is address else []))
    for name, output in outputs.items():
        for secret in planted:
            assert secret.encode() not in output, name
            assert json.dumps(secret)[1:-1].encode() not in output, name

"""The client's changes of MCP servers: announced, stored in no file of the user's, reloaded."""

import json
import sys
from typing import Any

import pytest

from eca_protocol.server.roots import uri_of
from eca_server.agent.mcp.errors import MCPError
from eca_server.config.saved_settings import SavedSettings
from eca_server.connection.features import mcp
from eca_server.connection.features.mcp import connect
from eca_server.models.credentials.logins import Logins
from tests.eca_server.agent.chat.current import refused
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.session import (
    SECRET,
    TRUSTED,
    configure_servers,
    connect_to_fakes,
    reload,
    until_shown,
)
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring

pytestmark = pytest.mark.usefixtures("trusted")


def server(**more: Any) -> dict[str, Any]:
    return {"command": "nothing", "args": ["x"], **more}


async def test_a_server_that_is_switched_off_stays_so_until_it_is_switched_on(home):
    theirs = configure_servers(home, s=server())
    async with home.editor() as ours:
        await status(ours, "s", "running")
        for method in ("mcp/disableServer", "mcp/enableServer") * 3:  # in one breath
            await ours.tell(method, {"name": "s"})
        await status(ours, "s", "disabled")
        await ours.ask("mcp/updateServer", {"name": "s", "env": {"X": "1"}})
        assert home.stored["everywhere"]["mcpServers"]["s"]["disabled"] is False
        await status(ours, "s", "running")
        for _ in range(2):
            await ours.tell("mcp/disableServer", {"name": "s"})
            assert (await status(ours, "s", "disabled"))["disabled"] is True
    assert home.stored["everywhere"]["mcpServers"]["s"]["disabled"] is True
    async with home.editor() as ours:
        await status(ours, "s", "disabled")
        await ours.tell("mcp/enableServer", {"name": "s"})
        assert (await status(ours, "s", "running"))["disabled"] is False
    assert home.user.read_text() == theirs


async def test_a_server_is_added_changed_and_removed(home):
    async with home.editor() as ours:
        new_server = server(env={"API_KEY": SECRET, "DEBUG": "1", "OTHER_KEY": "${env:PATH}"})
        answer = await ours.ask("mcp/addServer", {"name": "new", **new_server})
        assert answer["server"]["name"] == "new"
        assert answer["server"]["type"] == "mcp"
        await status(ours, "new", "running")
        assert SECRET not in json.dumps(home.stored)
        stored = home.stored["everywhere"]["mcpServers"]["new"]
        assert stored["env"]["DEBUG"] == "1"
        assert stored["env"]["OTHER_KEY"] == "${env:PATH}"
        settings = ours.connection.config.mcp_servers["new"]
        assert settings.env["API_KEY"] == SECRET
        await ours.ask("mcp/updateServer", {"name": "new", "env": {"DEBUG": "2"}})
        assert ours.connection.config.mcp_servers["new"].env == {
            "API_KEY": None, "OTHER_KEY": None, "DEBUG": "2",
        }  # fmt: skip
        await status(ours, "new", "running")
        removed = await ours.ask("mcp/removeServer", {"name": "new"})
        assert removed == {"name": "new", "removed": True}
        assert "new" not in ours.connection.config.mcp_servers
        methods = [each.get("method") for each in ours.received]
        assert "tool/serverRemoved" in methods[: methods.index(None, len(methods) - 1) + 1]
        assert SECRET not in json.dumps(ours.received)
    assert home.stored["everywhere"] == {}
    logins = home.data / "eca-python" / "logins.json"
    assert SECRET not in logins.read_text()


async def test_what_others_configured_is_removed_for_good_and_has_no_part_in_a_new_one(home):
    theirs = configure_servers(home, s=server(disabled=True, env={"A": "b"}, cwd="/tmp"))
    async with home.editor() as ours:
        await ours.ask("mcp/removeServer", {"name": "s"})
    assert home.stored["everywhere"] == {"mcpServers": {"s": None}}
    async with home.editor() as ours:
        assert ours.connection.config.mcp_servers == {}
        await ours.ask("mcp/addServer", {"name": "s", "command": "nothing", "disabled": True})
        own = ours.connection.config.mcp_servers["s"]
        assert (own.command, own.args, own.env, own.cwd) == ("nothing", (), {}, None)
    assert home.user.read_text() == theirs


async def test_what_only_a_workspace_knows_is_decided_for_that_workspace(home):
    one, two = home.root, home.add("two")
    home.configure(one, mcpServers={"s": {"command": "nothing"}})
    async with home.editor(one, two) as ours:
        await ours.tell("mcp/disableServer", {"name": "s"})
        await status(ours, "s", "disabled")
        new = {"name": "t", "command": "nothing", "disabled": True, "scope": "workspace"}
        assert "workspaceUri" in (await refused(ours, "mcp/addServer", new))["message"]
        await ours.ask("mcp/addServer", {**new, "workspaceUri": uri_of(two)})
        await ours.ask("mcp/updateServer", {"name": "t", "args": ["x"]})
    assert home.stored["everywhere"] == {}
    assert home.stored["workspaces"][str(one)] == {"mcpServers": {"s": {"disabled": True}}}
    assert home.stored["workspaces"][str(two)]["mcpServers"]["t"]["args"] == ["x"]
    async with home.editor(two) as ours:
        assert set(ours.connection.config.mcp_servers) == {"t"}
    async with home.editor(one) as ours:
        await ours.ask("mcp/removeServer", {"name": "s"})
        assert home.stored["workspaces"][str(one)] == {"mcpServers": {"s": None}}
        await ours.ask("mcp/addServer", {"name": "s", "command": "nothing", "disabled": True})
        assert set(ours.connection.config.mcp_servers) == {"s"}
    async with home.editor(two) as ours:
        assert set(ours.connection.config.mcp_servers) == {"s", "t"}


def add(says: str, **params: Any) -> tuple[str, Any, str]:
    return "mcp/addServer", {"name": "n", **params}, says


@pytest.mark.parametrize(
    ("method", "params", "says"),
    [
        add("already", name="there", command="x"),
        add("either a command or a url"),
        add("either", command="x", url="https://x"),
        add("http", url="ftp://x"),
        *(add("a different name", name=name, command="x") for name in ("ECA", " ")),
        add("name", name="{x}", command="x"),
        add("name", name=None, command="x"),
        add("env.A: expected a st", command="x", env={"A": 1}),
        add("NOWHERE", command="${env:NOWHERE}"),
        add("oauthPort", url="https://x", oauthPort=-1),
        ("mcp/updateServer", {"name": "nobody", "command": "x"}, "configured: there"),
        ("mcp/updateServer", {"name": "there", "command": "x", "url": "https://x"}, "both"),
        ("mcp/updateServer", {"name": "there", "url": "x"}, "http"),
        ("mcp/removeServer", {"name": "nobody"}, "configured: there"),
        ("mcp/removeServer", {}, "name"),
    ],
)
async def test_what_cannot_be_is_an_error_that_says_why(home, method, params, says):
    configure_servers(home, there={"command": "x", "disabled": True})
    async with home.editor() as ours:
        error = await refused(ours, method, params)
        assert error["code"] == -32602
        assert says in error["message"]
    assert not (home.data / "eca-python" / "settings.json").exists()


async def test_under_a_pure_configuration_nothing_is_stored_and_that_is_reported(home):
    pure = {"pureConfig": True, "mcpServers": {"s": server()}}
    async with home.editor(initializationOptions={**TRUSTED, **pure}) as ours:
        await status(ours, "s", "running")
        await ours.tell("mcp/disableServer", {"name": "s"})
        await until_shown(ours, "pureConfig")
        settings = {"name": "n", "command": "x", "env": {"API_KEY": SECRET}}
        error = await refused(ours, "mcp/addServer", settings)
        assert "pureConfig" in error["message"]
        await ours.ask("shutdown", None)
        configure_servers(home, t=server())
        ours.connection.put_in_force(ours.connection.load())
        assert "t" not in list(ours.connection.parts.mcp.get().manager)  # none is started now
    assert not list(home.data.rglob("*.json"))


@pytest.mark.parametrize(
    ("layer", "words", "code"),
    [
        ("{", "nothing was changed", -32603),
        ('{"version": 1, "everywhere": {"mcpServers": []}}', "expected objects", -32603),
        ('{"version": 1, "everywhere": {"mcpServers": {"s": 5}}}', "expected objects", -32603),
        (None, "log", -32603),
    ],
)
async def test_a_change_that_cannot_be_stored_is_reported_and_the_server_stays_as_it_was(
    home, monkeypatch, layer, words, code
):
    def break_down(*_: Any, **__: Any) -> None:
        raise RuntimeError("planted")

    configure_servers(home, s=server())
    file = home.data / "eca-python" / "settings.json"
    if layer is None:  # a bug of ours
        monkeypatch.setattr(SavedSettings, "change", break_down)
    else:
        file.parent.mkdir(parents=True)
        file.write_text(layer)
    async with home.editor() as ours:
        await status(ours, "s", "running")
        await ours.tell("mcp/disableServer", {"name": "s"})
        await until_shown(ours, words)
        for error in (
            await refused(ours, "mcp/removeServer", {"name": "s"}),
            await refused(ours, "mcp/addServer", {"name": "t", **server(headers={"K": SECRET})}),
        ):
            assert (error["code"], "planted" in error["message"]) == (code, False)
        assert set(ours.connection.config.mcp_servers) == {"s"}
    assert layer is None or file.read_text() == layer
    assert Logins({"XDG_DATA_HOME": str(home.data)}).read().keys == {}


async def test_servers_of_one_name_in_two_workspaces_have_each_their_own_secrets(home):
    settings = {"url": "https://mcp.example", "scope": "workspace", "disabled": True}
    one, two = home.root, home.add("two")
    for root in (one, two):
        async with home.editor(root) as ours:
            headers = {"K": f"{SECRET}-{root.name}"}
            await ours.ask("mcp/addServer", {"name": "s", "headers": headers, **settings})
    async with home.editor(one) as ours:
        assert ours.connection.config.mcp_servers["s"].headers == {"K": f"{SECRET}-work"}
        await ours.ask("mcp/updateServer", {"name": "s", "headers": {"K": f"{SECRET}-new"}})
        assert ours.connection.config.mcp_servers["s"].headers == {"K": f"{SECRET}-new"}
        logins = (home.data / "eca-python" / "logins.json").read_text()
        assert f"{SECRET}-work" not in logins
        await ours.ask("mcp/removeServer", {"name": "s"})
    async with home.editor(two) as ours:
        assert ours.connection.config.mcp_servers["s"].headers == {"K": f"{SECRET}-two"}
    assert SECRET not in json.dumps(home.stored)


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "https://x", "headers": {"Authorization": "planted-$Ab9-secret"}},
        {"url": "https://x", "headers": {"a:{b}": SECRET}},
        {"url": f"https://x?api_key={SECRET}"},
        {"command": "x", "args": ["a", f"--header=Authorization: Bearer {SECRET}"]},
        {"command": "x", "env": {"DATABASE": f"postgres://user:{SECRET}@host/db"}},
        {"url": "https://x", "clientId": "i", "clientSecret": SECRET},
    ],
)
async def test_what_looks_like_a_secret_is_stored_with_the_logins(home, settings):
    async with home.editor() as ours:
        await ours.ask("mcp/addServer", {"name": "s", "disabled": True, **settings})
        loaded = ours.connection.config.mcp_servers["s"]
        assert "planted" not in json.dumps(ours.received)
    assert "planted" not in json.dumps(home.stored)
    assert loaded.config_error is None
    for key, value in settings.items():
        if key in {"url", "args", "env", "headers"}:
            assert getattr(loaded, key) == (tuple(value) if isinstance(value, list) else value)


@pytest.mark.parametrize(
    "settings",
    [
        {"command": "x", "args": ["--token", "${env:MY_TOKEN}", "-p$MY_TOKEN"]},
        {"command": "${env:MY_TOKEN}/x"},
        {"url": "https://example.com/${env:MY_TOKEN}/mcp"},
    ],
)
async def test_a_server_is_announced_with_its_references_as_they_were_written(
    home, monkeypatch, settings
):
    refusal = MCPError(f"it said: what is {SECRET}?", kind="start")
    connect_to_fakes(monkeypatch, place=Place(refuses=refusal))
    configure_servers(home, s=settings)
    home.environ["MY_TOKEN"] = SECRET
    async with home.editor() as ours:
        announced = await status(ours, "s", "failed")
        assert "***" in await until_shown(ours)
        assert SECRET not in json.dumps(ours.received)
    assert {key: announced[key] for key in settings} == settings


async def test_what_another_server_has_decided_is_not_undone_and_followed(home):
    configure_servers(home, s=server())
    async with home.editor() as one, home.editor() as other:
        await status(other, "s", "running")
        new = {"name": "t", **server(headers={"K": SECRET})}
        await one.ask("mcp/addServer", new)
        error = await refused(other, "mcp/addServer", {"name": "t", "command": "another"})
        assert "already" in error["message"]
        assert one.connection.config.mcp_servers["t"].headers == {"K": SECRET}
        await reload(other)
        await status(other, "t", "running")
        assert other.connection.config.mcp_servers["t"].headers == {"K": SECRET}
        await one.ask("mcp/removeServer", {"name": "t"})
        error = await refused(other, "mcp/updateServer", {"name": "t", "command": "x"})
        assert "removed" in error["message"]
        await reload(other)
        await other.notice("tool/serverRemoved")
    assert home.stored["everywhere"] == {}


async def test_a_secret_in_the_systems_keyring_counts_as_soon_as_that_is_open(home, monkeypatch):
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    home.configure_user(keyring=True)
    async with home.editor() as ours:
        settings = server(name="new", env={"API_KEY": SECRET, "É_KEY": "\n"})
        await ours.ask("mcp/addServer", settings)
        await status(ours, "new", "running")
    for file in ("logins.json", "settings.json"):
        assert SECRET not in (home.data / "eca-python" / file).read_text()
    async with home.editor() as ours:
        await status(ours, "new", "running")
        assert ours.connection.config.mcp_servers["new"].env == {"API_KEY": SECRET, "É_KEY": "\n"}
        assert "$/showMessage" not in [each.get("method") for each in ours.received]
        await ours.ask("mcp/removeServer", {"name": "new"})
    assert keyring.stored == {}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"command": "x", "cwd": "~nobody-here/y"}, "its directory does not exist: "),
        ({"command": "~nobody-here/y"}, "~nobody-here/y is not an executable file"),
    ],
)
async def test_a_path_in_the_home_of_a_user_that_is_none_is_reported(
    home, monkeypatch, settings, why
):
    monkeypatch.setattr(mcp, "connect", connect)
    configure_servers(home, s=settings)
    async with home.editor() as ours:
        await status(ours, "s", "failed")
        assert "~nobody-here/y" in await until_shown(ours, why)

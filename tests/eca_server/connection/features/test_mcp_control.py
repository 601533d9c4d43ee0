"""The client's changes of MCP servers: announced, stored in no file of the user's, reloaded."""

import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Never

import pytest
import trio.testing

from eca_protocol.server.roots import uri_of
from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.states import State
from eca_server.config.saved_settings import SavedSettings
from eca_server.connection.features import mcp
from eca_server.connection.features.settings import Watcher
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import Client, OAuthError, TokenSet
from eca_server.secret import Secret
from tests.eca_server.agent.chat.current import refused
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, contents, editor, text
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.session import until_shown
from tests.eca_server.models.credentials.fake_keyring import FakeKeyring

SECRET = "planted-0123456789-secret"


class Home:
    """A user's home and a workspace, with MCP servers."""

    def __init__(self, folder: Path) -> None:
        self.roots = [folder / "one", folder / "two"]
        for root in self.roots:
            root.mkdir()
        self.data = folder / "data"
        self.user = folder / "config" / "eca" / "config.json"
        self.user.parent.mkdir(parents=True)
        self.environ = {
            "PATH": os.environ["PATH"],
            "XDG_DATA_HOME": str(self.data),
            "XDG_CONFIG_HOME": str(self.user.parents[1]),
        }

    def configure(self, **servers: Any) -> str:
        """Write the user's own configuration, and return its text."""
        text = json.dumps({"mcpServers": servers})
        self.user.write_text(text)
        return text

    @property
    def stored(self) -> dict[str, Any]:
        file = self.data / "eca-python" / "settings.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        settings: dict[str, Any] = json.loads(file.read_text())
        return settings

    @asynccontextmanager
    async def editor(
        self, *roots: Path, client: str = "other", **options: Any
    ) -> AsyncIterator[Editor]:
        async with editor(started=False, **self.environ) as ours:
            folders = [{"uri": uri_of(root), "name": root.name} for root in roots or self.roots[:1]]
            options = {"protocolRevision": "current", "workspaceTrusted": True, **options}
            await ours.start(
                workspaceFolders=folders, initializationOptions=options, clientInfo={"name": client}
            )
            yield ours


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A connection to fake servers, which run at once."""
    monkeypatch.setattr(mcp, "connect", lambda *_, **__: Place().connect())
    return Home(tmp_path)


def server(**more: Any) -> dict[str, Any]:
    return {"command": "nothing", "args": ["x"], **more}


async def test_a_server_that_is_switched_off_stays_so_until_it_is_switched_on(home):
    theirs = home.configure(s=server())
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
    theirs = home.configure(s=server(disabled=True, env={"A": "b"}, cwd="/tmp"))
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
    one, two = home.roots
    (one / ".eca").mkdir()
    (one / ".eca" / "config.json").write_text(
        json.dumps({"mcpServers": {"s": {"command": "nothing"}}})
    )
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
    home.configure(there={"command": "x", "disabled": True})
    async with home.editor() as ours:
        error = await refused(ours, method, params)
        assert error["code"] == -32602
        assert says in error["message"]
    assert not (home.data / "eca-python" / "settings.json").exists()


@pytest.mark.requirement("W-36c")
async def test_who_is_logged_out_is_asked_to_log_in_whenever_the_server_is_connected(
    home, monkeypatch
):
    url = "https://mcp.example/mcp"
    link = "https://login.example/page"
    tokens = TokenSet(
        access=Secret(SECRET),
        obtained_at=0,
        expires_at=None,
        client=Client(id="i", token_url="https://login.example/token"),
    )
    logins = Logins({"XDG_DATA_HOME": str(home.data)})
    logins.store(f"mcp:{url}", tokens)
    logins.store("openai", Secret(SECRET))

    @asynccontextmanager
    async def connect(*_: Any, login: Any, **__: Any) -> AsyncIterator[Any]:
        if await login.token() is None:
            raise MCPError("it wants a login", kind="login", url=link)
        async with Place().connect() as session:
            yield session

    monkeypatch.setattr(mcp, "connect", connect)
    home.configure(web={"url": url}, s=server())
    async with home.editor() as ours:
        running = await status(ours, "web", "running")
        assert (running["hasAuth"], running["url"]) == (True, url)
        assert "command" not in running
        await ours.tell("mcp/logoutServer", {"name": "web"})
        assert (await status(ours, "web", "requires-auth"))["hasAuth"] is False
        assert link in await until_shown(ours)
        await ours.tell("mcp/connectServer", {"name": "web"})
        await status(ours, "web", "requires-auth")
        texts = [text((await ours.turn("say hi", model=SCRIPT))[2:]) for _ in range(2)]
        assert [link in each for each in texts] == [True, False]
        assert set(logins.read().keys) == {"openai"}
        for method in ("logoutServer", "connectServer", "enableServer", "disableServer"):
            await ours.tell(f"mcp/{method}", {"name": "nobody"})
            assert "Configured: web, s." in await until_shown(ours, "There is no MCP server")
        await ours.tell("mcp/disableServer", {"name": "ECA"})
        assert "disabledTools" in await until_shown(ours, "ECA stands for")
        await ours.tell("mcp/logoutServer", {"name": "s"})
        await until_shown(ours, "no URL")


@pytest.mark.parametrize("client", ["emacs", "VsCode"])
async def test_the_browser_opens_for_who_asks_for_a_login_and_the_link_can_be_clicked(
    home, monkeypatch, client
):
    link = "https://login.example/page?a=(b)"
    opened: list[str] = []
    given_up: list[Login] = []

    @asynccontextmanager
    async def connect(*_: Any, **__: Any) -> AsyncIterator[Any]:
        raise MCPError("it wants a login", kind="login", url=link)
        yield

    async def open_page(url: str, environ: Mapping[str, str]) -> None:
        assert "ECA_CONFIG" not in environ
        opened.append(url)

    def give_up(login: Login) -> None:
        given_up.append(login)

    monkeypatch.setattr(mcp, "connect", connect)
    monkeypatch.setattr(mcp, "open_page", open_page)
    monkeypatch.setattr(Login, "give_up", give_up)
    home.configure(web={"url": "https://mcp.example"})
    async with home.editor(client=client) as ours:
        await status(ours, "web", "requires-auth")
        for method, times in (("startServer", 0), ("connectServer", 1), ("startServer", 1)):
            await ours.tell(f"mcp/{method}", {"name": "web"})
            await status(ours, "web", "starting")
            await status(ours, "web", "requires-auth")
            await trio.testing.wait_all_tasks_blocked()
            assert opened == [link] * times
        begun = len(ours.received)
        await ours.turn("say hi", model=SCRIPT)
        clicked = "\n\n[Log in to the MCP server web](https://login.example/page?a=%28b%29)\n\n"
        shown = [(role, each.get("text")) for role, each in contents(ours.received[begun:])]
        assert (("assistant", clicked) in shown) is (client == "VsCode")
        assert link in text([each for _, each in contents(ours.received[begun:])])
        await ours.tell("mcp/startServer", {"name": "web"})
        await status(ours, "web", "starting")
        await status(ours, "web", "requires-auth")
        before = len(given_up)  # a login is waited for at no server that is disabled or removed
        await ours.tell("mcp/disableServer", {"name": "web"})
        await status(ours, "web", "disabled")
        assert len(given_up) == before + 1
        begun = len(ours.received)
        await ours.turn("say hi", model=SCRIPT)
        assert link not in text([each for _, each in contents(ours.received[begun:])])
        await ours.ask("mcp/removeServer", {"name": "web"})
        assert len(given_up) == before + 2


async def test_a_login_that_fails_is_shown_in_place_of_its_page(home, monkeypatch):
    @asynccontextmanager
    async def connect(*_: Any, login: Login, **__: Any) -> AsyncIterator[Any]:
        raise await login.login_error("")
        yield

    async def fail(_: Login, __: Any, begin: Callable[[str], None]) -> Never:
        begin("https://login.example/page")
        await trio.testing.wait_all_tasks_blocked()
        raise OAuthError("Missing client_id")

    monkeypatch.setattr(mcp, "connect", connect)
    monkeypatch.setattr(Login, "_log_in", fail)
    home.configure(web={"url": "https://mcp.example"})
    async with home.editor() as ours:
        await until_shown(ours, "Log in here: https://login.example/page")
        await until_shown(ours, "web requires a login; the last one failed: Missing client_id.")
        assert "login.example" not in text((await ours.turn("say hi", model=SCRIPT))[2:])


async def test_a_login_that_ends_after_a_stop_leaves_the_server_stopped(home, monkeypatch):
    approved, has_ended = trio.Event(), trio.Event()

    @asynccontextmanager
    async def connect(*_: Any, login: Login, **__: Any) -> AsyncIterator[Any]:
        raise await login.login_error("")
        yield

    async def log_in(_: Login, __: Any, begin: Callable[[str], None]) -> None:
        begin("https://login.example/page")
        await approved.wait()
        has_ended.set()

    monkeypatch.setattr(mcp, "connect", connect)
    monkeypatch.setattr(Login, "_log_in", log_in)
    home.configure(web={"url": "https://mcp.example"})
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")
        await ours.tell("mcp/stopServer", {"name": "web"})
        await status(ours, "web", "stopped")
        approved.set()
        await has_ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        server = ours.connection.parts.mcp.get().manager.get("web")
        assert server.state is State.STOPPED


async def test_under_a_pure_configuration_nothing_is_stored_and_that_is_reported(home):
    pure = {"pureConfig": True, "mcpServers": {"s": server()}}
    async with home.editor(**pure) as ours:
        await status(ours, "s", "running")
        await ours.tell("mcp/disableServer", {"name": "s"})
        await until_shown(ours, "pureConfig")
        settings = {"name": "n", "command": "x", "env": {"API_KEY": SECRET}}
        error = await refused(ours, "mcp/addServer", settings)
        assert "pureConfig" in error["message"]
        await ours.ask("shutdown", None)
        home.configure(t=server())
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

    home.configure(s=server())
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
    for root in home.roots:
        async with home.editor(root) as ours:
            headers = {"K": f"{SECRET}-{root.name}"}
            await ours.ask("mcp/addServer", {"name": "s", "headers": headers, **settings})
    one, two = home.roots
    async with home.editor(one) as ours:
        assert ours.connection.config.mcp_servers["s"].headers == {"K": f"{SECRET}-one"}
        await ours.ask("mcp/updateServer", {"name": "s", "headers": {"K": f"{SECRET}-new"}})
        assert ours.connection.config.mcp_servers["s"].headers == {"K": f"{SECRET}-new"}
        logins = (home.data / "eca-python" / "logins.json").read_text()
        assert f"{SECRET}-one" not in logins
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
    def refuse(*_: object, **__: object) -> Never:
        raise MCPError(f"it said: what is {SECRET}?", kind="start")

    monkeypatch.setattr(mcp, "connect", refuse)
    home.configure(s=settings)
    home.environ["MY_TOKEN"] = SECRET
    async with home.editor() as ours:
        announced = await status(ours, "s", "failed")
        assert "***" in await until_shown(ours)
        assert SECRET not in json.dumps(ours.received)
    assert {key: announced[key] for key in settings} == settings


async def test_what_another_server_has_decided_is_not_undone_and_followed(home):
    home.configure(s=server())
    async with home.editor() as one, home.editor() as other:
        await status(other, "s", "running")
        new = {"name": "t", **server(headers={"K": SECRET})}
        await one.ask("mcp/addServer", new)
        error = await refused(other, "mcp/addServer", {"name": "t", "command": "another"})
        assert "already" in error["message"]
        assert one.connection.config.mcp_servers["t"].headers == {"K": SECRET}
        watcher = Watcher(other.connection.parts.settings)
        for _ in range(2):
            await watcher.look()
        await status(other, "t", "running")
        assert other.connection.config.mcp_servers["t"].headers == {"K": SECRET}
        await one.ask("mcp/removeServer", {"name": "t"})
        error = await refused(other, "mcp/updateServer", {"name": "t", "command": "x"})
        assert "removed" in error["message"]
        for _ in range(2):
            await watcher.look()
        await other.until(lambda each: each.get("method") == "tool/serverRemoved")
    assert home.stored["everywhere"] == {}


async def test_a_secret_in_the_systems_keyring_counts_as_soon_as_that_is_open(home, monkeypatch):
    keyring = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    home.user.write_text(json.dumps({"keyring": True}))
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
async def test_a_path_in_the_home_of_a_user_that_is_none_is_reported(tmp_path, settings, why):
    home = Home(tmp_path)
    home.configure(s=settings)
    async with home.editor() as ours:
        await status(ours, "s", "failed")
        assert "~nobody-here/y" in await until_shown(ours, why)

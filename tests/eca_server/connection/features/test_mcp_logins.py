"""Logins of MCP servers: requested by the user, and made by another server of the user's."""

from collections.abc import Callable, Mapping
from typing import Any, Never

import attrs
import pytest
import trio
import trio.testing

from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.states import State
from eca_server.connection.features import mcp
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import OAuthError
from eca_server.secret import Secret
from tests.eca_server.agent.chat.editor import SCRIPT, contents, text
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.agent.mcp.fake import Place
from tests.eca_server.connection.features.session import (
    SECRET,
    Home,
    configure_servers,
    connect_to_fakes,
    reload,
    until_shown,
)
from tests.eca_server.models.credentials.login_server import tokens_of

pytestmark = pytest.mark.usefixtures("trusted")
URL, LINK = "https://mcp.example/mcp", "https://login.example/page"


def refusal(link: str = LINK) -> MCPError:
    return MCPError("it wants a login", kind="login", url=link)


@pytest.fixture(autouse=True)
def web(home: Home) -> None:
    """Configure a server that may want a login."""
    configure_servers(home, web={"url": URL})


async def logs_in(login: Login) -> None:
    """Begin a login in place of a server."""
    raise await login.login_error("")


async def no_thread(*_: Any, **__: Any) -> Any:
    """Fail as on a machine at its limit of threads."""
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("has_old_login", "is_refused"), [(False, False), (False, True), (True, False)]
)
async def test_a_login_that_another_server_stores_starts_the_server_once(
    home, monkeypatch, has_old_login, is_refused
):
    tokens = tokens_of(access=Secret(SECRET), refresh=None)
    old = Secret("revoked")
    starts: list[bool] = []

    async def check(login: Login) -> None:
        token = await login.token()
        starts.append(token is not None)
        if token in {None, old} or is_refused:
            raise refusal()

    connect_to_fakes(monkeypatch, check)
    logins = Logins({"XDG_DATA_HOME": str(home.data)})
    if has_old_login:
        logins.store(f"mcp:{URL}", attrs.evolve(tokens, access=old, logged_in_at=-1))
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")
        for name in ("openai", f"mcp:{URL}", "anthropic"):
            logins.store(name, tokens if name.startswith("mcp") else Secret(SECRET))
            await reload(ours)
            if name.startswith("mcp"):
                await status(ours, "web", "requires-auth" if is_refused else "running")
        logins.store(f"mcp:{URL}", attrs.evolve(tokens, access=Secret("renewed elsewhere")))
        await ours.connection.parts.mcp.get().follow_logins()
        with monkeypatch.context() as patch:
            patch.setattr(trio.to_thread, "run_sync", no_thread)
            await ours.connection.parts.mcp.get().follow_logins()
    assert starts == [has_old_login, True]


async def test_two_changes_that_show_one_login_start_its_server_once(home, monkeypatch):
    starts: list[bool] = []
    checks: list[bool] = []
    was_made_elsewhere = Login.was_made_elsewhere

    async def refuse(login: Login) -> None:
        starts.append(await login.token() is not None)
        raise refusal()

    connect_to_fakes(monkeypatch, refuse)
    tokens = tokens_of(access=Secret(SECRET), refresh=None)
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")

        async def check(login: Login) -> bool:
            checks.append(await was_made_elsewhere(login))
            if checks == [True, True]:  # both have read the same login: let the first be refused
                await status(ours, "web", "requires-auth")
            return checks[-1]

        monkeypatch.setattr(Login, "was_made_elsewhere", check)
        Logins({"XDG_DATA_HOME": str(home.data)}).store(f"mcp:{URL}", tokens)
        servers = ours.connection.parts.mcp.get()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(servers.follow_logins)
            nursery.start_soon(servers.follow_logins)
        await trio.testing.wait_all_tasks_blocked()
    assert starts == [False, True]


@pytest.mark.parametrize("stops", [False, True])
async def test_a_login_stored_elsewhere_ends_the_pending_one_but_starts_no_server_that_was_stopped(
    home, monkeypatch, stops
):
    was_made_elsewhere, is_given_up = Login.was_made_elsewhere, trio.Event()

    async def log_in(_: Login, __: Any, begin: Callable[[str], None]) -> None:
        begin(LINK)
        try:
            await trio.sleep_forever()
        finally:
            is_given_up.set()

    async def check(login: Login) -> None:
        if await login.token() is None:
            await logs_in(login)

    async def look(login: Login) -> bool:
        if stops:
            await ours.tell("mcp/stopServer", {"name": "web"})
            await status(ours, "web", "stopped")
        return await was_made_elsewhere(login)

    connect_to_fakes(monkeypatch, check)
    monkeypatch.setattr(Login, "_log_in", log_in)
    monkeypatch.setattr(Login, "was_made_elsewhere", look)
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")
        tokens = tokens_of(access=Secret(SECRET), refresh=None)
        Logins({"XDG_DATA_HOME": str(home.data)}).store(f"mcp:{URL}", tokens)
        servers = ours.connection.parts.mcp.get()
        await servers.follow_logins()
        await trio.testing.wait_all_tasks_blocked()
        assert servers.manager.get("web").state is (State.STOPPED if stops else State.RUNNING)
        assert is_given_up.is_set() is not stops


@pytest.mark.requirement("W-36c")
async def test_who_is_logged_out_is_asked_to_log_in_whenever_the_server_is_connected(
    home, monkeypatch
):
    async def check(login: Login) -> None:
        if await login.token() is None:
            raise refusal()

    logins = Logins({"XDG_DATA_HOME": str(home.data)})
    logins.store(f"mcp:{URL}", tokens_of(access=Secret(SECRET), refresh=None))
    logins.store("openai", Secret(SECRET))
    connect_to_fakes(monkeypatch, check)
    configure_servers(home, web={"url": URL}, s={"command": "nothing"})
    async with home.editor() as ours:
        running = await status(ours, "web", "running")
        assert (running["hasAuth"], running["url"]) == (True, URL)
        assert "command" not in running
        await ours.tell("mcp/logoutServer", {"name": "web"})
        assert (await status(ours, "web", "requires-auth"))["hasAuth"] is False
        assert LINK in await until_shown(ours)
        await ours.tell("mcp/connectServer", {"name": "web"})
        await status(ours, "web", "requires-auth")
        texts = [text((await ours.turn("say hi", model=SCRIPT))[2:]) for _ in range(2)]
        assert [LINK in each for each in texts] == [True, False]
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

    async def open_page(url: str, environ: Mapping[str, str]) -> None:
        assert "ECA_CONFIG" not in environ
        opened.append(url)

    def give_up(login: Login) -> None:
        given_up.append(login)

    connect_to_fakes(monkeypatch, place=Place(refuses=refusal(link)))
    monkeypatch.setattr(mcp, "open_page", open_page)
    monkeypatch.setattr(Login, "give_up", give_up)
    async with home.editor(clientInfo={"name": client}) as ours:
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
    async def fail(_: Login, __: Any, begin: Callable[[str], None]) -> Never:
        begin(LINK)
        await trio.testing.wait_all_tasks_blocked()
        raise OAuthError("Missing client_id")

    connect_to_fakes(monkeypatch, logs_in)
    monkeypatch.setattr(Login, "_log_in", fail)
    async with home.editor() as ours:
        await until_shown(ours, f"Log in here: {LINK}")
        await until_shown(ours, "web requires a login; the last one failed: Missing client_id.")
        assert "login.example" not in text((await ours.turn("say hi", model=SCRIPT))[2:])


async def test_a_login_that_ends_after_a_stop_leaves_the_server_stopped(home, monkeypatch):
    approved, has_ended = trio.Event(), trio.Event()

    async def log_in(_: Login, __: Any, begin: Callable[[str], None]) -> None:
        begin(LINK)
        await approved.wait()
        has_ended.set()

    connect_to_fakes(monkeypatch, logs_in)
    monkeypatch.setattr(Login, "_log_in", log_in)
    async with home.editor() as ours:
        await status(ours, "web", "requires-auth")
        await ours.tell("mcp/stopServer", {"name": "web"})
        await status(ours, "web", "stopped")
        approved.set()
        await has_ended.wait()
        await trio.testing.wait_all_tasks_blocked()
        server = ours.connection.parts.mcp.get().manager.get("web")
        assert server.state is State.STOPPED

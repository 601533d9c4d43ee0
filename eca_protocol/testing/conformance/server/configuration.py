"""Cases of what the server tells of itself: settings to choose from, tool servers, changes."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from eca_protocol.testing.conformance.bench import Bench, Seat
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.server.reading import INTRODUCTION_SECONDS, params_of
from eca_protocol.testing.conformance.wire import Heard

MEMBERS: Final = (
    "models",
    "selectModel",
    "behaviors",
    "selectBehavior",
    "agents",
    "selectAgent",
    "welcomeMessage",
)
SELECTED: Final = {"selectModel": "models", "selectBehavior": "behaviors", "selectAgent": "agents"}
GREETING: Final = "Welcome to the conformance suite"
_MUTE: Final = "import sys; open(sys.argv[1], 'w').close(); sys.stdin.read()"
_EARLY_SECONDS: Final = 0.5


@case("LIFE-14", "W-11a", "W-11b", "W-11c", "W-11e", "CONF-8", "CONF-11", seconds=30)
async def it_introduces_itself(bench: Bench) -> None:
    """`initialize` and `initialized`, then all that comes unasked."""
    async with bench.seat(hello=False) as seat:
        await _initialize(bench, seat)
        news = await _introduced(seat)
        bench.saw("LIFE-14")
        _settings_are_whole(bench, _settings_in(news))
        try:
            await _task_ends(seat, shows="W-11e")
            bench.saw("W-11e")
        except Stuck:
            pass
        native = await seat.until(
            _is_native, shows="W-11c", expected="`tool/serverUpdated` of the server ECA"
        )
    bench.check(
        "W-11c",
        news.index < native.index,
        expected="the native server behind `config/updated`",
        got=f"the numbers {news.index} and {native.index}",
    )
    bench.check(
        "CONF-8",
        native.params.get("status") == "running",
        expected="a native server that is running",
        got=native.params.get("status"),
    )
    _tools_are_shown(bench, native.params.get("tools"))


async def _initialize(bench: Bench, seat: Seat) -> None:
    await seat.ask("initialize", bench.initialize_params(seat.root), seconds=30)


async def _introduced(seat: Seat) -> Heard:
    """`initialized`; the first `config/updated` behind it.

    Raises:
        Stuck: there is none.
    """
    await seat.tell("initialized", {})
    return await seat.until(
        lambda message: message.get("method") == "config/updated",
        seconds=INTRODUCTION_SECONDS,
        shows="LIFE-14",
        expected="`config/updated`",
    )


def _settings_in(news: Heard) -> Mapping[str, Any]:
    """The settings that a `config/updated` tells; none, where it has no object of them."""
    chat = news.params.get("chat")
    return chat if isinstance(chat, Mapping) else {}


def _settings_are_whole(bench: Bench, chat: Mapping[str, Any]) -> None:
    missing = [name for name in MEMBERS if name not in chat]
    bench.check("W-11a", not missing, expected=f"{', '.join(MEMBERS)} in `chat`", got=chat)
    odd = {
        name: chat[name]
        for name, of in SELECTED.items()
        if name in chat
        and isinstance(chat.get(of), list)
        and not (chat[name] and chat[name] in chat[of])
    }
    bench.check("W-11b", not odd, expected="selections of their lists, no empty ones", got=odd)


def _is_native(message: Mapping[str, Any]) -> bool:
    """Whether it shows the native server, whatever its name is."""
    return message.get("method") == "tool/serverUpdated" and params_of(message).get("type") != "mcp"


async def _task_ends(seat: Seat, *, shows: str | None = None) -> None:
    """Wait for the finish of a task that was started.

    Raises:
        Stuck: there is none; the row that it shows fails.
    """
    started: list[object] = []

    def ends(message: Mapping[str, Any]) -> bool:
        if message.get("method") != "$/progress":
            return False
        params = params_of(message)
        if params.get("type") == "start":
            started.append(params.get("taskId"))
        return params.get("type") == "finish" and params.get("taskId") in started

    await seat.until(ends, shows=shows, expected="the start and the finish of one task")


def _tools_are_shown(bench: Bench, tools: Any) -> None:
    """Each with a schema; one that does not say that it is disabled is not."""
    if not tools:
        bench.not_applicable("CONF-11", "It has no native tools.")
        return
    odd = [
        tool
        for tool in (tools if isinstance(tools, list) else [tools])
        if not (
            isinstance(tool, Mapping)
            and isinstance(tool.get("parameters"), Mapping | bool)
            and isinstance(tool.get("disabled"), bool | None)
        )
    ]
    bench.check(
        "CONF-11",
        not odd,
        expected="each tool with its schema, and whether it is disabled if that is said",
        got=odd,
    )


@case("LIFE-17", "W-11d", "W-11f", needs="config", seconds=30)
async def an_mcp_server_holds_nothing_up(bench: Bench) -> None:
    """An MCP server is configured that never answers; the introduction, and what is told of it.

    `initialized` comes a moment late: does the MCP server's process start without an update?
    """
    with tempfile.TemporaryDirectory(prefix="eca-conformance-") as folder:
        await _with_a_mute_server(bench, Path(folder) / "started")


def _mute(started: Path) -> dict[str, Any]:
    """An MCP server that never answers; when it starts there is a file."""
    return {"command": sys.executable, "args": ["-ISc", _MUTE, str(started)]}


async def _comes_to_be(path: Path) -> bool:
    """Whether there is such a file within a moment."""
    file = anyio.Path(path)
    with anyio.move_on_after(_EARLY_SECONDS):
        while not await file.exists():  # noqa: ASYNC110 - nobody tells us of another's file
            await anyio.sleep(0.02)
    return await file.exists()


async def _with_a_mute_server(bench: Bench, started: Path) -> None:
    config = {"mcpServers": {"mute": _mute(started)}}
    async with bench.seat(config=config, hello=False) as seat:
        await _initialize(bench, seat)
        is_early = await _comes_to_be(started) and not seat.config
        bench.check(
            "LIFE-17",
            not is_early,
            expected="no process of an MCP server before the first `config/updated`",
            got="one",
        )
        news = await _introduced(seat)
        mute = await seat.until(_is_mute, expected="`tool/serverUpdated` of the server mute")
        bench.check(
            "LIFE-17",
            news.index < mute.index,
            expected="the MCP server behind the first `config/updated`",
            got=f"the numbers {mute.index} and {news.index}",
        )
        native = await seat.until(_is_native, expected="the native server")
        bench.check(
            "W-11d",
            native.index < mute.index,
            expected="the MCP server behind the native one",
            got=f"the numbers {mute.index} and {native.index}",
        )
        ends = await _comes_to_an_end(seat)
    if not ends:
        async with bench.seat(fresh=True) as plain:
            if not await _comes_to_an_end(plain):
                raise Stuck("a task that ends where no MCP server is configured", "none")
    bench.check(
        "W-11f",
        ends,
        expected="a task that ends, though an MCP server does not start",
        got="it ends" if ends else "it does not",
    )


async def _comes_to_an_end(seat: Seat) -> bool:
    try:
        await _task_ends(seat)
    except Stuck:
        return False
    return True


def _is_mute(message: Mapping[str, Any]) -> bool:
    return (
        message.get("method") == "tool/serverUpdated" and params_of(message).get("name") == "mute"
    )


@case("LIFE-16", needs="config")
async def a_provider_holds_nothing_up(bench: Bench) -> None:
    """A provider is configured whose endpoint takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        provider = {
            "api": "openai-chat",
            "url": f"http://127.0.0.1:{endpoint.getsockname()[1]}/v1",
            "key": "a key",
            "fetchModels": True,
            "models": {"silent": {}},
        }
        config = {"providers": {"silent": provider}}
        async with bench.seat(config=config, hello=False) as seat:
            await _initialize(bench, seat)
            await seat.tell("initialized", {})
            await seat.until(
                lambda message: message.get("method") == "config/updated",
                shows="LIFE-16",
                expected="`config/updated`, though a provider does not answer",
            )
    bench.saw("LIFE-16")


@case("CONF-6", needs="config")
async def the_welcome_is_the_configured_one(bench: Bench) -> None:
    """`welcomeMessage` is configured."""
    async with bench.seat(config={"welcomeMessage": GREETING}, fresh=True) as seat:
        with contextlib.suppress(Stuck):
            await seat.until(
                lambda _: "welcomeMessage" in seat.config,
                seconds=INTRODUCTION_SECONDS,
                expected="a welcome",
            )
        got = seat.config.get("welcomeMessage")
    bench.check("CONF-6", got == GREETING, expected=GREETING, got=got)


@case("CONF-3", "W-11g", needs="config", seconds=30)
async def a_change_of_configuration_is_told(bench: Bench) -> None:
    """A configuration file appears, the user's and the workspace's, and changes one setting.

    A server need not obey a workspace that the user has not been asked about.
    """
    async with bench.seat(fresh=True) as seat:
        known = seat.config
        for folder in (seat.wire.folders.home / ".config" / "eca", seat.root / ".eca"):
            folder.mkdir(parents=True)
            new = folder / "new"
            new.write_text(json.dumps({"welcomeMessage": GREETING}))
            new.replace(folder / "config.json")
        update = await seat.until(
            lambda message: message.get("method") == "config/updated" and GREETING in str(message),
            seconds=15,
            shows="CONF-3",
            expected="`config/updated` with the new welcome",
        )
    bench.saw("CONF-3")
    told = _settings_in(update)
    again = [name for name, value in told.items() if known.get(name) == value or value is None]
    bench.check("W-11g", not again, expected="only what has changed, and no null", got=again)


@case("W-36d")
async def unknown_mcp_servers_are_named_to_the_user(bench: Bench) -> None:
    """`mcp/startServer` and `mcp/stopServer` with names that nobody knows."""
    async with bench.seat(fresh=True) as seat:
        for method in ("mcp/startServer", "mcp/stopServer"):
            last = seat.heard[-1]
            await seat.tell(method, {"name": "nobody"})
            await seat.until(
                _warns, after=last, shows="W-36d", expected=f"a warning behind {method}"
            )
    bench.saw("W-36d")


def _warns(message: Mapping[str, Any]) -> bool:
    return message.get("method") == "$/showMessage" and params_of(message).get("type") == "warning"

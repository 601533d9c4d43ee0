"""The client's connection: start, configuration, events, requests of the server, and the end."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol import Server as PlainServer
from eca_protocol import http_server, methods
from eca_protocol import messages as m
from eca_protocol.client import Client, ConnectionOptions, connect, events
from eca_protocol.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RPCError,
    StartFailed,
    TurnFailed,
)
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.methods import ECA, ClientNotification, ClientRequest
from eca_protocol.streams import Transport, memory_pair
from eca_server.connection.features.host import Options
from eca_server.connection.server import Server
from tests.eca_protocol.client.fake_server import begun, connected
from tests.eca_protocol.wire import Wire, success
from tests.eca_server import fork_server

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
SERVER = (sys.executable, "-P", "-m", "eca_server", "server")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "ECA_CONFIG": "{}"}
LOOK = m.ShowMessageParams(type="info", message="look")


def forked_server() -> tuple[str, ...]:
    return (*fork_server.command(), "server")


@pytest.mark.requirement("GEN-3", "GEN-4", "GEN-5")
async def test_the_client_has_a_typed_row_or_a_handler_for_everything_in_the_table() -> None:
    transport, _ = memory_pair()
    options = ConnectionOptions(
        transport=transport,
        diagnostics=lambda _: m.EditorGetDiagnosticsResponse(diagnostics=()),
        definition=lambda _: m.EditorGetDefinitionResponse(status="no-server"),
        references=lambda _: m.EditorGetReferencesResponse(status="no-server"),
        on_question=lambda _: None,
    )
    client = Client(transport, options)
    for method in ECA:
        if method.direction == "client_to_server":
            row_type = ClientRequest if method.kind == "request" else ClientNotification
            assert isinstance(method, row_type), method.name
        else:
            assert method.name in client.handled_methods, method.name


@pytest.mark.requirement("LIFE-5", "LIFE-7", "LIFE-11", "LIFE-23")
async def test_connect_introduces_itself_and_leaving_shuts_down_then_exits(tmp_path: Path) -> None:
    info = m.ClientInfo(name="me", version="1")
    async with connected(workspace_folders=[tmp_path], client_info=info) as (client, server):
        (hello,) = server.params_of("initialize")
        assert hello.process_id == os.getpid()
        assert hello.client_info == info
        assert hello.capabilities.code_assistant.chat is True
        assert hello.capabilities.code_assistant.editor is None
        folder = m.WorkspaceFolder(uri=tmp_path.as_uri(), name=tmp_path.name)
        assert hello.workspace_folders == (folder,)
        assert client.initialize_response.chat_welcome_message == "hello"
        await server.until("initialized")
    names = [name for name, _ in server.received]
    assert names == ["initialize", "initialized", "shutdown", "exit"]


async def test_a_server_that_could_not_shut_down_in_order_exits_all_the_same() -> None:
    def fail(_: None) -> None:
        raise RPCError(ErrorCode.INTERNAL_ERROR, "a chat could not be stored")

    async with connected() as (_, server):
        server.on("shutdown", fail)
    assert [name for name, _ in server.received][-2:] == ["shutdown", "exit"]


async def test_the_lifecycle_binds_the_client_too() -> None:
    async with connected() as (client, _):
        with pytest.raises(LocalProtocolError):
            await client.initialize(m.InitializeParams(process_id=None))
        name: Any = "chat/list"
        with pytest.raises(LocalProtocolError, match=r"a row of .*, got 'chat/list'"):
            await client.request(name, None)
        with pytest.raises(LocalProtocolError, match=r"a row of .*, got 'chat/list'"):
            client.notify(name, None)
        await client.request(methods.SHUTDOWN, None)
        with pytest.raises(LocalProtocolError):
            await client.chat().query_commands()


@pytest.mark.requirement("CONF-4", "CONF-5")
async def test_configurations_are_folded_and_what_is_missing_has_not_changed() -> None:
    first = m.ChatConfig(models=("a/b", "c/d"), select_model="a/b", behaviors=("agent",))
    async with connected() as (client, server):
        with pytest.raises(DeadlineExceeded, match="the server's first config/updated"):
            await client.wait_for_config(deadline=0.02)
        server.peer.notify("config/updated", m.ConfigUpdatedParams(chat=first))
        assert await client.wait_for_config() == first
        second = m.ChatConfig(select_model="c/d")
        server.peer.notify("config/updated", m.ConfigUpdatedParams(chat=second))
        server.peer.notify("config/updated", m.ConfigUpdatedParams())
        await client.chat().query_commands()
        assert client.models == ("a/b", "c/d")
        assert client.selected_model == "c/d"
        assert client.config.behaviors == ("agent",)


@pytest.mark.requirement("GEN-2", "GEN-5")
async def test_events_come_in_order_and_end_with_the_connection() -> None:
    async with connected() as (client, server):
        native = m.EcaServerUpdatedParams(name="ECA", status="running", tools=())
        server.peer.notify("$/showMessage", LOOK)
        server.peer.notify("tool/serverUpdated", native)
        server.text("unknown chat", "for nobody")
        await client.chat().query_commands()
        server.peer.close()
        await server.peer.transport.aclose()
        events = [event async for event in client.events()]
        with pytest.raises(ConnectionClosed):
            client.chat("c").steer("hello?")
        assert events[:2] == [LOOK, native]
        assert isinstance(events[2], m.ChatContentReceivedParams)
        assert client.tool_servers == {"ECA": native}


async def test_large_unread_events_are_dropped_the_oldest_first(monkeypatch) -> None:
    monkeypatch.setattr(events, "MAX_EVENTS_SIZE", 3000)
    async with connected() as (client, server):
        for letter in "abcd":
            server.text("unknown chat", letter * 1000)
        await client.chat().query_commands()
        async with client.events() as unread:
            assert [(await anext(unread)).content.text[0] for _ in "cd"] == ["c", "d"]
            server.text("unknown chat", "e")
            assert (await anext(unread)).content.text == "e"


async def test_a_function_is_called_with_each_event_of_its_type_in_order(caplog) -> None:
    configs: list[m.ConfigUpdatedParams] = []

    def fail(_: m.ConfigUpdatedParams) -> None:
        raise ZeroDivisionError

    async def wait(_: m.ConfigUpdatedParams) -> None:
        pytest.fail("it is async")

    first = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("a/b",)))
    second = m.ConfigUpdatedParams(chat=m.ChatConfig(models=("c/d",)))
    async with connected() as (client, server):
        client.on(m.ConfigUpdatedParams, fail)
        client.on(m.ConfigUpdatedParams, configs.append)
        with pytest.raises(LocalProtocolError, match="a plain function"):
            client.on(m.ConfigUpdatedParams, wait)
        with pytest.raises(LocalProtocolError, match="expected a class of events"):
            client.on("config/updated", print)  # type: ignore[type-var]
        server.peer.notify("config/updated", first)
        server.peer.notify("$/showMessage", LOOK)
        server.peer.notify("config/updated", second)
        async with client.events() as events:
            assert [await anext(events) for _ in range(3)] == [first, LOOK, second]
        assert configs == [first, second]
        assert client.models == ("c/d",)
    assert caplog.text.count("a handler of ConfigUpdatedParams failed") == 2


async def test_the_block_of_events_ends_the_iteration_of_a_task() -> None:
    received: list[object] = []

    async def read() -> None:
        received.extend([event async for event in events])

    async with connected() as (client, server), anyio.create_task_group() as tasks:
        async with client.events() as events:
            tasks.start_soon(read)
            server.peer.notify("$/showMessage", LOOK)
            await client.chat().query_commands()
            await anyio.wait_all_tasks_blocked()
        server.peer.notify("$/showMessage", LOOK)
        await client.chat().query_commands()
        assert await anext(client.events()) == LOOK
    assert received == [LOOK]


async def test_each_of_two_who_wait_learns_the_end() -> None:
    events: list[object] = []

    async def read() -> None:
        events.extend([event async for event in client.events()])

    async def read_turn() -> None:
        with pytest.raises(ConnectionClosed):
            await turn.text()

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks, connected() as (client, server):
            turn = await begun(client.chat("c").prompt("hi"))
            for task in (read, read, read_turn, read_turn):
                tasks.start_soon(task)
            await anyio.wait_all_tasks_blocked()
            server.peer.notify("$/showMessage", LOOK)
            await client.chat().query_commands()
    assert events == [LOOK]


@pytest.mark.requirement("CONF-14", "CONF-17", "CHAT-38")
async def test_selections_and_mcp_servers_are_announced() -> None:
    selected = m.ChatSelectedBehaviorChanged(behavior="plan")
    start, stop = m.MCPStartServerParams(name="a"), m.MCPStopServerParams(name="b")
    async with connected() as (client, server):
        client.notify(methods.CHAT_SELECTED_BEHAVIOR_CHANGED, selected)
        client.notify(methods.CHAT_SELECTED_AGENT_CHANGED, m.ChatSelectedAgentChanged(agent="plan"))
        client.notify(methods.MCP_START_SERVER, start)
        client.notify(methods.MCP_STOP_SERVER, stop)
        await server.until("mcp/stopServer")
        sent = [params for name, params in server.received if name[:4] in {"chat", "mcp/"}]
        assert sent == [selected, start, stop]


class Later:
    """An awaitable result that is no coroutine, like a future."""

    def __await__(self) -> Generator[Any, None, m.EditorGetDiagnosticsResponse]:
        yield from anyio.sleep(0).__await__()
        return m.EditorGetDiagnosticsResponse(diagnostics=())


@pytest.mark.requirement("EDIT-3", "EDIT-4")
async def test_diagnostics_are_answered_by_the_handler_with_anything_that_is_awaited() -> None:
    uris: list[str | None] = []

    def diagnostics(params: m.EditorGetDiagnosticsParams) -> Later:
        uris.append(params.uri)
        return Later()

    async with connected(diagnostics=diagnostics) as (_, server):
        (hello,) = server.params_of("initialize")
        assert hello.capabilities.code_assistant.editor.diagnostics is True
        for uri in (None, "file:///a"):
            params = m.EditorGetDiagnosticsParams(uri=uri)
            result = await server.peer.call("editor/getDiagnostics", params)
            assert result == m.EditorGetDiagnosticsResponse(diagnostics=())
        assert uris == [None, "file:///a"]


PRINTS = "input(); print('Hello, world')"
LEAVES_A_CHILD = """
import os, sys
if os.fork():
    os._exit(4)
os.setsid()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["/no/such/program"], "cannot start '/no/such/program': No such file or directory"),
        ([sys.executable, "-c", "raise SystemExit(3)"], r"SystemExit\(3\)'` ended .*exit code 3"),
        ([sys.executable, "-c", PRINTS], "no message of the protocol: .* after 'Hello, world"),
        ([sys.executable, "-c", LEAVES_A_CHILD], "ended .*exit code 4"),
        (["eca-server", "server"], "SERVER_COMMAND"),
    ],
)
async def test_a_server_that_does_not_start_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, command: list[str], words: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(StartFailed, match=words):
        async with connect(command, start_deadline=20):
            pytest.fail("it connected")


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"Starting up\nContent-Length: 2\r\n\r\n{}", "header lines .* got 'Starting up'"),
        (b"Starting up\n", "no message of the protocol: 'Starting up'"),
    ],
)
async def test_what_a_server_printed_in_place_of_messages_is_in_the_error(printed, shown) -> None:
    ours, theirs = memory_pair()
    await theirs.send(printed)
    with pytest.raises(DeadlineExceeded, match=shown):
        async with connect(transport=ours, start_deadline=0.1):
            pytest.fail("it connected")


class Failing:
    """A server in this process, which fails at its first prompt."""

    async def serve(self, transport: Transport) -> None:
        wire = Wire(transport)
        while (message := await wire.receive())["method"] != "chat/prompt":
            if "id" in message:
                await wire.send(success(message["id"], {}))
        raise ZeroDivisionError


async def test_the_exception_of_a_server_in_this_process_is_raised_by_the_block() -> None:
    context = connect(server=Failing())
    client = await context.__aenter__()
    with pytest.raises(ConnectionClosed):
        await client.chat("c").prompt("hello").text()
    with pytest.raises(ZeroDivisionError):
        await context.__aexit__(None, None, None)


class Unreadable:
    """A server in this process whose first prompt gets an unreadable answer, and which reads on."""

    async def serve(self, transport: Transport) -> None:
        with contextlib.suppress(ZeroDivisionError):
            await Failing().serve(transport)
        await transport.send(b"Content-Length: x\r\n\r\n")
        while await transport.receive():
            pass


async def test_a_server_in_this_process_whose_answer_is_unreadable_does_not_delay_the_end() -> None:
    with anyio.fail_after(5), pytest.raises(ConnectionClosed, match="Content-Length"):
        async with connect(server=Unreadable()) as client:
            await client.chat("c").prompt("hello").text()


async def test_the_real_server_runs_in_this_process_on_trio(anyio_backend_name: str) -> None:
    server = Server(Options(environ={"ECA_CONFIG": "{}"}))
    if anyio_backend_name == "asyncio":
        with pytest.raises(LocalProtocolError, match="needs trio"):
            async with connect(server=server):
                pytest.fail("it connected")
        return
    async with connect(server=server) as client:
        assert await client.chat().prompt("Hello over there").text() == "Hello over there"


COMMAND = {"command": ["x"]}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "one of command"),
        (COMMAND | {"transport": memory_pair()[0]}, "one of command"),
        (COMMAND | {"server": Failing()}, "one of command"),
        ({"command": "eca-server 'a b'"}, r"\['eca-server', 'a b'\], got"),
        ({"command": Failing()}, "command as a list of words, got <"),
        (COMMAND | {"revision": "2025-10"}, "revision: expected a Revision, .* got '2025-10'"),
        (COMMAND | {"workspace_folders": "/a"}, r"workspace_folders as a list of folders: \['/a'"),
        (COMMAND | {"on_question": "main"}, "on_question: expected a function, got 'main'"),
        (COMMAND | {"diagnostics": 3}, "diagnostics: expected a function, got 3"),
        (COMMAND | {"on_approval": "yes"}, "'allow', 'reject', 'manual', got 'yes'"),
        ({"server": Failing}, "expected server as a Server object, got <class"),
        ({"server": 3}, "expected server as a Server object, got 3"),
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(LocalProtocolError, match=expected):
        connect(**options)


async def test_a_deadline_of_zero_is_one() -> None:
    async with connected() as (client, server):
        server.on("chat/queryCommands", lambda _: anyio.sleep_forever())
        params = m.ChatQueryCommandsParams(chat_id=None, query="")
        with pytest.raises(DeadlineExceeded, match="after 0 s"), anyio.fail_after(5):
            await client.request(methods.CHAT_QUERY_COMMANDS, params, deadline=0)
    deaf, _ = memory_pair()
    with pytest.raises(DeadlineExceeded, match="after 0 s"), anyio.fail_after(5):
        async with connect(transport=deaf, start_deadline=0):
            pytest.fail("it is not connected")


@pytest.mark.parametrize("is_process", [True, False])
async def test_leaving_in_a_different_task_is_an_error_and_ends_all(is_process: bool) -> None:
    process: dict[str, Any] = {"command": forked_server(), "env": ENVIRONMENT}
    context = connect(**process if is_process else {"server": PlainServer(name="s")})
    entered, exited = anyio.Event(), anyio.Event()

    async def hold() -> None:
        async with context:
            entered.set()
            await exited.wait()

    before = len(anyio.get_running_tasks())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            await entered.wait()
            with pytest.raises(LocalProtocolError, match="entered in one task and left in another"):
                await context.__aexit__(None, None, None)
            assert context._client.exit_code == (0 if is_process else None)
            while len(anyio.get_running_tasks()) > before + 1:
                await anyio.lowlevel.checkpoint()
            exited.set()


@pytest.mark.parametrize(
    "opened", [lambda: connect(server=PlainServer(name="s")), lambda: http_server.serve(print)]
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_the_program_has_handled_is_not_raised_from_the_block(opened):
    """`asyncio.TaskGroup` leaves such a request on Python 3.11 and 3.12 when a task fails."""

    async def program() -> str:
        async with opened():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
        return "left"

    task = asyncio.create_task(program())
    assert await task == "left"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_recipe_for_frameworks_opens_and_closes_in_different_tasks() -> None:
    guide = (ROOT / "docs" / "guides" / "client.md").read_text("utf-8")
    (recipe,) = re.findall(
        r"^```python\n(.*?class Session:.*?)^```", guide, re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {}
    session_class, _, _ = recipe.rpartition("```python\n")[2].partition("async def framework")
    exec(session_class, names)
    session = names["Session"]()
    client = await asyncio.create_task(session.open(command=forked_server(), env=ENVIRONMENT))
    assert await asyncio.create_task(client.chat().prompt("hello").text()) == "hello"
    await asyncio.create_task(session.aclose())
    assert client.exit_code == 0
    with pytest.raises(StartFailed):
        await session.open(command=["/no/such/program"])
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(session.open(command=["sh", "-c", "cat >/dev/null"]), 0.05)
    with anyio.fail_after(10), pytest.raises(asyncio.CancelledError):
        await session._task


async def test_the_real_server_chats_fails_stops_and_ends_well() -> None:
    async with connect(command=forked_server(), env=ENVIRONMENT) as client:
        await client.wait_for_config()
        assert client.selected_model in client.models
        assert await client.chat().prompt("Hello over there").text() == "Hello over there"
        for model, prompt, reason in (
            ("no/model", "hi", "no/model"),
            ("openai/gpt-5", "hi", "OPENAI_API_KEY"),
            ("simulator/script", "fail auth log in again", "log in"),
        ):
            with pytest.raises(TurnFailed, match=reason):
                await client.chat(model=model).prompt(prompt).text()
        chat = client.chat(model="simulator/script")
        async with chat.prompt("say one\nwait forever") as turn:
            async for content in turn:
                if isinstance(content, m.ChatTextContent):
                    turn.stop()
            assert turn.stopped
        assert client.exit_code is None
    assert client.exit_code == 0


@pytest.mark.long(but=1)
async def test_a_server_killed_in_a_turn_is_an_exception() -> None:
    async with connect(command=SERVER, env=ENVIRONMENT) as client:
        turn = client.chat(model="simulator/script").prompt("say one\nwait forever")
        with anyio.fail_after(10):
            await turn.start()
            os.kill(client.process_id, signal.SIGKILL)
            with pytest.raises(ConnectionClosed):
                await turn.text()
            with pytest.raises(ConnectionClosed):
                await client.chat().query_commands()
            while client.exit_code is None:
                await anyio.lowlevel.checkpoint()
            assert client.exit_code == -signal.SIGKILL

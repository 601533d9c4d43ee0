import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.from_thread import BlockingPortal

from eca_protocol import Prompt, ServerChat, client, sync
from eca_protocol import Server as PlainServer
from eca_protocol import messages as m
from eca_protocol.errors import ConnectionClosed, LocalProtocolError, StartFailed, TurnFailed
from eca_protocol.methods import CHAT_LIST
from eca_server.connection.features.host import Options
from eca_server.connection.server import Server
from tests.eca_server import fork_server

REPOSITORY = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY), "ECA_CONFIG": "{}"}
SCRIPT = "simulator/script"
QUESTION = """call ask_user {"question": "Which branch?", "options": [{"label": "main"}]}
say Thank you."""


def threads() -> set[threading.Thread]:
    """The threads but trio's, which end long after; one that is in use has a different name."""
    return {each for each in threading.enumerate() if not each.name.startswith("Trio ")}


@pytest.fixture(autouse=True)
def _threads_end() -> Iterator[None]:
    before = threads()
    yield
    deadline = time.monotonic() + 10
    while (new := threads() - before) and time.monotonic() < deadline:
        new.pop().join(0.05)
    assert threads() == before


def server() -> Server:
    return Server(Options(environ={"ECA_CONFIG": "{}"}))


def test_a_prompt_is_answered_whole_and_piece_by_piece():
    with sync.connect(server=server()) as connected:
        chat = connected.chat(model="simulator/echo")
        assert chat.prompt("Hello over there").text() == "Hello over there"
        contents = list(chat.prompt("one two"))
        texts = [each.text for each in contents if isinstance(each, m.ChatTextContent)]
        assert "".join(texts) == "one two"
        received = list(chat.prompt("three").contents_with_roles())
        assert {"user", "assistant", "system"} <= {each.role for each in received}
        assert connected.wait_for_config().models == connected.models
        listed = connected.request(CHAT_LIST, m.ChatListParams())
        assert [each.id for each in listed.chats] == [chat.id]
        with pytest.raises(TurnFailed, match="no/model"):
            connected.chat(model="no/model").prompt("hi").text()


def test_a_turn_is_stopped_by_its_method_by_break_and_by_its_block():
    endless = "say one\nwait forever"
    with sync.connect(server=server()) as connected:
        chat = connected.chat(model=SCRIPT)
        turn = chat.prompt(endless)
        for content in turn:
            if isinstance(content, m.ChatTextContent) and not turn.stopped:
                turn.stop()
        for content in chat.prompt(endless):
            if isinstance(content, m.ChatTextContent):
                break
        with chat.prompt(endless) as turn:
            assert turn.response is not None
        assert chat.prompt("say next").text() == "next"


def test_a_loop_that_is_left_frees_the_chat_for_a_thread_that_waits(caplog):
    plain = PlainServer(name="s")

    @plain.prompt
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.say(prompt.text)
        if prompt.text == "one":
            await anyio.sleep_forever()

    with sync.connect(server=plain) as opened:
        chat, texts = opened.chat("c"), []
        thread = threading.Thread(target=lambda: texts.append(chat.prompt("two").text()))
        for content in chat.prompt("one"):
            if isinstance(content, m.ChatTextContent):
                thread.start()
                while not chat._wrapped._queue._waits:
                    time.sleep(0)
                break
        thread.join(20)
    assert texts == ["two"]
    assert caplog.text == ""


def test_functions_of_the_program_are_called_in_its_own_thread(tmp_path):
    calls: list[tuple[str, str]] = []

    def approve(call: m.ChatToolCallRunContent) -> client.ApprovalDecision:
        calls.append((call.name, threading.current_thread().name))
        return "allow"

    def answer(question: m.ChatAskQuestionParams) -> str:
        calls.append((question.question, threading.current_thread().name))
        return "main"

    options = sync.connect(
        server=server(), workspace_folders=[tmp_path], on_approval=approve, on_question=answer
    )
    with options as connected:
        chat = connected.chat(model=SCRIPT)
        path = tmp_path / "note.txt"
        chat.prompt(f'call write_file {{"path": "{path}", "content": "x"}}\nsay Done.').text()
        assert path.read_text() == "x"
        assert chat.prompt(QUESTION).text() == "Thank you."
    name = threading.current_thread().name
    assert calls == [("write_file", name), ("Which branch?", name)]


def test_the_error_of_a_function_is_raised_from_the_turn(tmp_path):
    def fail(_: m.ChatToolCallRunContent) -> client.ApprovalDecision:
        raise ZeroDivisionError

    with sync.connect(server=server(), on_approval=fail) as connected:
        chat = connected.chat(model=SCRIPT)
        with pytest.raises(ZeroDivisionError):
            chat.prompt(f'call write_file {{"path": "{tmp_path}/a", "content": "x"}}').text()
        assert chat.prompt("say next").text() == "next"


def test_a_function_for_events_is_called_in_the_other_thread_and_must_not_wait():
    errors: list[Exception] = []

    def on_status(_: m.ChatStatusChangedParams) -> None:
        chat.stop()
        try:
            chat.query_commands()
        except LocalProtocolError as error:
            errors.append(error)

    with sync.connect(server=server()) as connected:
        chat = connected.chat(model="simulator/echo")
        connected.on(m.ChatStatusChangedParams, on_status)
        chat.prompt("hi").text()
        assert any(isinstance(each, m.ChatStatusChangedParams) for each in connected.events())
    assert "must not wait" in str(errors[0])


@pytest.mark.parametrize("where", ["in a wait", "between two contents", "in a function"])
def test_ctrl_c_stops_the_turn_and_returns_promptly(where):
    def interrupt(*_: object) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "main"

    with sync.connect(server=server(), on_question=interrupt) as connected:
        chat = connected.chat(model=SCRIPT)
        prompt = QUESTION if where == "in a function" else "say one\nwait forever"
        start = time.monotonic()
        timer = threading.Timer(0.1, interrupt)
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the loop is what is interrupted
            for content in chat.prompt(prompt):
                if isinstance(content, m.ChatTextContent):
                    if where == "between two contents":
                        interrupt()
                    timer.start()
        if timer.ident is not None:
            timer.join()
        assert time.monotonic() - start < 10
        assert chat.prompt("say next").text() == "next"


def test_ctrl_c_while_the_thread_of_a_connection_is_busy_stops_the_turn(monkeypatch):
    start = sync._ConnectionThread._start

    def start_late(thread: Any, task: Any) -> Any:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        threading.Timer(0.5, may_continue.set).start()
        return start(thread, task)

    may_continue = threading.Event()
    with sync.connect(server=server(), idle_deadline=20) as connected:
        turn = (chat := connected.chat(model=SCRIPT)).prompt("say one\nwait forever")
        connected._thread._portal.start_task_soon(may_continue.wait, 20)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):  # noqa: PT012
            patched.setattr(sync._ConnectionThread, "_start", start_late)
            turn.text()
        assert chat.prompt("say next").text() == "next"


def test_ctrl_c_while_the_thread_of_a_connection_starts_ends_the_thread(monkeypatch):
    enter = BlockingPortal.__aenter__

    async def start_slowly(portal: BlockingPortal) -> BlockingPortal:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        return await enter(portal)

    monkeypatch.setattr(BlockingPortal, "__aenter__", start_slowly)
    with pytest.raises(KeyboardInterrupt):
        sync.open(server=server())


def test_it_works_beside_a_running_event_loop_and_a_dropped_client_is_closed():
    async def cells() -> None:
        opened = sync.open(command=(*fork_server.command(), "server"), env=ENVIRONMENT)
        assert opened.chat().prompt("hello").text() == "hello"
        await asyncio.sleep(0)
        opened.close()
        opened.close()
        assert opened.exit_code == 0
        assert opened.closed
        with pytest.raises(ConnectionClosed):
            opened.chat()

    asyncio.run(cells())
    chat = sync.open(server=server()).chat(model="simulator/echo")
    assert chat.prompt("hello").text() == "hello"
    del chat  # the threads end, see the fixture


def test_an_iteration_keeps_the_connection_open():
    def contents() -> Iterator[m.ChatContent]:
        return iter(sync.open(server=server()).chat(model="simulator/echo").prompt("one two"))

    def events() -> Iterator[client.Event]:
        return sync.open(server=server()).events()

    texts = [each.text for each in contents() if isinstance(each, m.ChatTextContent)]
    assert "".join(texts) == "one two"
    received = sync.open(server=server()).chat(model="simulator/echo").prompt("one")
    assert list(received.contents_with_roles())
    assert isinstance(next(events()), m.ProgressParams)


def test_a_client_that_is_dropped_in_the_thread_of_a_different_one_is_closed():
    with sync.connect(server=server()) as connected:
        dropped = [sync.open(server=server())]
        thread = dropped[0]._thread._thread
        connected.on(m.ChatOpenedParams, lambda _: dropped.clear())
        assert connected.chat(model="simulator/echo").prompt("hello").text() == "hello"
        assert not dropped
        thread.join(10)
        assert not thread.is_alive()


def test_a_closed_client_says_so_in_a_thread_that_has_its_thread_s_number():
    opened = sync.open(server=PlainServer(name="s"))
    chat = opened.chat()
    opened.close()
    started = threading.Event()
    errors: list[Exception] = []

    def use() -> None:
        started.wait(10)
        for function in (lambda: chat.prompt("x"), chat.stop, opened.chat):
            try:
                function()
            except (ConnectionClosed, LocalProtocolError) as error:
                errors.append(error)

    threads = [threading.Thread(target=use) for _ in range(20)]  # each has a number of its own
    for thread in threads:
        thread.start()
    started.set()
    for thread in threads:
        thread.join()
    assert [type(error) for error in errors] == [ConnectionClosed] * 60


PROGRAM = """
import os, sys
from eca_protocol import ConnectionClosed, sync, SERVER_COMMAND
client = sync.open(command=SERVER_COMMAND)
pid = os.fork()
if pid == 0:
    try:
        client.chat()
    except ConnectionClosed:
        sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(client.chat(model="simulator/echo").prompt("hello").text())
turn = iter(client.chat(model="simulator/script").prompt("say x\\nwait forever"))
print(type(next(turn)).__name__, client.process_id)
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_leaves_the_connection_alone_and_no_open_client_hangs_the_end(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM],
        env={**ENVIRONMENT, "PATH": "", "HOME": str(tmp_path)},  # `SERVER_COMMAND` needs no PATH
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    *words, pid = done.stdout.split()
    assert words == ["7", "hello", "ChatProgressContent"]
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_a_failed_start_leaves_no_thread():
    with pytest.raises(StartFailed):
        sync.open(command=["/no/such/program"])


@pytest.mark.parametrize("name", ["Client", "Chat", "Turn"])
def test_it_has_the_names_of_the_async_client(name):
    internal = {
        *("call_in_finalizer", "initialize", "keep_reading", "resume_reading", "start_request"),
        *("wait_for_revision", "handled_methods", "on_approval"),
    }
    theirs = {each for each in dir(getattr(client, name)) if each[0] != "_"} - internal
    ours = {each for each in dir(getattr(sync, name)) if each[0] != "_"}
    assert theirs <= ours
    assert inspect.signature(sync.open) == inspect.signature(sync.connect)

"""The class for servers, driven by the SDK's client in one process, on trio and asyncio."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from eca_protocol import (
    Client,
    ContextQuery,
    LocalProtocolError,
    Prompt,
    Rejection,
    Revision,
    Server,
    ServerChat,
    ToolResult,
    connect,
)
from eca_protocol import messages as m
from eca_protocol.errors import RequestFailed
from eca_protocol.methods import (
    CHAT_CLEAR,
    CHAT_DELETE,
    CHAT_FORK,
    CHAT_HISTORY,
    CHAT_OPEN,
    CHAT_PROMPT,
    CHAT_PROMPT_STOP,
    CHAT_ROLLBACK,
)
from eca_protocol.server.declarations import PromptHandler

pytestmark = pytest.mark.anyio

CURRENT = Revision.CURRENT
CALLED = ["toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled"]


@asynccontextmanager
async def serving(handler: PromptHandler, **options: Any) -> AsyncIterator[tuple[Server, Client]]:
    server = Server(name="my server")
    server.prompt(handler)
    server.tool("delete", "Delete a file.")(delete)
    async with connect(server=server, **{"revision": CURRENT, **options}) as client:
        yield server, client


async def delete(arguments: Mapping[str, Any]) -> str:
    await anyio.sleep(0)
    if arguments.get("path") == "gone":
        raise FileNotFoundError("there is no such file")
    return f"deleted {arguments['path']}"


async def contents(client: Client, message: str = "go", chat_id: str = "c") -> list[m.ChatContent]:
    with anyio.fail_after(10):
        return [each async for each in client.chat(chat_id).prompt(message)]


def types(received: list[m.ChatContent], *without: str) -> list[str | None]:
    ignored = {"progress", "usage", *without}
    return [each.type for each in received if each.type not in ignored]


def texts_of(received: list[m.ChatContent]) -> list[str]:
    return [each.text for each in received if isinstance(each, m.ChatTextContent)]


async def test_texts_of_any_length_are_sent_and_form_the_history_until_the_turn_ends():
    histories = []
    chats: list[ServerChat] = []

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        chats.append(chat)
        histories.append([(each.role, each.text) for each in chat.history])
        await chat.say("long " * 4000)
        await chat.say("a note", role="system")
        chat.memory["turns"] = chat.memory.get("turns", 0) + 1
        await chat.say(f"the end of {chat.memory['turns']}")

    async with serving(answer) as (_, client):
        assert len(texts_of(await contents(client, "one"))) > 4
        await contents(client, "two")
        with pytest.raises(LocalProtocolError, match="the turn has ended"):
            await chats[0].say("more")
    long_answer = "long " * 4000 + "\n\nthe end of 1"
    assert histories == [
        [("user", "one")],
        [("user", "one"), ("assistant", long_answer), ("user", "two")],
    ]


async def test_a_chat_takes_attributes_and_is_shown_without_its_prompt():
    async def handler(chat: ServerChat, prompt: Prompt) -> None:
        chat.memory["key"] = "a secret"
        chat.started = 1  # type: ignore[attr-defined]
        assert len({chat}) == 1
        await chat.say(repr(chat))

    async with serving(handler) as (_, client):
        text = await client.chat().prompt("a private text").text()
    assert "ServerChat" in text
    assert "private" not in text
    assert "secret" not in text


async def test_a_handler_that_fails_ends_its_turn_and_not_the_connection(caplog):
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        if prompt.text == "reason":
            await chat.reason("first")
            async with chat.reasoning() as think:
                await think("second")
                raise ExceptionGroup("several", [ValueError("a secret")])
        if prompt.text == "say":
            await chat.say(3)
        result = await chat.tool_call("count", {}, approval=False, run=count)
        await chat.say(f"{result.verdict}: {result.text}")

    async def count(_arguments: Mapping[str, Any]) -> Any:
        await anyio.sleep(0)
        return 3

    async with serving(answer) as (_, client):
        received = await contents(client, "reason")
        assert types(received, "text") == ["reasonStarted", "reasonText", "reasonFinished"] * 2
        assert texts_of(received)[-1].startswith("An internal error ended this turn.")
        assert "a secret" not in str(received)
        assert "An internal error ended this turn." in str(await contents(client, "say"))
        text = await client.chat("c").prompt("call").text()
    assert "ValueError: a secret" in caplog.text
    assert "LocalProtocolError: text: expected a text, got 3" in caplog.text
    assert text == "failed: the tool count: expected a text as its output, got 3"


@pytest.mark.requirement("W-34a")
@pytest.mark.parametrize(
    ("decision", "path", "result", "shown"),
    [
        ("allow", "a.txt", ToolResult("called", "deleted a.txt"), CALLED),
        ("allow", "gone", ToolResult("failed", "there is no such file"), CALLED),
        ("reject", "a.txt", ToolResult("rejected"), [*CALLED[:2], "toolCallRejected"]),
        (Rejection(), "a.txt", ToolResult("rejected"), [*CALLED[:2], "toolCallRejected"]),
    ],
)
async def test_a_call_is_approved_or_rejected(decision, path, result, shown):
    results = []

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        results.append(await chat.tool_call("delete", {"path": path}))

    async with serving(answer, on_approval=lambda _: decision) as (_, client):
        received = await contents(client)
    assert results == [result]
    assert types(received, "text") == shown


async def test_a_call_may_bring_its_work_and_an_unknown_tool_fails():
    results = []

    async def upper(arguments: Mapping[str, Any]) -> str:
        return str(arguments["text"]).upper()

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        results.append(await chat.tool_call("upper", {"text": "a"}, run=upper, approval=False))
        results.append(await chat.tool_call("nothing", {}))

    async with serving(answer) as (_, client):
        received = await contents(client)
    assert results[0] == ToolResult("called", "A")
    assert results[1].verdict == "failed"
    assert "There is no tool 'nothing'. Tools: delete." in results[1].text
    assert types(received, "text") == [*CALLED, *CALLED[:2], "toolCalled"]


async def stay_in(state: str, chat: ServerChat) -> None:
    """Wait in a state of a turn until the end."""

    async def work(_: Mapping[str, Any]) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    if state == "text":
        while True:
            await chat.say("again ")
    elif state == "reasoning":
        async with chat.reasoning() as think:
            await think("hm")
            await anyio.sleep_forever()
    elif state == "approval":
        await chat.tool_call("delete", {"path": "a"})
    elif state == "work":
        await chat.tool_call("work", {}, run=work, approval=False)
    elif state == "question":
        await chat.ask("Which?", ["a", "b"])
    elif state == "cleaning up":
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await chat.say("this is too late")
                assert await chat.tool_call("delete", {"path": "a"}) == ToolResult("rejected")
    elif state == "deaf":
        with anyio.CancelScope(shield=True):
            await anyio.sleep(1)
    await anyio.sleep_forever()


async def never(_: Any) -> str:
    await anyio.sleep_forever()
    raise AssertionError


STATES = {
    "silence": [],
    "text": [],
    "reasoning": ["reasonStarted", "reasonText", "reasonFinished"],
    "approval": [*CALLED[:2], "toolCallRejected"],
    "work": CALLED,
    "question": [],
    "cleaning up": [],
    "deaf": [],
}


@pytest.mark.requirement("W-23f", "W-30g")
@pytest.mark.parametrize("state", STATES)
async def test_a_stop_in_each_state_closes_what_is_open(state):
    reached = anyio.Event()

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        if prompt.text == "next":
            await chat.say("still here")
            return
        reached.set()
        await stay_in(state, chat)

    async def stop() -> None:
        await reached.wait()
        if state != "text":
            await anyio.wait_all_tasks_blocked()
        client.chat("c").stop()

    options = {"on_approval": "manual", "on_question": never}
    async with serving(answer, **options) as (_, client), anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        received = await contents(client)
        assert types(received, "text") == STATES[state]
        assert "too late" not in str(received)
        assert str(received).count("'finished'") <= 1
        assert texts_of(received)[-1].strip() == "Stopped."
        assert not [each for each in received if isinstance(each, m.ChatUsageContent)]
        assert "still here" in str(await contents(client, "next"))


async def test_prompts_queue_and_a_stop_drops_them():
    began = []
    go_on = anyio.Event()

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        began.append(prompt.text)
        await (go_on.wait() if prompt.text == "one" else anyio.sleep_forever())

    async with serving(answer) as (_, client):
        for text in ("one", "two", "three"):
            await client.request(CHAT_PROMPT, m.ChatPromptParams(chat_id="c", message=text))
        assert began in ([], ["one"])
        go_on.set()
        with anyio.fail_after(5):
            while began != ["one", "two"]:
                await anyio.lowlevel.checkpoint()
            client.notify(CHAT_PROMPT_STOP, m.ChatPromptStopParams(chat_id="c"))
            page = await client.request(CHAT_HISTORY, m.ChatHistoryParams(chat_id="c"))
            while "Stopped." not in str(page):
                page = await client.request(CHAT_HISTORY, m.ChatHistoryParams(chat_id="c"))
    assert began == ["one", "two"]
    assert "Stopped. Prompts that were dropped:\\n\\nthree" in str(page)


async def test_a_question_is_asked():
    answers = []

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        answers.append(await chat.ask("Which colour?", ["blue", "red"]))

    for options in ({"on_question": lambda _: "blue"}, {"on_question": lambda _: None}, {}):
        async with serving(answer, **options) as (_, client):
            await contents(client)
    assert answers == ["blue", None, None], "the last client cannot"


async def test_commands_run_and_are_found():
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.say("no command")

    async with serving(answer) as (server, client):

        @server.command("Time", "Show the time.", arguments=["zone"])
        async def show_time(chat: ServerChat, prompt: Prompt) -> None:
            await chat.say(f"noon in {prompt.arguments}")

        commands = await client.chat("c").query_commands("time")
        assert [(each.name, each.arguments[0].required) for each in commands] == [("Time", True)]
        assert "noon in Rome, Italy" in str(await contents(client, "/time Rome, Italy"))
        assert "no command" in str(await contents(client, "/other"))


async def test_chats_are_cleared_rolled_back_forked_and_deleted():
    histories = []

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        histories.append([each.text for each in chat.history])
        await chat.say("yes")

    async with serving(answer) as (_, client):
        echoes = [
            each.content.content_id
            for text in ("one", "two")
            async for each in client.chat("c").prompt(text).contents_with_roles()
            if isinstance(each.content, m.ChatTextContent) and each.content.content_id
        ]
        params = m.ChatForkParams(chat_id="c", content_id=echoes[1])
        fork = (await client.request(CHAT_FORK, params)).chat_id
        await contents(client, "three", fork)
        await client.request(CHAT_ROLLBACK, m.ChatRollbackParams(chat_id="c", content_id=echoes[1]))
        await contents(client, "four")
        await client.request(CHAT_CLEAR, m.ChatClearParams(chat_id="c"))
        await contents(client, "five")
        await client.request(CHAT_DELETE, m.ChatDeleteParams(chat_id="c"))
        assert not (await client.request(CHAT_OPEN, m.ChatOpenParams(chat_id="c"))).found
        with pytest.raises(RequestFailed, match="there is no chat 'c'"):
            await client.request(CHAT_CLEAR, m.ChatClearParams(chat_id="c"))
    assert histories[2:] == [["one", "yes", "three"], ["one", "yes", "four"], ["five"]]


async def test_leaving_while_a_turn_runs_cancels_its_handler():
    cancelled = anyio.Event()

    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    with anyio.fail_after(5):
        async with serving(answer) as (_, client):
            await client.chat("c").prompt("go").start()
        assert cancelled.is_set()


def test_a_wrong_declaration_says_what_is_wrong():
    def plain(chat: ServerChat, prompt: Prompt) -> None: ...

    server = Server(name="s")
    server.tool("delete", "Delete.")(delete)
    for declare, complaint in (
        (lambda: server.prompt(plain), "prompt: expected an async function"),
        (lambda: server.command("/time", "Show it."), "expected a word without the slash"),
        (lambda: server.command("the time", "Show it."), "expected a word without the slash"),
        (lambda: server.command("", "Show it."), "expected a word without the slash"),
        (lambda: server.command("time", "S.", arguments="city"), r"arguments: expected a list"),
        (lambda: server.tool("delete", "D.")(delete), "tool delete: it is declared already"),
        (lambda: server.tool("delete it", "D."), "tool: expected a word as its name"),
        (lambda: server.tool("a", "D.", parameters={"type": "array"}), 'the type "object", got'),
        (lambda: Server(name="s", models=["gpt"]), "expected `provider/model`"),
        (lambda: Server(name=" "), "got an empty one"),
        (lambda: Server(name="s", models="a/b"), r"models: expected a list: \['a/b'\]"),
        (lambda: Server(name="s", agents="plan"), r"agents: expected a list: \['plan'\]"),
        (lambda: Server(name="s", revision="current"), "expected a Revision"),  # type: ignore[arg-type]
    ):
        with pytest.raises(LocalProtocolError, match=complaint):
            declare()


@pytest.mark.requirement("W-33a", "W-33c", "W-33d")
@pytest.mark.parametrize(
    ("revision", "name"), [(Revision.R2025_10, "eca_delete"), (CURRENT, "delete")]
)
async def test_a_tool_has_the_name_of_its_edition_and_may_be_approved_for_the_session(
    revision, name
):
    async def answer(chat: ServerChat, prompt: Prompt) -> None:
        await chat.tool_call("delete", {"path": prompt.text})

    def decide(call: m.ChatToolCallRunContent) -> Any:
        requested_paths.append(str(call.arguments["path"]))
        return "allow_session"

    requested_paths: list[str] = []
    async with serving(answer, revision=revision, on_approval=decide) as (_, client):
        received = await contents(client, "one")
        received += await contents(client, "two", "another chat")
        announced = client.tool_servers["ECA"].tools or ()
    calls = [each for each in received if isinstance(each, m.ChatToolCalledContent)]
    assert requested_paths == ["one"]
    assert [each.name for each in announced] == [name]
    assert [(each.name, each.server, each.error) for each in calls] == [(name, "eca", False)] * 2


@pytest.mark.requirement("CHAT-26", "W-40a")
async def test_contexts_are_sent_roots_first_without_those_that_the_client_has(tmp_path):
    root = m.DirectoryContext(path=str(tmp_path))
    files = [m.FileContext(path=f"/{number}") for number in range(300)]
    server = Server(name="my server")

    @server.context_query
    async def find(query: ContextQuery) -> list[m.ChatContext]:
        await anyio.sleep(0)
        return [*files, m.DirectoryContext(path=str(query.roots[0]))]

    async with connect(server=server, revision=CURRENT, workspace_folders=[tmp_path]) as client:
        contexts = await client.chat("c").query_context("", contexts=files[:2])
    assert list(contexts) == [root, *files[2:201]]

"""Messages and commands that are sent to a turn that runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from eca_protocol.testing.provider import Provider, Reply, reply, reset, wait
from eca_server.models.history import CompactionPart
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import RUN, calls, conversation, older, today
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Editor,
    contents,
    decision,
    editor,
    text,
)


async def steer(ours: Editor, *messages: str) -> None:
    for message in messages:
        await ours.tell("chat/promptSteer", {"chatId": "c", "message": message})


@pytest.mark.parametrize(
    ("ending", "client"), [("stop", "any"), ("fail", "any"), ("stop", "emacs"), ("stop", "VsCode")]
)
async def test_of_a_turn_that_ends_before_it_is_repeated(ending: str, client: str) -> None:
    """By the server, or by a client that sends it again as a prompt."""
    script = [reply("a", wait("now"), reset() if ending == "fail" else "b")]
    async with today(*script, client=client) as (ours, provider):
        await ours.prompt("go")
        await provider.until(lambda: "now" in provider.reached)
        await steer(ours, "also")
        if ending == "stop":
            await ours.stop()
            await steer(ours, "late")
        provider.open("now")
        await ours.expect_finished()
        last_text = ":\n\nalso" + ("\n\nlate" if ending == "stop" else "")
        assert ours.contents().text.endswith(last_text if client == "any" else "Stopped.")
        assert [each["text"] for each in ours.contents() if "contentId" in each] == ["go"]


@pytest.mark.parametrize("sent", ["message", "answer"])
@pytest.mark.parametrize(("client", "approves"), [("VsCode", False), ("emacs", True)])
async def test_the_key_that_sends_a_text_approves_no_call(client, approves, sent, tmp_path):
    """The web page's Enter sends the text and approves what waits."""
    both = calls(("eca_ask_user", {"question": "Which?"}), ("eca_shell_command", RUN))
    async with today(both, client=client, folder=tmp_path) as (ours, _provider):
        await ours.prompt("go")
        call = await ours.content("toolCallRun", manualApproval=True)
        question = await ours.question()
        result = {"answer": "none", "cancelled": False}
        texts = {
            "message": notification("chat/promptSteer", {"chatId": "c", "message": "do nothing"}),
            "answer": {"jsonrpc": "2.0", "id": question["id"], "result": result},
        }
        await ours.send(texts[sent], decision("Approve", call))
        await ours.reject(call)
        if sent == "message":
            await ours.send(texts["answer"])
        await ours.content("toolCalled" if approves else "toolCallRejected", id=call["id"])


async def test_one_that_was_taken_back_or_came_to_no_turn_is_nothing(client):
    await steer(client, "nobody listens")
    await client.turn("one", model=ECHO)
    await steer(client, "too late")
    await client.send(
        client.prompt_request("say a\nwait 0.01\nsay b", model=SCRIPT),
        notification("chat/promptSteer", {"chatId": "c", "message": "no"}),
        notification("chat/promptSteerRemove", {"chatId": "c"}),
        notification("chat/promptSteerRemove", {"chatId": "nobody's"}),
    )
    await client.expect_finished()
    assert client.contents().text == "oneonesay a\nwait 0.01\nsay bab"


async def test_a_message_to_a_turn_of_an_earlier_server_frees_the_client_to_send_it_as_a_prompt():
    async with today() as (ours, _provider):
        await steer(ours, "go on")
        assert await ours.notice("chat/statusChanged") == {"chatId": "c", "status": "idle"}


@asynccontextmanager
async def running(*script: Reply, client: str = "any") -> AsyncIterator[tuple[Editor, Provider]]:
    """A chat whose turn waits in the middle of the first of these answers, at `go`."""
    async with today(*script, client=client) as (ours, provider):
        await ours.prompt("task")
        await provider.until(lambda: "go" in provider.reached)
        yield ours, provider


async def finish(ours: Editor, provider: Provider) -> None:
    """Let the first answer continue, and read until the turn has ended."""
    provider.open("go")
    await ours.expect_finished()


async def test_a_harmless_one_runs_between_two_requests_and_the_task_continues(tmp_path):
    async with older(calls(("eca_shell_command", RUN)), folder=tmp_path) as (ours, provider):
        await ours.prompt("task")
        call = await ours.content("toolCallRun")
        await steer(ours, "/costs", "also")
        await ours.approve(call)
        await ours.expect_finished()
        shown = ours.contents().text
        assert shown.index("/costs") < shown.index("Tokens of all requests") < shown.index("also")
        assert shown.endswith("the end")
        model_context = conversation(provider)
        assert [role for role, _ in model_context] == ["user", "assistant", "tool", "user"]
        assert "also" in model_context[3][1]
        assert "costs" not in str(model_context)


async def test_compact_makes_a_summary_of_the_task_and_the_task_continues(tmp_path):
    script = [reply("earlier"), calls(("eca_shell_command", RUN)), reply("the summary")]
    async with older(*script, folder=tmp_path) as (ours, provider):
        await ours.turn("before")
        await ours.prompt("task")
        call = await ours.content("toolCallRun")
        await steer(ours, "/compact keep the names")
        await ours.approve(call)
        await ours.expect_finished()
        summary = str(provider.requests[2].body["messages"])
        assert ["keep the names" in summary, "earlier" in summary, "hello" in summary] == [True] * 3
        model_context = conversation(provider)
        assert [role for role, _ in model_context] == ["user"]
        assert ["the summary" in model_context[0][1], "task" in model_context[0][1]] == [True, True]
        assert "keep the names" not in model_context[0][1]
        assert ours.contents().text.endswith("the end")


async def test_compact_behind_the_last_answer_leaves_a_chat_that_is_a_summary():
    async with running(reply("a", wait("go"), "b"), reply("the summary")) as (ours, provider):
        await steer(ours, "/compact")
        await finish(ours, provider)
        assert len(provider.requests) == 2
        chat = ours.connection.chats.open("c")
        assert [*map(type, chat.history[-1].parts)] == [CompactionPart]
        assert "the summary" in ours.contents().text


async def test_one_that_changes_the_chat_is_refused_and_others_run_without_the_model():
    commands = [
        "/model p/m", "/agent plan", "/fork", "/resume 1", "/init", "/delete-chat",
        "/login p sk-0123456789abcdef", "/trust yes",
    ]  # fmt: skip
    async with running(reply("a", wait("go"), "b")) as (ours, provider):
        for command in commands:
            await steer(ours, command)
            refusal = f"`{command.split(maxsplit=1)[0]}` cannot run during a turn"
            await ours.until(lambda each, refusal=refusal: refusal in str(each))
        await steer(ours, "/subagents")
        await finish(ours, provider)
        shown = ours.contents().text
        assert shown.count("cannot run during a turn") == len(commands)
        assert ["sk-" in shown, "b/subagents" in shown, "Subagents:" in shown] == [
            False,
            True,
            True,
        ]
        assert len(provider.requests) == 1
        assert "/subagents" not in str(await ours.ask("chat/history", {"chatId": "c"}))


@pytest.mark.parametrize(
    ("broken", "command", "failure"),
    [
        ("steering.run_command", "/costs", "This command failed"),
        ("prompts.messages_so_far", "/btw why?", "side question failed"),
    ],
)
async def test_one_that_fails_does_not_end_the_turn(monkeypatch, broken, command, failure):
    def fails(*_: object) -> None:
        raise RuntimeError("broken")

    async with running(reply("a", wait("go"), "b"), reply("c")) as (ours, provider):
        monkeypatch.setattr(f"eca_server.connection.features.{broken}", fails)
        await steer(ours, command, "also")
        await finish(ours, provider)
        shown = ours.contents().text
        assert [failure in shown, shown.endswith("c")] == [True, True]
        assert not ours.connection.chats.open("c").last_turn_failed


async def test_a_side_question_is_asked_at_once_in_a_chat_of_its_own():
    script = [reply("a", wait("go"), "b"), reply("because")]
    async with running(*script) as (ours, provider):
        begun = len(ours.received)
        await steer(ours, "/btw why is\nthat?")
        opened = await ours.notice("chat/opened")
        new = opened["chatId"]
        assert opened["title"] == "btw: why is that?"
        await ours.expect_finished(new)
        assert text([each for _, each in contents(ours.received[begun:], new)]).endswith("because")
        model_context = str(conversation(provider))
        assert ["task" in model_context, "that?" in model_context] == [True, True]
        await finish(ours, provider)
        shown = ours.contents().text.replace("\n", "")
        answered = "Your question is answered in the chat btw: why is that?."
        assert shown == f"taska/btw why isthat?{answered}b"  # the echo ends the client's wait
        assert len(provider.requests) == 2


async def test_a_message_before_a_side_question_is_repeated_if_the_turn_ends_without_it():
    """The echo of the question makes the client forget both."""
    script = [reply("a", wait("go"), "b"), reply("because")]
    async with running(*script, client="emacs") as (ours, _provider):
        await steer(ours, "first", "/btw why?")
        await ours.until(lambda each: "Your question is answered" in str(each))
        await ours.stop()
        await ours.expect_finished("c")
        assert "first" in ours.contents().text.partition("Stopped.")[2]


@pytest.mark.parametrize(
    ("client", "advice"),
    [("emacs", "`/model` runs once this turn has ended,"), ("any", "Send it again once this")],
)
async def test_a_refused_command_is_sent_again_by_the_client_or_the_user(client, advice):
    async with running(reply("a", wait("go"), "b"), client=client) as (ours, provider):
        await steer(ours, "/model p/m")
        await finish(ours, provider)
        assert advice in ours.contents().text


async def test_a_side_question_is_a_command_of_an_idle_chat_too():
    async with today(reply("one"), reply("because")) as (ours, provider):
        await ours.turn("task")
        answer = (await ours.turn("/btw why?")).text
        assert "Your question is answered in the chat btw: why?" in answer
        new = ours.notified("chat/opened")[-1]["chatId"]
        if not ours.contents(new).finishes:
            await ours.expect_finished(new)
        assert ours.contents(new).text.endswith("why?because")
        expected = [("user", "task"), ("assistant", "one"), ("user", "why?")]
        assert conversation(provider) == expected
        assert "The question is missing" in (await ours.turn("/btw")).text
    async with editor() as ours:
        assert "cannot show chats" in (await ours.turn("/btw why?")).text

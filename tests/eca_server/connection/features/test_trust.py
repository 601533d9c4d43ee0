"""Workspace trust: the question, its answers, and requests that give no consent."""

from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, reply
from eca_server.config.trust_texts import NEVER, NOT_NOW, PREFIX, TRUST
from eca_server.connection.features import trust
from tests.eca_server.agent.chat.agent_session import calls
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    contents,
    finishes,
    provider_config,
    text,
)
from tests.eca_server.agent.chat.mcp_session import status
from tests.eca_server.connection.features.session import reload
from tests.eca_server.connection.features.trusting import (
    ACCEPT,
    OLDER,
    answer_and_finish,
    guard,
    messages,
    next_question,
    questions,
    server,
    statuses,
)


async def test_the_first_turn_asks_and_runs_with_what_was_accepted(home):
    home.configure(**server(), **guard())
    async with home.editor() as ours:
        assert (await status(ours, "planted", "disabled"))["command"] == "planted-server"
        assert messages(ours) == questions(ours) == []
        question = await next_question(ours, "say done")
        params = question["params"]
        assert params["chatId"] == "c"
        assert params["allowFreeform"] is False
        assert "toolCallId" not in params
        assert [each["label"] for each in params["options"]] == [TRUST, NOT_NOW, NEVER]
        assert params["question"].startswith(f"{PREFIX}: {home.root} has 2 settings")
        assert "starts the MCP server planted: planted-server --all" in params["question"]
        assert (
            "the hook guard, which can block calls or prompts, does not run" in (params["question"])
        )
        assert ours.contents()[-1]["text"] == "Waiting for your answer"
        assert statuses(ours) == ["disabled"]
        await answer_and_finish(ours, question, TRUST)
        assert statuses(ours)[-1] == "running"
        assert "guard" in ours.connection.config.hooks
        assert text(ours.contents()).endswith("done")
        await ours.turn("say more", model=SCRIPT)
        assert len(questions(ours)) == 1
    async with home.editor() as ours:
        await status(ours, "planted", "running")
        await ours.turn("say done", model=SCRIPT)
        assert questions(ours) == []


@pytest.mark.parametrize(
    ("of_user", "prompt", "answer"),
    [
        ({}, {"model": ECHO, "agent": "code"}, "there"),  # an editor that knew no other model
        ({"defaultModel": SCRIPT}, {}, "there"),
        ({"defaultModel": SCRIPT}, {"model": SCRIPT}, "here"),
    ],
)
async def test_the_turn_that_asks_uses_the_model_that_the_folder_brings(
    home, of_user, prompt, answer
):
    home.configure_user(**of_user)
    async with Provider([reply("there")]) as there:
        home.configure(**provider_config(there.url))
        async with home.editor() as ours:
            await ours.prompt("say here", **prompt)
            await answer_and_finish(ours, await next_question(ours), TRUST)
            assert text(ours.contents()).endswith(answer)
            assert ours.connection.chats.get("c").settings.model == (
                SCRIPT if answer == "here" else "p/m"
            )


WORDS = (NOT_NOW, None, f"{TRUST}.", 7)
REFUSALS: list[dict[str, Any]] = [
    *({"result": {"answer": words, "cancelled": words is None}} for words in WORDS),
    {"result": 7},
    {"error": {"code": -1, "message": "no"}},
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=repr)
async def test_any_other_answer_is_not_now_until_the_next_session(home, refusal):
    home.configure(**server(), **guard())
    async with home.editor() as ours:
        question = await next_question(ours, "say one")
        await ours.send({"jsonrpc": "2.0", "id": question["id"], **refusal})
        await ours.expect_finished()
        shown = text(ours.contents())
        assert "continuing without 2 settings" in shown
        assert "guard, which can block calls or prompts, does not run" in shown
        assert shown.endswith("one")
        await ours.turn("say two", model=SCRIPT)
        assert len(questions(ours)) == 1
        assert set(statuses(ours)) == {"disabled"}
        assert ours.connection.config.hooks == {}
    assert home.decisions() == {}
    async with home.editor() as ours:
        await answer_and_finish(ours, await next_question(ours, "say one"), NOT_NOW)


async def test_a_setting_that_changes_while_the_question_is_open_or_after_never_waits(home):
    home.configure(**server("first-server"))
    async with home.editor() as ours:
        question = await next_question(ours, "say one")
        home.configure(**server("second-server"))
        await answer_and_finish(ours, question, TRUST)
        assert "1 setting changed meanwhile" in text(ours.contents())
        assert "running" not in statuses(ours)
        question = await next_question(ours, "say two")
        assert "second-server" in question["params"]["question"]
        await answer_and_finish(ours, question, NEVER)
    async with home.editor() as ours:
        await ours.turn("say one", model=SCRIPT)
        assert questions(ours) == []
        home.configure(**server("changed-server"))
        await reload(ours)
        question = await next_question(ours, "say two")
        assert "changed-server" in question["params"]["question"]
        await answer_and_finish(ours, question, NOT_NOW)


async def test_a_stop_ends_the_question_and_the_next_prompt_asks_again(home):
    home.configure(**server())
    async with home.editor() as ours:
        question = await next_question(ours, "say one")
        await ours.expect_stopped()
        cancelled = ours.notified("$/cancelRequest")
        assert [each["id"] for each in cancelled] == [question["id"]]
        await ours.answer_question(question, TRUST)  # too late
        again = await next_question(ours, "say two")
        assert again["params"]["question"] == question["params"]["question"]
        assert statuses(ours) == ["disabled"]
        await answer_and_finish(ours, again, TRUST)
        assert finishes(ours.contents()) == 2
        await status(ours, "planted", "running") if statuses(ours)[-1] != "running" else None


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_prompt_in_another_chat_waits_for_the_same_question(home, is_stopped):
    home.configure(**server())
    async with home.editor() as ours:
        question = await next_question(ours, "say one")
        await ours.prompt("say two", "d", model=SCRIPT)
        await ours.content("progress", "d", text="Waiting for your answer")
        if is_stopped:  # the chat that waits asks itself
            await ours.stop()
            question = await next_question(ours)
            assert question["params"]["chatId"] == "d"
        await ours.answer_question(question, TRUST)
        while not all(finishes(ours.contents(chat)) for chat in "cd"):
            await ours.until(lambda _: True)
        assert len(questions(ours)) == 1 + is_stopped
        assert text(ours.contents("d")).endswith("two")


async def test_each_root_has_a_question_of_its_own(home):
    other = home.add("other")
    home.configure(**server(), **guard())
    home.configure(other, **guard())
    async with home.editor(home.root, other) as ours:
        first = await next_question(ours, "say one")
        assert "planted" in first["params"]["question"]
        await ours.answer_question(first, NOT_NOW)
        second = await next_question(ours)
        assert second["params"]["question"].startswith(f"{PREFIX}: {other} has 1 setting ")
        assert "planted" not in second["params"]["question"]
        await answer_and_finish(ours, second, TRUST)
        assert [*ours.connection.config.hooks] == ["guard"]
        assert statuses(ours) == ["disabled"]
    assert [*home.decisions()] == [str(other)]


async def test_what_is_too_much_to_list_is_not_accepted(home, monkeypatch):
    monkeypatch.setattr(trust, "_QUESTION_LIST", 100)
    monkeypatch.setattr(trust, "LIST", 300)
    action = {"type": "shell", "shell": "x" * 60}
    hooks = {f"h{number}": {"type": "preRequest", "actions": [action]} for number in range(5)}
    home.configure(hooks=hooks)
    async with home.editor() as ours:
        rounds = 0
        while ours.connection.loaded.withheld:
            rounds += 1
            question = await next_question(ours, "say one")
            await answer_and_finish(ours, question, TRUST)
            is_last = not ours.connection.loaded.withheld
            assert ("did not fit in the list" in question["params"]["question"]) is not is_last
        assert "did not fit in the list, and still wait" in text(ours.contents())
        assert rounds > 1
        assert [*ours.connection.config.hooks] == [*hooks]


EVIL = "run\n```\nTrust this folder? It is safe.\u202e\u200b\x1b[2J\U000e0041"


async def test_a_question_shows_a_folder_s_text_harmlessly_and_a_long_list_in_the_chat(home):
    long = {"type": "preRequest", "actions": [{"type": "shell", "shell": "x" * 200}]}
    home.configure(**server(EVIL), hooks={f"h{number}": long for number in range(40)})
    async with home.editor() as ours:
        question = (await next_question(ours, "say one"))["params"]["question"]
        assert question.count("```") == 2
        assert all(each.isprintable() or each == "\n" for each in question)
        assert "\nTrust this folder? It" not in question
        assert len(question) < 6_000
        assert "This list is shortened" in question
        assert "the full lines are in the chat, above" in question
        listed = text(ours.contents())
        assert all(f"the hook h{number} at" in listed for number in range(40))
    home.configure(**server(), **guard())
    async with home.editor(clientInfo={"name": "VsCode"}) as ours:
        question = await next_question(ours, "say one")
        question = question["params"]["question"]  # it joins the lines
        assert not [words for words in ("planted-server", "```") if words in question]
        assert "See the list in the chat, above: MCP server planted; hook guard." in question
        [(role, shown)] = [e for e in contents(ours.received) if "--all" in e[1].get("text", "")]
        assert role == "assistant"  # the client cuts long lines of system texts
        assert "\n` - starts the MCP server planted: planted-server --all `  \n" in shown["text"]


async def test_commands_of_the_server_s_own_do_not_ask(home):
    home.configure(**server(), **guard())
    async with home.editor() as ours:
        doctor = text(await ours.turn("/doctor"))
        assert f"- {home.root}: not trusted; 2 settings withheld until you send" in doctor
        assert "mcpServers.planted" in doctor
        assert "hooks.guard" in doctor
        hooks = text(await ours.turn("/hooks"))
        assert "These hooks do not run until you accept them. Send `/trust`" in hooks
        assert "hooks.guard" in hooks
        assert "withheld until you accept it" in text(await ours.turn("/config"))
        assert questions(ours) == []
        await ours.prompt("/init")
        await answer_and_finish(ours, await next_question(ours), NOT_NOW)


async def test_a_tool_cannot_ask_in_the_server_s_form(home):
    tries = [
        {"question": f"{PREFIX}: may I?"},
        {"question": "**Work\u200bspace  TRUST** again"},
        {"question": "Sure?", "options": [{"label": "Trust this folder!"}]},
    ]
    made = calls(*(("eca_ask_user", each) for each in tries))
    async with (
        Provider([made, reply("the end")]) as provider,
        home.editor(config=provider_config(provider.url)) as ours,
    ):
        await ours.turn("go")
        assert questions(ours) == []
        results = [each["content"] for each in provider.requests[-1].body["messages"][-3:]]
        assert all("looks like the server's question about trust" in each for each in results)


async def test_an_older_client_has_one_message_and_the_command(home):
    home.configure(**server("first-server"), **guard())
    async with home.editor(capabilities=OLDER) as ours:
        await status(ours, "planted", "disabled")
        (message,) = messages(ours)
        assert message.startswith(f"{PREFIX}: ")
        for words in (str(home.root), "MCP server planted", "hook guard", "`/trust`"):
            assert words in message
        assert "can block calls or prompts, does not run" in message
        assert text(await ours.turn("say one", model=SCRIPT)).endswith("one")
        assert "Nothing was changed: review the list first." in text(await ours.turn(ACCEPT))
        assert home.decisions() == {}
        listed = text(await ours.turn("/trust"))
        assert "starts the MCP server planted: first-server --all" in listed
        assert "`/trust yes`" in listed
        home.configure(**server("second-server"), **guard())
        await reload(ours)
        accepted = text(await ours.turn(ACCEPT))  # only what was listed
        assert "accepted 1 setting" in accepted
        assert "Settings that are new since the list still wait" in accepted
        assert "second-server" in accepted
        assert "running" not in statuses(ours)
        assert [*ours.connection.config.hooks] == ["guard"]
        await ours.turn("/trust")
        assert "refused 1 setting" in text(await ours.turn("/trust no"))
    async with home.editor(capabilities=OLDER) as ours:
        await ours.turn("say one", model=SCRIPT)
        assert messages(ours) == []
        assert "You have refused MCP server planted" in text(await ours.turn("/trust"))
        await ours.turn(ACCEPT)
        await ours.turn("say two", model=SCRIPT)
        assert statuses(ours)[-1] == "running"
        assert "no settings wait for you" in text(await ours.turn("/trust"))
        assert "no longer trusted" in text(await ours.turn("/trust remove"))
        assert ours.connection.config.hooks == {}
    assert home.decisions() == {}


@pytest.mark.parametrize("name", ["VsCode", "IntelliJ", "Desktop", "Neovim", "emacs"])
@pytest.mark.requirement("W-15")
async def test_a_client_that_drops_messages_has_them_in_its_next_turn(home, name):
    home.configure(**server())
    async with home.editor(capabilities=OLDER, clientInfo={"name": name}) as ours:
        first = text(await ours.turn("say one", model=SCRIPT))
        assert first.count("MCP server planted") == (name != "emacs")
        assert first.endswith("one")
        assert PREFIX not in text(await ours.turn("say two", model=SCRIPT))

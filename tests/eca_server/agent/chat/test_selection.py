"""Agents, models, variants and trust: configured, and selected for a prompt or a chat."""

import re
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, ReceivedRequest, reply
from eca_server.agent.chat.instructions import LARGEST_PROMPT, instructions
from tests.eca_server.agent.chat.agent_session import RUN, calls, of_calls, older, order, today
from tests.eca_server.agent.chat.current import CURRENT, current
from tests.eca_server.agent.chat.editor import ECHO, Content, Editor, provider_config

OWN = "Talk like a pirate."


def with_models(
    options: Mapping[str, Any] | None = None, **config: Any
) -> AbstractAsyncContextManager[tuple[Editor, Provider]]:
    """Return a session with the options of its client, and a model `n` beside `m`."""
    about = {"initializationOptions": options or {}}
    return older(provider={"models": {"m": {}, "n": {}}}, about=about, **config)


def introduced(ours: Editor) -> dict[str, Any]:
    [update] = ours.notified("config/updated")
    return update["chat"]


def offered(request: ReceivedRequest) -> dict[str, Any]:
    """Return the tools that a model was offered, with their descriptions."""
    tools = [each["function"] for each in request.body["tools"]]
    return {each["name"]: each["description"] for each in tools}


def systems(provider: Provider) -> list[str]:
    return [request.body["messages"][0]["content"] for request in provider.requests]


async def test_a_behaviour_of_the_users_own_is_an_agent_with_its_settings():
    approval = {"toolCall": {"approval": {"deny": {"eca_grep": {}}}}}
    review = {"disabledTools": ["eca_write_file"], "systemPrompt": OWN, **approval}
    async with with_models(behavior={"review": review, "other": {}}) as (ours, provider):
        for behavior in ("review", "other", "novel"):
            await ours.turn("hi", behavior, behavior=behavior)
    first, second, third = [{*offered(each)} for each in provider.requests]
    assert first ^ second == {"eca_write_file", "eca_preview_file_change", "eca_grep"}
    assert first - second == {"eca_preview_file_change"}
    assert third == second
    ours = instructions("agent", ())
    assert systems(provider) == [instructions("agent", (), OWN), ours, ours]


OLD = {"plan": {"prompts": {"chat": "x"}}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"agent": {"plan": {"systemPrompt": OWN}}}, OWN),
        ({"behavior": {"plan": {"prompts": {"chat": OWN}}}}, OWN),
        ({"prompts": {"chat": OWN}}, OWN),
        ({"prompts": {"chat": "x"}, "behavior": {"plan": {"systemPrompt": OWN}}}, OWN),
        ({"prompts": {"chat": "x"}, "behavior": {"plan": {"systemPromptFile": "FILE"}}}, OWN),
        ({"behavior": {"agent": {"systemPromptFile": "FILE"}}}, None),
        ({"behavior": {"plan": {"systemPrompt": ""}}}, None),
        ({"prompts": {"chat": OWN}, "agent": OLD, "behavior": {"plan": {"systemPrompt": ""}}}, OWN),
        ({"behavior": {"plan": {"systemPromptFile": "EMPTY"}}}, None),
    ],
)
async def test_the_users_prompt_replaces_ours(tmp_path, config, expected):
    for name, content in (("FILE", f"{OWN}\n"), ("EMPTY", "\n")):
        (tmp_path / name).write_text(content)
    for behavior in config.get("behavior", {}).values():
        if "systemPromptFile" in behavior:
            behavior["systemPromptFile"] = str(tmp_path / behavior["systemPromptFile"])
    async with with_models(**config) as (ours, provider):
        await ours.turn("hi", behavior="plan")
    [system] = systems(provider)
    assert system == instructions("plan", (), expected or "")
    assert system.startswith(expected or "You are ECA")
    assert time.strftime("%Y-%m-%d") in system


async def test_the_model_is_sent_each_new_date_of_a_chat_of_several_days_once(monkeypatch):
    async with with_models() as (ours, provider):
        for day in ("2026-12-30", "2026-12-30", "2026-12-31", "2026-12-31", "2027-01-01"):
            monkeypatch.setattr(time, "strftime", lambda *_, day=day: day)
            await ours.turn("hi")
    system, *messages = provider.requests[-1].body["messages"]
    prompts = [str(each["content"]) for each in messages if each["role"] == "user"]
    assert "Date: 2026-12-30." in system["content"]
    assert [re.findall(r"date is now (\S+)\.", each) for each in prompts] == [
        [],
        [],
        ["2026-12-31"],
        [],
        ["2027-01-01"],
    ]


async def test_a_prompt_that_cannot_be_read_is_reported_and_ours_is_taken(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * (LARGEST_PROMPT + 1))
    for name, reason in (("none", "does not exist"), ("large", "at most"), (".", "a directory")):
        path = tmp_path / name
        own = {"agent": {"systemPromptFile": str(path)}}
        async with with_models(behavior=own) as (ours, provider):
            answer = (await ours.turn("hi")).text
        assert f"agent.code.systemPromptFile: {path}: " in answer
        assert reason in answer
        assert systems(provider) == [instructions("agent", ())]


@pytest.mark.requirement("CHAT-4", "W-21b")
async def test_the_prompts_model_wins_then_the_behaviours_then_the_default():
    own = {"plan": {"defaultModel": "p/n"}, "other": {"defaultModel": "simulator/echo"}}
    async with with_models(behavior=own) as (ours, provider):
        assert introduced(ours)["selectModel"] == "p/m"
        for behavior, model, expected in (
            ("agent", None, "p/m"),
            ("plan", None, "p/n"),
            ("plan", "p/m", "p/m"),
            ("other", None, "simulator/echo"),
        ):
            answer = await ours.prompt("hi", behavior=behavior, model=model)
            assert answer["model"] == expected
            await ours.expect_finished()
    assert [request.body["model"] for request in provider.requests] == ["m", "n", "m"]


async def test_the_first_behaviours_own_model_is_selected_at_the_start():
    own = {"plan": {"defaultModel": "openai/gpt-4.1"}}
    async with with_models(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "p/m"
        await ours.ask("chat/queryCommands", {"query": "?"})
        shown = ours.notices
    own["plan"]["defaultModel"] = "lmstudio/any"
    async with with_models(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "lmstudio/any"
        assert introduced(ours)["models"][:2] == ["lmstudio/any", "p/m"]
    own["plan"]["defaultModel"] = "m"
    async with with_models(behavior=own, defaultBehavior="plan", defaultModel="p/other") as (
        ours,
        _,
    ):
        assert introduced(ours)["selectModel"] == "p/m"
    own["plan"]["defaultModel"] = "echo"
    async with with_models(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "p/m"
        await ours.ask("chat/queryCommands", {"query": "?"})
        assert ours.notices == []
    async with with_models(defaultModel="m") as (ours, _):
        await ours.ask("chat/queryCommands", {"query": "?"})
        (message,) = ours.notices
        assert "defaultModel: m: there is no model of this name" in message
    assert ["agent.plan.defaultModel" in each for each in shown] == [True]


@pytest.mark.parametrize(("agent", "is_shown"), [("plna", True), ("sub", True), ("code", False)])
async def test_an_agent_that_no_chat_can_begin_with_is_reported_at_the_start(agent, is_shown):
    sub = {"sub": {"mode": "subagent", "description": "d", "systemPrompt": "s"}}
    async with with_models(agent=sub, defaultAgent=agent) as (ours, _):
        await ours.ask("chat/queryCommands", {"query": "?"})
    expected = f"configuration: defaultAgent: there is no agent '{agent}' that can be selected"
    assert [each.startswith(expected) for each in ours.notices] == [True] * is_shown


async def test_the_users_prompts_and_then_a_behaviour_s_own_replace_ours_in_every_text(tmp_path):
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    (tmp_path / "compact.md").write_text("Sum it up.\n")
    common: dict[str, Any] = {
        "prompts": {
            "chatTitle": "A heading, please.",
            "init": "Write it in French.",
            "tools": {"eca__grep": "x", "read_file": "Reads.", "nothing": "-"},
        },
        "compactPromptFile": str(tmp_path / "compact.md"),
    }
    own = {
        "chatTitle": "A title, please.",
        "compact": "In verse.",
        "init": "In Latin.",
        "skillCreate": "In Greek.",
        "tools": {"grep": "Finds."},
    }
    plan = {"prompts": own, "toolCall": {"readFile": {"maxLines": 1}}}
    read = calls(("eca_read_file", {"path": str(tmp_path / "a.txt")}))
    for behavior in ("agent", "plan"):
        config: dict[str, Any] = {**common, "behavior": {"plan": plan}, "chat": {"title": True}}
        async with today(read, folder=tmp_path, **config) as (ours, provider):
            received = await ours.turn("hi", agent=behavior)
            await ours.title()
            for prompt in ("/compact", "/init", "/skill-create s t"):
                await ours.turn(prompt, agent=behavior)
            (tmp_path / "compact.md").unlink(missing_ok=True)
            missing = "compactPromptFile" in (await ours.turn("/init", agent=behavior)).text
        [title] = [each.body["messages"][0]["content"] for each in provider.title_requests]
        tools = offered(provider.requests[0])
        prompts = [each.body["messages"][-1]["content"] for each in provider.requests]
        prompts = [each.rpartition("\n")[2] for each in prompts]
        [called] = [each["outputs"][0]["text"] for each in received if "outputs" in each]
        if behavior == "agent":
            assert title.startswith("A heading, please.\n")
            assert (tools["eca_read_file"], tools["eca_grep"]) == ("Reads.", "x")
            assert (systems(provider)[2], prompts[3]) == ("Sum it up.", "Write it in French.")
            assert "3\n" in f"{called}\n"
            assert missing
        else:
            assert title.startswith("A title, please.")
            assert (tools["eca_read_file"], tools["eca_grep"]) == ("Reads.", "Finds.")
            assert (systems(provider)[2], *prompts[3:5]) == ("In verse.", "In Latin.", "In Greek.")
            assert called.startswith("1\n")
            assert "2\n" not in called


async def test_a_behaviour_s_variant_counts_where_none_was_selected():
    variants = {each: {"reasoning_effort": each} for each in ("low", "high")}
    models = {"models": {"m": {"variants": variants}, "n": {}}}
    async with older(provider=models, agent={"review": {"variant": "low"}}) as (ours, provider):
        for more in ({}, {"behavior": "review"}, {"behavior": "review", "model": "p/n"}):
            await ours.turn("hi", **more)
        await ours.tell("chat/selectedModelChanged", {"model": "p/m", "variant": "high"})
        await ours.turn("hi", behavior="review")
    efforts = [request.body.get("reasoning_effort") for request in provider.requests]
    assert efforts == [None, "low", None, "high"]


def behaviors(provider: Provider) -> list[str]:
    """The behaviour of each request the provider got."""
    names = {instructions(name, ()): name for name in ("agent", "plan")}
    return [names[system] for system in systems(provider)]


@pytest.mark.requirement("LIFE-8", "CHAT-5")
@pytest.mark.parametrize(
    ("config", "options", "selected", "prompt", "expected"),
    [
        ({"defaultBehavior": "plan"}, {"chatBehavior": "agent"}, None, {}, "agent"),
        ({}, {"chatAgent": "plan"}, None, {}, "plan"),
        ({}, {"chatBehavior": "plan"}, "agent", {}, "agent"),
        ({}, {"chatBehavior": "agent"}, "plan", {}, "plan"),
        ({}, {}, "plan", {"agent": "agent"}, "agent"),
        ({}, {}, None, {"behavior": "agent", "agent": "plan"}, "plan"),
        ({}, {}, "plan", {"behavior": None, "agent": None}, "plan"),
        ({}, {}, "plan", {"behavior": "novel"}, "plan"),
        ({"defaultBehavior": "novel"}, {"chatBehavior": "novel"}, None, {}, "agent"),
    ],
)
async def test_a_prompt_wins_over_selection_options_and_configuration(
    config, options, selected, prompt, expected
):
    options = {**options, "chat": {"title": False}}
    async with with_models(options=options, **config) as (ours, provider):
        if selected:
            await ours.tell("chat/selectedBehaviorChanged", {"behavior": selected})
        await ours.turn("hi", **prompt)
        assert behaviors(provider) == [expected]


OLDER = {"codeAssistant": {"chat": True}}
MODELS: dict[str, Any] = {
    "m": {"variants": {"low": {"reasoning_effort": "low"}, "off": {}}},
    "n": {"variants": {"high": {"reasoning_effort": "high"}}},
}


def updates(ours: Editor, begun: int = 0) -> list[Content]:
    return ours.notified("config/updated", begun)


@pytest.mark.requirement("W-11h")
async def test_today_s_edition_is_sent_the_variants_of_the_selected_model_alone():
    async with today(provider={"models": MODELS}) as (ours, _):
        assert updates(ours)[0]["chat"]["variants"] == ["low"]
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": None})
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": "high"})
        await ours.tell("chat/selectedModelChanged", {"model": "p/m", "chatId": "d"})
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan", "chatId": "d"})
        await ours.turn("hi", model=ECHO)
        low = {"variants": ["low"], "selectVariant": None}
        assert updates(ours)[1:] == [
            {"chat": {"variants": ["high"], "selectVariant": None}},
            {"chatId": "d", "chat": low},
            {"chatId": "d", "chat": {"selectModel": "p/m", **low}},
        ]
    async with current() as ours:
        first = updates(ours)[0]["chat"]
        assert (first["variants"], first["selectVariant"]) == ([], None)
    async with older(provider={"models": MODELS}) as (ours, _):
        assert "variants" not in updates(ours)[0]["chat"]


async def test_a_prompt_wins_over_its_chats_selection_and_that_over_the_last():
    async with today(provider={"models": MODELS}) as (ours, provider):
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": "high"})
        await ours.tell("chat/selectedModelChanged", {"model": "p/m", "chatId": "d"})
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan", "chatId": "d"})
        for chat, more, expected in (
            ("c", {}, ("n", "high", False)),
            ("d", {}, ("m", None, True)),
            ("d", {"variant": "low"}, ("m", "low", True)),
            ("d", {"variant": "novel"}, ("m", None, True)),
            ("d", {"model": "p/n"}, ("n", "high", True)),
            ("d", {"model": "p/n", "variant": "off", "agent": "agent"}, ("n", None, False)),
        ):
            await ours.turn("hi", chat, **more)
            body = provider.requests[-1].body
            plans = "Plan before anything" in str(body["messages"][0])
            assert (body["model"], body.get("reasoning_effort"), plans) == expected


@pytest.mark.parametrize(("name", "expected"), [("VsCode", None), ("emacs", "high")])
async def test_a_prompt_of_the_web_page_without_a_variant_has_none(name, expected):
    async with today(provider={"models": MODELS}, client=name) as (ours, provider):
        selected = {"model": "p/n", "variant": "high", "chatId": "c"}
        await ours.tell("chat/selectedModelChanged", selected)
        for variant in ("high", None):
            await ours.turn("hi", model="p/n", variant=variant)
    efforts = [request.body.get("reasoning_effort") for request in provider.requests]
    assert efforts == ["high", expected]


async def test_a_model_known_to_think_is_asked_to_think_as_much_as_was_selected():
    async with Provider(otherwise=reply("a")) as provider:
        config = provider_config(provider.url, defaultModel="openai/o3")
        config["providers"] = {"openai": {**config["providers"]["p"], "models": {"o3": {}}}}
        async with current({**config, "chat": {"title": True}}) as ours:
            assert updates(ours)[0]["chat"]["variants"] == ["low", "medium", "high"]
            await ours.turn("hi", variant="high")
            await ours.title()
        [request], [titled] = provider.requests, provider.title_requests
        assert request.body["reasoning_effort"] == "high"
        assert "reasoning_effort" not in titled.body


async def test_trust_answers_for_the_user_until_it_is_withdrawn(tmp_path):
    shell = calls(("eca_shell_command", RUN))
    async with older(shell, reply("a"), shell, reply("b"), shell, folder=tmp_path) as (ours, _):
        await ours.turn("go", trust=True)
        assert order(of_calls(ours)) == ["Prepare", "Run", "Running", "ed"]
        assert not of_calls(ours)[-1]["error"]
        await ours.turn("go")
        await ours.ask("chat/update", {"chatId": "c", "trust": False})
        await ours.prompt("go")
        call = await ours.content("toolCallRun", manualApproval=True)
        await ours.reject(call)
        await ours.expect_finished()
        approvals = [each["manualApproval"] for each in of_calls(ours) if "manualApproval" in each]
        assert approvals[-1] is True
        assert approvals.count(True) == 1


async def test_the_trust_of_a_chat_is_confirmed_to_clients_that_show_it_by_chat():
    async with current() as ours:
        begun = len(updates(ours))
        for trust in (None, True, True):
            await ours.turn("go", model=ECHO, trust=trust)
        for trust in (False, True):
            await ours.ask("chat/update", {"chatId": "c", "trust": trust})
        confirmed = [each for each in updates(ours)[begun:] if "selectTrust" in each["chat"]]
        assert [each["chat"] for each in confirmed] == [
            {"selectTrust": trust} for trust in (True, False, True)
        ]
        assert {each["chatId"] for each in confirmed} == {"c"}


@pytest.mark.requirement("W-11b", "W-11g")
@pytest.mark.parametrize(
    ("name", "knows", "repeats"),
    [("VsCode", CURRENT, True), ("emacs", CURRENT, False), ("VsCode", OLDER, False)],
)
async def test_a_page_of_vs_code_loaded_again_gets_for_its_new_chat_what_it_forgot(
    name, knows, repeats
):
    config = provider_config("http://127.0.0.1:1", provider={"models": MODELS})
    about = {"clientInfo": {"name": name}, "capabilities": knows}
    async with current(config, **about) as ours:
        whole = dict(ours.notified("config/updated")[0]["chat"])
        await ours.turn("go", model=ECHO, trust=True)
        selected = {"model": "p/n", "variant": "high", "chatId": "c"}
        await ours.tell("chat/selectedModelChanged", selected)  # the last update is of that alone
        await ours.ask("chat/queryCommands", {"query": ""})
        begun = len(ours.received)
        for chat in ("c", "new", "new"):
            await ours.ask("chat/queryContext", {"chatId": chat, "query": ""})
        repeated = updates(ours, begun)
        assert repeated == ([{"chatId": "new", "chat": whole}] if repeats else [])
        servers = [each["name"] for each in ours.notified("tool/serverUpdated", begun)]
        assert servers == ["ECA"] * repeats
        await ours.ask("chat/queryContext", {"chatId": "newer", "query": ""})
        assert updates(ours, begun) == repeated  # the last was whole

"""Behaviours with settings of their own, and the user's own behaviours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, ReceivedRequest, Reply, reply, wait
from eca_server.agent.chat.instructions import LARGEST_PROMPT, instructions
from tests.eca_server.agent.chat.agent_session import calls
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor, provider_config, text

OWN = "Talk like a pirate."


@asynccontextmanager
async def session(
    *script: Reply, options: Mapping[str, Any] | None = None, **config: Any
) -> AsyncIterator[tuple[Editor, Provider]]:
    """A session with the options of its client, and a model `n` beside `m`."""
    async with Provider(script, otherwise=reply("a")) as provider:
        configured = provider_config(
            provider.url, provider={"models": {"m": {}, "n": {}}}, **config
        )
        async with editor(configured, started=False) as ours:
            await ours.start(initializationOptions=options or {})
            yield ours, provider


def introduced(ours: Editor) -> dict[str, Any]:
    [update] = ours.notified("config/updated")
    found: dict[str, Any] = update["chat"]
    return found


def offered(request: ReceivedRequest) -> dict[str, Any]:
    """Return the tools that a model was offered, with their descriptions."""
    tools = [each["function"] for each in request.body["tools"]]
    return {each["name"]: each["description"] for each in tools}


def systems(provider: Provider) -> list[str]:
    return [request.body["messages"][0]["content"] for request in provider.requests]


@pytest.mark.requirement("CONF-1")
async def test_the_users_own_behaviours_can_be_selected_and_subagents_cannot():
    own = {"agent": {"review": {}, "scout": {"mode": "subagent"}, "plan": {}}}
    async with session(defaultBehavior="review", **own) as (ours, _):
        chat = introduced(ours)
        assert chat["behaviors"] == chat["agents"] == ["agent", "plan", "review"]
        assert chat["selectBehavior"] == chat["selectAgent"] == "review"


async def test_a_behaviour_of_the_users_own_is_an_agent_with_its_settings():
    approval = {"toolCall": {"approval": {"deny": {"eca_grep": {}}}}}
    review = {"disabledTools": ["eca_write_file"], "systemPrompt": OWN, **approval}
    async with session(behavior={"review": review, "other": {}}) as (ours, provider):
        for behavior in ("review", "other", "novel"):
            await ours.turn("hi", behavior, behavior=behavior)
    first, second, third = [{*offered(each)} for each in provider.requests]
    assert first ^ second == {"eca_write_file", "eca_preview_file_change", "eca_grep"}
    assert first - second == {"eca_preview_file_change"}
    assert third == second
    assert systems(provider) == [OWN, instructions("agent", ()), instructions("agent", ())]


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
        ({"behavior": {"plan": {"systemPromptFile": "EMPTY"}}}, None),
    ],
)
async def test_the_users_prompt_replaces_ours(tmp_path, config, expected):
    for name, content in (("FILE", f"{OWN}\n"), ("EMPTY", "\n")):
        (tmp_path / name).write_text(content)
    for behavior in config.get("behavior", {}).values():
        if "systemPromptFile" in behavior:
            behavior["systemPromptFile"] = str(tmp_path / behavior["systemPromptFile"])
    async with session(**config) as (ours, provider):
        await ours.turn("hi", behavior="plan")
    assert systems(provider) == [expected or instructions("plan", ())]


async def test_a_prompt_that_cannot_be_read_is_reported_and_ours_is_taken(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * (LARGEST_PROMPT + 1))
    for name, reason in (("none", "does not exist"), ("large", "at most"), (".", "a directory")):
        path = tmp_path / name
        own = {"agent": {"systemPromptFile": str(path)}}
        async with session(behavior=own) as (ours, provider):
            said = text(await ours.turn("hi"))
        assert f"behavior.agent.systemPromptFile: {path}: " in said
        assert reason in said
        assert systems(provider) == [instructions("agent", ())]


async def test_a_chat_keeps_the_prompt_it_began_with(tmp_path):
    path = tmp_path / "prompt.md"
    path.write_text(OWN)
    async with session(behavior={"agent": {"systemPromptFile": str(path)}}) as (ours, provider):
        await ours.turn("hi")
        path.write_text("Talk like a sailor.")
        await ours.turn("hi")
        await ours.turn("hi", chat="d")
    assert systems(provider) == [OWN, OWN, "Talk like a sailor."]


@pytest.mark.requirement("CHAT-4", "W-21b")
async def test_the_prompts_model_wins_then_the_behaviours_then_the_default():
    own = {"plan": {"defaultModel": "p/n"}, "other": {"defaultModel": "simulator/echo"}}
    async with session(behavior=own) as (ours, provider):
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
    async with session(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "p/m"
        await ours.ask("chat/queryCommands", {"query": "?"})
        shown = ours.notified("$/showMessage")
    own["plan"]["defaultModel"] = "lmstudio/any"
    async with session(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "lmstudio/any"
        assert introduced(ours)["models"][:2] == ["lmstudio/any", "p/m"]
    assert ["behavior.plan.defaultModel" in each["message"] for each in shown] == [True]


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
        async with Provider([read], otherwise=reply("a")) as provider:
            config = provider_config(provider.url, **common, behavior={"plan": plan})
            config["chat"] = {"title": True}
            async with current(config, folder=tmp_path) as ours:
                received = await ours.turn("hi", agent=behavior)
                await ours.title()
                for prompt in ("/compact", "/init", "/skill-create s t"):
                    await ours.turn(prompt, agent=behavior)
                (tmp_path / "compact.md").unlink(missing_ok=True)
                missing = "compactPromptFile" in text(await ours.turn("/init", agent=behavior))
        [title] = [each.body["messages"][0]["content"] for each in provider.title_requests]
        tools = offered(provider.requests[0])
        asked = [each.body["messages"][-1]["content"] for each in provider.requests]
        asked = [each.rpartition("\n")[2] for each in asked]
        [called] = [each["outputs"][0]["text"] for each in received if "outputs" in each]
        if behavior == "agent":
            assert title.startswith("A heading, please.\n")
            assert (tools["eca_read_file"], tools["eca_grep"]) == ("Reads.", "x")
            assert (systems(provider)[2], asked[3]) == ("Sum it up.", "Write it in French.")
            assert "3\n" in f"{called}\n"
            assert missing
        else:
            assert title.startswith("A title, please.")
            assert (tools["eca_read_file"], tools["eca_grep"]) == ("Reads.", "Finds.")
            assert (systems(provider)[2], *asked[3:5]) == ("In verse.", "In Latin.", "In Greek.")
            assert called.startswith("1\n")
            assert "2\n" not in called


async def test_a_chat_is_shown_again_with_the_summaries_it_had(tmp_path):
    limit = {"toolCall": {"shellCommand": {"summaryMaxLength": 9}}}
    async with current({"behavior": {"agent": limit}}, data=tmp_path, folder=tmp_path) as ours:
        command = "call eca_shell_command " + json.dumps({"command": "echo 1 2 3 4 5 6 7 8 9"})
        await ours.turn(command, model=SCRIPT, trust=True)
        await ours.ask("chat/open", {"chatId": "c"})
        first, again = (e["summary"] for e in ours.contents() if e["type"] == "toolCalled")
    assert first == again == "Running 'echo 1 2 ...'"


@pytest.mark.requirement("W-28d")
async def test_clients_of_today_know_the_built_in_agents_as_code_and_plan():
    async with current({"agent": {"review": {}}}) as ours:
        chat = introduced(ours)
        assert chat["agents"] == chat["behaviors"] == ["code", "plan", "review"]
        assert chat["selectAgent"] == chat["selectBehavior"] == "code"
        for name in ("plan", "code", "agent", "build"):
            await ours.turn("hi", name, model=ECHO, agent=name)
            opened = await ours.ask("chat/open", {"chatId": name})
            assert opened["selection"]["agent"] == ("plan" if name == "plan" else "code")


async def test_upstream_s_names_mean_our_behaviour_whatever_was_selected():
    own = {"agent": {"code": {"systemPrompt": OWN}}}
    async with session(**own, defaultAgent="code") as (ours, provider):
        assert introduced(ours)["selectAgent"] == "agent"
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "plan"})
        for behavior in ("code", "build"):
            await ours.turn("hi", behavior, behavior=behavior)
    assert systems(provider) == [OWN, OWN]


async def test_a_behaviour_s_variant_counts_where_none_was_selected():
    variants = {each: {"reasoning_effort": each} for each in ("low", "high")}
    async with Provider(otherwise=reply("a")) as provider:
        models = {"m": {"variants": variants}, "n": {}}
        agent = {"review": {"variant": "low"}}
        config = provider_config(provider.url, provider={"models": models}, agent=agent)
        async with editor(config) as ours:
            for more in ({}, {"behavior": "review"}, {"behavior": "review", "model": "p/n"}):
                await ours.turn("hi", **more)
            await ours.tell("chat/selectedModelChanged", {"model": "p/m", "variant": "high"})
            await ours.turn("hi", behavior="review")
    efforts = [request.body.get("reasoning_effort") for request in provider.requests]
    assert efforts == [None, "low", None, "high"]


BEHAVIOR_OF = {instructions(name, ()): name for name in ("agent", "plan")}


def behaviors(provider: Provider) -> list[str]:
    """The behaviour of each request the provider got."""
    return [BEHAVIOR_OF[system] for system in systems(provider)]


@pytest.mark.requirement("LIFE-8")
@pytest.mark.parametrize(
    ("config", "options", "selected", "prompt", "expected"),
    [
        ({}, {}, None, {}, "agent"),
        ({"defaultBehavior": "plan"}, {}, None, {}, "plan"),
        ({"defaultBehavior": "plan"}, {"chatBehavior": "agent"}, None, {}, "agent"),
        ({}, {"chatAgent": "plan"}, None, {}, "plan"),
        ({}, {"chatBehavior": "plan"}, "agent", {}, "agent"),
        ({}, {"chatBehavior": "agent"}, "plan", {}, "plan"),
        ({}, {}, "plan", {"behavior": "agent"}, "agent"),
        ({}, {}, "plan", {"agent": "agent"}, "agent"),
        ({}, {}, None, {"behavior": "agent", "agent": "plan"}, "plan"),
        ({}, {}, "plan", {"behavior": None, "agent": None}, "plan"),
        ({}, {}, "plan", {"behavior": "novel"}, "plan"),
        ({"defaultBehavior": "novel"}, {"chatBehavior": "novel"}, None, {}, "agent"),
    ],
)
async def test_the_prompt_wins_then_the_selection_the_options_the_configuration(
    config, options, selected, prompt, expected
):
    options = {**options, "chat": {"title": False}}
    async with session(options=options, **config) as (ours, provider):
        if selected:
            await ours.tell("chat/selectedBehaviorChanged", {"behavior": selected})
        await ours.turn("hi", **prompt)
        assert behaviors(provider) == [expected]


@pytest.mark.requirement("W-28b")
async def test_a_change_by_either_name_touches_no_running_turn_and_is_not_sent_back():
    async with session(reply(wait("now"), "a")) as (ours, provider):
        begun = len(ours.seen)
        await ours.prompt("hi")
        await provider.until(lambda: "now" in provider.reached)
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan"})
        provider.open("now")
        await ours.expect_finished()
        await ours.turn("hi")
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "agent"})
        await ours.turn("hi")
        await ours.tell("chat/selectedAgentChanged", {"agent": None})
        await ours.turn("hi")
        assert behaviors(provider) == ["agent", "plan", "agent", "agent"]
        assert ours.notified("config/updated", begun) == []

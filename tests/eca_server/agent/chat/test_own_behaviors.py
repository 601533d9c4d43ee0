"""Behaviours with settings of their own, and the user's own behaviours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, reply
from eca_server.agent.chat.instructions import LARGEST_PROMPT, instructions
from tests.eca_server.agent.chat.agent_session import calls
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, editor, provider_config, text

OWN = "Talk like a pirate."


@asynccontextmanager
async def session(**config: Any) -> AsyncIterator[tuple[Editor, Provider]]:
    provider = Provider(otherwise=reply("a"))
    async with provider:
        configured = provider_config(provider.url, chat={"title": False}, **config)
        configured["providers"]["p"]["models"]["n"] = {}
        async with editor(configured) as ours:
            yield ours, provider


def introduced(ours: Editor) -> dict[str, Any]:
    (update,) = [each for each in ours.seen if each.get("method") == "config/updated"]
    found: dict[str, Any] = update["params"]["chat"]
    return found


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
    own = {"review": {"disabledTools": ["eca_write_file"], "systemPrompt": OWN}, "other": {}}
    async with session(behavior=own) as (ours, provider):
        await ours.turn("hi", behavior="review")
        await ours.turn("hi", chat="d", behavior="other")
        await ours.turn("hi", chat="e", behavior="novel")
    offered = [
        {each["function"]["name"] for each in request.body["tools"]}
        for request in provider.requests
    ]
    assert {"eca_write_file", "eca_preview_file_change"} & offered[0] == {"eca_preview_file_change"}
    assert {"eca_write_file", "eca_preview_file_change"} & offered[1] == {"eca_write_file"}
    assert offered[2] == offered[1]
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
        shown = [each["params"] for each in ours.seen if each.get("method") == "$/showMessage"]
    own["plan"]["defaultModel"] = "lmstudio/any"
    async with session(behavior=own, defaultBehavior="plan") as (ours, _):
        assert introduced(ours)["selectModel"] == "lmstudio/any"
        assert introduced(ours)["models"][:2] == ["lmstudio/any", "p/m"]
    assert ["behavior.plan.defaultModel" in each["message"] for each in shown] == [True]


async def test_a_behaviours_own_approval_counts_in_it_alone():
    own = {"review": {"toolCall": {"approval": {"deny": {"eca_grep": {}}}}}}
    async with session(behavior=own) as (ours, provider):
        await ours.turn("hi", behavior="review")
        await ours.turn("hi", chat="d", behavior="agent")
    offered = [
        "eca_grep" in {each["function"]["name"] for each in request.body["tools"]}
        for request in provider.requests
    ]
    assert offered == [False, True]


async def test_the_users_prompts_replace_ours_in_every_text_for_a_model(tmp_path):
    (tmp_path / "compact.md").write_text("Sum it up in verse.\n")
    own: dict[str, Any] = {
        "prompts": {
            "chatTitle": "A heading, please.",
            "init": "Write AGENTS.md in Latin.",
            "tools": {"eca__read_file": "Reads.", "grep": "Finds.", "nothing": "-"},
        },
        "compactPromptFile": str(tmp_path / "compact.md"),
    }
    provider = Provider(otherwise=reply("a"))
    async with provider, editor(started=False, ECA_CONFIG="{}") as ours:
        config = provider_config(provider.url, **own)
        folder = [{"uri": tmp_path.as_uri(), "name": "w"}]
        await ours.start(initializationOptions=config, workspaceFolders=folder)
        await ours.turn("hi")
        await ours.title()
        await ours.turn("/compact")
        (tmp_path / "compact.md").unlink()
        received = await ours.turn("/init")
    (asked,) = provider.title_requests
    assert asked.body["messages"][0]["content"].startswith("A heading, please.\n")
    assert systems(provider)[1] == "Sum it up in verse."
    tools = {
        each["function"]["name"]: each["function"] for each in provider.requests[0].body["tools"]
    }
    assert tools["eca_read_file"]["description"] == "Reads."
    assert tools["eca_grep"]["description"] == "Finds."
    last = provider.requests[-1].body["messages"][-1]
    assert last["content"].endswith("Write AGENTS.md in Latin.")
    assert "compactPromptFile" in text(received)


async def test_a_behaviour_s_own_prompts_and_limits_replace_the_common_ones(tmp_path):
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    own: dict[str, Any] = {
        "prompts": {
            "chatTitle": "x",
            "compact": "x",
            "tools": {"eca__grep": "x", "read_file": "r"},
        },
        "behavior": {
            "plan": {
                "prompts": {
                    "chatTitle": "A heading.",
                    "compact": "In verse.",
                    "init": "In Latin.",
                    "skillCreate": "In Greek.",
                    "tools": {"grep": "Finds."},
                },
                "toolCall": {"readFile": {"maxLines": 1}},
            }
        },
    }
    read = calls(("eca_read_file", {"path": str(tmp_path / "a.txt")}))
    provider = Provider([read], otherwise=reply("a"))
    async with provider, editor(started=False, ECA_CONFIG="{}") as ours:
        folder = [{"uri": tmp_path.as_uri(), "name": "w"}]
        config = provider_config(provider.url, **own)
        await ours.start(initializationOptions=config, workspaceFolders=folder)
        received = await ours.turn("hi", behavior="plan")
        await ours.title()
        for prompt in ("/compact", "/init", "/skill-create s t"):
            await ours.turn(prompt, behavior="plan")
    (called,) = (each for each in received if each["type"] == "toolCalled")
    assert called["outputs"][0]["text"].startswith("1\n")
    assert "2\n" not in called["outputs"][0]["text"]
    (asked,) = provider.title_requests
    assert asked.body["messages"][0]["content"].startswith("A heading.")
    assert systems(provider)[2] == "In verse."
    offered = provider.requests[0].body["tools"]
    told = {each["function"]["name"]: each["function"]["description"] for each in offered}
    assert (told["eca_grep"], told["eca_read_file"]) == ("Finds.", "r")
    last = [request.body["messages"][-1]["content"] for request in provider.requests[-2:]]
    assert [each.rpartition("\n")[2] for each in last] == ["In Latin.", "In Greek."]


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
        await ours.turn("hi", behavior="code")
        await ours.turn("hi", chat="d", behavior="build")
    assert systems(provider) == [OWN, OWN]


async def test_a_behaviour_s_variant_counts_where_none_was_selected():
    provider = Provider(otherwise=reply("a"))
    async with provider:
        own = {"review": {"variant": "low"}}
        config = provider_config(provider.url, chat={"title": False}, agent=own)
        config["providers"]["p"]["models"] = {
            "m": {"variants": {each: {"reasoning_effort": each} for each in ("low", "high")}},
            "n": {},
        }
        async with editor(config) as ours:
            for more in ({}, {"behavior": "review"}, {"behavior": "review", "model": "p/n"}):
                await ours.turn("hi", **more)
            await ours.tell("chat/selectedModelChanged", {"model": "p/m", "variant": "high"})
            await ours.turn("hi", behavior="review")
    efforts = [request.body.get("reasoning_effort") for request in provider.requests]
    assert efforts == [None, "low", None, "high"]

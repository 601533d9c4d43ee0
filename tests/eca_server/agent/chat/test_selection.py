"""Agents, models, variants and trust: selected for a prompt, for a chat, for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.testing.provider import Provider, reply
from tests.eca_server.agent.chat.agent_session import RUN, calls, of_calls, order, session
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Content,
    Editor,
    editor,
    provider_config,
)

MODELS: dict[str, Any] = {
    "m": {"variants": {"low": {"reasoning_effort": "low"}, "off": {}}},
    "n": {"variants": {"high": {"reasoning_effort": "high"}}},
}


def configured(provider: Provider) -> dict[str, Any]:
    return provider_config(provider.url, provider={"models": MODELS})


def updates(ours: Editor, begun: int = 0) -> list[Content]:
    return ours.notified("config/updated", begun)


@pytest.mark.requirement("W-11h")
async def test_today_s_edition_is_sent_the_variants_of_the_selected_model_at_once():
    async with Provider() as provider:
        async with current(configured(provider)) as ours:
            assert updates(ours)[0]["chat"]["variants"] == ["low"]
        async with current() as ours:
            first = updates(ours)[0]["chat"]
            assert (first["variants"], first["selectVariant"]) == ([], None)
        async with editor(configured(provider)) as ours:
            assert "variants" not in updates(ours)[0]["chat"]


async def test_of_a_selected_model_only_the_variants_are_announced_and_for_whom():
    async with Provider() as provider, current(configured(provider)) as ours:
        begun = len(ours.seen)
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": None})
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": "high"})
        await ours.tell("chat/selectedModelChanged", {"model": "p/m", "chatId": "d"})
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan", "chatId": "d"})
        await ours.turn("hi", model=ECHO)
        assert updates(ours, begun) == [
            {"chat": {"variants": ["high"], "selectVariant": None}},
            {"chatId": "d", "chat": {"variants": ["low"], "selectVariant": None}},
            {"chatId": "d", "chat": {"selectModel": "p/m", "variants": ["low"],
                                     "selectVariant": None}},
        ]  # fmt: skip


async def test_a_prompt_wins_over_its_chats_selection_and_that_over_the_last():
    async with Provider(otherwise=reply("a")) as provider, current(configured(provider)) as ours:
        await ours.tell("chat/selectedModelChanged", {"model": "p/n", "variant": "high"})
        await ours.tell("chat/selectedModelChanged", {"model": "p/m", "chatId": "d"})
        await ours.tell("chat/selectedAgentChanged", {"agent": "plan", "chatId": "d"})
        sent = []
        for chat, more in (
            ("c", {}),
            ("d", {}),
            ("d", {"variant": "low"}),
            ("d", {"variant": "novel"}),
            ("d", {"model": "p/n"}),
            ("d", {"model": "p/n", "variant": "off", "agent": "agent"}),
        ):
            await ours.turn("hi", chat, **more)
            body = provider.requests[-1].body
            plans = "Plan before anything" in str(body["messages"][0])
            sent.append((body["model"], body.get("reasoning_effort"), plans))
        assert sent == [
            ("n", "high", False),
            ("m", None, True),
            ("m", "low", True),
            ("m", None, True),
            ("n", "high", True),
            ("n", None, False),
        ]


async def test_a_model_known_to_think_is_asked_to_think_as_much_as_was_selected():
    async with Provider(otherwise=reply("a")) as provider:
        config = provider_config(provider.url, defaultModel="openai/o3")
        config["providers"] = {"openai": {**config["providers"]["p"], "models": {"o3": {}}}}
        async with current({**config, "chat": {"title": True}}) as ours:
            assert updates(ours)[0]["chat"]["variants"] == ["low", "medium", "high"]
            await ours.turn("hi", variant="high")
            await ours.title()
        [asked], [titled] = provider.requests, provider.title_requests
        assert asked.body["reasoning_effort"] == "high"
        assert "reasoning_effort" not in titled.body


async def test_trust_answers_for_the_user_until_it_is_withdrawn(tmp_path):
    shell = calls(("eca_shell_command", RUN))
    async with session(tmp_path, shell, reply("a"), shell, reply("b"), shell) as (ours, _):
        await ours.turn("go", trust=True)
        assert order(of_calls(ours)) == ["Prepare", "Run", "Running", "ed"]
        assert not of_calls(ours)[-1]["error"]
        await ours.turn("go")
        await ours.ask("chat/update", {"chatId": "c", "trust": False})
        await ours.prompt("go")
        call = await ours.content("toolCallRun", manualApproval=True)
        await ours.reject(call)
        await ours.expect_finished()
        asked = [each["manualApproval"] for each in of_calls(ours) if "manualApproval" in each]
        assert asked[-1] is True
        assert asked.count(True) == 1


async def test_even_in_a_trusted_chat_a_path_outside_needs_approval_and_a_denial_holds(tmp_path):
    (tmp_path / "in").mkdir()
    outside = calls(
        ("eca_write_file", {"path": str(tmp_path / "out"), "content": "x"}),
        ("eca_write_file", {"path": ".eca/config.json", "content": "{}"}),
        ("eca_grep", {"path": ".", "pattern": "x"}),
    )
    deny = {"toolCall": {"approval": {"deny": {"eca_grep": {"argsMatchers": {"pattern": ["x"]}}}}}}
    async with session(tmp_path / "in", outside, **deny) as (ours, _):
        await ours.ask("chat/update", {"chatId": "c", "trust": True})
        await ours.prompt("go")
        for _ in range(2):
            call = await ours.content("toolCallRun", manualApproval=True)
            await ours.reject(call)
        await ours.expect_finished()
        rejected = [each for each in of_calls(ours) if each["type"] == "toolCallRejected"]
        assert sorted(each["reason"] for each in rejected) == ["user-choice"] * 2 + ["user-config"]


@pytest.mark.requirement("W-44b")
async def test_trust_is_stored_with_the_chat(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("say hi", model=SCRIPT, trust=True, agent="plan")
    async with current(data=tmp_path) as ours:
        opened = await ours.ask("chat/open", {"chatId": "c"})
        assert opened["selection"]["trust"]
        assert updates(ours)[-1]["chat"]["selectTrust"]
        assert (opened["selection"]["agent"], opened["selection"]["model"]) == ("plan", SCRIPT)
    async with current(data=tmp_path) as ours:
        await ours.turn("say hi", model=SCRIPT, trust=False)
        opened = await ours.ask("chat/open", {"chatId": "c"})
        assert not opened["selection"]["trust"]
        assert "meta" not in opened
        opened = await ours.ask("chat/open", {"chatId": "c", "limit": 100})
        assert opened["meta"]["total"] == 4


@pytest.mark.requirement("W-40a")
async def test_files_are_found_for_a_mention_and_nothing_else(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "there.py").touch()
    async with current(folder=tmp_path) as ours:
        found = await ours.ask("chat/queryFiles", {"chatId": "c", "query": "there"})
        path = str(tmp_path / "sub" / "there.py")
        assert found == {"chatId": "c", "files": [{"type": "file", "path": path}]}
        everything = await ours.ask("chat/queryFiles", {})
        assert everything["files"][0] == {"type": "directory", "path": str(tmp_path)}

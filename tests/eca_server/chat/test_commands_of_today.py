"""Commands of today's edition: which model, what fills it, forks, rules, subagents."""

from __future__ import annotations

from pathlib import Path

import pytest

from eca_protocol.testing.provider import Provider, finish, reply, usage
from eca_server.commands import resume
from tests.eca_server.chat.current import current, since
from tests.eca_server.chat.editor import ECHO, SCRIPT, editor, provider_config, text

pytestmark = pytest.mark.trio

CONFIG_UPDATED = "config/updated"


@pytest.mark.requirement("W-28", "CHAT-30")
async def test_a_model_is_selected_by_a_command_for_its_chat_alone() -> None:
    async with current() as ours:
        assert f"* {ECHO}\n" in text(await ours.turn("/model", model=ECHO))
        begun = len(ours.seen)
        await ours.turn("/model SCRIPT", model=ECHO)
        told = [params for name, params in since(ours, begun) if name == CONFIG_UPDATED]
        assert told == [{"chatId": "c", "chat": {"selectModel": SCRIPT, "variants": []}}]
        assert (await ours.prompt("say a"))["model"] == SCRIPT
        await ours.finished()
        assert (await ours.prompt("say a", "other"))["model"] == ECHO
        await ours.finished("other")
        assert "no model whose name holds 'nope'" in text(await ours.turn("/model nope"))
        assert (await ours.prompt("say b"))["model"] == SCRIPT
        await ours.finished()


@pytest.mark.requirement("W-28")
async def test_a_client_with_one_selection_has_the_model_selected_everywhere() -> None:
    async with editor() as ours:
        begun = len(ours.seen)
        await ours.turn(f"/model {SCRIPT}", model=ECHO)
        told = [params for name, params in since(ours, begun) if name == CONFIG_UPDATED]
        assert told == [{"chat": {"selectModel": SCRIPT}}]
        assert (await ours.prompt("say a", "other"))["model"] == SCRIPT
        await ours.finished("other")


@pytest.mark.requirement("W-27")
async def test_what_fills_the_context_is_told_with_the_usage_and_by_a_command() -> None:
    script = [reply("a", finish("stop"), usage(4_990, 10))] * 2
    async with Provider(script) as provider:
        config = provider_config(provider.url)
        config["providers"]["p"]["models"]["m"] = {"limit": {"context": 10_000, "output": 50}}
        config["autoCompactPercentage"] = 60
        async with current(config) as ours:
            told = (await ours.turn("hi"))[-2]
            answer = text(await ours.turn("/context"))
        async with editor(config) as ours:
            assert "contextBreakdown" not in (await ours.turn("hi"))[-2]
    assert told["autoCompactPercentage"] == 60
    found = told["contextBreakdown"]
    assert (found["usedTokens"], found["freeTokens"], found["contextLimit"]) == (
        5_000,
        5_000,
        10_000,
    )
    tokens = {each["name"]: each["tokens"] for each in found["categories"]}
    assert sum(tokens.values()) == 5_000
    assert tokens["Tools"] > tokens["Instructions"] > tokens["Messages"] > 0
    assert "about 5,000 of 10,000 tokens (50 %)" in answer
    assert f"Tools: {tokens['Tools']:,}\n" in answer
    assert "from 60 % on" in answer


@pytest.mark.requirement("CHAT-30")
async def test_a_chat_is_forked_by_a_command_and_resumed_by_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with current(data=tmp_path) as ours:
        assert "nothing to fork" in text(await ours.turn("/fork"))
        await ours.turn("say one", model=SCRIPT)
        await ours.ask("chat/update", {"chatId": "c", "title": "Mine"})
        begun = len(ours.seen)
        assert "goes on as another one, too: Mine (2)." in text(await ours.turn("/fork"))
        [opened] = [params for name, params in since(ours, begun) if name == "chat/opened"]
        assert opened["title"] == "Mine (2)"
        shown = ours.contents(opened["chatId"])
        assert [each.get("text", each.get("title")) for each in shown] == [
            "say one", "one", "Mine (2)",
        ]  # fmt: skip
        words = text(await ours.turn(f"/resume {opened['chatId']}", "d", model=ECHO))
        assert "now knows the 2 messages" in words
        monkeypatch.setattr(resume, "LISTED", 1)
        assert "Mine\n" not in text(await ours.turn("/resume", "e"))
        assert "now knows the 2 messages" in text(await ours.turn("/resume c", "e"))
        assert "too: Mine (3)." in text(await ours.turn("/fork"))
        assert "Expected a number from 1 to " in text(await ours.turn("/resume e", "e"))
        assert "Expected a number from 1 to " in text(await ours.turn(f"/resume {'9' * 5000}", "d"))
    async with current(data=tmp_path) as ours:
        assert "too: Mine (4)." in text(await ours.turn("/fork"))
    async with editor() as ours:
        await ours.turn("say one", model=SCRIPT)
        assert "no chats but those" in text(await ours.turn("/fork"))


@pytest.mark.requirement("CHAT-30")
async def test_rules_and_subagents_are_listed_and_changed_rules_count_when_asked(
    tmp_path: Path,
) -> None:
    rules = tmp_path / ".eca" / "rules"
    rules.mkdir(parents=True)
    (rules / "python.md").write_text('---\npaths: "**/*.py"\n---\nBe typed.')
    (rules / "plans.md").write_text("---\nagent: plan\n---\nBe bold.")
    agents = {
        "finder": {"mode": "subagent", "description": "Finds.", "maxSteps": 5,
                   "spawnableBy": "code"},
        "mine": {"description": "Not one."},
    }  # fmt: skip
    async with current({"agent": agents}, folder=tmp_path) as ours:
        await ours.turn("say a", model=SCRIPT)
        told = text(await ours.turn("/rules"))
        assert f"{rules / 'python.md'} (source: workspace; files: **/*.py)\n" in told
        assert "plans.md" not in told
        assert "finder - Finds. - steps: 5 - called by: code\n" in text(
            await ours.turn("/subagents")
        )
        (rules / "python.md").write_text("Be terse.")
        systems = ours.connection.chats.open("c").systems
        await ours.turn("say b", model=SCRIPT)
        assert "Be typed." in systems["agent"].text
        await ours.turn("/sync-system-prompt")
        await ours.turn("say c", model=SCRIPT)
        assert "Be terse." in systems["agent"].text
    async with current() as ours:
        assert "There are no rules." in text(await ours.turn("/rules"))
        assert "There are no subagents." in text(await ours.turn("/subagents"))

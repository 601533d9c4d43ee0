"""Commands of today's edition: which model, what fills it, forks, rules, subagents."""

import pytest

from eca_protocol.testing.provider import Provider, finish, reply, usage
from eca_server.agent.commands import chats
from tests.eca_server.agent.chat.agent_session import today
from tests.eca_server.agent.chat.current import current, since
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Editor,
    contents,
    editor,
    provider_config,
)
from tests.eca_server.agent.context.conftest import write


async def test_a_model_is_selected_by_a_command_for_its_chat_alone(client):
    assert f"* {ECHO}\n" in (await client.turn("/model", model=ECHO)).text
    await client.turn("/model SCRIPT", model=ECHO)
    selected = {"selectModel": SCRIPT, "variants": [], "selectVariant": None}
    assert client.notified("config/updated")[1:] == [{"chatId": "c", "chat": selected}]
    assert (await client.prompt("say a"))["model"] == SCRIPT
    await client.expect_finished()
    assert (await client.prompt("say a", "other"))["model"] == ECHO
    await client.expect_finished("other")
    assert "No model's name contains 'nope'" in (await client.turn("/model nope")).text
    assert (await client.prompt("say b"))["model"] == SCRIPT
    await client.expect_finished()


@pytest.mark.parametrize(("typed", "selected"), [("M", "p/m"), ("m-", "p/m-mini"), ("two", None)])
async def test_a_models_own_name_selects_it_among_those_that_contain_it(typed, selected):
    models = {"m": {"variants": {"high": {"effort": "high"}}}, "m-mini": {}, "two": {}}
    providers = {
        "p": {"url": "http://nowhere.invalid", "models": models},
        "q": {"url": "http://nowhere.invalid", "models": {"two": {}}},
    }
    async with current({"providers": providers}) as ours:
        answer = (await ours.turn(f"/model {typed}")).text
        if selected is not None:
            assert f"This chat uses {selected} from the next prompt on." in answer
        else:
            assert [each in answer for each in ("p/two", "q/two", "p/m")] == [True, True, False]


@pytest.mark.requirement("W-28")
async def test_a_client_with_one_selection_has_the_model_selected_everywhere(ours):
    await ours.turn(f"/model {SCRIPT}", model=ECHO)
    assert ours.notified("config/updated")[1:] == [{"chat": {"selectModel": SCRIPT}}]
    assert (await ours.prompt("say a", "other"))["model"] == SCRIPT
    await ours.expect_finished("other")


async def test_an_agent_is_selected_by_a_command_and_model_and_variant_stay():
    async with current({"agent": {"mine": {"defaultModel": ECHO}}}) as ours:
        await ours.turn("/model script", model=ECHO)
        assert "* code\n" in (await ours.turn("/agent")).text
        await ours.turn("/agent MINE")
        update = {"chatId": "c", "chat": {"selectAgent": "mine"}}
        assert ours.notified("config/updated")[-1] == update
        assert (await ours.prompt("say a"))["model"] == SCRIPT
        await ours.expect_finished()
        assert ours.connection.chats.open("c").settings.behavior == "mine"
        assert "no agent 'nope'" in (await ours.turn("/agent nope")).text
        await ours.turn("/agent code")
        await ours.turn("say b")
        assert ours.connection.chats.open("c").settings.behavior == "agent"
        await ours.turn("say a", "other", model=SCRIPT)
        assert ours.connection.chats.open("other").settings.behavior == "agent"
    async with editor() as ours:
        await ours.turn("/agent plan")
        selected = {"selectBehavior": "plan", "selectAgent": "plan"}
        assert ours.notified("config/updated")[1:] == [{"chat": selected}]
        await ours.turn("say a", "other", model=SCRIPT)
        assert ours.connection.chats.open("other").settings.behavior == "plan"


async def test_chats_of_all_workspaces_are_listed_and_found_by_their_title(tmp_path):
    data, here, there = (tmp_path / name for name in ("data", "here", "there"))
    for folder in (data, here, there):
        folder.mkdir()
    async with current(data=data, folder=there) as ours:
        assert "There are no stored chats." in (await ours.turn("/chats")).text
        await ours.turn("say one", "far", model=SCRIPT)
        await ours.ask("chat/update", {"chatId": "far", "title": "A far one"})
    write(here / ".eca" / "commands" / "review.md", "say reviewed $1")
    async with current(data=data, folder=here) as ours:
        await ours.turn("/review topic", "reviewed", model=SCRIPT)
        assert "/review topic `reviewed`" in (await ours.turn("/chats")).text
        await ours.ask("chat/delete", {"chatId": "reviewed"})
        await ours.turn("say two", "near", model=SCRIPT)
        listing = (await ours.turn("/chats")).text
        assert listing.index("say two `near`") < listing.index("A far one `far`")
        assert [each["id"] for each in (await ours.ask("chat/list"))["chats"]] == ["near"]
        listing = (await ours.turn("/chats FAR one")).text
        assert ["`far`" in listing, "`near`" in listing] == [True, False]
        assert "has 'nope' in its title" in (await ours.turn("/chats nope")).text
        assert "Added 2 messages" in (await ours.turn("/resume far")).text
    async with current() as ours:
        assert "does not store chats" in (await ours.turn("/chats")).text


async def answered(ours: Editor, label: str | None) -> str:
    """Answer the question that comes; the question."""
    question = await ours.question()
    await ours.answer_question(question, label)
    return str(question["params"]["question"])


async def test_a_chat_is_deleted_by_a_command_once_the_user_has_said_so(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("say one", "old", model=SCRIPT)
    async with current(data=tmp_path) as ours:
        await ours.turn("say two", model=SCRIPT)
        for answer in (None, "Keep it"):
            await ours.prompt("/delete-chat old")
            assert "Delete the chat old?" in await answered(ours, answer)
            await ours.expect_finished()
            assert ours.contents().text.endswith("The chat was not deleted.")
        await ours.prompt("/delete-chat old")
        await answered(ours, "Delete it")
        await ours.expect_finished()
        assert ours.contents().text.endswith("The chat old was deleted.")
        assert [each["id"] for each in (await ours.ask("chat/list"))["chats"]] == ["c"]
        assert "There is no chat 'old'" in (await ours.turn("/delete-chat old")).text
        begun = len(ours.received)
        await ours.prompt("/delete-chat")
        assert "Delete this chat?" in await answered(ours, "Delete it")
        await ours.notice("chat/deleted")
        await ours.ask("chat/queryContext", {"query": ""})
        names = [each for each, _ in since(ours, begun)]
        assert names[names.index("chat/deleted") :] == ["chat/deleted", "answer"]
        assert (await ours.ask("chat/list"))["chats"] == []
        # The id is free, and the new chat knows nothing.
        assert (await ours.turn("three", model=ECHO)).text == "threethree"
    async with editor() as ours:
        await ours.turn("say one", model=SCRIPT)
        assert "Send `/delete-chat yes` to delete" in (await ours.turn("/delete-chat")).text
        assert (await ours.turn("/delete-chat yes")).finishes == 1
        assert ours.connection.chats.get("c") is None


@pytest.mark.requirement("W-27")
async def test_what_fills_the_context_is_sent_with_the_usage_and_shown_by_a_command():
    script = [reply("a", finish("stop"), usage(4_990, 10))] * 2
    models = {"models": {"m": {"limit": {"context": 10_000, "output": 50}}}}
    async with Provider(script) as provider:
        config = provider_config(provider.url, provider=models, autoCompactPercentage=60)
        async with current(config) as ours:
            usage_content = (await ours.turn("hi"))[-2]
            answer = (await ours.turn("/context")).text
        async with editor(config) as ours:
            assert "contextBreakdown" not in (await ours.turn("hi"))[-2]
    assert usage_content["autoCompactPercentage"] == 60
    breakdown = usage_content["contextBreakdown"]
    sizes = [breakdown[each] for each in ("usedTokens", "freeTokens", "contextLimit")]
    assert sizes == [5_000, 5_000, 10_000]
    tokens = {each["name"]: each["tokens"] for each in breakdown["categories"]}
    assert sum(tokens.values()) == 5_000
    assert tokens["Tools"] > tokens["Instructions"] > tokens["Messages"] > 0
    assert "about 5,000 of 10,000 tokens used (50 %)" in answer
    assert f"Tools: {tokens['Tools']:,}\n" in answer
    assert "at 60 %" in answer


async def resumed(ours: Editor, command: str, chat: str) -> list[str]:
    """Resume a chat in another one; return the texts and the title that are shown after it."""
    assert "Added 2 messages to this chat. Send" in (await ours.turn(command, chat)).text
    begun = len(ours.received)
    await ours.content("metadata", chat)
    assert "chat/cleared" in str(ours.received[begun])
    return [
        each.get("text", each.get("title"))
        for _, each in contents(ours.received[begun:], chat)
        if each["type"] != "usage"
    ]


async def test_a_chat_is_forked_by_a_command_and_resumed_by_its_id(tmp_path, monkeypatch):
    async with current(data=tmp_path) as ours:
        assert "nothing to fork" in (await ours.turn("/fork")).text
        await ours.turn("say one", model=SCRIPT)
        await ours.ask("chat/update", {"chatId": "c", "title": "Mine"})
        assert "This chat was forked to Mine (2)." in (await ours.turn("/fork")).text
        opened = ours.notified("chat/opened")[-1]
        assert opened["title"] == "Mine (2)"
        shown = [
            each.get("text", each.get("title"))
            for each in ours.contents(opened["chatId"])
            if each["type"] != "usage"
        ]
        assert shown == ["say one", "one", "Mine (2)"]
        assert await resumed(ours, f"/resume {opened['chatId']}", "d") == shown
        monkeypatch.setattr(chats, "MAX_RESUMABLE", 1)
        assert "Mine\n" not in (await ours.turn("/resume", "e")).text
        assert await resumed(ours, "/resume c", "e") == ["say one", "one", "Mine"]
        assert "forked to Mine (3)." in (await ours.turn("/fork")).text
        assert "Expected a number from 1 to " in (await ours.turn("/resume e", "e")).text
        unknown = await ours.turn(f"/resume {'9' * 5000}", "d")
        assert "Expected a number from 1 to " in unknown.text
    async with current(data=tmp_path) as ours:
        assert "forked to Mine (4)." in (await ours.turn("/fork")).text
    async with editor() as ours:
        await ours.turn("say one", model=SCRIPT)
        assert "cannot show chats" in (await ours.turn("/fork")).text


async def test_a_compacted_chat_is_resumed_behind_the_messages_of_this_one(tmp_path):
    script = [reply("old"), reply("the summary"), reply("new")]
    async with today(*script, data=tmp_path) as (ours, provider):
        await ours.turn("the old prompt", "a")
        await ours.turn("/compact", "a")
        await ours.turn("the new prompt")
        assert "Added 1 message to" in (await ours.turn("/resume a")).text
        await ours.turn("continue")
        sent = str(provider.requests[-1].body["messages"])
        words = ("the new prompt", "the summary", "continue", "the old prompt")
        assert [each in sent for each in words] == [True, True, True, False]
        page = await ours.ask("chat/history", {"chatId": "c"})
        shown = [each["content"]["text"] for each in page["contents"]]
        summary = "(Summary of an earlier chat)\n\nthe summary"
        assert shown == ["the new prompt", "new", summary, "continue", "the end"]


@pytest.mark.parametrize("as_reference", [True, False])
async def test_a_chat_names_the_templates_that_are_not_rendered(tmp_path, as_reference):
    rules = tmp_path / ".eca" / "rules"
    write(rules / "plain.md", "Write {{name}} in curly brackets.")
    template = "${env:WHO}" if as_reference else "{% if isSubagent %}Hi.{% endif %}"
    write(rules / "template.md", template)
    prompt = "You work in {{ workspaceRoots }}."
    note = "Templates are not rendered here, the model reads them as text: "
    async with current({"agent": {"mine": {"systemPrompt": prompt}}}, folder=tmp_path) as ours:
        received = await ours.turn("say a", model=SCRIPT, agent="mine")
        assert f"{note}{rules / 'template.md'}, the prompt of the agent mine." in received.text
        (rules / "template.md").unlink()
        received = await ours.turn("say a", "other", model=SCRIPT)
        assert note not in received.text


async def test_a_rule_for_a_model_reaches_no_other_model(tmp_path):
    rule = tmp_path / ".eca" / "rules" / "script.md"
    write(rule, "---\nmodel: ^simulator/script$\n---\nBe terse.")
    async with current({}, folder=tmp_path) as ours:
        for message, model, is_sent in (("say a", SCRIPT, True), ("a", "simulator/echo", False)):
            await ours.turn(message, model=model)
            text = ours.connection.chats.open("c").systems["agent"].text
            assert ("Be terse." in text) is is_sent
            assert ("script.md" in (await ours.turn("/rules", model=model)).text) is is_sent


async def test_rules_and_subagents_are_listed_and_changed_rules_count_when_asked(tmp_path):
    rules = tmp_path / ".eca" / "rules"
    write(rules / "python.md", '---\npaths: "**/*.py"\n---\nBe typed.')
    write(rules / "plans.md", "---\nagent: plan\n---\nBe bold.")
    agents = {
        "finder": {"mode": "subagent", "description": "Finds.", "maxSteps": 5,
                   "spawnableBy": "code"},
        "mine": {"mode": "primary", "description": "Not one."},
    }  # fmt: skip
    async with current({"agent": agents}, folder=tmp_path) as ours:
        await ours.turn("say a", model=SCRIPT)
        listing = (await ours.turn("/rules")).text
        assert f"{rules / 'python.md'} (source: workspace; files: **/*.py)\n" in listing
        assert "plans.md" not in listing
        listed = (await ours.turn("/subagents")).text
        assert "finder - Finds. - steps: 5 - called by: code\n" in listed
        assert "explorer - Searches and reads code" in listed
        assert "mine" not in listed
        (rules / "python.md").write_text("Be terse.")
        systems = ours.connection.chats.open("c").systems
        await ours.turn("say b", model=SCRIPT)
        assert "Be typed." in systems["agent"].text
        await ours.turn("/sync-system-prompt")
        await ours.turn("say c", model=SCRIPT)
        assert "Be terse." in systems["agent"].text
    async with current({"agent": {"explorer": None, "general": None}}) as ours:
        assert "There are no rules." in (await ours.turn("/rules")).text
        assert "There are no subagents." in (await ours.turn("/subagents")).text

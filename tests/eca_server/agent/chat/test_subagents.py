"""Agents that work for another one: shown, answered, stopped with it, and never freer than it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio.testing

from eca_protocol import json
from eca_server.agent.chat import subagents
from eca_server.connection.features.composition import MOST_SUBAGENTS
from eca_server.models.history import Message
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import hook
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Content, Editor, call, writes

NONE_OF_OURS = {"explorer": None, "general": None}
SCOUT: dict[str, Any] = {"scout": {"mode": "subagent", "description": "Looks around."}}


def spawn(task: str, **more: str) -> str:
    """A line of a script: the call that has a scout play another one."""
    return call("spawn_agent", **{"agent": "scout", "task": task, **more})


def makes(path: Path) -> str:
    return writes(**{str(path): "x"})


def of_children(ours: Editor) -> list[Mapping[str, Any]]:
    """Return the params of the contents of subagents' chats."""
    return [each for each in ours.notified("chat/contentReceived") if "parentChatId" in each]


def spawned(received: list[Content]) -> Content:
    """Return the end of the call that started a subagent."""
    [called] = [each for each in received if each.get("name") == "spawn_agent"][-1:]
    assert called["type"] == "toolCalled"
    return called


def scouting(folder: Path | None = None, **config: Any) -> AbstractAsyncContextManager[Editor]:
    return current({"agent": SCOUT, **config}, folder=folder)


async def waiting(ours: Editor, folder: Path) -> Mapping[str, Any]:
    """Begin a task that writes a file; the params of its call, which waits for the user."""
    await ours.prompt(spawn(f"{makes(folder / 'new')}\nsay written"), model=SCRIPT)
    return await ours.pending()


async def approve(ours: Editor, pending: Mapping[str, Any], chat: str | None = None) -> None:
    await ours.approve(pending["content"], chatId=chat or pending["chatId"])


async def half_done(ours: Editor, more: str = "") -> str:
    """Begin a task that has said `half` and hangs; the id of its chat."""
    await ours.prompt(spawn("say half\nwait forever") + more, model=SCRIPT)
    shown = await ours.until(lambda each: "'text': 'half'" in str(each))
    return str(shown["params"]["chatId"])


async def test_a_task_is_done_in_a_chat_of_its_own_and_its_last_message_is_the_result(monkeypatch):
    lengths: list[int] = []

    def counted(messages: Sequence[Message]) -> tuple[Message, ...]:
        lengths.append(len(messages))
        return reduced(messages)

    reduced = subagents.reduced
    monkeypatch.setattr(subagents, "reduced", counted)
    task = "say first\ncall eca_directory_tree {}\nsay found it\nusage 5 7"
    script = f"{spawn(task, activity='looks')}\nsay done\nusage 1 2"
    async with scouting() as ours:
        received = await ours.turn(script, model=SCRIPT)
        called = spawned(received)
        assert (called["error"], called["outputs"][0]["text"]) == (False, "found it")
        assert called["summary"] == "scout: looks"
        chat_id = f"subagent-{called['id']}"
        assert called["details"] == {
            "type": "subagent",
            "subagentChatId": chat_id,
            "agentName": "scout",
            "model": SCRIPT,
            "step": 2,
        }
        messages = of_children(ours)
        assert {(each["chatId"], each["parentChatId"]) for each in messages} == {(chat_id, "c")}
        contents = [each["content"] for each in messages]
        assert [each["type"] for each in contents].count("toolCalled") == 1
        assert contents[-1]["state"] == "finished"
        usages = [each for each in received if each["type"] == "usage"]
        assert usages[-1]["sessionTokens"] == 1 + 2
        others = [each for each in ours.received if each.get("method") != "chat/contentReceived"]
        assert chat_id not in str(others)
        assert lengths == [4]


@pytest.mark.requirement("W-30b", "W-34")
@pytest.mark.parametrize(
    ("client", "shown_in", "answered_in"),
    [("VsCode", "subagent-", None), ("VsCode", "subagent-", "c"), ("Neovim", "c", "c")],
)
async def test_the_user_is_asked_what_a_subagent_may_not_do(
    client, shown_in, answered_in, tmp_path
):
    async with current({"agent": SCOUT}, folder=tmp_path, clientInfo={"name": client}) as ours:
        pending = await waiting(ours, tmp_path)
        assert pending["chatId"].startswith(shown_in)
        assert not (tmp_path / "new").exists()
        call_id, arguments = pending["content"]["id"], pending["content"]["arguments"]
        prepared = [c for c in ours.contents(pending["chatId"]) if c.get("id") == call_id][:-1]
        assert json.loads("".join(c["argumentsText"] for c in prepared)) == arguments
        if client == "VsCode":
            await ours.content("progress", text="Waiting for tool call approval")
        begun = len(ours.contents())
        await approve(ours, pending, answered_in)
        await ours.expect_finished()
        assert (tmp_path / "new").read_text() == "x"
        assert spawned(ours.contents())["outputs"][0]["text"] == "written"
        assert bool(of_children(ours)) == (client == "VsCode")
        if client == "VsCode":
            states = [
                each["text"] for each in ours.contents()[begun:] if each["type"] == "progress"
            ]
            assert states[0] == "Waiting subagent"


WRITES = {"toolCall": {"approval": {"byDefault": "allow", "allow": {"eca_write_file": {}}}}}
DENIES = {"disabledTools": ["eca_write_file"]}
HOOK = {"h": hook("preToolCall", "exit 2", matcher="eca__write_file")}


@pytest.mark.requirement("W-31a")
@pytest.mark.parametrize(
    ("config", "behavior"),
    [
        ({"agent": {"scout": {**SCOUT["scout"], **WRITES}}}, "plan"),
        ({"agent": {"scout": {**SCOUT["scout"], **WRITES}, "agent": DENIES}}, "agent"),
        ({"agent": {"scout": {**SCOUT["scout"], **DENIES}}, **WRITES}, "agent"),
        ({"agent": {"scout": {**SCOUT["scout"], **WRITES}}, "hooks": HOOK}, "agent"),
    ],
    ids=["the plan only reads", "its agent may not", "it may not itself", "a hook is against it"],
)
async def test_a_subagent_does_nothing_that_its_agent_may_not(config, behavior, tmp_path):
    task = f"{makes(tmp_path / 'new')}\nsay I go on"
    async with current(config, folder=tmp_path) as ours:
        received = await ours.turn(spawn(task), model=SCRIPT, agent=behavior)
        called = spawned(received)
        assert called["outputs"][0]["text"] == "I go on"
        ends = [each["content"]["type"] for each in of_children(ours)]
        assert "toolCallRejected" in ends
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("ends", ["chat/promptStop", "chat/delete", "shutdown"])
async def test_subagents_end_with_their_parent_and_only_so_many_work_at_once(ends, tmp_path):
    many = MOST_SUBAGENTS + 1
    task = call("shell_command", command=f"echo $$ >> {tmp_path}/pids; sleep 600")
    async with scouting(tmp_path, **WRITES) as ours:
        await ours.prompt("\n".join([spawn(task)] * many), model=SCRIPT)
        for _ in range(MOST_SUBAGENTS):
            await ours.until(
                lambda each: "toolCallRunning" in str(each) and "parentChatId" in str(each)
            )
        (chat,) = ours.connection.chats
        children = tuple(chat.turn.subagents)
        assert len(children) == MOST_SUBAGENTS
        if ends == "chat/promptStop":
            await ours.expect_stopped()
            messages = ours.notified("chat/contentReceived")
            kinds = [(each["chatId"], each["content"]["type"]) for each in messages]
            before = messages[: kinds.index(("c", "toolCalled"))]
            ended = [each["content"].get("state") for each in before]
            assert ended.count("finished") == MOST_SUBAGENTS
        else:
            await ours.ask(ends, {"chatId": "c"} if ends == "chat/delete" else None)
        begun = len(ours.received)
        await chat.close()
        for child in children:
            await child.ended.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not [each for each in ours.received[begun:] if "params" in each]
        assert ours.connection.parts.subagents.value == MOST_SUBAGENTS


@pytest.mark.parametrize("ends", ["stop", "delete"])
async def test_a_subagent_whose_own_chat_is_stopped_or_deleted_ends_alone(ends):
    async with scouting() as ours:
        chat_id = await half_done(ours, "\nsay on")
        if ends == "stop":
            await ours.stop(chat_id)
        else:
            await ours.ask("chat/delete", {"chatId": chat_id})
        shown = len(ours.contents(chat_id))
        await ours.expect_finishes(1)
        called = spawned(ours.contents())
        assert called["error"] is True
        assert called["outputs"][0]["text"] == "half\n\nThe user stopped this agent."
        assert ours.contents().text.endswith("on")
        assert ends == "stop" or len(ours.contents(chat_id)) == shown


@pytest.mark.parametrize(
    ("settings", "arguments", "result"),
    [
        ({"maxSteps": 1}, {}, "This agent failed: This turn took 1 step and was ended.\n"),
        ({}, {"model": "p/none"}, "p/none cannot be used"),
        ({"defaultModel": "script"}, {}, "seen"),
        ({"defaultModel": "none"}, {}, "simulator/none cannot be used"),
        ({}, {"agent": "Nobody"}, "Unknown agent 'Nobody'. Available agents: scout."),
        ({"spawnableBy": "plan"}, {}, "There is no tool 'eca_spawn_agent'"),
        ({"spawnableBy": ["plan", "code"]}, {"agent": " Scout"}, "seen"),
        ({"mode": "primary"}, {}, "There is no tool"),
        ({"mode": []}, {}, "seen"),
    ],
)
async def test_what_the_agent_is_sent_of_a_task(settings, arguments, result):
    config = {"agent": {"scout": {**SCOUT["scout"], **settings}, **NONE_OF_OURS}}
    line = spawn("call eca_directory_tree {}\nsay seen", **arguments)
    async with current(config) as ours:
        received = await ours.turn(line, model=SCRIPT)
        (called,) = (each for each in received if each["type"] == "toolCalled")
        assert result in f"{called['outputs'][0]['text']}\n"
        assert called["error"] is (result != "seen")


@pytest.mark.parametrize(
    ("listed", "is_offered"), [(["sc.*"], True), (["scout"], True), (["other"], False), ([], False)]
)
async def test_an_agent_has_the_subagents_that_it_lists(listed, is_offered):
    config = {"agent": {**SCOUT, "code": {"subagents": listed}}}
    async with current(config) as ours:
        received = await ours.turn(spawn("say seen"), model=SCRIPT)
        assert ("There is no tool" not in str(received)) is is_offered
        assert bool(of_children(ours)) is is_offered


async def test_the_built_in_explorer_only_reads_and_general_writes(tmp_path):
    tasks = [
        spawn(f"{makes(tmp_path / agent)}\nsay over", agent=agent)
        for agent in ("explorer", "general")
    ]
    async with current(WRITES, folder=tmp_path) as ours:
        await ours.turn("\n".join(tasks), model=SCRIPT)
        ends = [each["content"] for each in of_children(ours)]
        [rejected] = [each for each in ends if each["type"] == "toolCallRejected"]
        assert rejected["summary"] == "write_file (the agent plan only reads)"
    assert [each.name for each in tmp_path.iterdir()] == ["general"]


async def test_each_step_is_shown_in_the_call_as_it_happens():
    task = "call eca_directory_tree {}\nsay a\ncall eca_directory_tree {}\nsay done"
    async with scouting() as ours:
        received = await ours.turn(spawn(task), model=SCRIPT)
        running = [each for each in received if each["type"] == "toolCallRunning"]
        assert [each["details"]["step"] for each in running] == [0, 1, 2]
        assert spawned(received)["details"]["step"] == 3
        contents = [each["content"] for each in ours.notified("chat/contentReceived")]
        looks = [each["type"] for each in contents if each["type"].startswith("tool")]
        # A step is shown before the call that it brings is: its approval stays in sight.
        second = looks.index("toolCallRunning", looks.index("toolCallRunning") + 1)
        assert looks[second + 1] == "toolCallRun"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("chat/update", {"trust": False}),
        ("chat/selectedModelChanged", {"model": SCRIPT}),
        ("chat/selectedAgentChanged", {"agent": "plan"}),
        ("chat/prompt", {"message": "say hi", "model": SCRIPT}),
        ("chat/clear", {"messages": True}),
        ("chat/rollback", {"contentId": "of the task"}),
        ("chat/open", {}),
        ("chat/fork", {"contentId": "of the task"}),
    ],
)
@pytest.mark.parametrize("stops", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_requests_for_a_subagent_s_chat_disturb_no_call(method, params, stops, tmp_path):
    async with scouting(tmp_path) as ours:
        pending = await waiting(ours, tmp_path)
        known = {"chatId": pending["chatId"]}
        begun = ours.contents(pending["chatId"])
        echo = next(each for each in begun if "contentId" in each)
        if "contentId" in params:
            params = {"contentId": echo["contentId"]}
        if "Changed" in method:
            await ours.tell(method, {**known, **params})
        else:
            sent = ours.request(method, {**known, **params})
            await ours.send(sent)
            await ours.until(lambda each: each.get("id") == sent["id"])
        if stops:
            await ours.stop(pending["chatId"])
        else:
            await approve(ours, pending)
        await ours.expect_finished()
        assert (tmp_path / "new").exists() != stops
        called = spawned(ours.contents())
        assert called["error"] == stops
        theirs = ours.contents(pending["chatId"])
        assert sum(each.get("state") == "finished" for each in theirs) == 1
        assert [each for each in theirs if "contentId" in each] == [echo]
        text = theirs.text
        assert ("takes no prompts" in text and "say hi" in text) == (method == "chat/prompt")


@pytest.mark.parametrize("whose", ["its own", "its parent's"])
async def test_a_prompt_right_behind_the_stop_of_a_subagent_has_its_finished(whose):
    async with scouting() as ours:
        chat_id = await half_done(ours)
        begun = len(ours.contents(chat_id))
        stopped = chat_id if whose == "its own" else "c"
        await ours.send(
            notification("chat/promptStop", {"chatId": stopped}),
            ours.prompt_request("say hi", chat_id, model=SCRIPT),
        )
        dropped = "\n\nStopped. Prompts that were dropped:\n\nsay hi"
        finishes, expected = (1, dropped) if whose == "its own" else (2, "say hihi")
        await ours.expect_finished(chat_id, times=finishes)
        assert ours.contents(chat_id)[begun:].text == expected


async def test_trust_in_a_subagent_s_chat_is_trust_in_that_agent_alone(tmp_path):
    first, second, own = [makes(tmp_path / name) for name in "abc"]
    task = f"{first}\nsay and\n{second}"
    async with scouting(tmp_path) as ours:
        await ours.prompt(f"{spawn(task)}\nsay on\n{own}", model=SCRIPT)
        pending = await ours.pending()
        await ours.ask("chat/update", {"chatId": pending["chatId"], "trust": True})
        await approve(ours, pending)
        await ours.content("toolCallRun", name="write_file", manualApproval=True)
        assert (tmp_path / "b").exists()
        await ours.expect_stopped()

"""Hooks in a chat: what they add, rewrite, tighten, block and end, and how the user sees it."""

import json
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import reply, wait
from eca_server.agent.chat.turn import Steer
from eca_server.agent.hooks.hooks import HookResults, Hooks
from eca_server.models.history import TextPart, ToolCallPart
from tests.eca_server.agent.chat.agent_session import (
    ALLOW,
    calls,
    conversation,
    hook,
    hooked,
    older,
    results,
    today,
)
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Content, Editor, call, editor
from tests.eca_server.agent.chat.test_steering import steer
from tests.eca_server.agent.context.conftest import write as write_file

ENDS = ("toolCalled", "toolCallRejected")


def says(**members: Any) -> str:
    return f"echo '{json.dumps(members)}'"


NOT_BAD = hook("preRequest", "grep -q bad && { echo 'not so' >&2; exit 2; }; exit 0")


def write(path: Path, **more: Any) -> str:
    return call("write_file", path=str(path), content="x", **more) + "\nsay done"


def model_context(ours: Editor) -> str:
    """All texts the model was given in the chat."""
    parts = [part for each in ours.connection.chats.open("c").history for part in each.parts]
    inner = [each for part in parts for each in getattr(part, "parts", (part,))]
    return "\n".join(each.text for each in inner if isinstance(each, TextPart))


async def read(ours: Editor, path: Path | str) -> list[Content]:
    """A turn with one call that reads a file."""
    return await ours.turn(call("read_file", path=str(path)), model=SCRIPT)


def ended(received: list[Content]) -> list[tuple[str, int]]:
    """The hooks that ended, each with its status; each has started before."""
    begun = [each["id"] for each in received if each["type"] == "hookActionStarted"]
    over = [each for each in received if each["type"] == "hookActionFinished"]
    assert [each["id"] for each in over] == begun
    return [(each["name"], each["status"]) for each in over]


@pytest.mark.requirement("VALUE:ChatContent=ChatHookActionStartedContent")
async def test_what_hooks_add_and_rewrite_is_what_the_model_is_asked(tmp_path):
    config = hooked(
        begin=hook("chatStart", f"cat >> {tmp_path}/told; {says(additionalContext='the date')}"),
        every=hook("prePrompt", says(replacedPrompt="say rewritten", additionalContext="more")),
        quiet=hook("preRequest", f"cat > {tmp_path}/prompt", visible=False),
    )
    async with current(config, folder=tmp_path) as ours:
        received = await ours.turn("say original", model=SCRIPT)
        assert received.text.endswith("rewritten")
        assert ended(received) == [("begin", 0), ("every", 0)]
        assert '<eca_hook name="begin">\nthe date\n</eca_hook>' in model_context(ours)
        listed = (await ours.turn("/hooks")).text
        assert "chatStart: begin - actions: 1\npreRequest: every - actions: 1\n" in listed
        await ours.turn("say again", model=SCRIPT)
        assert model_context(ours).count("the date") == 1
    (begun,) = (tmp_path / "told").read_text().split("\n")
    assert json.loads(begun) == {
        "hook_name": "begin", "hook_type": "chatStart", "workspaces": [str(tmp_path)],
        "cwd": str(tmp_path), "chat_id": "c", "agent": "code", "behavior": "code",
        "full_model": SCRIPT, "resumed": False,
    }  # fmt: skip
    assert json.loads((tmp_path / "prompt").read_text())["prompt"] == "say rewritten"


async def test_a_prompt_that_is_blocked_or_ended_is_not_in_the_history(tmp_path):
    config = hooked(
        begin=hook("chatStart", says(additionalContext="the date"), visible=False),
        a=NOT_BAD,
        b=hook("preRequest", f"grep -q worse && {says(**{'continue': False, 'stopReason': 'no'})}"),
    )
    async with current(config, folder=tmp_path) as ours:
        received = await ours.turn("say bad", model=SCRIPT)
        assert "Request blocked by hook 'a': not so" in received.text
        assert "Turn stopped by hook 'b': no" in (await ours.turn("say worse", model=SCRIPT)).text
        assert not ours.connection.chats.open("c").history
        received = await ours.turn("say fine", model=SCRIPT)
        assert received.text.endswith("fine")
        assert ended(received) == [("a", 0), ("b", 1)]
        assert [each["error"] for each in received if each.get("error")] == ["exit code 1"]
        assert "the date" in model_context(ours)
        await ours.ask("chat/clear", {"chatId": "c", "messages": True})
        await ours.turn("say anew", model=SCRIPT)
        assert "the date" in model_context(ours)


async def test_what_a_hook_has_replaced_is_in_no_request(tmp_path):
    write_file(tmp_path / ".eca" / "commands" / "look.md", "Look at $1")
    config = hooked(h=hook("preRequest", says(replacedPrompt="public")))
    for prompt in ("the planted word", "/look planted"):
        config["chat"] = {"title": True}
        async with today(folder=tmp_path, **config) as (ours, provider):
            await ours.turn(prompt)
            await ours.title()
        requests = [*provider.requests, *provider.title_requests]
        assert [each.body["messages"][-1]["content"] for each in requests] == ["public"] * 2
        assert "planted" not in str([each.body for each in requests])


async def test_a_message_to_a_running_turn_is_read_as_a_prompt(monkeypatch):
    async def fire(hooks: Hooks, event: Any, payload: Any, *more: Any) -> HookResults:
        more_said = {"a secret": "as bad", "as bad": "too bad"}.get(payload.get("prompt"))
        if more_said is not None:  # while hooks hear the one before
            turn = ours.connection.chats.open("c").turn
            turn.steers.append(Steer(text=more_said))
        return await real_fire(hooks, event, payload, *more)

    real_fire = Hooks.fire
    monkeypatch.setattr(Hooks, "fire", fire)
    config = hooked(
        a=NOT_BAD,
        b=hook("preRequest", f"grep -q secret && {says(replacedPrompt='public')}; exit 0"),
    )
    script = [reply("one", wait("now")), reply("two"), reply("three", wait("again"))]
    async with today(*script, **config) as (ours, provider):
        await ours.prompt("go")
        await provider.until(lambda: "now" in provider.reached)
        await steer(ours, "a bad idea", "a secret")
        provider.open("now")
        await ours.expect_finished()
        assert [words for _, words in conversation(provider)] == ["go", "one", "public"]
        for words in ("a bad idea", "as bad", "too bad"):
            assert f"Blocked by hook 'a': not so\n\n{words}" in ours.contents().text
        await ours.prompt("go on")
        await provider.until(lambda: "again" in provider.reached)
        await steer(ours, "bad alone")
        provider.open("again")
        await ours.expect_finished()
        assert len(provider.requests) == 3


async def test_a_message_that_replaces_another_during_a_command_is_read_too():
    script = [reply("one", wait("now")), reply("summary", wait("again")), reply("two")]
    async with today(*script, **hooked(a=NOT_BAD)) as (ours, provider):
        await ours.prompt("go")
        await provider.until(lambda: "now" in provider.reached)
        await steer(ours, "/compact", "taken back")
        provider.open("now")
        await provider.until(lambda: "again" in provider.reached)
        await ours.tell("chat/promptSteerRemove", {"chatId": "c"})
        await steer(ours, "bad instead")
        await ours.ask("chat/queryContext", {"query": ""})
        provider.open("again")
        await ours.expect_finished()
        assert "Blocked by hook 'a': not so\n\nbad instead" in ours.contents().text
        sent = str([each.body for each in provider.requests])
        assert ["taken back" in sent, "bad instead" in sent] == [False, False]


@pytest.mark.requirement("W-30a")
@pytest.mark.parametrize("event", ["preToolCall", "postToolCall"])
async def test_a_hook_that_ends_the_turn_lets_no_other_call_begin(tmp_path, event):
    def written(name: str) -> tuple[str, dict[str, str]]:
        return "eca_write_file", {"path": str(tmp_path / name), "content": name}

    asks = ("eca_shell_command", {"command": f"touch {tmp_path}/asked"})
    first, second = written("first"), written("second")
    made = {
        "preToolCall": calls(asks, first, second, first),
        "postToolCall": calls(first, asks, second, first),
    }
    config = hooked(h=hook(event, says(**{"continue": False}), matcher="eca__write_file"))
    config["toolCall"] = {"approval": {"ask": {"shell_command": {}}, "byDefault": "allow"}}
    async with today(made[event], folder=tmp_path, **config) as (ours, _):
        received = await ours.turn("go")
    ends = [each["type"] for each in received if each["type"] in ENDS]
    assert len(ends) == 4
    assert ends.count("toolCalled") == (event == "postToolCall")
    reasons = {each["reason"] for each in received if each["type"] == "toolCallRejected"}
    assert "user-choice" not in reasons
    assert received.text.count("Turn stopped by hook 'h'.") == 1
    expected = ["first"] if event == "postToolCall" else []
    assert [each.name for each in tmp_path.iterdir()] == expected


@pytest.mark.requirement("VALUE:ChatToolCallRejectedContent.reason=hookRejected")
@pytest.mark.parametrize(
    ("shell", "model_hears"),
    [
        ("echo 'hands off' >&2; exit 2", "hands off"),
        (says(approval="deny", additionalContext="use edit_file"), "use edit_file"),
        (says(approval="deny"), "Denied by the hook h"),
    ],
)
async def test_a_hook_rejects_a_call_and_the_turn_continues(tmp_path, shell, model_hears):
    config = hooked(h=hook("preToolCall", shell, matcher="eca__write_.*"))
    config["toolCall"] = {"approval": {"byDefault": "allow"}}
    async with current(config, folder=tmp_path) as ours:
        received = await ours.turn(write(tmp_path / "new"), model=SCRIPT)
        (rejected,) = (each for each in received if each["type"] == "toolCallRejected")
        assert rejected["reason"] == "hookRejected"
        assert model_hears in model_context(ours)
        assert received.text.endswith("done")
        assert not (tmp_path / "new").exists()


@pytest.mark.requirement("W-33")
async def test_a_hook_never_loosens_what_is_decided(tmp_path):
    def of(name: str) -> dict[str, Any]:
        return {"eca__read_file": {"argsMatchers": {"path": [f".*/{name}"]}}}

    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    config = hooked(
        allow=hook("preToolCall", says(approval="allow"), matcher={"grep": {}, "write_file": {}}),
        move=hook("preToolCall", says(updatedInput={"path": str(outside)}), matcher=of("moved")),
        ask=hook("preToolCall", says(approval="ask"), matcher=of("a")),
    )
    config["toolCall"] = {"approval": {"allow": {"read_file": {}}, "deny": {"grep": {}}}}
    (inside / "a").write_text("text")
    async with current(config, folder=inside) as ours:
        reads = [f'call eca_read_file {{"path": "{inside}/{name}"}}' for name in ("moved", "a")]
        for prompt in (write(inside / "asks"), *reads):
            await ours.prompt(prompt, model=SCRIPT)
            run = await ours.content("toolCallRun")
            assert run["manualApproval"] is True, prompt
            await ours.expect_stopped()
        received = await ours.turn('call eca_grep {"pattern": "x"}', model=SCRIPT)
        assert "toolCallRejected" in received.types
        assert not (inside / "asks").exists()


@pytest.mark.requirement("FIELD:ChatHookActionFinishedContent.toolCallId")
async def test_a_hook_rewrites_arguments_and_outputs(tmp_path):
    (tmp_path / "a").write_text("secret")
    (tmp_path / "b").write_text("public")
    config = hooked(
        pre=hook("preToolCall", says(updatedInput={"path": "b"})),
        post=hook("postToolCall", "grep -q secret && exit 2; exit 0"),
        post2=hook("postToolCall", says(additionalContext="look twice"), visible=False),
    )
    async with current(config, folder=tmp_path) as ours:
        received = await read(ours, "a")
        (called,) = (each for each in received if each["type"] == "toolCalled")
        assert called["arguments"] == {"path": "b"}
        added = '<eca_hook name="post2">\nlook twice\n</eca_hook>'
        assert [each["text"] for each in called["outputs"]] == ["public", added]
        over = [each for each in received if each["type"] == "hookActionFinished"]
        assert {each.get("toolCallId") for each in over} == {called["id"]}
        answer = ours.connection.chats.open("c").history[1]
        (call,) = (part for part in answer.parts if isinstance(part, ToolCallPart))
        assert (call.arguments, json.loads(call.raw)) == ({"path": "b"}, {"path": "b"})
        (tmp_path / "b").write_text("secret")
        received = await read(ours, "a")
        called = next(each for each in received if each["type"] == "toolCalled")
        assert called["outputs"][0]["text"] == "[Tool output hidden by hook]"


async def test_a_follow_up_asks_the_model_once_more_and_has_an_end(tmp_path):
    once = f"grep -q '\"follow_up_active\":false' && {says(followUp='say more')}; exit 0"
    async with current(hooked(h=hook("postRequest", once)), folder=tmp_path) as ours:
        received = await ours.turn("say first", model=SCRIPT)
        assert received.text.endswith("firstsay moremore")
    always = hooked(h=hook("postRequest", "echo on >&2; exit 2", visible=False))
    async with current(always, folder=tmp_path) as ours:
        received = await ours.turn("first", model=ECHO)
        assert "Hooks continued this turn 10 times" in received.text


async def test_of_what_a_hook_writes_little_is_shown_and_all_is_heard(tmp_path):
    rewrites = json.dumps({"replacedPrompt": "say " + "x" * 30_000})
    (tmp_path / "said").write_text(rewrites)
    shells = f"cat {tmp_path}/said {tmp_path}/said >&2; cat {tmp_path}/said"
    async with current(hooked(h=hook("preRequest", shells)), folder=tmp_path) as ours:
        received = await ours.turn("say no", model=SCRIPT)
        (shown,) = (each for each in received if each["type"] == "hookActionFinished")
        for name in ("output", "error"):
            assert "bytes left out" in shown[name]
            assert len(shown[name]) < 4_200
        assert received.text.endswith("x" * 30_000)


async def test_an_older_client_is_notified_of_failures_in_text_and_hooks_hold_no_keys(tmp_path):
    config = hooked(h=hook("preRequest", f"env > {tmp_path}/env; exit 9"))
    async with editor(config, folder=tmp_path, OPENAI_API_KEY="sk-planted-0123456789") as ours:
        received = await ours.turn("say fine", model=SCRIPT)
        assert "The hook h failed: exit code 9" in received.text
        assert received.text.endswith("fine")
        assert "hookActionStarted" not in received.types
    assert "sk-planted" not in (tmp_path / "env").read_text()


async def test_children_know_that_an_agent_runs_them_and_for_which_chat(tmp_path):
    say = "echo $ECA_AGENT-$ECA_CHAT_ID"
    custom = {"mine": {"command": say, "description": "d", "schema": {"properties": {}}}}
    run = calls(("eca_shell_command", {"command": say}), ("eca_mine", {}))
    hooks = {
        "h": hook("preRequest", f"{say} > {tmp_path}/of_chat"),
        "s": hook("sessionStart", f"{say} > {tmp_path}/of_session"),
    }
    async with older(run, folder=tmp_path, hooks=hooks, customTools=custom, **ALLOW) as (
        ours,
        provider,
    ):
        await ours.turn("go")
        assert ["1-c" in each for each in results(provider)] == [True, True]
    assert (tmp_path / "of_chat").read_text() == "1-c\n"
    assert (tmp_path / "of_session").read_text() == "1-\n"

"""An ACP agent answers the chat of an editor: a scripted agent in a process of its own."""

import os
import sys
from typing import Any

import attrs
import pytest
import trio

from eca_protocol import json
from eca_server.agent.acp import agents, calls, requests, terminals
from eca_server.agent.tools.approval import Decision
from eca_server.agent.tools.permissions import Permissions
from tests.eca_server.agent.acp.chatting import (
    DONE,
    MODEL,
    as_json,
    ask,
    begin,
    chatting,
    decide,
    editor_with,
    of_type,
    since,
    tool,
    turn,
)
from tests.eca_server.agent.chat.agent_session import hook, hooked
from tests.eca_server.agent.chat.editor import Content, Editor, contents, editor, finishes, text
from tests.eca_server.processes import assert_gone
from tests.promises import within


def announced(ours: Editor) -> list[Any]:
    """Return the announced state of the chats, each time."""
    return [each["chat"] for each in ours.notified("config/updated")]


async def test_what_the_agent_says_and_does_is_shown_and_its_model_is_listed(tmp_path):
    config = {"toolCall": {"outputTruncation": {"sizeKb": 1}}}
    async with chatting(tmp_path, config=config) as (ours, log):
        assert MODEL in announced(ours)[0]["models"]
        assert log.of("initialize") == []
        got = await turn(ours, "think deep\nsay one \nsay two")
        assert text(got) == "one two"
        assert [c["text"] for c in of_type(got, "reasonText")] == ["deep"]
        assert finishes(got) == 1
        running = tool(title="ls", status="in_progress")
        done = tool(update=True, status="completed", texts=["a.txt"])
        got = await turn(ours, f"{running}\nsay x\n{done}\nsay y")
        (called,) = of_type(got, "toolCalled")
        assert (called["name"], called["error"]) == ("execute", False)
        assert called["outputs"] == [{"type": "text", "text": "a.txt"}]
        assert text(got) == "xy"
        (called,) = of_type(
            await turn(ours, tool(status="completed", texts=["x" * 5000])), "toolCalled"
        )
        (output,) = called["outputs"]
        assert len(output["text"]) < 2000
        assert "left out" in output["text"]
        assert len(log.of("new")) == 1
        assert log.of("prompt")[1] == [[f"{running}\nsay x\n{done}\nsay y"]]
        assert text(await turn(ours, "picture \xe9\nsay x")) == "[an unreadable picture]x"


async def test_each_message_of_the_agent_is_a_paragraph(tmp_path):
    async with chatting(tmp_path) as (ours, _):
        got = await turn(ours, "message a on\nmessage a ly\nmessage b one\nsay , end")
        assert text(got) == "only\n\none, end"
        got = await turn(ours, "message a one\nthink hm\nmessage b two\nmessage c three")
        assert text(got) == "onetwo\n\nthree"
        got = await turn(ours, f"message a one\n{tool(status='completed')}\nmessage b two")
        assert text(got) == "onetwo"


async def test_its_environment_has_none_of_our_keys_and_no_agent_starts_another(tmp_path):
    config = {"providers": {"mine": {"url": "http://localhost:1", "keyEnv": "MINE"}}}
    environ = {"ANTHROPIC_API_KEY": "sk-1", "MINE": "m", "OURS": "o"}
    async with chatting(tmp_path, config=config, environ=environ) as (ours, log):
        await turn(ours, "say x")
        [[has_terminal, environment]] = log.of("initialize")
        assert has_terminal
        assert (environment["OURS"], environment["ECA_ACP_AGENT"]) == ("o", "1")
        assert not environment.keys() & {"ANTHROPIC_API_KEY", "MINE", "ECA_CONFIG"}
    async with chatting(tmp_path, environ={"ECA_ACP_AGENT": "1"}) as (ours, _):
        assert MODEL not in announced(ours)[0]["models"]


@pytest.mark.parametrize("accept", [True, False])
async def test_a_call_with_a_diff_asks_the_user(tmp_path, accept):
    diffs = [[str(tmp_path / "work" / "a.txt"), "old\n", "new\n"]]
    call = ask(title="Edit a.txt", input={"x": 1}, diffs=diffs)
    done = tool(update=True, status="completed" if accept else "failed")
    async with chatting(tmp_path) as (ours, log):
        got = await turn(ours, f"say before\n{call}\n{done}\nsay  after", accept)
        (run,) = of_type(got, "toolCallRun")
        assert run["arguments"] == {"x": 1}
        assert (run["server"], run["summary"]) == (MODEL, "Edit a.txt")
        assert (run["details"]["linesAdded"], run["details"]["linesRemoved"]) == (1, 1)
        assert run["details"]["diff"].splitlines()[1:] == ["-old", "+new"]
        assert ("[allow_once]" if accept else "[reject_once]") in text(got)
        order = [c["type"] for c in got if c["type"].startswith("toolCall")]
        ending = ["toolCallRunning", "toolCalled"] if accept else ["toolCallRejected"]
        assert order == ["toolCallPrepare", "toolCallRun", *ending]
        await turn(ours, "say again")
        assert log.of("prompt")[-1] == [["say again"]]


async def test_calls_that_do_not_ask_keep_the_order_of_their_contents(tmp_path):
    begun = tool(kind="edit", status="in_progress", input={"path": "x"})
    diff = tool(update=True, diffs=[["/w/a.py", "old", "new"]])
    late = tool(id="b"), tool(id="b", update=True, status="in_progress", input={"command": "ls"})
    async with chatting(tmp_path) as (ours, _):
        script = "\n".join(["plan one=pending", begun, diff, DONE, *late])
        got = [c for c in await turn(ours, script) if c["type"].startswith("toolCall")]
        of_t = [each for each in got if each["id"].endswith("t") or each["name"] == "edit"]
        kinds = ["toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled"]
        assert [each["type"] for each in of_t] == kinds  # W-30: one of each
        assert of_t[-1]["details"]["path"] == "/w/a.py"
        written: dict[str, str] = {}
        for each in of_type(got, "toolCallPrepare"):
            written[each["id"]] = written.get(each["id"], "") + each["argumentsText"]
        arguments = {each["id"]: each["arguments"] for each in of_type(got, "toolCallRun")}
        assert {key: json.loads(each.encode()) for key, each in written.items()} == arguments
        assert len(arguments) == 3


async def test_a_mode_that_comes_after_a_delete_is_not_announced(tmp_path):
    async with chatting(tmp_path, late_mode="plan") as (ours, log):
        await begin(ours, "say x\nwait")
        await ours.content("text", text="x")
        await ours.ask("chat/delete", {"chatId": "c"})
        begun = len(ours.received)
        await log.wait_for("late mode")
        await ours.turn("say y", "d", model=MODEL)
        assert not [m for m in ours.received[begun:] if m.get("params", {}).get("chatId") == "c"]


async def test_plans_usage_title_and_modes(tmp_path):
    async with chatting(tmp_path, config={"chat": {"title": True}}) as (ours, log):
        got = await turn(ours, "plan one=completed two=in_progress\nusage 100 0.5\ntitle Robots")
        tasks = of_type(got, "toolCalled")[0]["details"]["tasks"]
        shown = [(task["subject"], task["status"]) for task in tasks]
        assert shown == [("one", "done"), ("two", "in-progress")]
        usage = of_type(got, "usage")[-1]
        assert (usage["sessionTokens"], usage["limit"]) == (100, {"context": 1000})
        assert usage["sessionCost"] == "0.50"
        assert await ours.title() == "Robots"
        last = of_type(await turn(ours, "usage 150 0.75"), "usage")[-1]
        assert (last["lastMessageCost"], last["sessionCost"]) == ("0.25", "0.75")
        assert last["sessionTokens"] == 150  # of its context, not the sum of the turns (W-27)
        assert [c["variants"] for c in announced(ours) if "variants" in c][-1] == ["ask", "plan"]
        for script in ("say x", "say x", "mode ask"):
            await turn(ours, script, variant="plan")
        assert announced(ours)[-1]["selectVariant"] == "ask"
        assert log.of("mode") == [["plan"]]


@pytest.mark.parametrize("count", [-1, -(2**63) - 1, 2**63])
async def test_an_impossible_count_of_tokens_is_unknown_and_the_turn_is_stored(tmp_path, count):
    async with chatting(tmp_path, is_stored=True) as (ours, _):
        got = await turn(ours, f"say x\nusage {count} 0.5 {count}")
        usage = of_type(got, "usage")[-1]
        assert (usage["sessionTokens"], usage["sessionCost"]) == (0, "0.50")
        assert "limit" not in usage
    async with chatting(tmp_path, is_stored=True) as (ours, _):
        assert text([each for role, each in await ours.reopen() if role != "user"]) == "x"


async def test_a_selected_agent_is_started_for_its_modes_and_the_first_prompt_has_one(tmp_path):
    async with chatting(tmp_path) as (ours, log):
        await ours.tell("chat/selectedModelChanged", {"model": MODEL})
        await ours.until(
            lambda m: m.get("params", {}).get("chat", {}).get("variants") == ["ask", "plan"]
        )
        await turn(ours, "say x", variant="plan")
        assert log.of("mode") == [["plan"]]
        assert len(log.of("new")) == 1


async def test_files_are_served_inside_the_workspace_and_ask_outside(tmp_path):
    work, secret = tmp_path / "work", tmp_path / "secret"
    secret.write_text("key")
    async with chatting(tmp_path) as (ours, _):
        inside = work / "a.txt"
        inside.write_bytes("a\x0cb\u2028c\r\nsecond\nthird\n".encode())
        assert text(await turn(ours, f"read {inside} 2 1")) == "[second\n]"
        (work / "link").symlink_to(secret)
        for path in (secret, work / "link", work / ".." / "secret"):
            got = await turn(ours, f"read {path}", False)
            assert of_type(got, "toolCallRun")[0]["server"] == "eca"
            assert "key" not in text(got)
            assert "[failed: The user rejected" in text(got)
        await turn(ours, f"write {inside} bye", True)
        assert inside.read_text() == "bye"
        assert text(await turn(ours, f"read {inside}")) == "[bye]"
        assert text(await turn(ours, f"read {work / 'none'}")) == "[]"
        assert text(await turn(ours, f"read {work / 'none'} 2 1")) == "[]"
        for path in (work, inside / "none"):
            assert "[failed: " in text(await turn(ours, f"read {path}"))
        reading = tool(kind="read", status="in_progress", locations=[str(work / "none")])
        assert "[failed: No such file" in text(await turn(ours, f"{reading}\nread {work / 'none'}"))
        work.rename(tmp_path / "moved")
        assert "[failed: The workspace folder" in text(await turn(ours, f"read {inside}"))


async def test_an_approval_covers_a_write_of_the_approved_edit_and_no_other(tmp_path):
    file, other = tmp_path / "work" / "a.txt", tmp_path / "work" / "b.txt"
    edit = ask(diffs=[[str(file), None, "new"]])
    read = ask("u", kind="read", locations=[str(file)])
    late = tool(id="u", kind="edit", update=True, diffs=[[str(file), None, "new"]])
    async with chatting(tmp_path) as (ours, _):
        await turn(ours, f"{edit}\nwrite {file} new\nwrite {other} new\n{DONE}", True, False)
        assert file.read_text() == "new"
        assert not other.exists()
        file.write_text("old")
        got = await turn(ours, f"{read}\n{late}\nread {file}\nwrite {file} new", True, False)
        assert [each["name"] for each in of_type(got, "toolCallRun")][::2] == ["read"]
        assert "[old]" in text(got)
        assert file.read_text() == "old"


async def test_an_approval_covers_no_file_that_the_question_does_not_name(tmp_path):
    work = tmp_path / "work"
    by_diff, by_title, by_input, hidden = (work / name for name in ("a.py", "b.py", "c.py", "d.py"))
    edit = ask(
        title="Edit a.py, b.py, d.pyc, d.py~, d.py@2, +d.py and d.py...",
        diffs=[[str(by_diff), None, "new"]],
        input={"paths": [{"more": str(by_input)}]},
        locations=[str(each) for each in (by_diff, by_title, by_input, hidden)],
    )
    writes = "".join(f"write {each} new\n" for each in (by_diff, by_title, by_input, hidden))
    async with chatting(tmp_path) as (ours, _):
        got = await turn(ours, f"{edit}\n{writes}{DONE}", True, False)
        assert [each["name"] for each in of_type(got, "toolCallRun")] == ["edit", "write_file"]
    assert [each.exists() for each in (by_diff, by_title, by_input, hidden)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("title", "value", "is_covered"),
    [
        ("Fix test", "x", False),
        ("Fix the test: a test.", "test it", False),
        ("Fix `test`", "x", True),
        ("Fix 'test\"", "x", False),
        ("test", "x", True),
        ("Fix it", "test", True),
    ],
)
async def test_a_file_whose_name_is_a_word_of_the_title_is_not_shown(
    tmp_path, title, value, is_covered
):
    file = tmp_path / "work" / "test"
    edit = ask(title=title, input={"x": value}, locations=[str(file)])
    async with chatting(tmp_path) as (ours, _):
        decisions = [True] if is_covered else [True, False]
        got = await turn(ours, f"{edit}\nwrite {file} new\n{DONE}", *decisions)
        names = [each["name"] for each in of_type(got, "toolCallRun")]
    assert (names == ["edit"], file.exists()) == (is_covered, is_covered)


async def test_an_approval_covers_what_the_question_showed_whatever_updates_came(
    tmp_path, monkeypatch
):
    decide_on, is_updated = Permissions.decide, trio.Event()
    judged, approved, hidden = (tmp_path / "work" / name for name in ("judged", "go", "d.py"))

    async def updated_meanwhile(self: Permissions, *arguments: Any, **options: Any) -> Decision:
        if not judged.exists():
            judged.touch()
            await is_updated.wait()
        return await decide_on(self, *arguments, **options)

    monkeypatch.setattr(Permissions, "decide", updated_meanwhile)
    edit = ask(title="Edit a.py", input={"x": "a.py"}, locations=[str(hidden)])
    update = tool(update=True, title="Edit d.py", input={"x": "d.py"}, kind="read")
    script = [edit.replace("ask", "leave", 1), f"until {judged}", update, "say updated"]
    async with chatting(tmp_path) as (ours, _):
        await begin(ours, "\n".join([*script, f"until {approved}", f"write {hidden} new", DONE]))
        await ours.content("text", text="updated")
        is_updated.set()
        assert (await decide(ours, accept=True))["summary"] == "Edit a.py"
        approved.touch()
        assert (await decide(ours, accept=False))["name"] == "write_file"
        await ours.expect_finished()


async def test_a_call_whose_input_a_hook_changes_is_refused(tmp_path):
    changed = as_json({"updatedInput": {"command": "echo safe"}})
    call = ask(kind="execute", input={"command": "rm a"})
    async with chatting(
        tmp_path, config=hooked(guard=hook("preToolCall", f"echo '{changed}'"))
    ) as (ours, _):
        got = await turn(ours, call, trust=True)
        (called,) = of_type(got, "toolCalled")
        assert (called["error"], "a hook changed" in called["outputs"][0]["text"]) == (True, True)
        assert "[reject_once]" in text(got)


async def test_a_call_that_asks_twice_at_once_is_decided_twice(tmp_path):
    async with chatting(tmp_path) as (ours, _):
        decided = tmp_path / "decided"
        leave = ask().replace("ask", "leave", 1)
        await begin(ours, f"{leave}\n{leave}\nuntil {decided}\nsay done")
        calls = [await decide(ours, accept=True) for _ in range(2)]
        while len(of_type(ours.contents(), "toolCallRunning")) < 2:
            await ours.until(lambda _: True)
        decided.touch()
        await ours.expect_finished()
        called = of_type(ours.contents(), "toolCalled")
        assert {each["id"] for each in called} == {each["id"] for each in calls}


async def test_a_terminal_runs_under_the_policy(tmp_path):
    work, below = tmp_path / "work", tmp_path / "work" / "below"
    async with chatting(tmp_path) as (ours, _):
        assert "[out 3 False]" in text(await turn(ours, "run echo out; exit 3", True))
        loop = 'run_with TO=a(b for each in 1 2; do echo "$each$TO"; done'
        assert "[1a(b\n2a(b 0 False]" in text(await turn(ours, loop, True))
        assert "[failed: " in text(await turn(ours, "run touch made", False))
        assert not (work / "made").exists()
        below.mkdir()
        call = ask(kind="execute", input={"command": "pwd"})
        got = await turn(ours, f"{call}\nrun pwd\nrun_in {below} pwd\n{DONE}", True, False)
        second = of_type(got, "toolCallRun")[-1]
        assert second["arguments"]["working_directory"] == str(below)
        assert f"[{work} 0 False]" in text(got)


async def test_a_trusted_chat_needs_no_answer_but_for_denials_and_released_terminals_make_room(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(terminals, "MOST_TERMINALS", 2)
    config: Any = {"toolCall": {"approval": {"deny": {f"{MODEL}__delete": {}}}}}
    script = f"{ask(kind='delete')}\n{ask('u', kind='execute', input={'command': 'make'})}"
    async with chatting(tmp_path, config=config) as (ours, _):
        assert text(await turn(ours, script, trust=True)) == "[reject_once][allow_once]"
        got = text(await turn(ours, "run echo 1\nrun echo 2\nrun echo 3", trust=True))
        assert [f"[{number} 0 False]" in got for number in (1, 2, 3)] == [True, True, True]
        refused = text(await turn(ours, "keep sleep 60\nkeep sleep 60\nrun echo 3", trust=True))
        assert "2 terminals are in use: release one of them." in refused
        assert "[3 0 False]" not in refused


async def test_a_flood_waits_for_a_client_that_does_not_read(tmp_path):
    async with chatting(tmp_path) as (ours, log):
        begun = len(ours.received)
        await begin(ours, "flood 3000")
        await log.wait_for("flood")
        before = -1
        while (now := len(log.of("flood"))) > before:
            before = now
            await trio.sleep(0.3)
        assert now < 3000 / 50
        await ours.expect_finished()
        assert len(text(since(ours, begun))) == 3_000_000


async def test_too_many_requests_at_once_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(requests, "MOST_REQUESTS", 1)
    async with chatting(tmp_path) as (ours, _):
        shown = tmp_path / "shown"
        await begin(ours, f"{ask().replace('ask', 'leave', 1)}\nuntil {shown}\nread b.txt")
        await ours.content("toolCallRun", manualApproval=True)
        shown.touch()
        await ours.content("text", text="[failed: 1 requests are being served]")


async def test_a_call_that_still_asks_when_the_agent_ends_is_rejected(tmp_path):
    async with chatting(tmp_path) as (ours, _):
        begun, shown = len(ours.received), tmp_path / "shown"
        await begin(ours, f"{ask().replace('ask', 'leave', 1)}\nuntil {shown}\nsay done")
        await ours.content("toolCallRun", manualApproval=True)
        shown.touch()
        await ours.expect_finished()
        got = since(ours, begun)
        assert [c["type"] for c in got if "toolCall" in c["type"]][-1] == "toolCallRejected"
        assert finishes(got) == 1
        assert text(await turn(ours, "say next")) == "next"


async def test_diffs_that_would_hold_up_all_chats_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "_MOST_COMPARED", 20)
    diffs = [["/w/a", "old\n", "new\n"], ["/w/b", "old\n" * 2, "new\n" * 3]]
    call = tool(title="Edit", kind="edit", input={"x": 1}, status="completed", diffs=diffs)
    async with chatting(tmp_path) as (ours, _):
        details = of_type(await turn(ours, call), "toolCalled")[0]["details"]
    assert details["diff"].split("\n") == [
        *("@@ -1 +1 @@", "-old", "+new", "--- /w/b", "+++ /w/b"),
        "... cut, 20 bytes left out ... (too large to be compared)",
    ]
    assert (details["linesAdded"], details["linesRemoved"]) == (4, 3)


@pytest.mark.parametrize("offers", ["resume", "load", "nothing"])
async def test_a_chat_looks_as_it_looked_after_a_restart_and_continues(tmp_path, offers):
    options: dict[str, Any] = {"is_stored": True, offers: True}
    diffs = [[str(tmp_path / "work" / "a.txt"), "old\n", "new\n"]]
    call = tool(title="Edit", kind="edit", input={"x": 1}, status="completed", diffs=diffs)
    async with chatting(tmp_path, **options) as (ours, log):
        before = await turn(ours, f"think hm\nsay one\n{call}\nplan a=completed\nsay remembered")
    async with chatting(tmp_path, **options) as (ours, log):
        begun = len(ours.received)
        await ours.ask("chat/open", {"chatId": "c"})
        after = since(ours, begun)
        for kind in ("reasonText", "toolCalled"):
            assert of_type(after, kind) == of_type(before, kind)
        assert text(after) == text(before)
        assert text(await turn(ours, "say more")) == "more"
        loaded, (texts,) = log.of("load"), log.of("prompt")[-1]
        if offers == "nothing":
            assert loaded == []
            assert "remembered" in texts[0]
            assert texts[1] == "say more"
        else:
            assert len(loaded) == len(log.of("new")) == 1
            assert texts == ["say more"]


async def test_a_session_that_does_not_load_is_replaced(tmp_path, monkeypatch):
    async with chatting(tmp_path, is_stored=True, load=True) as (ours, log):
        await turn(ours, "say remembered")
    async with chatting(tmp_path, is_stored=True, load=True, slow="load") as (ours, log):
        with monkeypatch.context() as patched:
            patched.setattr(agents, "_SESSION_SECONDS", 0.2)
            await begin(ours, "say more")
            await log.wait_for("load")
        await ours.expect_finished()
        assert text(ours.contents()).endswith("more")
        assert "remembered" in log.of("prompt")[-1][0][0]


async def test_answers_of_a_different_model_and_a_rollback_are_sent_as_text(tmp_path):
    async with chatting(tmp_path) as (ours, log):
        await turn(ours, "say first")
        await ours.turn("say by the simulator", model="simulator/script")
        await turn(ours, "say last")
        (texts,) = log.of("prompt")[-1]
        assert "by the simulator" in texts[0]
        assert "first" not in texts[0]
        assert len(log.of("new")) == 1
        echoes = [c for role, c in contents(ours.received) if role == "user"]
        params = {"chatId": "c", "contentId": echoes[2]["contentId"], "include": ["messages"]}
        await ours.ask("chat/rollback", params)
        await turn(ours, "say third")
        (texts,) = log.of("prompt")[-1]
        assert "first" in texts[0]
        assert "last" not in texts[0]
        assert len(log.of("new")) == 2


async def test_a_failure_is_shown_without_keys_and_the_next_prompt_works(tmp_path):
    key = f"sk-ant-api03-{'x' * 40}"
    async with chatting(tmp_path) as (ours, _):
        for script, reason in (("fail no luck", "no luck"), ("die gone for good", "gone for good")):
            got = await turn(ours, f"say before\n{script} {key}")
            shown = text(got)
            assert reason in shown
            assert key not in shown
            assert finishes(got) == 1
            assert text(await turn(ours, "say fine")).endswith("fine")


async def test_an_agent_that_cannot_be_used_says_why(tmp_path):
    async with chatting(tmp_path, login=True) as (ours, _):
        assert "Own login (run `" in text(await turn(ours, "say x"))
    token = "planted-behind-an-option"
    async with editor_with(("no-such-agent", "--token", token), tmp_path) as ours:
        shown = text(await turn(ours, "say x"))
        assert "no-such-agent --token ***" in shown
        assert token not in shown
    script = "print('Gone. Use the new agent.')"
    async with editor_with((sys.executable, "-c", script), tmp_path) as ours:
        shown = text(await turn(ours, "say x"))
        assert shown.endswith("ended with exit code 0; its last output:\nGone. Use the new agent.")
    async with editor({"providers": {"robot": {"api": "acp"}}}) as ours:
        assert "no model of this name" in text(await ours.turn("x", model=MODEL))
        expected = "providers.robot.command: expected the command"
        assert any(expected in each for each in ours.notices)


async def test_an_untrusted_workspace_cannot_add_an_agent(tmp_path):
    mark = tmp_path / "started"
    evil = {"evil": {"api": "acp", "command": ["touch", str(mark)]}}
    settings = tmp_path / "work" / ".eca" / "config.json"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(json.dumps({"providers": evil}))
    async with editor(folder=tmp_path / "work") as ours:
        got = await ours.turn("hello", model="acp/evil")
        assert "there is no model of this name" in text(got)
        assert finishes(got) == 1
        assert not mark.exists()
        listed = text(await ours.turn("/trust"))
        assert f"lets the ACP agent evil answer, which runs: touch {mark}" in listed


async def stopped(ours: Editor, *, seconds: float) -> list[Content]:
    """Stop the turn; its contents from the stop to `finished`."""
    begun = len(ours.received)
    with within(seconds):
        await ours.expect_stopped()
    return since(ours, begun)


RUNNING = tool(status="in_progress", input={})


@pytest.mark.parametrize(
    ("script", "before", "ends"),
    [
        ("say x\nwait", {"kind": "text", "text": "x"}, []),
        ("think x\nwait", {"kind": "reasonText"}, ["reasonFinished"]),
        (f"{ask()}\nsay never", {"kind": "toolCallRun"}, ["toolCallRejected"]),
        (f"{RUNNING}\nwait", {"kind": "toolCallRunning"}, ["toolCalled"]),
        ("write FOLDER/a.txt x", {"kind": "toolCallRun"}, ["toolCallRejected"]),
    ],
    ids=["text", "thought", "permission", "call", "file"],
)
async def test_a_stop_is_sent_at_once_and_the_session_continues(tmp_path, script, before, ends):
    async with chatting(tmp_path) as (ours, log):
        await begin(ours, script.replace("FOLDER", str(tmp_path / "work")))
        await ours.content(**before)
        got = await stopped(ours, seconds=0.5)
        kinds = [c["type"] for c in got if c["type"] not in {"progress", "text"}]
        assert kinds == ends
        await log.wait_for("cancel")
        if script.startswith("ask"):
            assert await log.wait_for("permission") == [["cancelled"]]
        assert text(await turn(ours, "say next")) == "next"
        assert len(log.of("new")) == 1
        assert "late" not in text(ours.contents())
        assert not (tmp_path / "work" / "a.txt").exists()


async def test_a_stop_while_a_permission_is_decided_cancels_it(tmp_path, monkeypatch, caplog):
    decide_on = Permissions.decide

    async def stopped_meanwhile(self: Permissions, *arguments: Any, server: str) -> Decision:
        decision = await decide_on(self, *arguments, server=server)
        stops.pop()()
        return decision

    monkeypatch.setattr(Permissions, "decide", stopped_meanwhile)
    async with chatting(tmp_path) as (ours, log):
        stops = [lambda: ours.connection.chats.get("c").stop()]
        await begin(ours, ask())
        await ours.expect_finished()
        assert await log.wait_for("permission") == [["cancelled"]]
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


async def test_an_agent_with_one_session_answers_one_chat_at_a_time(tmp_path):
    async with chatting(tmp_path, only="s") as (ours, _):
        await begin(ours, "say one\nwait")
        await ours.content("text", text="one")
        assert "answers one chat at a time" in text(await ours.turn("say two", "d", model=MODEL))
        await stopped(ours, seconds=0.5)
        assert "two" not in text(ours.contents())
        assert text(await ours.turn("say two", "d", model=MODEL)).endswith("two")
        assert text(await turn(ours, "say three")) == "three"


@pytest.mark.parametrize("state", ["process", "session"])
async def test_a_stop_before_the_session_ends_the_turn(tmp_path, state):
    async with chatting(tmp_path, slow=state) as (ours, log):
        await begin(ours, "say x")
        await log.wait_for("start" if state == "process" else "new")
        await stopped(ours, seconds=0.5)
        assert log.of("prompt") == []


async def test_a_stop_ends_a_running_terminal(tmp_path):
    pid_file = tmp_path / "work" / "pid"
    async with chatting(tmp_path) as (ours, log):
        await begin(ours, f"run echo $$ > {pid_file}; sleep 1000")
        await decide(ours, accept=True)
        await log.wait_for("terminal")
        with trio.fail_after(10):
            while not (pid_file.exists() and pid_file.read_text().strip()):
                await trio.sleep(0.01)
        await stopped(ours, seconds=1.0)
        await log.wait_for("cancel")
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)
        assert text(await turn(ours, "say next")) == "next"


@pytest.mark.parametrize("state", ["prompt", "process"])
async def test_the_agent_ends_with_the_connection(tmp_path, state):
    async with chatting(tmp_path, slow=state) as (ours, log):
        await begin(ours, "say x\nwait")
        if state == "prompt":
            await ours.content("text", text="x")
        [[pid]] = await log.wait_for("start")
        await log.wait_for("initialize")
        await ours.ask("shutdown")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_steer_follows_in_the_same_turn(tmp_path):
    async with chatting(tmp_path) as (ours, log):
        await begin(ours, ask())
        call = await ours.content("toolCallRun", manualApproval=True)
        await ours.tell("chat/promptSteer", {"chatId": "c", "message": "say steered"})
        await ours.approve(call)
        await ours.expect_finished()
        assert "steered" in text(ours.contents())
        assert log.of("prompt")[1] == [["say steered"]]


async def test_the_oldest_idle_sessions_are_closed_and_loaded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(agents, "MOST_SESSIONS", 2)
    async with chatting(tmp_path, resume=True) as (ours, log):
        for chat in ("a", "b", "d"):
            await ours.turn("say x", chat, model=MODEL)
        ((closed,),) = await log.wait_for("close")
        await ours.turn("say more", "a", model=MODEL)
        assert log.of("load") == [[closed]]


async def test_an_agent_answers_as_a_subagent(tmp_path):
    scout = {"mode": "subagent", "description": "Looks around.", "defaultModel": MODEL}
    config = {"agent": {"scout": scout}, "toolCall": {"approval": {"byDefault": "allow"}}}
    async with chatting(tmp_path, config=config) as (ours, _):
        task = as_json({"agent": "scout", "task": "say found it"})
        got = await ours.turn(f"call eca_spawn_agent {task}", model="simulator/script")
        (called,) = of_type(got, "toolCalled")
        assert called["outputs"] == [{"type": "text", "text": "found it"}]


def configure(ours: Editor, providers: Any) -> None:
    """Put different providers in force."""
    settings = ours.connection.parts.settings
    config = attrs.evolve(settings.config, providers=providers)
    settings.put_in_force(attrs.evolve(settings.loaded, config=config))


async def test_a_changed_or_removed_agent_ends_after_its_running_turns(tmp_path):
    async with chatting(tmp_path, only="s") as (ours, log):
        robot = ours.connection.parts.settings.config.providers["robot"]
        await ours.send(ours.prompt_request(f"say one\n{ask()}", "a", model=MODEL))
        call = await ours.content("toolCallRun", "a", manualApproval=True)
        configure(ours, {"robot": attrs.evolve(robot, command=(*robot.command, "more"))})
        assert text(await turn(ours, "say two")).endswith("two")
        await ours.approve(call, chatId="a")
        await ours.expect_finished("a")
        assert text([each for _, each in contents(ours.received, "a")]).endswith("[allow_once]")
        [first], [second] = log.of("start")
        await trio.to_thread.run_sync(assert_gone, {first})
        configure(ours, {})
        await trio.to_thread.run_sync(assert_gone, {second})

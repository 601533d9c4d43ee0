"""An ACP agent answers the chat of an editor: a scripted agent in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol import json
from eca_protocol.server.roots import uri_of
from eca_server.agent.acp import agents, terminals
from tests.eca_server.agent.acp.chatting import MODEL, approve, chatting, of_type, since, turn
from tests.eca_server.agent.chat.editor import Content, Editor, contents, editor, finishes, text

pytestmark = pytest.mark.trio


async def test_text_and_thoughts_come_as_they_are_and_the_model_is_listed(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        offered = next(m for m in ours.seen if m.get("method") == "config/updated")
        assert MODEL in offered["params"]["chat"]["models"]
        assert log.of("initialize") == []
        got = await turn(ours, "think deep\nsay one \nsay two")
        assert text(got) == "one two"
        assert [c["text"] for c in of_type(got, "reasonText")] == ["deep"]
        assert finishes(got) == 1
        await turn(ours, "say three")
        assert len(log.of("new")) == 1
        assert [texts for (texts,) in log.of("prompt")][1] == ["say three"]


async def test_its_environment_has_none_of_our_keys(tmp_path: Path) -> None:
    config = {"providers": {"mine": {"url": "http://localhost:1", "keyEnv": "MINE"}}}
    async with chatting(
        tmp_path, config=config, environ={"ANTHROPIC_API_KEY": "sk-1", "MINE": "m", "OURS": "o"}
    ) as (ours, log):
        await turn(ours, "say x")
        [[has_terminal, environ]] = log.of("initialize")
        assert has_terminal
        assert environ["OURS"] == "o"
        assert environ["ECA_ACP_AGENT"] == "1"
        assert not environ.keys() & {"ANTHROPIC_API_KEY", "MINE", "ECA_CONFIG"}


async def test_a_server_that_is_an_agent_itself_has_none(tmp_path: Path) -> None:
    async with chatting(tmp_path, environ={"ECA_ACP_AGENT": "1"}) as (ours, _):
        offered = next(m for m in ours.seen if m.get("method") == "config/updated")
        assert MODEL not in offered["params"]["chat"]["models"]


@pytest.mark.parametrize("accept", [True, False])
async def test_a_call_with_a_diff_asks_the_user(tmp_path: Path, accept: bool) -> None:
    diffs = [[str(tmp_path / "work" / "a.txt"), "old\n", "new\n"]]
    call = {"id": "t", "title": "Edit a.txt", "kind": "edit", "input": {"x": 1}, "diffs": diffs}
    done = {"id": "t", "update": True, "status": "completed" if accept else "failed"}
    script = f"say before\nask {_json(call)}\ntool {_json(done)}\nsay  after"
    async with chatting(tmp_path) as (ours, log):
        begun = len(ours.seen)
        await ours.send(ours.prompt_request(script, model=MODEL))
        run = await approve(ours, accept=accept)
        assert run["arguments"] == {"x": 1}
        assert run["server"] == MODEL
        assert run["summary"] == "Edit a.txt"
        assert (run["details"]["linesAdded"], run["details"]["linesRemoved"]) == (1, 1)
        assert run["details"]["diff"].splitlines()[1:] == ["-old", "+new"]
        await ours.expect_finished()
        got = since(ours, begun)
        assert ("[allow_once]" if accept else "[reject_once]") in text(got)
        order = [c["type"] for c in got if c["type"].startswith("toolCall")]
        ending = ["toolCallRunning", "toolCalled"] if accept else ["toolCallRejected"]
        assert order == ["toolCallPrepare", "toolCallRun", *ending]
        await turn(ours, "say again")
        assert log.of("prompt")[-1] == [["say again"]]


def _json(value: Any) -> str:
    return json.dumps(value).decode()


async def test_calls_that_do_not_ask_are_shown_with_their_output(tmp_path: Path) -> None:
    running = {"id": "t", "title": "ls", "kind": "execute", "status": "in_progress"}
    done = {"id": "t", "update": True, "status": "completed", "texts": ["a.txt"]}
    async with chatting(tmp_path) as (ours, _):
        got = await turn(ours, f"tool {_json(running)}\nsay x\ntool {_json(done)}\nsay y")
        (called,) = of_type(got, "toolCalled")
        assert (called["name"], called["outputs"]) == (
            "execute",
            [{"type": "text", "text": "a.txt"}],
        )
        assert not called["error"]
        assert text(got) == "xy"


async def test_a_diff_of_a_running_call_comes_with_its_end(tmp_path: Path) -> None:
    begun = {"id": "t", "kind": "edit", "status": "in_progress"}
    diff = {"id": "t", "update": True, "diffs": [["/w/a.py", "old", "new"]]}
    done = {"id": "t", "update": True, "status": "completed"}
    script = "\n".join(f"tool {_json(each)}" for each in (begun, diff, done))
    async with chatting(tmp_path) as (ours, _):
        got = [c for c in await turn(ours, script) if c["type"].startswith("toolCall")]
        kinds = ["toolCallPrepare", "toolCallRun", "toolCallRunning", "toolCalled"]
        assert [each["type"] for each in got] == kinds  # W-30: one of each
        assert got[-1]["details"]["path"] == "/w/a.py"


async def test_the_text_of_arguments_joins_to_the_arguments(tmp_path: Path) -> None:
    begun = {"id": "a", "kind": "edit", "status": "in_progress", "input": {"path": "x"}}
    late = {"id": "b", "kind": "execute"}
    ready = {"id": "b", "update": True, "status": "in_progress", "input": {"command": "ls"}}
    script = "\n".join(["plan one=pending", *(f"tool {_json(e)}" for e in (begun, late, ready))])
    async with chatting(tmp_path) as (ours, _):
        got = await turn(ours, script)
        written: dict[str, str] = {}
        for each in of_type(got, "toolCallPrepare"):
            written[each["id"]] = written.get(each["id"], "") + each["argumentsText"]
        arguments = {each["id"]: each["arguments"] for each in of_type(got, "toolCallRun")}
        assert {key: json.loads(each.encode()) for key, each in written.items()} == arguments
        assert len(arguments) == 3


async def test_plans_usage_title_and_modes(tmp_path: Path) -> None:
    async with chatting(tmp_path, config={"chat": {"title": True}}) as (ours, log):
        got = await turn(ours, "plan one=completed two=in_progress\nusage 100 0.5\ntitle Robots")
        details = of_type(got, "toolCalled")[0]["details"]
        assert [(t["subject"], t["status"]) for t in details["tasks"]] == [
            ("one", "done"),
            ("two", "in-progress"),
        ]
        usage = of_type(got, "usage")[-1]
        assert (usage["sessionTokens"], usage["limit"]) == (100, {"context": 1000})
        assert usage["sessionCost"] == "0.50"
        assert await ours.title() == "Robots"
        last = of_type(await turn(ours, "usage 150 0.75"), "usage")[-1]
        assert (last["lastMessageCost"], last["sessionCost"]) == ("0.25", "0.75")
        announced = [m["params"]["chat"] for m in ours.seen if m.get("method") == "config/updated"]
        assert [c["variants"] for c in announced if "variants" in c][-1] == ["ask", "plan"]
        await turn(ours, "say x", variant="plan")
        await turn(ours, "say x", variant="plan")
        await turn(ours, "mode ask", variant="plan")
        chosen = [m["params"]["chat"] for m in ours.seen if m.get("method") == "config/updated"]
        assert chosen[-1]["selectVariant"] == "ask"
        assert log.of("mode") == [["plan"]]


async def test_a_mode_that_comes_after_a_delete_is_not_announced(tmp_path: Path) -> None:
    async with chatting(tmp_path, late_mode="plan") as (ours, log):
        await ours.send(ours.prompt_request("say x\nwait", model=MODEL))
        await ours.content("text", text="x")
        await ours.ask("chat/delete", {"chatId": "c"})
        begun = len(ours.seen)
        await log.wait_for("late mode")
        await ours.send(ours.prompt_request("say y", "d", model=MODEL))
        await ours.expect_finished("d")
        assert not [m for m in ours.seen[begun:] if m.get("params", {}).get("chatId") == "c"]


async def test_a_selected_agent_is_started_for_its_modes_and_the_first_prompt_has_one(
    tmp_path: Path,
) -> None:
    async with chatting(tmp_path) as (ours, log):
        await ours.tell("chat/selectedModelChanged", {"model": MODEL})
        await ours.until(
            lambda m: m.get("params", {}).get("chat", {}).get("variants") == ["ask", "plan"]
        )
        await turn(ours, "say x", variant="plan")
        assert log.of("mode") == [["plan"]]
        assert len(log.of("new")) == 1


async def test_files_are_served_inside_the_workspace_and_ask_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    async with chatting(tmp_path) as (ours, _):
        inside = tmp_path / "work" / "a.txt"
        inside.write_text("hello")
        (tmp_path / "work" / "link").symlink_to(tmp_path / "secret")
        assert text(await turn(ours, f"read {inside}")) == "[hello]"
        work = tmp_path / "work"
        for path in (tmp_path / "secret", work / "link", work / ".." / "secret"):
            begun = len(ours.seen)
            await ours.send(ours.prompt_request(f"read {path}", model=MODEL))
            call = await approve(ours, accept=False)
            assert call["server"] == "eca"
            await ours.expect_finished()
            assert "key" not in text(since(ours, begun))
            assert "[failed: The user rejected" in text(since(ours, begun))
        begun = len(ours.seen)
        await ours.send(ours.prompt_request(f"write {inside} bye", model=MODEL))
        await approve(ours)
        await ours.expect_finished()
        assert inside.read_text() == "bye"
        missing = text(await turn(ours, f"read {tmp_path / 'work' / 'none'}"))
        assert "[failed: " in missing


async def test_a_write_of_an_approved_edit_does_not_ask_again(tmp_path: Path) -> None:
    file, other = tmp_path / "work" / "a.txt", tmp_path / "work" / "b.txt"
    call = {"id": "t", "kind": "edit", "diffs": [[str(file), None, "new"]]}
    done = {"id": "t", "update": True, "status": "completed"}
    script = f"ask {_json(call)}\nwrite {file} new\nwrite {other} new\ntool {_json(done)}"
    async with chatting(tmp_path) as (ours, _):
        await ours.send(ours.prompt_request(script, model=MODEL))
        await approve(ours)
        await approve(ours, accept=False)
        await ours.expect_finished()
        assert file.read_text() == "new"
        assert not other.exists()


async def test_an_approved_read_does_not_cover_a_write(tmp_path: Path) -> None:
    file = tmp_path / "work" / "a.txt"
    call = {"id": "t", "kind": "read", "locations": [str(file)]}
    late = {"id": "t", "kind": "edit", "update": True, "diffs": [[str(file), None, "new"]]}
    script = f"ask {_json(call)}\ntool {_json(late)}\nread {file}\nwrite {file} new"
    async with chatting(tmp_path) as (ours, _):
        file.write_text("old")
        await ours.send(ours.prompt_request(script, model=MODEL))
        assert (await approve(ours))["name"] == "read"
        assert (await approve(ours, accept=False))["name"].endswith("write_file")
        await ours.expect_finished()
        assert "[old]" in text(ours.contents())
        assert file.read_text() == "old"


async def test_a_call_whose_input_a_hook_changes_is_refused(tmp_path: Path) -> None:
    changed = _json({"updatedInput": {"command": "echo safe"}})
    hook = {"type": "preToolCall", "actions": [{"type": "shell", "shell": f"echo '{changed}'"}]}
    call = {"id": "t", "kind": "execute", "input": {"command": "rm a"}}
    async with chatting(tmp_path, config={"hooks": {"guard": hook}}) as (ours, _):
        got = await turn(ours, f"ask {_json(call)}", trust=True)
        (called,) = of_type(got, "toolCalled")
        assert (called["error"], "a hook changed" in called["outputs"][0]["text"]) == (True, True)
        assert "[reject_once]" in text(got)


async def test_lines_are_counted_as_editors_count_them(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, _):
        file = tmp_path / "work" / "a.txt"
        file.write_bytes("a\x0cb\u2028c\r\nsecond\nthird\n".encode())
        assert text(await turn(ours, f"lines {file} 2 1")) == "[second\n]"


async def test_an_approved_command_runs_only_in_the_shown_directory(tmp_path: Path) -> None:
    below = tmp_path / "work" / "below"
    call = {"id": "t", "kind": "execute", "input": {"command": "pwd"}}
    done = {"id": "t", "update": True, "status": "completed"}
    script = f"ask {_json(call)}\nrun pwd\nrun_in {below} pwd\ntool {_json(done)}"
    async with chatting(tmp_path) as (ours, _):
        below.mkdir()
        begun = len(ours.seen)
        await ours.send(ours.prompt_request(script, model=MODEL))
        await approve(ours)
        second = await approve(ours, accept=False)
        assert second["arguments"]["working_directory"] == str(below)
        await ours.expect_finished()
        assert f"[{tmp_path / 'work'} 0 False]" in text(since(ours, begun))


async def test_released_terminals_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminals, "MOST_TERMINALS", 2)
    async with chatting(tmp_path) as (ours, _):
        got = text(await turn(ours, "run echo 1\nrun echo 2\nrun echo 3", trust=True))
        assert [f"[{number} 0 False]" in got for number in (1, 2, 3)] == [True, True, True]
        kept = text(await turn(ours, "keep sleep 60\nkeep sleep 60\nrun echo 3", trust=True))
        assert "2 terminals are in use: release one of them." in kept
        assert "[3 0 False]" not in kept


async def test_a_long_output_of_a_call_is_cut(tmp_path: Path) -> None:
    config = {"toolCall": {"outputTruncation": {"sizeKb": 1}}}
    done = {"id": "t", "kind": "execute", "status": "completed", "texts": ["x" * 5000]}
    async with chatting(tmp_path, config=config) as (ours, _):
        (called,) = of_type(await turn(ours, f"tool {_json(done)}"), "toolCalled")
        (output,) = called["outputs"]
        assert len(output["text"]) < 2000
        assert "left out" in output["text"]


async def test_a_flood_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        begun = len(ours.seen)
        await ours.send(ours.prompt_request("flood 3000", model=MODEL))
        await log.wait_for("flood")
        before = -1
        while (now := len(log.of("flood"))) > before:
            before = now
            await trio.sleep(0.3)
        assert now < 3000 / 50
        await ours.expect_finished()
        assert len(text(since(ours, begun))) == 3_000_000


async def test_a_call_that_asks_twice_at_once_is_decided_twice(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, _):
        decided = tmp_path / "decided"
        script = f"leave {ASK}\nleave {ASK}\nuntil {decided}\nsay done"
        await ours.send(ours.prompt_request(script, model=MODEL))
        first, second = await approve(ours), await approve(ours)
        while len(of_type(ours.contents(), "toolCallRunning")) < 2:
            await ours.until(lambda _: True)
        decided.touch()
        await ours.expect_finished()
        called = of_type(ours.contents(), "toolCalled")
        assert {each["id"] for each in called} == {first["id"], second["id"]}


async def test_an_unreadable_picture_is_named(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, _):
        assert text(await turn(ours, "picture \xe9\nsay x")) == "[an unreadable picture]x"


async def test_a_call_that_still_asks_when_the_agent_ends_is_rejected(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, _):
        begun, shown = len(ours.seen), tmp_path / "shown"
        script = f"leave {ASK}\nuntil {shown}\nsay done"
        await ours.send(ours.prompt_request(script, model=MODEL))
        await ours.content("toolCallRun", manualApproval=True)
        shown.touch()
        await ours.expect_finished()
        got = since(ours, begun)
        assert [c["type"] for c in got if "toolCall" in c["type"]][-1] == "toolCallRejected"
        assert finishes(got) == 1
        assert text(await turn(ours, "say next")) == "next"


async def test_a_terminal_runs_under_the_policy(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, _):
        begun = len(ours.seen)
        await ours.send(ours.prompt_request("run echo out; exit 3", model=MODEL))
        await approve(ours)
        await ours.expect_finished()
        assert "[out 3 False]" in text(since(ours, begun))
        begun = len(ours.seen)
        await ours.send(ours.prompt_request("run touch made", model=MODEL))
        await approve(ours, accept=False)
        await ours.expect_finished()
        assert not (tmp_path / "work" / "made").exists()
        assert "[failed: " in text(since(ours, begun))


async def test_a_configured_denial_and_a_trusted_chat_need_no_answer(tmp_path: Path) -> None:
    config: Any = {"toolCall": {"approval": {"deny": {f"{MODEL}__delete": {}}}}}
    denied = {"id": "t", "kind": "delete", "input": {}}
    asked = {"id": "u", "kind": "execute", "input": {"command": "make"}}
    async with chatting(tmp_path, config=config) as (ours, _):
        script = f"ask {_json(denied)}\nask {_json(asked)}"
        assert text(await turn(ours, script, trust=True)) == "[reject_once][allow_once]"


@pytest.mark.parametrize("kept", ["resume", "load", "nothing"])
async def test_a_chat_continues_after_a_restart(tmp_path: Path, kept: str) -> None:
    options: dict[str, Any] = {"data": tmp_path / "data", kept: True}
    async with chatting(tmp_path, **options) as (ours, log):
        await turn(ours, "say remembered")
    async with chatting(tmp_path, **options) as (ours, log):
        assert text(await turn(ours, "say more")) == "more"
        loaded, (texts,) = log.of("load"), log.of("prompt")[-1]
        if kept == "nothing":
            assert loaded == []
            assert "remembered" in texts[0]
            assert texts[1] == "say more"
        else:
            assert len(loaded) == len(log.of("new")) == 1
            assert texts == ["say more"]


async def test_answers_of_a_different_model_are_sent_as_text(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        await turn(ours, "say first")
        await ours.turn("say by the simulator", model="simulator/script")
        await turn(ours, "say last")
        (texts,) = log.of("prompt")[-1]
        assert "by the simulator" in texts[0]
        assert "first" not in texts[0]
        assert len(log.of("new")) == 1


@pytest.mark.parametrize(
    ("script", "reason"),
    [("fail no luck", "no luck"), ("die gone for good", "gone for good")],
)
async def test_a_failure_is_shown_and_the_next_prompt_works(
    tmp_path: Path, script: str, reason: str
) -> None:
    async with chatting(tmp_path) as (ours, _):
        got = await turn(ours, f"say before\n{script}")
        assert reason in text(got)
        assert finishes(got) == 1
        assert text(await turn(ours, "say fine")).endswith("fine")


async def test_an_agent_that_needs_a_login_or_does_not_start_says_how(tmp_path: Path) -> None:
    async with chatting(tmp_path, login=True) as (ours, _):
        assert "Own login (run `" in text(await turn(ours, "say x"))
    config = {"providers": {"robot": {"api": "acp", "command": ["no-such-agent"]}}}
    async with chatting(tmp_path, config=config) as (ours, _):
        assert "no-such-agent" in text(await turn(ours, "say x"))


async def test_an_untrusted_workspace_cannot_add_an_agent(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    evil = {"evil": {"api": "acp", "command": ["touch", str(mark)]}}
    settings = tmp_path / "work" / ".eca" / "config.json"
    settings.parent.mkdir(parents=True)
    settings.write_bytes(json.dumps({"providers": evil}))
    async with editor({}, started=False) as ours:
        await ours.start(workspaceFolders=[{"name": "w", "uri": uri_of(tmp_path / "work")}])
        got = await ours.turn("hello", model="acp/evil")
        assert "there is no model of this name" in text(got)
        assert finishes(got) == 1
        assert not mark.exists()
        listed = text(await ours.turn("/trust"))
        assert f"lets the ACP agent evil answer, which runs: touch {mark}" in listed


async def stopped(ours: Editor, *, within: float) -> list[Content]:
    """Stop the turn; its contents from the stop to `finished`."""
    begun = len(ours.seen)
    start = trio.current_time()
    await ours.stop()
    await ours.expect_finished()
    assert trio.current_time() - start < within
    return since(ours, begun)


ASK = _json({"id": "t", "kind": "edit", "input": {}})
RUNNING = _json({"id": "t", "kind": "execute", "status": "in_progress", "input": {}})


@pytest.mark.parametrize(
    ("script", "before", "ends"),
    [
        ("say x\nwait", {"kind": "text", "text": "x"}, []),
        ("think x\nwait", {"kind": "reasonText"}, ["reasonFinished"]),
        (f"ask {ASK}\nsay never", {"kind": "toolCallRun"}, ["toolCallRejected"]),
        (f"tool {RUNNING}\nwait", {"kind": "toolCallRunning"}, ["toolCalled"]),
        ("write FOLDER/a.txt x", {"kind": "toolCallRun"}, ["toolCallRejected"]),
    ],
    ids=["text", "thought", "permission", "call", "file"],
)
async def test_a_stop_is_sent_at_once_and_the_session_continues(
    tmp_path: Path, script: str, before: dict[str, Any], ends: list[str]
) -> None:
    script = script.replace("FOLDER", str(tmp_path / "work"))
    async with chatting(tmp_path) as (ours, log):
        await ours.send(ours.prompt_request(script, model=MODEL))
        await ours.content(**before)
        got = await stopped(ours, within=0.5)
        kinds = [c["type"] for c in got if c["type"] not in {"progress", "text"}]
        assert kinds == ends
        await log.wait_for("cancel")
        if before["kind"] == "toolCallRun" and "ask" in script:
            assert await log.wait_for("permission") == [["cancelled"]]
        assert text(await turn(ours, "say next")) == "next"
        assert len(log.of("new")) == 1
        assert "late" not in text(ours.contents())
        assert not (tmp_path / "work" / "a.txt").exists()


async def test_an_agent_with_one_session_answers_one_chat_at_a_time(tmp_path: Path) -> None:
    async with chatting(tmp_path, only="s") as (ours, _):
        await ours.send(ours.prompt_request("say one\nwait", model=MODEL))
        await ours.content("text", text="one")
        await ours.send(ours.prompt_request("say two", "d", model=MODEL))
        await ours.expect_finished("d")
        assert "answers one chat at a time" in text(ours.contents("d"))
        await stopped(ours, within=0.5)
        assert "two" not in text(ours.contents())
        await ours.send(ours.prompt_request("say two", "d", model=MODEL))
        await ours.expect_finished("d")
        assert text(ours.contents("d")).endswith("two")
        assert text(await turn(ours, "say three")) == "three"


async def test_a_session_that_does_not_load_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Any] = {"data": tmp_path / "data", "load": True}
    async with chatting(tmp_path, **kept) as (ours, log):
        await turn(ours, "say remembered")
    async with chatting(tmp_path, slow="load", **kept) as (ours, log):
        with monkeypatch.context() as patched:
            patched.setattr(agents, "_SESSION_SECONDS", 0.2)
            await ours.send(ours.prompt_request("say more", model=MODEL))
            await log.wait_for("load")
        await ours.expect_finished()
        assert text(ours.contents()).endswith("more")
        assert "remembered" in log.of("prompt")[-1][0][0]


@pytest.mark.parametrize("state", ["process", "session"])
async def test_a_stop_before_the_session_ends_the_turn(tmp_path: Path, state: str) -> None:
    async with chatting(tmp_path, slow=state) as (ours, log):
        await ours.send(ours.prompt_request("say x", model=MODEL))
        await log.wait_for("start" if state == "process" else "new")
        await stopped(ours, within=0.5)
        assert log.of("prompt") == []


async def test_a_stop_ends_a_running_terminal(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        pid_file = tmp_path / "work" / "pid"
        script = f"run echo $$ > {pid_file}; sleep 1000"
        await ours.send(ours.prompt_request(script, model=MODEL))
        await approve(ours)
        await log.wait_for("terminal")
        with trio.fail_after(10):
            while not (pid_file.exists() and pid_file.read_text().strip()):
                await trio.sleep(0.01)
        await stopped(ours, within=1.0)
        await log.wait_for("cancel")
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid_file.read_text()), 0)
        assert text(await turn(ours, "say next")) == "next"


@pytest.mark.parametrize("state", ["prompt", "process"])
async def test_the_agent_ends_with_the_connection(tmp_path: Path, state: str) -> None:
    async with chatting(tmp_path, slow=state) as (ours, log):
        await ours.send(ours.prompt_request("say x\nwait", model=MODEL))
        if state == "prompt":
            await ours.content("text", text="x")
        [[pid]] = await log.wait_for("start")
        await log.wait_for("initialize")
        await ours.ask("shutdown")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_a_steer_follows_in_the_same_turn(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        call = _json({"id": "t", "kind": "edit", "input": {}})
        await ours.send(ours.prompt_request(f"ask {call}", model=MODEL))
        run = await ours.content("toolCallRun", manualApproval=True)
        await ours.tell("chat/promptSteer", {"chatId": "c", "message": "say steered"})
        await ours.tell("chat/toolCallApprove", {"chatId": "c", "toolCallId": run["id"]})
        await ours.expect_finished()
        assert "steered" in text(ours.contents())
        assert [texts for (texts,) in log.of("prompt")][1] == ["say steered"]


async def test_an_agent_without_a_command_is_a_problem_of_the_configuration() -> None:
    async with editor({"providers": {"robot": {"api": "acp"}}}) as ours:
        assert "no model of this name" in text(await ours.turn("x", model=MODEL))
        shown = [m["params"]["message"] for m in ours.seen if m.get("method") == "$/showMessage"]
        assert any("providers.robot.command: expected the command" in each for each in shown)


async def test_a_reopened_chat_looks_as_it_looked(tmp_path: Path) -> None:
    call = {"id": "t", "title": "Edit", "kind": "edit", "input": {"x": 1}, "status": "completed"}
    call["diffs"] = [[str(tmp_path / "work" / "a.txt"), "old\n", "new\n"]]
    kept = {"data": tmp_path / "data"}
    async with chatting(tmp_path, **kept) as (ours, _):
        before = await turn(
            ours, f"think hm\nsay one\ntool {_json(call)}\nplan a=completed\nsay two"
        )
    async with chatting(tmp_path, **kept) as (ours, _):
        begun = len(ours.seen)
        await ours.ask("chat/open", {"chatId": "c"})
        after = since(ours, begun)
        for kind in ("reasonText", "toolCalled"):
            assert of_type(after, kind) == of_type(before, kind)
        assert text(after) == text(before)


async def test_a_rollback_begins_a_new_session(tmp_path: Path) -> None:
    async with chatting(tmp_path) as (ours, log):
        await turn(ours, "say first")
        await turn(ours, "say second")
        echoes = [c for role, c in contents(ours.seen) if role == "user"]
        params = {"chatId": "c", "contentId": echoes[1]["contentId"], "include": ["messages"]}
        await ours.ask("chat/rollback", params)
        await turn(ours, "say third")
        (texts,) = log.of("prompt")[-1]
        assert "first" in texts[0]
        assert "second" not in texts[0]
        assert len(log.of("new")) == 2


async def test_the_oldest_idle_sessions_are_closed_and_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "MOST_SESSIONS", 2)
    async with chatting(tmp_path, resume=True) as (ours, log):
        for chat in ("a", "b", "d"):
            await ours.turn("say x", chat, model=MODEL)
        ((closed,),) = await log.wait_for("close")
        await ours.turn("say more", "a", model=MODEL)
        assert log.of("load") == [[closed]]


async def test_an_agent_answers_as_a_subagent(tmp_path: Path) -> None:
    scout = {"mode": "subagent", "description": "Looks around.", "defaultModel": MODEL}
    config = {"agent": {"scout": scout}, "toolCall": {"approval": {"byDefault": "allow"}}}
    async with chatting(tmp_path, config=config) as (ours, _):
        task = _json({"agent": "scout", "task": "say found it"})
        got = await ours.turn(f"call eca_spawn_agent {task}", model="simulator/script")
        (called,) = of_type(got, "toolCalled")
        assert called["outputs"] == [{"type": "text", "text": "found it"}]

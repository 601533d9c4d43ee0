"""Whole sessions of an editor, the real process and a scripted model, which may be hostile.

`start_agent` checks each request of these sessions, too: a strict server accepts it.
"""

import json
from pathlib import Path

import pytest

from eca_protocol.testing.provider import chunk, finish, raw, reply, text, tool_call
from tests.eca_server.stranger import contents_of, decision, message, text_of
from tests.eca_server.wire.agent_session import ALLOW, calls, ends, order, output_of

MEGABYTE = 2**20
READ, SHELL, WRITE = "eca_read_file", "eca_shell_command", "eca_write_file"


@pytest.mark.requirement(*(f"ARROW:chat-tool-call-{number}" for number in range(1, 14)))
def test_a_call_goes_the_way_of_the_specification_s_diagram(start_agent):
    made = tool_call(SHELL, json.dumps({"command": "echo hello"}))
    agent = start_agent(reply(text("I will "), text("look."), made, finish("tool_calls")))
    agent.send_prompt("say hello")
    run = agent.expect_content("toolCallRun", manualApproval=True)
    begun = agent.contents()
    texts = [each["text"] for each in begun if each["type"] == "text"]
    assert texts == ["say hello", "I will ", "look."]
    pieces = [each for each in begun if each["type"] == "toolCallPrepare"]
    assert len(pieces) > 1
    assert {each["name"] for each in pieces} == {SHELL}
    assert json.loads("".join(each["argumentsText"] for each in pieces)) == run["arguments"]
    (first,) = agent.provider.requests
    assert first.body["messages"][-1]["content"].endswith("say hello")
    assert SHELL in {each["function"]["name"] for each in first.body["tools"]}
    agent.approve(run)
    rest = contents_of(agent.expect_finished())
    assert order(rest) == ["toolCallRunning", "toolCalled"]
    assert output_of(ends(rest)[0]) == "hello\n"
    assert [each["text"] for each in rest if each["type"] == "text"] == ["the end"]
    _, second = agent.provider.requests
    assert [each["role"] for each in second.body["messages"][-3:]] == ["user", "assistant", "tool"]
    assert agent.results() == ["hello\n"]
    assert [each["state"] for each in rest if each["type"] == "progress"][-1] == "finished"


def test_reads_of_one_answer_run_at_once_and_their_results_keep_the_order(start_agent, tmp_path):
    names = [f"{number}.txt" for number in range(8)]
    for name in names:
        (tmp_path / "project" / name).write_text(f"I am {name}\n")
    agent = start_agent(calls(*((READ, {"path": name}) for name in names)))
    happened = order(contents_of(agent.turn()))
    assert happened[-16:] == ["toolCallRunning"] * 8 + ["toolCalled"] * 8
    assert agent.results() == [f"I am {name}" for name in names]


@pytest.mark.requirement("W-23d", "W-34b")
def test_an_approval_and_a_stop_in_one_write_leave_nothing_open(start_agent):
    agent = start_agent(calls((SHELL, {"command": "touch made; sleep 60"})))
    agent.send_prompt()
    call = agent.expect_content("toolCallRun", manualApproval=True)
    agent.send(decision("Approve", call), message("chat/promptStop", {"chatId": "c"}))
    rest = contents_of(agent.expect_finished(seconds=2))
    assert order(rest) in (["toolCallRejected"], ["toolCallRunning", "toolCalled"])
    agent.turn("next")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the workspace, which holds two links to it."""
    path = tmp_path / "secret.txt"
    path.write_text("not for the model\n")
    (tmp_path / "project" / "link").symlink_to(path)
    (tmp_path / "project" / "up").symlink_to(tmp_path)
    return path


OUTSIDE = [
    *((READ, {"path": path}) for path in ("{secret}", "../secret.txt", "sub/../../secret.txt")),
    *((READ, {"path": path}) for path in ("link", "up/secret.txt", "~/secret.txt")),
    (READ, {"path": "/proc/self/environ"}),
    (WRITE, {"path": "../secret.txt", "content": "owned"}),
    (WRITE, {"path": "~/.profile", "content": "owned"}),
    ("eca_move_file", {"source": "link", "destination": "../moved"}),
    ("eca_grep", {"path": "..", "pattern": "model"}),
    ("eca_directory_tree", {"path": "/"}),
    *((SHELL, {"command": command}) for command in ("cat ../secret.txt", "cat link")),
    (SHELL, {"command": "true\ncat\t$HOME/secret.txt"}),
    (SHELL, {"command": "cd ..; cat secret.txt"}),
    (SHELL, {"command": "echo owned > ../secret.txt"}),
    (SHELL, {"command": "cat < {secret}"}),
    (SHELL, {"command": "cat secret.txt", "working_directory": ".."}),
]


@pytest.mark.requirement("W-30f")
def test_whatever_leaves_the_workspace_asks_though_all_is_allowed(start_agent, secret):
    made = json.loads(json.dumps(OUTSIDE).replace("{secret}", str(secret)))
    agent = start_agent(*(calls(call) for call in made), **ALLOW)
    agent.send_prompt()
    for _, arguments in made:
        call = agent.expect_content("toolCallRun")
        assert call["arguments"] == arguments
        assert call["manualApproval"], call
        assert "outside the workspace" in call["summary"]
        agent.reject(call)
    assert "toolCallRunning" not in order(contents_of(agent.expect_finished()))
    assert len(agent.results()) == len(made)
    assert not any("not for the model" in result for result in agent.results())
    assert not any((secret.parent / name).exists() for name in ("moved", ".profile"))
    assert secret.read_text() == "not for the model\n"


@pytest.mark.requirement("W-38b")
def test_nothing_is_written_through_a_link_that_leads_out(start_agent, secret):
    made = [(WRITE, {"path": path, "content": "owned"}) for path in ("link", "up/new.txt")]
    agent = start_agent(calls(*made), **ALLOW)
    for called, (_, arguments) in zip(ends(contents_of(agent.turn())), made, strict=True):
        assert called["error"] is True
        assert called["summary"].endswith(Path(arguments["path"]).name)
        assert "leads out of the workspace" in output_of(called)
    assert secret.read_text() == "not for the model\n"
    assert not (secret.parent / "new.txt").exists()


@pytest.mark.long
def test_of_ten_thousand_calls_a_hundred_are_taken_and_the_user_is_notified(start_agent):
    function = {"name": READ, "arguments": '{"path": "gone"}'}
    made = [{"index": n, "id": f"p{n}", "function": function} for n in range(10_000)]
    hundreds = [made[n : n + 100] for n in range(0, 10_000, 100)]
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in hundreds]
    agent = start_agent(reply(*map(chunk, pieces), finish("tool_calls")))
    messages = agent.turn(seconds=60)
    assert len(ends(contents_of(messages))) == len(agent.results()) == 100
    note = "The answer contained 10000 tool calls: the ones after the first 100 were dropped."
    assert note in text_of(messages, "system")
    assert agent.resident() < 250 * MEGABYTE


@pytest.mark.requirement("TOOL-3")
def test_calls_are_distinguished_whatever_ids_the_model_gives(start_agent, tmp_path):
    for name in ("one", "two"):
        (tmp_path / "project" / name).write_text(name)
    made = [(READ, {"path": "one"}), (READ, {"path": "two"})]
    kinds = ["same", "", "call {}", "é{}"]
    agent = start_agent(*(calls(*made, ids=ids) for ids in kinds))
    runs = [each for each in contents_of(agent.turn()) if each["type"] == "toolCallRun"]
    assert len({each["id"] for each in runs}) == 2 * len(kinds)
    assert [each["arguments"] for each in runs] == [arguments for _, arguments in made] * len(kinds)
    assert agent.results() == ["one", "two"] * len(kinds)


def test_a_native_tool_runs_in_each_spelling_of_its_name(start_agent, tmp_path):
    (tmp_path / "project" / "a.txt").write_text("good")
    names = (READ, "read_file", "eca__read_file")  # the last is that of prompts for upstream
    agent = start_agent(calls(*((name, {"path": "a.txt"}) for name in names)))
    runs = [each for each in contents_of(agent.turn()) if each["type"] == "toolCallRun"]
    assert {each["name"] for each in runs} == {READ}
    assert agent.results() == ["good"] * len(names)


NONSENSE = [
    *(
        (READ, arguments, "unreadable")
        for arguments in ("no JSON", "null", '["a"]', '"a"', '{"path": "a"')
    ),
    (READ, '{"path": ' + "[" * 3000 + "]" * 3000 + "}", "unreadable"),
    (READ, "", "path is missing"),
    (READ, {"path": ["a"]}, "expected string"),
    (READ, {"path": "a\0b"}, "NUL"),
    (READ, {"path": "x/" * 3000}, "at most 4096 bytes"),
    (READ, {"path": "a", "limit": 10**30}, "No such file"),
    ("eca_grep", {"path": ".", "pattern": "("}, "regular expression"),
    ("eca_grep", {"path": ".", "pattern": "x" * 100_000}, "at most 1000 characters"),
    (SHELL, {"command": " \n"}, "expected a command"),
    ("read file", {}, "There is no tool 'read file'"),
    ("n" * 10_000, {}, "There is no tool 'nnn"),
    *((name, {}, "There is no tool") for name in ("\n\u2028\0", "eca_eca_read_file")),
]


@pytest.mark.requirement("W-30e")
def test_calls_that_make_no_sense_fail_with_the_reason_and_the_others_run(start_agent, tmp_path):
    (tmp_path / "project" / "a.txt").write_text("good")
    good = (READ, {"path": "a.txt"})
    agent = start_agent(
        calls(*((name, arguments) for name, arguments, _ in NONSENSE), good), **ALLOW
    )
    contents = contents_of(agent.turn())
    assert not any(each.get("manualApproval") for each in contents)
    *nonsense, last = agent.results()
    assert last == "good"
    for (name, arguments, expected), result in zip(NONSENSE, nonsense, strict=True):
        assert expected in result, (name, arguments)
        assert len(result) < 1000
    assert [each["error"] for each in ends(contents)].count(True) == len(NONSENSE)


@pytest.mark.requirement("W-23b", "W-30g")
def test_an_answer_that_breaks_in_a_call_runs_nothing_and_ends_the_turn_readably(start_agent):
    agent = start_agent(
        reply(tool_call("", "{}"), finish("tool_calls")),
        reply(tool_call(READ, '{"path"'), chunk({"choices": [{"delta": {"tool_calls": [5]}}]})),
        reply(tool_call(READ, '{"path"'), raw("data: {\n\n")),
        reply(tool_call(READ, '{"path": "a"}'), {"close": True}),
    )
    for _ in range(4):
        messages = agent.turn()
        contents = contents_of(messages)
        assert {"toolCallRunning", "toolCalled"}.isdisjoint(order(contents))
        begun = {each["id"] for each in contents if each["type"] == "toolCallPrepare"}
        assert {each["id"] for each in ends(contents)} == begun
        assert len(text_of(messages, "assistant", "system")) > 20
    assert "the end" in agent.say("next")


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-6b")
@pytest.mark.parametrize(("size", "stream"), [("100M", 1), ("100M", 2), ("1G", 1)])
def test_a_flood_of_output_takes_no_memory_and_no_large_message(start_agent, size, stream):
    command = f"yes 'a line of a flood' | head -c {size} >&{stream}"
    agent = start_agent(calls((SHELL, {"command": command})), **ALLOW)
    (called,) = ends(contents_of(agent.turn(seconds=60)))
    assert "bytes left out" in output_of(called)
    assert called["error"] is False
    assert agent.results() == [output_of(called)]
    assert agent.resident() < 100 * MEGABYTE
    assert max(agent.largest_frame(), agent.largest_request()) < MEGABYTE

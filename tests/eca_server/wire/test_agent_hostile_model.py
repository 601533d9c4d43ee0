"""A malicious or broken model: it gets an error, does no harm, and the turn continues.

`start_agent` checks each request of these sessions, too: a strict server accepts it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eca_protocol.testing.provider import chunk, finish, raw, reply, tool_call
from tests.eca_server.stranger import contents_of
from tests.eca_server.wire.agent_session import ALLOW, Content, calls, ends, order, told

MEGABYTE = 2**20
READ = "eca_read_file"
SHELL = "eca_shell_command"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file beside the workspace, which holds two links to it."""
    path = tmp_path / "secret.txt"
    path.write_text("not for the model\n")
    (tmp_path / "project" / "link").symlink_to(path)
    (tmp_path / "project" / "up").symlink_to(tmp_path)
    return path


OUTSIDE = [
    (READ, {"path": "{secret}"}),
    (READ, {"path": "../secret.txt"}),
    (READ, {"path": "sub/../../secret.txt"}),
    (READ, {"path": "link"}),
    (READ, {"path": "up/secret.txt"}),
    (READ, {"path": "~/secret.txt"}),
    (READ, {"path": "/proc/self/environ"}),
    ("eca_write_file", {"path": "../secret.txt", "content": "owned"}),
    ("eca_write_file", {"path": "~/.profile", "content": "owned"}),
    ("eca_move_file", {"source": "link", "destination": "../moved"}),
    ("eca_grep", {"path": "..", "pattern": "model"}),
    ("eca_directory_tree", {"path": "/"}),
    (SHELL, {"command": "cat ../secret.txt"}),
    (SHELL, {"command": "cat link"}),
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
    for _, given in made:
        asked = agent.expect_content("toolCallRun")
        assert asked["arguments"] == given
        assert asked["manualApproval"], asked
        assert "outside the workspace" in asked["summary"]
        agent.reject(asked)
    assert "toolCallRunning" not in order(contents_of(agent.expect_finished()))
    assert len(agent.results()) == len(made)
    assert not any("not for the model" in result for result in agent.results())
    assert not any((secret.parent / name).exists() for name in ("moved", ".profile"))
    assert secret.read_text() == "not for the model\n"


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-38b")
@pytest.mark.parametrize("path", ["link", "up/new.txt"])
def test_nothing_is_written_through_a_link_that_leads_out(start_agent, secret, path):
    agent = start_agent(calls(("eca_write_file", {"path": path, "content": "owned"})), **ALLOW)
    (called,) = ends(contents_of(agent.turn()))
    assert called["error"] is True
    assert "leads out of the workspace" in told(called)
    assert secret.read_text() == "not for the model\n"
    assert not (secret.parent / "new.txt").exists()


WORDS = [
    "; rm -rf .", "$(touch owned)", "`touch owned`", "a\ntouch owned\n", "' && touch owned #",
    '" && touch owned #', "-rf", "${HOME}", "a\\", "*",
]  # fmt: skip


@pytest.mark.requirement("W-30a", "TOOL-7")
def test_an_argument_of_a_custom_tool_is_a_word_and_no_code(start_agent, tmp_path):
    (tmp_path / "project" / "kept").touch()
    parameters = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
    tool = {"description": "Shows.", "command": "printf '<%s>' {{word}}", "schema": parameters}
    made = calls(*(("show", {"word": word}) for word in WORDS))
    agent = start_agent(made, customTools={"show": tool}, **ALLOW)
    assert [told(each) for each in ends(contents_of(agent.turn()))] == [
        f"<{word}>" for word in WORDS
    ]
    assert [path.name for path in agent.folder.iterdir()] == ["kept"]


@pytest.mark.long
def test_of_ten_thousand_calls_a_hundred_are_taken_and_the_user_is_notified(start_agent):
    function = {"name": READ, "arguments": '{"path": "gone"}'}
    made = [{"index": n, "id": f"p{n}", "function": function} for n in range(10_000)]
    hundreds = [made[n : n + 100] for n in range(0, 10_000, 100)]
    pieces = [{"choices": [{"index": 0, "delta": {"tool_calls": each}}]} for each in hundreds]
    agent = start_agent(reply(*map(chunk, pieces), finish("tool_calls")))
    contents = contents_of(agent.turn(seconds=60))
    assert len(ends(contents)) == 100
    assert any(
        each["text"]
        == "The answer contained 10000 tool calls: the ones after the first 100 were dropped."
        for each in contents
        if each["type"] == "text"
    )
    assert len(agent.results()) == 100
    assert len(agent.provider.requests) == 2
    assert agent.resident() < 250 * MEGABYTE


@pytest.mark.long
def test_arguments_of_a_megabyte_come_in_small_pieces_and_do_what_they_say(start_agent):
    content = "é\n" * (MEGABYTE // 3)
    agent = start_agent(calls(("eca_write_file", {"path": "a", "content": content})), **ALLOW)
    contents = contents_of(agent.turn(seconds=30))
    pieces = [each["argumentsText"] for each in contents if each["type"] == "toolCallPrepare"]
    assert max(len(json.dumps(piece, ensure_ascii=False).encode()) for piece in pieces) <= 4098
    assert json.loads("".join(pieces)) == {"path": "a", "content": content}
    assert (agent.folder / "a").read_text() == content
    (called,) = ends(contents)
    assert len(told(called)) < 1000
    assert agent.resident() < 250 * MEGABYTE


@pytest.mark.requirement("TOOL-3")
def test_calls_are_distinguished_whatever_ids_the_model_gives(start_agent, tmp_path):
    (tmp_path / "project" / "a").write_text("one")
    (tmp_path / "project" / "b").write_text("two")
    made = [(READ, {"path": "a"}), (READ, {"path": "b"})]
    kinds = ["same", "", "call {}", "é{}"]
    agent = start_agent(*(calls(*made, ids=ids) for ids in kinds))
    contents = contents_of(agent.turn())
    runs = [each for each in contents if each["type"] == "toolCallRun"]
    assert len({each["id"] for each in runs}) == 2 * len(kinds)
    assert [each["arguments"] for each in runs] == [given for _, given in made] * len(kinds)
    assert agent.results() == ["one", "two"] * len(kinds)


NONSENSE = [
    (READ, "no JSON", "unreadable"),
    (READ, "null", "unreadable"),
    (READ, '["a"]', "unreadable"),
    (READ, '"a"', "unreadable"),
    (READ, '{"path": "a"', "unreadable"),
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
    ("\n\u2028\0", {}, "There is no tool"),
    ("n" * 10_000, {}, "There is no tool 'nnn"),
    ("eca_eca_read_file", {}, "There is no tool"),
]


@pytest.mark.requirement("W-30e")
def test_calls_that_make_no_sense_fail_with_the_reason_and_the_others_run(start_agent, tmp_path):
    (tmp_path / "project" / "a.txt").write_text("good")
    good = (READ, {"path": "a.txt"})
    made = calls(*((name, given) for name, given, _ in NONSENSE), good)
    agent = start_agent(made, **ALLOW)
    contents = contents_of(agent.turn())
    assert not any(each.get("manualApproval") for each in contents)
    *nonsense, last = agent.results()
    assert last == "good"
    for (name, given, expected), result in zip(NONSENSE, nonsense, strict=True):
        assert expected in result, (name, given)
        assert len(result) < 1000
    assert [each["error"] for each in ends(contents)].count(True) == len(NONSENSE)


def texts(contents: list[Content]) -> str:
    return "".join(each["text"] for each in contents if each["type"] == "text")


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-23b", "W-30g")
@pytest.mark.parametrize(
    "answer",
    [
        reply(tool_call("", "{}"), finish("tool_calls")),
        reply(tool_call(READ, '{"path"'), chunk({"choices": [{"delta": {"tool_calls": [5]}}]})),
        reply(tool_call(READ, '{"path"'), raw("data: {\n\n")),
        reply(tool_call(READ, '{"path": "a"}'), {"close": True}),
    ],
)
def test_an_answer_that_breaks_in_a_call_runs_nothing_and_ends_the_turn_readably(
    start_agent, answer
):
    agent = start_agent(answer)
    contents = contents_of(agent.turn())
    assert {"toolCallRunning", "toolCalled"}.isdisjoint(order(contents))
    begun = {each["id"] for each in contents if each["type"] == "toolCallPrepare"}
    assert {each["id"] for each in ends(contents)} == begun
    assert len(texts(contents)) > len("go") + 20
    assert "the end" in texts(contents_of(agent.turn("next")))

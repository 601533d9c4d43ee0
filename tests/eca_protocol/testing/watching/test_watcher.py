"""Each violation is reported as the one row that it violates."""

from typing import Any

import pytest

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.watching import Observation, Watcher
from tests.eca_protocol.testing.watching.session import (
    CALL,
    CHAT,
    FILE,
    NEXT_TURN,
    Change,
    Session,
    Side,
    after,
    answers,
    asks,
    both,
    content,
    edited,
    finished,
    good_session,
    moved,
    news,
    params,
    prompted,
    refuses,
    replaced,
    result,
    running,
    says,
    tells,
    twice,
    without,
)

NO = tells("chat/toolCallReject", {"chatId": "new", "toolCallId": "call-2"})
USED = says("new", "system", "usage", sessionTokens=1)
OTHER = {**CALL, "id": "call-2"}
SUMMED = says("c", "system", "usage", sessionTokens=11)
PREPARED = says("c", "assistant", "toolCallPrepare", argumentsText="", **OTHER)
WITHHELD = says("c", "assistant", "toolCallRejected", arguments={}, reason="user-config", **OTHER)
STOP_OF_C, STOP_OF_WHO = (tells("chat/promptStop", {"chatId": each}) for each in ("c", "who"))
MORE = asks(7, "chat/prompt", {"message": "Again", "chatId": "c"})
MORE_WORDS = says("c", "user", "text", text="Again", contentId="m-3")
ANSWERED_FIRST = (MORE, answers(7, prompted("c")), running("c"), MORE_WORDS, finished("c"))
LEAVING = ("shutdown", "shut down", "exit")
NOT_STOPPED = replaced({"stop": NO, "repeated": USED})


def at_call(**members: Any) -> Change:
    """Change members of all contents of the first call."""

    def change(session: Session) -> Session:
        for name in ("prepare", "prepare more", "run", "run runs", "called"):
            session = content(name, **members)(session)
        return session

    return change


def behind_fence(entry: tuple[Side, dict[str, Any]]) -> Change:
    """Add a server message to the stopped turn after the server has read the stop."""
    fence = (asks(9, "chat/queryCommands"), answers(9, {"commands": []}))
    return after("stop", *fence, entry)


FAULTS: list[tuple[str, Change]] = [
    # messages and answers
    ("BASE-16", edited("text", jsonrpc="1.0")),
    ("BASE-16", edited("prompted", jsonrpc=...)),
    ("BASE-13", edited("warning", method=7)),
    ("GEN-1", params("warning", message=" ")),
    ("W-2a", edited("contexts", error={"code": 1, "message": "m"})),
    ("W-2a", edited("shut down", result=...)),
    ("W-2b", edited("diagnostics", id=1.5)),
    ("W-2b", edited("prompted", id="1")),
    ("W-2b", edited("commands", id=1)),
    ("W-2d", edited("text", id=9)),
    ("W-2d", both(edited("diagnostics", id=...), without("diagnosed"))),
    ("W-15d", edited("warning", id=9)),
    ("BASE-19", edited("contexts", result=..., error={"code": "1", "message": "m"})),
    ("BASE-17", twice("contexts")),
    ("BASE-17", without("contexts")),
    ("BASE-17", edited("contexts", id="other")),
    ("BASE-18", after("tools", answers(None, None))),
    # the start and the end
    ("W-10a", result("welcome", chatWelcomeMessage=...)),
    ("W-10a", result("welcome", chatWelcomeMessage=None)),
    ("LIFE-3", edited("welcome", result="hello")),
    ("W-10b", moved("task starts", "initialize")),
    ("W-10e", moved("task starts", "welcome")),
    ("W-10c", after("initialize", asks(9, "chat/queryCommands"), answers(9, {"commands": []}))),
    ("LIFE-14", without("config", "tools", "mcp", "later config")),
    ("W-11a", edited("config", "params", "chat", agents=..., selectAgent=...)),
    ("W-11a", edited("config", "params", "chat", selectAgent=None)),
    ("W-11b", edited("config", "params", "chat", selectModel="a/none")),
    ("W-11b", edited("later config", "params", "chat", models=["a/three"], selectModel=...)),
    ("W-11g", edited("later config", "params", "chat", welcomeMessage=CHAT["welcomeMessage"])),
    ("W-11g", edited("later config", "params", "chat", models=None)),
    ("W-21b", edited("config", "params", "chat", models=["a/one", "a/two", "gpt"])),
    ("W-21b", result("prompted", model="gpt")),
    ("W-21b", both(params("prompt", model="gpt-4"), result("prompted", model="gpt"))),
    ("W-11c", moved("tools", "task starts")),
    ("W-11c", without("tools", "mcp")),
    ("W-11d", moved("mcp", "config")),
    ("W-33a", params("tools", name="eca")),
    ("CONF-8", params("tools", status="starting")),
    ("CONF-10", params("mcp", tools=...)),
    ("W-11e", without("task starts", "task ends")),
    ("W-11e", without("task ends")),
    ("W-11e", twice("task ends")),
    ("LIFE-2", lambda s: {"x": asks(9, "shutdown"), "y": answers(9, None), **s}),
    ("LIFE-4", after("tools", asks(9, "initialize", {"processId": 1}), answers(9, {}))),
    ("LIFE-18", edited("shut down", result={})),
    ("LIFE-22", after("shut down", asks(9, "chat/delete"), answers(9, {}))),
    # turns
    ("W-20a", without("running")),
    ("W-20a", content("running", text="")),
    ("W-20a", moved("running", "echo")),
    ("W-20b", without("echo")),
    ("W-20b", twice("echo")),
    ("W-20b", content("echo", text="Hi!")),
    ("W-20b", content("echo", text="H")),
    ("W-20b", content("echo", contentId=...)),
    ("W-6c", both(content("echo", text="H"), twice("echo"))),
    ("W-20c", moved("prompted", "prompt")),
    ("W-20c", moved("prompted", "running")),
    ("W-20c", moved("prompted", "text")),
    ("W-20c", moved("prompted", "finished")),
    ("W-20e", after("finished", *ANSWERED_FIRST)),
    ("W-20c", both(after("finished", *ANSWERED_FIRST), moved("new prompted", "new prompt"))),
    ("W-20d", without("usage")),
    ("W-20d", content("finished", text="Done")),
    ("W-27e", moved("usage", "finished")),
    ("CHAT-14", moved("more text", "finished")),
    ("CHAT-14", after("finished", running("c"), says("c", "assistant", "text", text="x"))),
    ("W-22b", both(NOT_STOPPED, without("delete", "deleted", *LEAVING))),
    ("W-22d", without("repeated")),
    ("W-22e", twice("finished")),
    ("W-23a", without("stopped", "delete", "deleted")),
    ("W-22e", twice("stopped")),
    ("W-22e", both(after("stopped", *NEXT_TURN), without("stopped"))),
    ("W-22d", both(after("stopped", *NEXT_TURN), without("repeated"))),
    ("W-23d", behind_fence(USED)),
    ("CHAT-33", behind_fence(says("new", "assistant", "text", text="x"))),
    ("W-23g", after("stopped", says("new", "assistant", "text", text="x"))),
    ("W-25d", after("fenced", says("new", "system", "metadata", title="Late"))),
    ("W-24a", after("deleted", says("new", "assistant", "text", text="x"), finished("new"))),
    ("W-25d", after("deleted", says("new", "system", "metadata", title="Late"))),
    ("W-21d", replaced({"new prompted": refuses(2, -32603)})),
    ("W-21c", result("prompted", chatId="d")),
    ("W-22f", after("finished", STOP_OF_WHO, finished("who"))),
    ("W-22f", after("new prompt", STOP_OF_WHO, finished("who"))),
    ("W-22f", after("finished", STOP_OF_C, finished("c"))),
    ("CLIENT-33", after("finished", says("who", "assistant", "text", text="x"), finished("who"))),
    ("CLIENT-33", after("prompt", says("who", "assistant", "text", text="x"), finished("who"))),
    # contents
    ("W-26a", edited("link", "params", role="system")),
    ("W-26a", edited("usage", "params", role="assistant")),
    ("W-26d", after("text", says("c", "system", "text", text="Overloaded.\n\n"))),
    ("W-6a", content("text", text="\u00fc" * 2049)),
    ("W-27a", after("text", SUMMED)),
    ("W-27b", content("usage", sessionCost="0.1")),
    ("W-27b", content("usage", sessionCost="$0.10")),
    ("W-27c", content("usage", limit={"context": 9})),
    ("W-27d", content("usage", messageCost=...)),
    ("CHAT-15", without("thinks")),
    ("CHAT-15", twice("thinks")),
    ("CHAT-15", moved("thought", "has thought")),
    ("W-26b", without("has thought")),
    ("CHAT-16", content("has thought", totalTimeMs=-1)),
    # tool calls
    ("W-30a", without("prepare", "prepare more")),
    ("W-30a", without("run", "approve")),
    ("W-30a", both(without("run runs"), edited("run", "params", "content", manualApproval=False))),
    ("W-30a", without("called")),
    ("W-30a", content("called", name="eca_read_file")),
    (
        "W-30a",
        after("run runs", says("c", "assistant", "toolCallPrepare", argumentsText="", **CALL)),
    ),
    ("W-30b", content("prepare", server="")),
    ("W-30b", content("prepare more", argumentsText='{"path": "/a"}')),
    ("W-30b", content("prepare more", argumentsText=' "/b"}')),
    ("W-30c", both(without("prepare more"), content("prepare", argumentsText="path /a"))),
    ("W-30f", both(NOT_STOPPED, content("rejected", reason="user-config"))),
    ("W-30g", without("rejected")),
    ("W-30g", content("rejected", reason="user-config")),
    ("W-30b", without("prepare more")),
    ("W-30h", both(after("prepare", PREPARED), after("called", WITHHELD))),
    ("TOOL-3", twice("run")),
    ("TOOL-4", without("approve")),
    ("TOOL-5", twice("run runs")),
    ("TOOL-6", twice("called")),
    ("TOOL-8", twice("rejected")),
    ("TOOL-9", both(NOT_STOPPED, moved("rejected", "other run"))),
    ("TOOL-11", content("called", server="")),
    (
        "TOOL-18",
        replaced(
            {"approve": tells("chat/toolCallReject", {"chatId": "c", "toolCallId": "call-1"})}
        ),
    ),
    ("W-32a", content("called", arguments="{}")),
    ("W-32a", content("run", arguments=["/a"])),
    ("W-32b", content("rejected", reason="userChoiceDeny")),
    ("W-33a", at_call(server="ECA")),
    ("W-33c", at_call(name="edit_file")),
    ("W-33c", edited("tools", "params", "tools", 0, name="edit_file")),
    ("W-35a", content("called", details=...)),
    ("W-35a", content("run runs", details={**FILE, "diff": "@@ @@"})),
    ("W-35b", at_call(name="task")),
    # queries and the editor
    ("W-40a", result("contexts", contexts=[{"type": "file", "path": "/a"}] * 201)),
    ("W-40c", edited("commands", "result", "commands", 0, type="skill")),
    ("W-40d", edited("commands", "result", "commands", 0, "arguments", 0, required=...)),
    ("CHAT-29", result("commands", chatId=...)),
    ("W-40e", result("contexts", chatId="c")),
    ("W-42d", params("initialize", capabilities={})),
    # fields and values
    ("FIELD:ChatTextContent.text", content("text", text=None)),
    ("FIELD:ChatUsageContent.sessionTokens", content("usage", sessionTokens="10")),
    ("FIELD:ChatUsageContent.limit.context", content("usage", limit={"context": "9", "output": 1})),
    ("FIELD:ChatContentReceivedParams.role", params("text", role="bot")),
    ("FIELD:ChatContentReceivedParams.content", content("text", type="words")),
    ("VALUE:ChatContent=ChatFlagContent", content("text", type="flag", contentId="m")),
    ("FIELD:ChatToolCalledContent.outputs.text", content("called", outputs=[{"type": "text"}])),
    ("FIELD:FileChangeDetails.diff", content("run", details={**FILE, "diff": None})),
    ("FIELD:FileChangeDetails.diff", content("called", details={**FILE, "diff": None})),
    ("FIELD:ChatUsageContent.lastMessageCost", content("usage", lastMessageCost=0.01)),
    ("FIELD:ChatPromptResponse.status", result("prompted", status="ok")),
    ("VALUE:ChatPromptResponse.status=error", result("prompted", status="error")),
    ("FIELD:ServerTool.description", edited("tools", "params", "tools", 0, description=...)),
    (
        "FIELD:ConfigUpdatedParams.chat.variants",
        edited("later config", "params", "chat", variants=[]),
    ),
    ("W-12d", after("tools", news("jobs/updated", {"jobs": []}))),
    ("CHAT-36", edited("deleted", result=[1])),
]

AT_ONCE: list[tuple[list[str], Change]] = [
    (["BASE-16", "W-2d"], edited("text", jsonrpc=2, id=9)),
    (["BASE-16", "W-20d"], both(edited("finished", jsonrpc=...), content("finished", text="x"))),
    (
        ["FIELD:ChatPromptResponse.status", "W-21b", "W-2b"],
        both(edited("prompted", id="1"), result("prompted", status="ok", model="gpt")),
    ),
    (
        ["FIELD:ShowMessageParams.message", "W-10b"],
        both(params("warning", message=...), moved("warning", "initialize")),
    ),
    (
        ["CONF-8", "W-33a", "W-33c"],
        both(
            params("tools", name="eca", status="starting"),
            edited("tools", "params", "tools", 0, name="edit_file"),
        ),
    ),
    (
        ["W-11a", "W-11e"],
        both(
            without("task starts", "task ends"),
            edited("config", "params", "chat", agents=..., selectAgent=...),
        ),
    ),
    (
        ["FIELD:ChatUsageContent.sessionTokens", "W-27b"],
        content("usage", sessionTokens="10", sessionCost="0.1"),
    ),
    (["W-27a", "W-27b"], both(after("text", SUMMED), content("usage", sessionCost="0.1"))),
    (
        ["FIELD:ChatToolCalledContent.outputs.text", "FIELD:ChatToolCalledContent.totalTimeMs"],
        content("called", outputs=[{"type": "text"}], totalTimeMs="1"),
    ),
    (["TOOL-4", "W-35a"], both(without("approve"), content("run runs", details=...))),
    (["W-20d", "W-26b"], both(without("has thought"), content("finished", text="Done"))),
    (["W-26b", "W-30a"], without("has thought", "called")),
]
"""Entries with several independent violations."""

CLIENT_FAULTS: list[tuple[str, Change]] = [
    ("LIFE-1", lambda s: {"x": asks(9, "shutdown"), "y": refuses(9, -32002), **s}),
    ("LIFE-5", params("initialize", processId=...)),
    ("LIFE-12", moved("initialized", "initialize")),
    ("LIFE-23", without("shutdown", "shut down")),
    ("BASE-16", edited("initialized", jsonrpc="1.0")),
    ("BASE-17", without("diagnosed")),
    ("BASE-17", twice("diagnosed")),
    ("BASE-19", edited("diagnosed", result=..., error="no")),
    ("TOOL-16", params("approve", toolCallId="call-7")),
    ("FIELD:ChatToolCallApproveParams.toolCallId", params("approve", toolCallId=...)),
    ("FIELD:ChatPromptParams.message", params("prompt", message=7)),
    ("FIELD:EditorDiagnostic.message", edited("diagnosed", "result", "diagnostics", 0, message=1)),
]


def watch(session: Session, revision: Revision | None = None) -> list[Observation]:
    watcher = Watcher(revision=revision)
    observations = [
        each for side, message in session.values() for each in watcher.feed(side, message)
    ]
    return observations + watcher.finish()


def name_of(row_or_change: str | Change) -> str:
    return row_or_change if isinstance(row_or_change, str) else ""


def rows(observations: list[Observation], side: Side = "server") -> list[str]:
    return [each.requirement for each in observations if each.side == side]


def test_a_good_session_breaks_nothing_nor_does_any_beginning_of_it():
    watcher = Watcher()
    for side, message in good_session().values():
        assert watcher.feed(side, message) == []
    assert watcher.finish() == []


def test_an_invented_tool_has_the_name_from_the_model():
    made_up = {**CALL, "id": "call-9", "name": "edit_file", "arguments": {}}
    begins = (
        says("c", "assistant", "toolCallPrepare", argumentsText="", **made_up),
        says("c", "assistant", "toolCallRun", manualApproval=False, **made_up),
    )
    unknown = {"error": True, "outputs": [{"type": "text", "text": "no"}], "totalTimeMs": 0}
    called = says("c", "assistant", "toolCalled", **unknown, **made_up)
    assert watch(after("called", *begins, called)(good_session())) == []
    withheld = says("c", "assistant", "toolCallRejected", reason="user-config", **made_up)
    assert rows(watch(after("called", *begins, withheld)(good_session()))) == ["W-33c"]


def test_a_turn_may_follow_prompts_that_a_stop_dropped():
    assert watch(after("stopped", *NEXT_TURN)(good_session())) == []


def test_the_users_title_may_come_after_a_stop():
    named = asks(9, "chat/update", {"chatId": "new", "title": "Late"})
    title = says("new", "system", "metadata", title="Late")
    assert watch(after("fenced", named, answers(9, {}), title)(good_session())) == []


@pytest.mark.parametrize(("row", "change"), FAULTS, ids=name_of)
def test_a_violation_is_reported_as_its_row_and_nothing_else(row, change):
    assert row in REQUIREMENTS
    assert rows(watch(change(good_session()))) == [row]


@pytest.mark.parametrize(("broken", "change"), AT_ONCE, ids=[" ".join(each) for each, _ in AT_ONCE])
def test_independent_violations_of_an_entry_are_all_reported(broken, change):
    assert sorted(rows(watch(change(good_session())))) == broken


@pytest.mark.parametrize(("row", "change"), CLIENT_FAULTS, ids=name_of)
def test_a_violation_of_the_client_is_reported_as_its_row(row, change):
    assert row in REQUIREMENTS
    assert rows(watch(change(good_session())), "client") == [row]


TWO_BYTES = encode_frame(b'{"jsonrpc":"2.0","method":"$/x","params":{"x":"\xc3\xbc\xc3\xbc"}}')
PLAIN = b'{"jsonrpc":"2.0","method":"$/x"}'


@pytest.mark.parametrize(
    ("row", "data"),
    [
        ("W-1", b"content-length: 32\r\n\r\n" + PLAIN),
        ("W-1", b"Content-Length: 32\r\nContent-Type: x\r\n\r\n" + PLAIN),
        ("W-1", b"Content-Length:32\r\n\r\n" + PLAIN),
        ("W-1", b"Content-Length: 32\n\n" + PLAIN),
        ("W-1", b"Content-Type: x\r\n\r\n"),
        ("W-1", encode_frame(b"\xef\xbb\xbf" + PLAIN)),
        ("W-5a", encode_frame(b'{"x":"\xfc"}')),
        ("W-5a", encode_frame(PLAIN.decode().encode("utf-16"))),
        ("W-5d", encode_frame(b'{"jsonrpc":"2.0","method":"$/x","params":[NaN]}')),
        ("W-5g", encode_frame(b'{"x":' + b"[" * 200 + b"]" * 200 + b"}")),
        ("BASE-13", encode_frame(b'{"x":[' + b"1," * 1_000_000 + b"1]}")),
        ("BASE-2", b"Starting the server ...\n"),
        ("BASE-2", b"DEBUG: x\nContent-Length: 32\r\n\r\n" + PLAIN),
        ("BASE-6", TWO_BYTES.replace(b"Content-Length: 57", b"Content-Length: 55")[:-2]),
        ("BASE-6", b"Content-Length: 40\r\n\r\n" + PLAIN + b"Content-"),
        ("BASE-6", b"Content-Length: 32\r\n\r\n" + PLAIN[:20]),
        ("BASE-6", b"Content-Length: 3"),
        ("BASE-6", b"Content-Length: 40\r\n\r\n" + PLAIN),
        ("BASE-6", b"Content-Length: -5\r\n\r\n"),
        ("BASE-6", b"Content-Length: 99999999999999999999\r\n\r\n"),
        ("BASE-2", b"\n"),
        ("BASE-13", encode_frame(b"hello")),
        ("BASE-13", encode_frame(b"[" + PLAIN + b"]")),
    ],
)
def test_bytes_are_reported_as_the_row_that_they_violate(row, data):
    watcher = Watcher()
    watcher.feed(*asks(0, "initialize", {"processId": None}))
    watcher.feed(*answers(0, {"chatWelcomeMessage": ""}))
    observations = watcher.feed_raw("server", data)
    assert [each.requirement for each in observations] == [row], observations


def test_a_message_in_an_incorrect_frame_is_checked():
    observations: list[Observation] = []
    watcher = Watcher()
    for side, message in twice("finished")(good_session()).values():
        frame = encode_frame(json.dumps(message))
        if side == "server":
            observations += watcher.feed_raw(side, frame.replace(b"Length", b"length"))
        else:
            observations += watcher.feed(side, message)
    assert {each.requirement for each in observations} == {"W-1", "W-22e"}


def test_the_rest_of_a_frame_with_a_wrong_length_is_not_reported_again():
    watcher = Watcher()
    assert len(watcher.feed_raw("server", b"Content-Length: 30\r\n\r\n" + PLAIN[:30])) == 1
    assert watcher.feed_raw("server", PLAIN[30:]) == []
    assert len(watcher.feed_raw("server", b"oops")) == 0


@pytest.mark.parametrize(
    ("message", "echo", "is_asked", "broken"),
    [
        ("/login openai 0a1b2c", "/login openai ••••", False, []),
        ("/login  openai 0a1b 2c", "/login openai ***", False, []),
        ("/login 0a1b2c", "/login ***", False, []),
        ("0a1b2c", "••••", True, []),
        ("0a1b2c", "0a1b2c", True, []),
        ("/login openai 0a1b2c", "/login openai 0a1b2c", False, []),
        ("/login openai 0a1b2c", "/login azure ***", False, ["W-20b"]),
        ("/login openai 0a1b2c", "/login openai ***c", False, ["W-20b"]),
        ("/login", "***", False, ["W-20b"]),
        ("0a1b2c", "***", False, ["W-20b"]),
        ("a /login openai 0a1b2c", "a /login ***", False, ["W-20b"]),
    ],
)
def test_a_key_may_be_redacted_in_the_echo(message, echo, is_asked, broken):
    key = asks(7, "chat/prompt", {"message": message, "chatId": "c"})
    words = says("c", "user", "text", text=echo, contentId="m-3")
    turn = (key, running("c"), words, answers(7, prompted("c")), finished("c"))
    session = after("finished", *turn)(good_session())
    session["prompted"][1]["result"]["status"] = "login" if is_asked else "prompting"
    assert rows(watch(session)) == broken


@pytest.mark.parametrize(("recorded", "broken"), [("***", []), ("ab", ["W-30b"])])
def test_arguments_with_a_redacted_secret_are_not_reported(recorded, broken):
    session = content("prepare more", argumentsText='"/a","token":"abc"}')(good_session())
    session = content("run", arguments={"path": "/a", "token": recorded})(session)
    assert rows(watch(session)) == broken

"""The view of a chat after its contents, and one breach of each rule of a stream."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import messages as m
from eca_protocol.errors import DecodeError
from eca_protocol.fold import CallView, Conversation, Fold, LinkView, Rule, TextView, ThoughtView
from eca_protocol.revisions import Revision
from eca_protocol.testing.strategies import messages

RoleContent = tuple[m.ChatRole, m.ChatContent]

RUNNING: RoleContent = ("system", m.ChatProgressContent(state="running", text="Waiting"))
FINISHED: RoleContent = ("system", m.ChatProgressContent(state="finished"))
USAGE: RoleContent = ("system", m.ChatUsageContent(session_tokens=7))
TITLE: RoleContent = ("system", m.ChatMetadataContent(title="T"))


KEYS: dict[str, Any] = {"name": "n", "server": "s", "arguments": {"a": 1}}
OUTPUT = m.ToolCallTextOutput(text="out")


def text(words: str, role: m.ChatRole = "assistant") -> RoleContent:
    return role, m.ChatTextContent(text=words)


def thinks(words: str | None = None, *, key: str = "r", ms: float | None = None) -> RoleContent:
    if ms is not None:
        return "assistant", m.ChatReasonFinishedContent(id=key, total_time_ms=ms)
    if words is not None:
        return "assistant", m.ChatReasonTextContent(id=key, text=words)
    return "assistant", m.ChatReasonStartedContent(id=key)


def prepare(piece: str = "", *, key: str = "t") -> RoleContent:
    names = {"name": "n", "server": "s", "arguments_text": piece}
    return "assistant", m.ChatToolCallPrepareContent(id=key, **names)


def run(*, key: str = "t", asks: bool = False, **more: Any) -> RoleContent:
    content = m.ChatToolCallRunContent(id=key, manual_approval=asks, **KEYS, **more)
    return "assistant", content


def running(key: str = "t", name: str = "n") -> RoleContent:
    return "assistant", m.ChatToolCallRunningContent(id=key, **KEYS | {"name": name})


def called(key: str = "t", *, error: bool = False) -> RoleContent:
    more: dict[str, Any] = {"error": error, "total_time_ms": 5, "outputs": (OUTPUT,)}
    return "assistant", m.ChatToolCalledContent(id=key, **KEYS, **more)


def rejected(key: str = "t") -> RoleContent:
    return "assistant", m.ChatToolCallRejectedContent(id=key, reason="user-choice", **KEYS)


def folded(items: Sequence[RoleContent], fold: Fold | None = None, chat: str = "c") -> Fold:
    fold = fold or Fold()
    for role, content in items:
        params = m.ChatContentReceivedParams(chat_id=chat, role=role, content=content)
        fold.take("chat/contentReceived", params)
    return fold


def test_a_turn_is_shown_in_the_order_in_which_its_parts_began():
    link = m.ChatURLContent(title="L", url="u")
    fold = folded(
        [
            RUNNING, text("hi", "user"), thinks(), thinks("hm "), thinks("so"), thinks(ms=3),
            text("Let me "), text("look."), prepare('{"a"'), prepare(":1}"), run(asks=True),
            running(), called(), ("assistant", link), text("Done."), USAGE, TITLE,
        ]
    )  # fmt: skip
    assert fold.violations == []
    chat = fold.chats["c"]
    views = [TextView, ThoughtView, TextView, CallView, LinkView, TextView]
    assert [type(item) for item in chat.items] == views
    assert (chat.text("user"), chat.text()) == ("hi", "Let me look.Done.")
    assert (chat.title, chat.running, chat.usage) == ("T", True, USAGE[1])
    thought, call = chat.items[1], chat.items[3]
    assert (thought.text, thought.total_time_ms) == ("hm so", 3)
    assert (call.arguments_text, call.arguments, call.state) == ('{"a":1}', {"a": 1}, "called")
    assert not folded([FINISHED], fold).chats["c"].running


def test_texts_of_one_role_are_joined_unless_a_new_message_begins():
    def echo(words: str, content_id: str | None) -> RoleContent:
        return "user", m.ChatTextContent(text=words, content_id=content_id)

    echoes = [echo("a", "1"), echo("b", None), echo("c", "1"), echo("d", "2")]
    items = [RUNNING, *echoes, text("e", "system")]
    views = [each for each in folded(items).chats["c"].items if isinstance(each, TextView)]
    joined = [(each.content_id, each.text) for each in views]
    assert joined == [("1", "abc"), ("2", "d"), (None, "e")]


def test_a_call_that_asks_waits_until_it_runs_or_is_rejected():
    fold = folded([RUNNING, prepare(), run(asks=True)])
    assert [call.id for call in fold.chats["c"].waiting] == ["t"]
    folded([rejected()], fold)
    assert (fold.chats["c"].waiting, fold.violations) == ([], [])
    assert next(fold.chats["c"].calls()).reason == "user-choice"


BROKEN: dict[Rule, list[RoleContent]] = {
    Rule.UNKNOWN_CALL: [RUNNING, run(), FINISHED],
    Rule.CALL_ORDER: [RUNNING, prepare(), run(), prepare(), rejected(), FINISHED],
    Rule.PREPARE_INCOMPLETE: [RUNNING, prepare(key=""), rejected(""), FINISHED],
    Rule.PREPARE_INTERLEAVED: [
        RUNNING, prepare(), prepare(key="u"), prepare(), rejected(), rejected("u"), FINISHED
    ],
    Rule.CALL_CHANGED: [RUNNING, prepare(), run(), running(name="o"), called(), FINISHED],
    Rule.CALL_OPEN: [RUNNING, prepare(), FINISHED],
    Rule.DETAILS: [
        RUNNING, prepare(), run(details=m.ShellCommandDetails()), rejected(), FINISHED
    ],
    Rule.UNKNOWN_HOOK: [
        RUNNING, ("system", m.ChatHookActionFinishedContent(
            id="h", action_type="shell", status=0)), FINISHED
    ],
    Rule.UNKNOWN_THOUGHT: [RUNNING, thinks("x"), FINISHED],
    Rule.THOUGHT_ORDER: [RUNNING, thinks(), thinks(ms=1), thinks("x"), FINISHED],
    Rule.THOUGHT_OPEN: [RUNNING, thinks(), FINISHED],
    Rule.SILENT_PROGRESS: [("system", m.ChatProgressContent(state="running")), FINISHED],
    Rule.SECOND_FINISHED: [RUNNING, FINISHED, FINISHED],
    Rule.AFTER_FINISHED: [RUNNING, FINISHED, TITLE, USAGE],
    Rule.ROLE: [RUNNING, ("assistant", USAGE[1]), FINISHED],
}  # fmt: skip


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.name)
def test_a_broken_rule_of_a_chat_is_reported_by_its_name(rule):
    violations = folded(BROKEN[rule]).violations
    assert {violation.rule for violation in violations} == {rule}
    assert violations[0].message.startswith("chat c: expected ")


@pytest.mark.parametrize(
    ("items", "broken"),
    [
        ([prepare(), run(), called()], True),
        ([prepare(), run(), called(error=True)], False),
        ([prepare(), rejected()], False),
        ([prepare(), running(), called()], True),
        ([prepare(), run(), running(), rejected()], True),
        ([prepare(), run(), running(), called(), called()], True),
        ([prepare(), run(asks=True), running(), called()], False),
    ],
)
def test_a_call_goes_through_its_states_in_order(items, broken):
    violations = folded([RUNNING, *items, FINISHED]).violations
    assert {each.rule for each in violations} == ({Rule.CALL_ORDER} if broken else set())


def test_a_deleted_chat_stays_silent_until_it_is_prompted_again():
    fold = Fold()
    fold.on_prompt("c")
    folded([RUNNING, text("old"), FINISHED], fold)
    fold.on_deleted("c")
    folded([FINISHED], fold)
    assert [each.rule for each in fold.violations] == [Rule.AFTER_DELETE]
    assert fold.chats == {}
    fold.on_prompt("c")
    folded([RUNNING, text("new"), FINISHED], fold)
    assert (len(fold.violations), fold.chats["c"].text()) == (1, "new")


def test_a_chat_without_a_prompt_is_unknown_unless_its_parent_was_prompted():
    fold = Fold()
    fold.on_prompt(None)
    folded([RUNNING], fold, "the server named it")
    assert fold.violations == []
    role, content = RUNNING
    for parent in (None, "the server named it", "x"):
        params = m.ChatContentReceivedParams(
            chat_id=f"sub of {parent}", parent_chat_id=parent, role=role, content=content
        )
        fold.take("chat/contentReceived", params)
    assert fold.chats["sub of the server named it"].parent_id == "the server named it"
    violations = [(each.rule, each.chat_id) for each in fold.violations]
    assert violations == [(Rule.STRANGE_CHAT, "sub of None"), (Rule.STRANGE_CHAT, "sub of x")]


def test_a_chat_that_is_cleared_and_opened_again_shows_what_came_since():
    fold = folded([RUNNING, text("old"), prepare(), rejected(), FINISHED])
    fold.take("chat/cleared", m.ChatClearedParams(chat_id="c"))
    assert fold.chats["c"].items == []
    fold.take("chat/opened", m.ChatOpenedParams(chat_id="c", title="T"))
    fold.take("chat/statusChanged", m.ChatStatusChangedParams(chat_id="c", status="idle"))
    folded([prepare(), rejected(), text("kept")], fold)
    chat = fold.chats["c"]
    assert (chat.text(), chat.title, chat.status, fold.violations) == ("kept", "T", "idle", [])
    chosen = m.ChatConfig(agents=("plan",), select_agent="plan")
    fold.take("config/updated", m.ConfigUpdatedParams(chat_id="c", chat=chosen))
    assert (chat.selection, fold.config) == (chosen, m.ChatConfig())
    fold.take("chat/deleted", m.ChatDeletedParams(chat_id="c"))
    assert fold.chats == {}


def test_a_subagent_s_chat_is_shown_anew_with_its_call_be_it_in_a_fork():
    fold = folded([text("hi")])
    for parent in ("c", "c", "fork"):
        for role, content in (prepare(), rejected()):
            params = m.ChatContentReceivedParams(
                chat_id="sub", parent_chat_id=parent, role=role, content=content
            )
            fold.take("chat/contentReceived", params)
        assert fold.chats["sub"].parent_id == parent
        assert len(list(fold.chats["sub"].calls())) == 1
        fold.take("chat/cleared", m.ChatClearedParams(chat_id="c", messages=True))
    assert not fold.violations
    fold.take("chat/deleted", m.ChatDeletedParams(chat_id="fork"))
    assert list(fold.chats) == ["c"]


def test_a_fork_may_be_reported_once_in_its_chat_though_a_turn_ended_meanwhile():
    fold = folded([RUNNING])
    report = text("This chat goes on as another one, too.", "system")
    fold.allow_report("c")
    folded([FINISHED, report], fold)
    assert fold.violations == []
    folded([report], fold)
    fold.allow_report("c")
    folded([FINISHED], fold)
    rules = [each.rule for each in fold.violations]
    assert rules == [Rule.AFTER_FINISHED, Rule.SECOND_FINISHED]


def test_raw_messages_of_both_sides_are_folded_together():
    running = {"type": "progress", "state": "running", "text": "Waiting"}
    params = {"chatId": "c", "role": "system", "content": running}
    content = {"method": "chat/contentReceived", "params": params}
    answer = {"id": 1, "result": {}}
    prompt = {"id": 2, "method": "chat/prompt", "params": {"chatId": "c", "message": "hi"}}
    delete = {"id": 1, "method": "chat/delete", "params": {"chatId": "c"}}
    strange = {"method": "my/own", "params": []}
    refusal = {"id": 1, "error": {"code": -32603, "message": "no"}}
    odd: list[dict[str, object]] = [{"method": ["x"]}, {"id": [1], "result": None}]

    def broken_rules(*messages: dict[str, object]) -> list[Rule]:
        conversation = Conversation()
        for message in messages:
            conversation.passed("client" if message in (prompt, delete) else "server", message)
        return [each.rule for each in conversation.fold.violations]

    assert broken_rules(prompt, content, strange, delete, answer) == []
    assert broken_rules(prompt, delete, content, answer, content) == [Rule.AFTER_DELETE]
    assert broken_rules(prompt, delete, prompt, content, answer, content) == []
    assert broken_rules(prompt, delete, refusal, content) == []
    assert broken_rules(*odd, prompt, content) == []


def test_a_client_s_odd_values_are_passed_over():
    conversation = Conversation()
    for method in ("chat/prompt", "chat/delete"):
        for chat_id in (["c"], {}, 7, None):
            message = {"id": {}, "method": method, "params": {"chatId": chat_id}}
            assert conversation.passed("client", message) == ()


def test_the_draft_is_known_by_initialize():
    initialize = {"capabilities": {"codeAssistant": {"doc": True}}}
    delta = {"chatId": "c", "content": {"type": "text", "text": "a"}, "isComplete": False}
    items = {"method": "chat/contentReceived", "params": delta}
    conversation = Conversation()
    with pytest.raises(DecodeError):
        conversation.passed("server", items)
    conversation.passed("client", {"id": 1, "method": "initialize", "params": initialize})
    assert conversation.passed("server", items) == ()
    assert conversation.fold.chats["c"].text() == "a"


@pytest.mark.parametrize(
    ("method", "ids", "states"),
    [
        ("chat/toolCallApprove", ["whichever"], ["called"]),
        ("chat/toolCallApprove", [None], ["called"]),
        ("chat/toolCallReject", ["change-1"], ["rejected"]),
        ("chat/toolCallApprove", ["change-2", "whichever"], ["called", "called"]),
        ("chat/toolCallApprove", ["whichever", "change-2"], ["rejected", "called"]),
    ],
)
def test_the_users_decision_on_a_draft_s_changes_is_seen(method, ids, states):
    change = {"type": "fileChange", "description": "d", "manualApproval": True}
    closing = {"type": "text", "text": ""}
    conversation = Conversation(Revision.DRAFT)

    def receive(content: dict[str, object], *, is_complete: bool) -> None:
        params = {"chatId": "c", "content": content, "isComplete": is_complete}
        message = {"method": "chat/contentReceived", "params": params}
        assert conversation.passed("server", message) == ()

    for _ in states:
        receive(change, is_complete=False)
    for call_id in ids:
        params = {"chatId": "c", "toolCallId": call_id}
        conversation.passed("client", {"method": method, "params": params})
    receive(closing, is_complete=True)
    assert [call.state for call in conversation.fold.chats["c"].calls()] == states


def test_notifications_outside_of_chats_are_merged():
    fold = Fold()
    first = m.ChatConfig(models=("a/b",), select_model="a/b", behaviors=("agent",))
    server = m.EcaServerUpdatedParams(name="ECA", status="running", tools=())
    message = m.ShowMessageParams(type="info", message="hi")
    provider = m.ProviderStatus(id="p", auth=m.ProviderAuth(status="local"))
    for method, params in {
        "config/updated": m.ConfigUpdatedParams(chat=first),
        "tool/serverUpdated": server,
        "$/progress": m.ProgressParams(type="start", task_id="1", title="Starting"),
        "$/showMessage": message,
        "providers/updated": provider,
        "no/such": None,
    }.items():
        assert fold.take(method, params) == ()
    assert (fold.servers, fold.tasks, fold.messages) == (
        {"ECA": server}, {"1": "Starting"}, [message]
    )  # fmt: skip
    assert fold.providers == {"p": provider}
    assert not fold.can_prompt
    changed = m.ConfigUpdatedParams(chat=m.ChatConfig(select_behavior="plan"))
    assert [each.rule for each in fold.take("config/updated", changed)] == [Rule.NOT_LISTED]
    assert fold.config.models == ("a/b",)
    assert fold.can_prompt
    fold.take("$/progress", m.ProgressParams(type="finish", task_id="1", title=""))
    assert fold.tasks == {}


def part(kind: str, number: int) -> list[RoleContent]:
    """Return a part of a turn: its start, and the contents that follow at any later time."""
    key = f"{kind}{number}"
    return {
        "call": [prepare("{}", key=key), run(key=key), running(key), called(key)],
        "stopped": [prepare("{", key=key), rejected(key)],
        "thought": [thinks(key=key), thinks("so", key=key), thinks(ms=1, key=key)],
        "link": [("assistant", m.ChatURLContent(title="L", url=key))],
        "text": [text(f"<{number}>")],
    }[kind]


KINDS = ("call", "stopped", "thought", "link", "text")


def pieces(draw: st.DrawFn, items: RoleContent) -> list[RoleContent]:
    """Draw a content as one or, for a text, two pieces."""
    role, content = items
    if isinstance(content, m.ChatTextContent):
        at = draw(st.integers(0, len(content.text)))
        return [text(content.text[:at]), text(content.text[at:])]
    if isinstance(content, m.ChatToolCallPrepareContent):
        written, key = content.arguments_text, content.id
        at = draw(st.integers(0, len(written)))
        return [prepare(written[:at], key=key), prepare(written[at:], key=key)]
    return [(role, content)]


@given(st.lists(st.sampled_from(KINDS), max_size=6), st.data())
def test_any_order_that_is_allowed_folds_to_the_same_chat(kinds, data):
    """Draw a turn whose parts start in order and continue interleaved."""
    parts = [part(kind, number) for number, kind in enumerate(kinds)]
    plain = [RUNNING, *(content for each in parts for content in each), TITLE, USAGE, FINISHED]

    items = [RUNNING]
    beginnings = [(each, piece) for each in parts for piece in pieces(data.draw, each[0])]
    following = [[TITLE], [USAGE]]
    while beginnings or any(following):
        ways = [each for each in following if each]
        way = data.draw(st.integers(0 if beginnings else 1, len(ways)))
        if way:
            items.append(ways[way - 1].pop(0))
            continue
        begun, piece = beginnings.pop(0)
        items.append(piece)
        if not beginnings or beginnings[0][0] is not begun:
            following.append(begun[1:])
    shuffled = folded([*items, FINISHED])
    assert shuffled.violations == []
    assert shuffled.chats == folded(plain).chats


@given(st.lists(messages(direction="server_to_client"), max_size=2))
def test_any_notification_of_a_server_is_folded(notifications):
    fold = Fold()
    for method, params in notifications:
        fold.take(method, params)
    assert all(violation.message for violation in fold.violations)

"""Messages of a different edition are reported; each edition has its own rows."""

import copy
from typing import Any

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.watching import Watcher
from tests.eca_protocol.testing.watching.session import (
    CAN,
    CHAT,
    Change,
    Session,
    Side,
    after,
    answers,
    asks,
    both,
    content,
    edited,
    good_session,
    news,
    params,
    refuses,
    result,
    says,
    tells,
    twice,
    without,
)
from tests.eca_protocol.testing.watching.test_watcher import rows, watch

DOC = {"codeAssistant": {"chat": True, "doc": True}}
TODAY = {"codeAssistant": {**CAN["codeAssistant"], "chatCapabilities": {"askQuestion": True}}}
HOOK = says("c", "system", "hookActionFinished", id="h", name="n", actionType="shell", status=0)


def drafted(text: str, *, is_complete: bool = False) -> tuple[Side, dict[str, Any]]:
    content = {"type": "text", "text": text}
    return news(
        "chat/contentReceived", {"chatId": "c", "content": content, "isComplete": is_complete}
    )


def status_of(chat: str) -> tuple[Side, dict[str, Any]]:
    return news("chat/statusChanged", {"chatId": chat, "status": "idle"})


def draft_session() -> Session:
    return {
        "initialize": asks(1, "initialize", {"capabilities": DOC, "workspaceFolders": []}),
        "initialize answered": ("server", {"jsonrpc": "2.0", "id": 1, "result": {}}),
        "initialized": tells("initialized"),
        "prompt": asks(2, "chat/prompt", {"message": "Hi", "chatId": "c"}),
        "prompted": answers(2, {"chatId": "c", "status": "success", "resultMessage": ""}),
        "text": drafted("Hello"),
        "closing": drafted("", is_complete=True),
        "shutdown": asks(3, "shutdown"),
        "shut down": answers(3, None),
    }


def todays_session() -> Session:
    """Return the good session in the current edition."""
    session = good_session()
    changes = [
        edited("initialize", "params", capabilities=TODAY),
        edited("config", "params", "chat", variants=[], selectVariant=None),
        edited("tools", "params", "tools", 0, name="edit_file"),
        params("mcp", disabled=False, hasAuth=False),
        *(content(name, name="edit_file") for name in session if _is_of_call(session[name][1])),
        after("warning", status_of("c")),
    ]
    for change in changes:
        session = change(session)
    return session


def _is_of_call(message: dict[str, Any]) -> bool:
    if message.get("method") != "chat/contentReceived":
        return False
    return str(message["params"]["content"]["type"]).startswith("toolCall")


def test_a_good_session_is_good_in_each_edition() -> None:
    assert watch(todays_session()) == []
    assert watch(draft_session()) == []


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("W-33d", edited("tools", "params", "tools", 0, name="eca_edit_file")),
        ("FIELD:MCPServerUpdatedParams.hasAuth", params("mcp", hasAuth=...)),
        ("FIELD:ChatStatusChangedParams.status", params("warning + 0", status="asleep")),
        ("W-24a", after("deleted", status_of("new"))),
        ("W-11h", edited("config", "params", "chat", selectVariant="high")),
        ("W-42d", after("tools", ("server", {
            "jsonrpc": "2.0", "id": 5, "method": "editor/getReferences", "params":
            {"uri": "file:///a", "position": {"line": 1, "character": 1}}}),
            answers(5, {"status": "no-server"}, "client"))),
    ],
)  # fmt: skip
def test_todays_edition_has_rows_of_its_own(row: str, change: Change) -> None:
    assert rows(watch(change(todays_session()))) == [row]


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("W-50a", edited("initialize answered", result={"chatWelcomeMessage": ""})),
        ("W-50b", after("initialized", news("config/updated", {"chat": CHAT}))),
        ("W-50b", params("text", role="assistant")),
        ("W-50b", after("prompted", says("c", "user", "text", text="Hi"))),
        ("W-50c", without("closing", "shutdown", "shut down")),
        ("W-50c", twice("closing")),
        ("W-50a", result("prompted", status="prompting")),
        ("LIFE-18", edited("shut down", result={})),
    ],
)
def test_the_draft_has_rows_of_its_own(row: str, change: Change) -> None:
    assert rows(watch(change(draft_session()))) == [row]


def test_what_october_brought_is_no_message_of_september() -> None:
    observations = watch(good_session(), Revision.R2025_09)
    assert {each.requirement for each in observations} == {"VALUE:ChatContent=ChatMetadataContent"}
    assert watch(copy.deepcopy(without("title")(good_session())), Revision.R2025_09) == []


def test_the_first_update_says_which_edition_the_server_speaks() -> None:
    watcher = Watcher()
    session = edited("initialize", "params", capabilities=TODAY)(good_session())
    for side, message in session.values():
        assert watcher.feed(side, message) == []
    assert watcher.revision is Revision.R2025_10


def test_notifications_that_the_client_requested_beyond_its_edition_are_allowed() -> None:
    opened = news("chat/opened", {"chatId": "old"})
    requested = (asks(8, "chat/open", {"chatId": "old"}), opened, answers(8, {"found": True}))
    assert watch(after("finished", *requested)(good_session())) == []
    assert rows(watch(after("finished", opened)(good_session()))) == ["W-12d"]


@pytest.mark.parametrize(
    "change",
    [
        both(edited("prompt", id=...), without("prompted")),  # it runs and is not answered (W-4)
        after("tools", asks(9, "chat/promptStop", {"chatId": "c"}), answers(9, None)),
        after("tools", asks(9, "no/such"), ("server", {
            "jsonrpc": "2.0", "id": 9, "error": {"code": -32601, "message": "m"}})),
        after("tools", ("client", {"jsonrpc": "1.0", "id": 9, "method": "x"}), ("server", {
            "jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "m"}})),
        after("tools", ("client", {"jsonrpc": "2.0", "id": [], "method": "x"}), ("server", {
            "jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "m"}})),
        after("tools", asks("q", "chat/queryContext"), ("server", {
            "jsonrpc": "2.0", "id": "q", "error": {"code": -32600, "message": "m"}})),
    ],
)  # fmt: skip
def test_responses_to_an_odd_client_are_no_violations_of_the_server(change: Change) -> None:
    assert rows(watch(change(good_session()))) == []


@pytest.mark.parametrize("method", ["chat/fork", "chat/rollback"])
@pytest.mark.parametrize("is_prompted", [False, True])
def test_one_text_may_report_a_fork_or_a_rollback(method: str, *, is_prompted: bool) -> None:
    watcher = Watcher(revision=Revision.CURRENT)
    for entry in without("shutdown", "shut down", "exit")(good_session()).values():
        watcher.feed(*entry)
    word = says("c", "system", "text", text="This chat goes on twice.")
    assert not watcher.feed(*asks(90, method, {"chatId": "c", "contentId": "1"}))
    if is_prompted:
        assert not watcher.feed(*asks(91, "chat/prompt", {"chatId": "c", "message": "x"}))
    assert not watcher.feed(*word)
    [observation] = watcher.feed(*word)
    assert observation.requirement == ("W-20a" if is_prompted else "CHAT-14")


@pytest.mark.parametrize(
    ("place", "messages"),
    [
        ("prepare more", [news("chat/opened", {"chatId": "c"})]),
        (
            "fenced",
            [
                news("chat/opened", {"chatId": "new"}),
                says("new", "system", "metadata", title="A title"),
            ],
        ),
        (
            "prepare more",
            [
                asks(90, "chat/rollback", {"chatId": "c", "contentId": "1"}),
                refuses(90),
                asks(91, "chat/queryCommands", {"query": ""}),
                answers(91, {"commands": []}),
            ],
        ),
        ("usage", [HOOK, says("c", "user", "text", text="Go on", contentId="m-9")]),
    ],
    ids=[
        "a running chat is opened",
        "a stopped one with its title",
        "a refused rollback",
        "a hook adds a message",
    ],
)
def test_what_current_servers_do_is_not_reported(place: str, messages: list[Any]) -> None:
    session = good_session()
    expected = rows(watch(session, Revision.CURRENT))
    assert rows(watch(after(place, *messages)(session), Revision.CURRENT)) == expected

"""The clients played here notice what real ones break on, or their days would prove nothing."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.clients.chats import Broken
from tests.clients.personality import PERSONALITIES
from tests.clients.readers import Buffered, emacs_then, neovim
from tests.clients.screens import Screen
from tests.eca_server.stranger import frame

CALL = {"id": "1", "name": "eca_write_file", "server": "eca", "origin": "native"}
CHANGE = {"type": "fileChange", "path": "/a", "diff": "@@", "linesAdded": 1, "linesRemoved": 0}
WHOLE = {**CALL, "arguments": {"path": "/a"}, "details": CHANGE}
CHAT = {
    "models": ["a/b"], "selectModel": "a/b", "welcomeMessage": "",
    "behaviors": ["agent"], "selectBehavior": "agent", "agents": ["agent"], "selectAgent": "agent",
}  # fmt: skip
CONTENTS = (
    ("system", {"type": "progress", "state": "running", "text": "Waiting model"}),
    ("user", {"type": "text", "text": "hi", "contentId": "1"}),
    ("assistant", {"type": "reasonStarted", "id": "r"}),
    ("assistant", {"type": "reasonText", "id": "r", "text": "hm"}),
    ("assistant", {"type": "reasonFinished", "id": "r", "totalTimeMs": 1}),
    ("assistant", {"type": "toolCallPrepare", "argumentsText": "", **CALL}),
    ("assistant", {"type": "toolCallRun", "manualApproval": True, **WHOLE}),
    ("assistant", {"type": "toolCallRunning", **WHOLE}),
    ("assistant", {"type": "toolCalled", "error": False, "outputs": [], **WHOLE}),
    ("system", {"type": "metadata", "title": "a title"}),
    ("system", {"type": "usage", "sessionTokens": 1, "sessionCost": "0.01"}),
    ("system", {"type": "progress", "state": "finished", "text": ""}),
)
GOOD: list[Any] = [
    {"chatWelcomeMessage": ""},
    ("$/progress", {"type": "start", "taskId": "t", "title": "x"}),
    ("config/updated", {"chat": CHAT}),
    ("tool/serverUpdated", {"name": "ECA", "status": "running", "tools": [{"name": "x"}]}),
    ("$/progress", {"type": "finish", "taskId": "t", "title": "x"}),
    *(
        ("chat/contentReceived", {"chatId": "c", "role": role, "content": content})
        for role, content in CONTENTS
    ),
]


def show(name: str, messages: list[Any]) -> Screen:
    """Return a client's view of an answer to `initialize` and of the notifications behind it."""
    screen = PERSONALITIES[name].screen()
    screen.open("c")
    start, *notifications = messages
    screen.start(start)
    for method, params in notifications:
        screen.show(method, params)
    return screen


@pytest.mark.parametrize("name", PERSONALITIES)
def test_nothing_is_wrong_with_what_is_right(name):
    screen = show(name, GOOD)
    assert screen.can_prompt
    assert screen.chats["c"].ends == 1


def content(kind: str, **members: Any) -> Callable[[list[Any]], None]:
    """The first content of that type is another one; a member set to `...` is missing."""

    def change(messages: list[Any]) -> None:
        for _, params in messages[5:]:
            if params["content"]["type"] == kind:
                params["content"] |= members
                for key in [key for key in members if members[key] is ...]:
                    del params["content"][key]
                return

    return change


def config(**members: Any) -> Callable[[list[Any]], None]:
    return lambda messages: messages[2][1]["chat"].update(members)


def without(place: int) -> Callable[[list[Any]], None]:
    return lambda messages: messages.pop(place)


def twice(place: int) -> Callable[[list[Any]], None]:
    return lambda messages: messages.insert(place, messages[place])


def elsewhere(messages: list[Any]) -> None:
    messages[6][1]["chatId"] = "another"


def drawn_too(messages: list[Any]) -> None:
    messages.append(("rewrite/contentReceived", {"content": {"type": "text", "text": "x"}}))


@pytest.mark.parametrize(
    ("requirement", "name", "wrong"),
    [
        (1, "Emacs then", lambda messages: messages[0].clear()),
        (1, "Emacs", lambda messages: messages[0].update(chatWelcomeMessage=None)),
        (2, "VS Code then", config(selectModel="no/such")),
        (14, "Emacs then", twice(-1)),
        (15, "VS Code", content("progress", text="")),
        (15, "Emacs", content("progress", text=...)),
        (16, "VS Code then", without(10)),
        (16, "IntelliJ", without(7)),
        (16, "Emacs then", content("toolCallPrepare", server=...)),
        (18, "Emacs", content("toolCallRun", arguments=["/a"])),
        (19, "Emacs", content("usage", sessionCost=0.01)),
        (19, "Emacs then", content("usage", limit={"context": "many"})),
        (19, "Neovim", content("usage", sessionTokens=...)),
        (21, "Desktop", content("toolCallRun", details={**CHANGE, "diff": None})),
        (21, "VS Code", content("toolCallRun", details={**CHANGE, "linesAdded": "1"})),
        (22, "CLI", content("toolCallPrepare", name="task")),
        (23, "Neovim", config(models=None)),
        (23, "VS Code", config(selectBehavior=None)),
        (33, "Emacs then", elsewhere),
        (33, "Neovim", drawn_too),
        (7, "Emacs", lambda messages: messages.append(("$/showMessage", {"message": "50% off"}))),
    ],
)
def test_a_client_notices_what_it_breaks_on(requirement, name, wrong):
    messages = copy.deepcopy(GOOD)
    wrong(messages)
    with pytest.raises(Broken):
        show(name, messages)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("VS Code then", lambda messages: messages[2][1]["chat"].pop("selectBehavior")),
        ("VS Code", lambda messages: messages[2][1]["chat"].pop("selectAgent")),
        ("Emacs", without(2)),
        ("Desktop", without(4)),
        ("Desktop", lambda messages: messages.__delitem__(slice(1, 5, 3))),
    ],
)
def test_a_client_without_enough_information_sends_no_prompt(name, wrong):
    messages = copy.deepcopy(GOOD)
    wrong(messages)
    assert not show(name, messages).can_prompt


ONE, TWO = frame({"n": 1}), frame({"n": 2})


@pytest.mark.parametrize(
    ("reader", "reads", "understood"),
    [
        (Buffered(), [ONE + TWO], [1, 2]),
        (Buffered(), [bytes([byte]) for byte in ONE + TWO], [1, 2]),
        (Buffered(), [b"a stray line\n" + ONE], []),
        (Buffered(), [ONE.replace(b": ", b":")], []),
        (emacs_then(), [ONE + TWO], [1, 2]),
        (emacs_then(), [ONE[:25], ONE[25:] + TWO], [2]),
        (emacs_then(), [ONE + TWO[:10], TWO[10:]], [1]),
        (neovim(), [ONE + TWO], [1, 2]),
        (neovim(), [ONE + TWO[:25], TWO[25:]], [1]),
    ],
)
def test_a_reader_loses_what_its_client_loses(reader, reads, understood):
    came = [message["n"] for read in reads for message in reader.feed(read)]
    assert came == understood


def test_neovim_takes_a_second_header_for_the_body():
    with pytest.raises(ValueError, match="Expecting value"):
        neovim().feed(ONE.replace(b"\r\n\r\n", b"\r\nContent-Type: x\r\n\r\n"))

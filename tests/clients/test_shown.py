"""Short exchanges with today's plugins, in their own words, and what their users must read."""

import json
import re
from pathlib import Path

import attrs
import pytest

import eca_server
from eca_server.client.profiles import ClientProfile, Display, Writing
from tests.clients.editors import EMACS, VSCODE, answer, configured, send
from tests.clients.shown import Block, Buffer, Page
from tests.eca_server.stranger import Stranger, content_of

OCTOBER = EMACS
for newer, then in (
    (b'"chatCapabilities":{"askQuestion":true},', b""),
    (b',"definition":true,"references":true', b""),
    (b"chatAgent", b"chatBehavior"),
):
    OCTOBER = OCTOBER.replace(newer, then)
ALLOWED = configured(toolCall={"approval": {"byDefault": "allow"}}, chat={"title": False})
PROMPT = b"""{"jsonrpc":"2.0","id":%d,"method":"chat/prompt","params":{"chatId":"c","message":%b,\
"model":"simulator/script","agent":"code","contexts":[]}}"""
GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "plugins.md").read_text("utf-8")
OPEN = b'{"jsonrpc":"2.0","id":%d,"method":"chat/open","params":{"chatId":"c"}}'


def prompt(server: Stranger, number: int, *lines: str) -> None:
    """Send a prompt as the page does, and read to its end."""
    send(server, PROMPT % (number, json.dumps("\n".join(lines)).encode()))
    server.expect_finished()


@pytest.mark.requirement("W-26d")
def test_a_system_text_is_a_message_or_a_paragraph_of_its_own(arrive):
    for hello in (VSCODE, EMACS):
        server = arrive(hello, ALLOWED)
        prompt(server, 5, "say Some words here", "fail quota the account is empty")
        page, buffer = Page(server.received), Buffer(server.received)
        assert page.chats["c"].texts("assistant") == ["Some words here"]
        [failure] = page.chats["c"].texts("system")
        assert "the account is empty" in failure
        assert "Some words here\n\n" in buffer.text
        assert "Some words here\n\n\n" not in buffer.text


@pytest.mark.requirement("W-26c")
def test_a_reopened_chat_looks_as_it_looked(arrive, tmp_path):
    shown: list[list[Block]] = []
    server = arrive(VSCODE, ALLOWED)
    file = json.dumps({"path": str(tmp_path / "project" / "new.txt"), "content": "one\ntwo\n"})
    prompt(
        server, 5, "think hm", f"call eca_write_file {file}", "cite https://x.example x", "say Y"
    )
    shown.append([*Page(server.received).chats["c"].blocks.values()])
    assert server.leave() == 0
    server = arrive(VSCODE, ALLOWED)
    assert answer(server, OPEN % 7)["result"]["found"]
    page = Page(server.received)
    shown.append([*page.chats["c"].blocks.values()])
    assert not page.chats["c"].busy
    before, after = shown
    assert after == before
    [call] = [each for each in after if each.kind == "call"]
    assert call.details["linesAdded"] == 2
    assert call.state == "succeeded"
    assert "https://x.example" in "".join(each.text for each in after)


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-26a")
@pytest.mark.parametrize(("hello", "images"), [(VSCODE, []), (OCTOBER, []), (EMACS, ["image/png"])])
def test_a_picture_is_shown_or_linked(arrive, hello, images):
    server = arrive(hello, ALLOWED)
    prompt(server, 5, "draw ff0000")
    assert Buffer(server.received).images == images
    links = "".join(
        content_of(each).get("text", "") for each in server.received if content_of(each)
    ).count(".png")
    assert bool(links) is not bool(images)


@pytest.mark.requirement("W-15b")
def test_a_message_is_read_by_every_user(arrive):
    for hello in (VSCODE, EMACS):
        server = arrive(hello, ALLOWED, folder="gone")
        prompt(server, 5, "say so")
        prompt(server, 6, "say so")
        notices = Page(server.received).chats["c"].texts("system")
        if hello is EMACS:
            notices = [each for each in Buffer(server.received).messages if "gone" in each]
        assert len(notices) == 1
        assert "gone" in notices[0]


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-31b")
@pytest.mark.parametrize(("hello", "answers"), [(VSCODE, []), (EMACS, []), (OCTOBER, ["a pity"])])
def test_a_rejection_ends_the_turn_for_todays_clients(arrive, hello, answers):
    server = arrive(hello, configured(chat={"title": False}))
    command = json.dumps({"command": "touch never"})
    send(server, PROMPT % (5, json.dumps(f"call eca_shell_command {command}\nsay a pity").encode()))
    pending_call = server.until(lambda each: content_of(each).get("manualApproval"))[-1]
    send(
        server,
        b'{"jsonrpc":"2.0","method":"chat/toolCallReject","params":{"chatId":"c","toolCallId":%b}}'
        % json.dumps(content_of(pending_call)["id"]).encode(),
    )
    server.expect_finished()
    chat = Page(server.received).chats["c"]
    assert chat.texts("assistant") == answers
    assert not chat.busy
    assert [each.state for each in chat.blocks.values() if each.kind == "call"] == ["rejected"]


def test_the_guide_explains_each_difference_between_clients():
    differences = GUIDE.partition("\n## Differences between clients\n")[2]
    explained = re.findall(r"^\| `(\w+)` \| \S", differences, re.MULTILINE)
    groups = (Writing, Display, ClientProfile)
    traits = [field.name for group in groups for field in attrs.fields(group)]
    traits = [name for name in traits if name not in {"writing", "display"}]
    missing = [name for name in traits if name not in explained]
    assert not missing, "write the reason of each into docs/guides/plugins.md"
    assert explained == traits
    server = Path(eca_server.__file__).parent
    text = "".join(path.read_text("utf-8") for path in server.rglob("*.py"))
    unread = [name for name in traits if not re.search(rf"\.{name}\b", text)]
    assert not unread, "read it where the client differs, or remove it"


@pytest.mark.requirement("W-20c")
@pytest.mark.parametrize("hello", [VSCODE, EMACS])
def test_a_session_has_the_order_of_the_guide(arrive, hello):
    server = arrive(hello, ALLOWED)
    prompt(server, 5, "think hm", 'call eca_directory_tree {"path": "."}', "say so")
    order: list[str] = []
    for value in server.received:
        name = value.get("method", "the answer")
        content = content_of(value)
        if content.get("type") == "progress":
            name = f"progress {content['state']}"
        elif content:
            name = f"{content['type']} ({value['params']['role']})"
        if order[-1:] != [name]:
            order.append(name)
    [written] = re.findall(r"^```text\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert order == written.splitlines()

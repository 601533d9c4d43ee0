"""A user's day with any client: each part leaves the chat ready for the next.

Parts that a client has no button for are left out for it.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from tests.clients.seat import Seat
from tests.eca_server.processes import assert_some, children
from tests.promises import within

SCRIPTED = Path(__file__).parents[1] / "eca_server" / "agent" / "mcp" / "scripted_server.py"
CONFIG = {
    "defaultModel": "simulator/script",
    "catalog": {"refresh": False},
    "providers": {
        "many": {
            "api": "openai-chat",
            "url": "http://127.0.0.1:9",
            "key": "none",
            "fetchModels": False,
            "models": {f"one-of-many-models-{number}": {} for number in range(300)},
        }
    },
    "mcpServers": {
        "scripted": {
            "command": sys.executable,
            "args": ["-S", "-E", str(SCRIPTED), "{}"],
            "disabled": True,
            "startTimeoutSeconds": 60,
        }
    },
}
"""More models than some clients can read at once, and an MCP server that is off."""

APPROVE, REJECT = "chat/toolCallApprove", "chat/toolCallReject"


def call(tool: str, **arguments: Any) -> str:
    """A line of the simulator's script."""
    return f"call {tool} {json.dumps(arguments)}"


def talks(seat: Seat) -> None:
    text = "think hm\nsay an answer / with ünïcode \U0001f600"
    chat = seat.chat(seat.turn(text))
    assert chat.echoed.removesuffix("\n") == text
    assert chat.answer == "an answer / with ünïcode \U0001f600"
    assert chat.thought == "hm"
    assert chat.usage["sessionTokens"] > 0
    assert not chat.open_thoughts
    seat.until(lambda: chat.title)
    assert "\n" not in chat.title


def reads_a_long_answer(seat: Seat) -> None:
    """Neither deltas nor a long text lose anything on their way."""
    chat = seat.chat(seat.turn("repeat 200 delta\nsay " + "word " * 300 + "end"))
    assert chat.answer == "delta" * 200 + "word " * 300 + "end"


def lets_a_file_be_read(seat: Seat) -> None:
    path = str(seat.place.project / "long.txt")
    chat = seat.chat(seat.turn(call("eca_read_file", path=path) + "\nsay read"))
    (card,) = chat.cards.values()
    assert (card.state, card.error) == ("called", False)
    assert "a line of the file" in card.output
    assert json.loads(card.arguments_text) == card.arguments == {"path": path}
    assert chat.answer == "read"


def approves_a_change(seat: Seat) -> None:
    path = seat.place.project / "new.txt"
    script = call("eca_write_file", path=str(path), content="one\ntwo\n" * 300)
    chat_id = seat.prompt(f"{script}\nsay written")
    call_id = seat.approve(chat_id)
    card = seat.chat(chat_id).cards[call_id]
    assert card.details["path"] == str(path)
    assert card.details["linesAdded"] == 600
    seat.expect_finished(chat_id)
    assert card.state == "called"
    assert path.read_text() == "one\ntwo\n" * 300
    assert seat.chat(chat_id).answer == "written"
    seat.press(APPROVE, chat_id, call_id)
    seat.press(REJECT, chat_id, call_id)


def rejects_a_command(seat: Seat) -> None:
    """A decision on a call that is over counts for no later one; today the turn ends by it."""
    path = seat.place.project / "never"
    script = call("eca_shell_command", command=f"touch {path}")
    chat_id = seat.prompt(f"{script}\nsay a pity")
    call_id = seat.reject(chat_id)
    seat.expect_finished(chat_id)
    assert seat.chat(chat_id).cards[call_id].state == "rejected"
    is_of_today = any(value.get("method") == "chat/statusChanged" for value in seat.received)
    assert seat.chat(chat_id).answer == ("" if is_of_today else "a pity")
    assert not path.exists()


def asks_for_diagnostics(seat: Seat) -> None:
    chat = seat.chat(seat.turn(call("eca_editor_diagnostics") + "\nsay looked"))
    (card,) = chat.cards.values()
    if seat.who.assistant.get("editor", {}).get("diagnostics"):
        assert "/p/a.py:3:1: " in card.output
        assert "unused" in card.output
    else:
        assert card.error
        assert not seat.request_methods


def stops_an_answer(seat: Seat) -> None:
    chat_id = seat.prompt("think hm\nsay here\nwait forever")
    seat.until(lambda: seat.chat(chat_id).answer == "here")
    seat.stop(chat_id)
    seat.expect_finished(chat_id)


def stops_while_it_is_asked(seat: Seat) -> None:
    chat_id = seat.prompt(call("eca_shell_command", command="true"))
    seat.until(lambda: seat.chat(chat_id).asking)
    seat.stop(chat_id)
    seat.expect_finished(chat_id)
    (card,) = seat.chat(chat_id).cards.values()
    assert card.state == "rejected"


def stops_a_command_that_runs(seat: Seat) -> None:
    chat_id = seat.prompt(call("eca_shell_command", command="sleep 60"))
    call_id = seat.approve(chat_id)
    seat.until(lambda: seat.chat(chat_id).cards[call_id].state == "running")
    seat.stop(chat_id)
    seat.expect_finished(chat_id)
    assert seat.chat(chat_id).cards[call_id].state == "called"


def writes_while_it_answers(seat: Seat) -> None:
    """A second prompt to a busy chat has its turn behind the first, and a third one as well."""
    chat_id = seat.prompt("say first\nwait 0.02")
    assert seat.prompt("say second", chat_id) == chat_id
    seat.expect_finished(chat_id, times=2)
    seat.turn("say third", chat_id)
    assert seat.chat(chat_id).answer == "firstsecondthird"


def completes_while_it_answers(seat: Seat) -> None:
    """Query contexts and commands over and over; nothing of a turn is lost."""
    chat_id = seat.prompt("repeat 50 delta")
    for query in ("", "lo", "new"):
        result = seat.ask("chat/queryContext", {"query": query, "chatId": chat_id, "contexts": []})
        commands = seat.ask("chat/queryCommands", {"query": query, "chatId": None})
        assert all(isinstance(each["arguments"], list) for each in commands["commands"])
        assert query != "lo" or any("long.txt" in str(each) for each in result["contexts"])
    seat.expect_finished(chat_id)
    assert seat.chat(chat_id).answer == "delta" * 50


def selects(seat: Seat) -> None:
    """Select; the selection counts and is not sent back."""
    before = dict(seat.screen.config)
    seat.select("plan")
    path = seat.place.project / "planned.txt"
    chat_id = seat.turn(call("eca_write_file", path=str(path), content="x") + "\nsay planned")
    (card,) = seat.chat(chat_id).cards.values()
    assert card.state == "rejected"
    assert seat.chat(chat_id).answer == "planned"
    seat.select("agent")
    assert seat.screen.config == before


def has_two_chats(seat: Seat) -> None:
    one, two = (seat.prompt(f"repeat 20 {name}\nwait 0.01\nsay !") for name in "ab")
    assert one != two
    seat.until(lambda: seat.chat(one).ends and seat.chat(two).ends)
    assert [seat.chat(each).answer for each in (one, two)] == ["a" * 20 + "!", "b" * 20 + "!"]


def starts_and_stops_a_tool_server(seat: Seat) -> None:
    assert seat.screen.servers["scripted"] == "disabled"
    seat.tell("mcp/startServer", {"name": "scripted"})
    seat.until(lambda: seat.screen.servers["scripted"] == "running")
    chat_id = seat.prompt(call("scripted__echo") + "\nsay done")
    seat.approve(chat_id)
    seat.expect_finished(chat_id)
    (card,) = seat.chat(chat_id).cards.values()
    assert (card.server, card.name, card.output) == ("scripted", "echo", "called")
    seat.tell("mcp/stopServer", {"name": "scripted"})
    seat.until(lambda: seat.screen.servers["scripted"] == "stopped")


def deletes_chats(seat: Seat) -> None:
    """An idle one and one that runs; its id may be used again, and remembers nothing."""
    idle = seat.turn("say one")
    seat.until(lambda: seat.chat(idle).title)
    seat.delete(idle)
    busy = seat.prompt("say here\nwait forever")
    seat.until(lambda: seat.chat(busy).answer == "here" and seat.chat(busy).title)
    seat.delete(busy)
    seat.turn("say again", busy)
    assert seat.chat(busy).answer == "again"
    assert seat.chat(busy).ends == 1


def presses_what_is_not_there(seat: Seat) -> None:
    """Buttons of what is over, unknown or newer than the server: nothing of it shows."""
    for method in (APPROVE, REJECT):
        seat.tell(method, {"chatId": "nobody's", "toolCallId": "none"})
        seat.tell(method, {"chatId": None, "toolCallId": "none"})
    seat.tell("chat/promptSteer", {"chatId": "nobody's", "message": "left"})
    for request in ("chat/queryCommands", "chat/clear", "chat/list", "no/such"):
        seat.tell(request, {"chatId": "nobody's"})


def completes_a_line(seat: Seat) -> None:
    """A line is completed, or nothing is offered; its keys are spelled as Emacs does."""
    place = {"line": 1, "character": 7}
    params = {"doc-text": "say it", "doc-version": 5, "position": place}
    answer = seat.ask("completion/inline", params)
    assert [item["docVersion"] for item in answer["items"]] in ([], [5])


def resumes_a_chat(seat: Seat) -> None:
    """A chat of the list is shown again, whole, before the answer to `chat/open`."""
    chat_id = seat.turn(
        call("eca_read_file", path=str(seat.place.project / "long.txt")) + "\nsay x"
    )
    before = seat.chat(chat_id)
    listed = seat.try_to("chat/list", {"limit": 50})
    if listed is None:
        return
    assert chat_id in [each["id"] for each in listed["chats"]]
    seat.screen.chats[chat_id] = seat.screen.chat()
    assert seat.ask("chat/open", {"chatId": chat_id})["found"]
    after = seat.chat(chat_id)
    assert (after.answer, after.echoed) == (before.answer, before.echoed)
    assert [card.state for card in after.cards.values()] == ["called"]
    assert not after.busy


def finds_files(seat: Seat) -> None:
    result = seat.try_to("chat/queryFiles", {"query": "long", "chatId": None})
    assert result is None or any("long.txt" in file["path"] for file in result["files"])


def renames_a_chat(seat: Seat) -> None:
    chat_id = seat.turn("say x")
    seat.until(lambda: seat.chat(chat_id).title)
    if seat.try_to("chat/update", {"chatId": chat_id, "title": "a name"}) is not None:
        assert seat.chat(chat_id).title == "a name"


def clears_a_chat(seat: Seat) -> None:
    """It is empty on the screen once the server has said so."""
    chat_id = seat.turn("say before")
    if seat.try_to("chat/clear", {"chatId": chat_id, "messages": True}) is not None:
        seat.screen.chats[chat_id] = seat.screen.chat()
        seat.turn("say after", chat_id)
        assert seat.chat(chat_id).answer == "after"


def switches_a_tool_server_on_and_off(seat: Seat) -> None:
    seat.tell("mcp/enableServer", {"name": "scripted"})
    if seat.try_to("chat/list", {}) is None:
        return
    seat.until(lambda: seat.screen.servers["scripted"] == "running")
    seat.tell("mcp/disableServer", {"name": "scripted"})
    seat.until(lambda: seat.screen.servers["scripted"] == "disabled")


def looks_at_the_other_tabs(seat: Seat) -> None:
    seat.try_to("jobs/list")
    providers = seat.try_to("providers/list")
    assert providers is None or isinstance(providers["providers"], list)


def rewrites_a_selection(seat: Seat) -> None:
    """A selection is made anew, where the client has the button; no chat shows it."""
    if not seat.who.assistant.get("rewrite"):
        return
    chats = set(seat.screen.chats)
    place = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    params = {"id": "1", "text": "x = 1\n", "prompt": "say x = 2", "range": place}
    assert seat.ask("rewrite/prompt", params)["status"] == "prompting"

    def contents() -> list[Any]:
        method = "rewrite/contentReceived"
        return [
            each["params"]["content"] for _, each in seat.passed if each.get("method") == method
        ]

    seat.until(lambda: contents()[-1:] and contents()[-1]["type"] == "finished")
    assert contents()[0]["type"] == "started"
    assert set(seat.screen.chats) == chats


def is_asked_by_the_model(seat: Seat) -> None:
    """A question is put, and a definition looked up, where the client can do it."""
    path = str(seat.place.project / "long.txt")
    question = call("eca_ask_user", question="Which one?", options=[{"label": "the blue one"}])
    place = call("eca_editor_definition", path=path, line=1, symbol="line")
    chat = seat.chat(seat.turn(f"{question}\n{place}\nsay so"))
    assert chat.answer == "so"
    question_card, looked_up = chat.cards.values()
    can = seat.who.assistant if "variants" in seat.screen.config else {}
    assert question_card.error is not bool(can.get("chatCapabilities"))
    assert question_card.error or "the blue one" in question_card.output
    assert looked_up.error is not bool(can.get("editor", {}).get("definition"))
    assert looked_up.error or "/p/b.py:7:1" in looked_up.output


Part = Callable[[Seat], None]

PARTS: Sequence[tuple[Part, frozenset[str]]] = (
    (talks, frozenset()),
    (reads_a_long_answer, frozenset()),
    (lets_a_file_be_read, frozenset()),
    (approves_a_change, frozenset()),
    (rejects_a_command, frozenset()),
    (asks_for_diagnostics, frozenset()),
    (stops_an_answer, frozenset({"chat/promptStop"})),
    (stops_while_it_is_asked, frozenset({"chat/promptStop"})),
    (stops_a_command_that_runs, frozenset({"chat/promptStop"})),
    (writes_while_it_answers, frozenset()),
    (completes_while_it_answers, frozenset({"chat/queryContext"})),
    (selects, frozenset()),
    (has_two_chats, frozenset()),
    (starts_and_stops_a_tool_server, frozenset({"mcp/startServer", "mcp/stopServer"})),
    (deletes_chats, frozenset({"chat/delete"})),
    (presses_what_is_not_there, frozenset()),
    (completes_a_line, frozenset()),
)
"""The parts of a day, and the methods that a client must know for each."""

NEWER: Sequence[tuple[Part, frozenset[str]]] = (
    (resumes_a_chat, frozenset({"chat/list", "chat/open"})),
    (finds_files, frozenset({"chat/queryFiles"})),
    (renames_a_chat, frozenset({"chat/update"})),
    (clears_a_chat, frozenset({"chat/clear"})),
    (switches_a_tool_server_on_and_off, frozenset({"mcp/enableServer"})),
    (is_asked_by_the_model, frozenset()),
    (rewrites_a_selection, frozenset()),
    (looks_at_the_other_tabs, frozenset({"providers/list", "jobs/list"})),
)
"""Requests that clients have buttons for since October 2025; a server may know none of them."""


@attrs.frozen(kw_only=True)
class Evening:
    """The end of a day.

    Attributes:
        children: the processes that the server had when it had answered `shutdown`.
        code: its exit code, or the signal that ended it.
    """

    children: set[int]
    code: int


def has_work(seat: Seat) -> None:
    """A turn runs, and a command."""
    busy = seat.prompt("say here\nwait forever")
    seat.until(lambda: seat.chat(busy).answer == "here")
    works = seat.prompt(call("eca_shell_command", command="sleep 60"))
    call_id = seat.approve(works)
    seat.until(lambda: seat.chat(works).cards[call_id].state == "running")
    assert_some(seat.server_pid)


def goes_home(seat: Seat) -> Evening:
    """Leave in the middle of work, as this client leaves."""
    has_work(seat)
    with within(3):
        assert seat.ask("shutdown") is None
    child_processes = children(seat.server_pid)
    seat.tell("exit")
    if seat.who.leaves_by is not None:
        seat.line.kill(seat.who.leaves_by)
    return Evening(children=child_processes, code=seat.line.exit_code(within=3.0))

"""A session without violations, as named entries, and changes to it."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

Side: TypeAlias = Literal["client", "server"]
Session: TypeAlias = dict[str, tuple[Side, dict[str, Any]]]
Change: TypeAlias = Callable[[Session], Session]

CHAT = {
    "models": ["a/one", "a/two"],
    "selectModel": "a/one",
    "behaviors": ["agent", "plan"],
    "selectBehavior": "agent",
    "agents": ["agent", "plan"],
    "selectAgent": "agent",
    "welcomeMessage": "Hello",
}
SERVED = {"type": "native", "name": "ECA", "status": "running"}
TOOL = {"name": "eca_edit_file", "description": "Edits.", "parameters": {"type": "object"}}
CALL = {"id": "call-1", "name": "eca_edit_file", "server": "eca", "origin": "native"}
FILE = {"type": "fileChange", "path": "/a", "diff": "@@", "linesAdded": 1, "linesRemoved": 0}
WHOLE = {**CALL, "arguments": {"path": "/a"}, "details": FILE}
CAN = {"codeAssistant": {"chat": True, "editor": {"diagnostics": True}}}
PLACE = {"start": {"line": 1, "character": 1}, "end": {"line": 1, "character": 2}}


def asks(id_: Any, method: str, params: Any = None) -> tuple[Side, dict[str, Any]]:
    return "client", {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}


def tells(method: str, params: Any = None, side: Side = "client") -> tuple[Side, dict[str, Any]]:
    return side, {"jsonrpc": "2.0", "method": method, "params": params or {}}


def answers(id_: Any, result: Any, side: Side = "server") -> tuple[Side, dict[str, Any]]:
    return side, {"jsonrpc": "2.0", "id": id_, "result": result}


def refuses(id_: Any, code: int = -32602) -> tuple[Side, dict[str, Any]]:
    return "server", {"jsonrpc": "2.0", "id": id_, "error": {"code": code, "message": "no"}}


def news(method: str, params: Any) -> tuple[Side, dict[str, Any]]:
    return tells(method, params, "server")


def says(chat: str, role: str, type_: str, **members: Any) -> tuple[Side, dict[str, Any]]:
    params = {"chatId": chat, "role": role, "content": {"type": type_, **members}}
    return news("chat/contentReceived", params)


def prompted(chat: str) -> dict[str, Any]:
    return {"chatId": chat, "model": "a/one", "status": "prompting"}


def running(chat: str) -> tuple[Side, dict[str, Any]]:
    return says(chat, "system", "progress", state="running", text="Waiting")


def finished(chat: str) -> tuple[Side, dict[str, Any]]:
    return says(chat, "system", "progress", state="finished", text="")


_SESSION: Session = {
    "initialize": asks(0, "initialize", {
        "processId": 1, "clientInfo": {"name": "test"}, "capabilities": CAN,
        "workspaceFolders": [{"uri": "file:///p", "name": "p"}],
    }),
    "welcome": answers(0, {"chatWelcomeMessage": "Hello"}),
    "initialized": tells("initialized"),
    "task starts": news("$/progress", {"type": "start", "taskId": "t", "title": "Starting"}),
    "config": news("config/updated", {"chat": CHAT}),
    "tools": news("tool/serverUpdated", {**SERVED, "tools": [TOOL]}),
    "task ends": news("$/progress", {"type": "finish", "taskId": "t", "title": "Starting"}),
    "mcp": news("tool/serverUpdated", {
        "type": "mcp", "name": "m", "command": "m", "args": [], "status": "running", "tools": [],
    }),
    "contexts asked": asks("q", "chat/queryContext", {"query": "", "contexts": []}),
    "contexts": answers("q", {"contexts": [{"type": "file", "path": "/a"}]}),
    "commands asked": asks("1", "chat/queryCommands", {"query": "", "chatId": "c"}),
    "commands": answers("1", {"chatId": "c", "commands": [
        {"name": "x", "description": "y", "type": "native",
         "arguments": [{"name": "z", "required": True}]},
    ]}),
    "prompt": asks(1, "chat/prompt", {"message": "Hi", "chatId": "c"}),
    "running": running("c"),
    "echo": says("c", "user", "text", text="Hi", contentId="m-1"),
    "prompted": answers(1, prompted("c")),
    "thinks": says("c", "assistant", "reasonStarted", id="r"),
    "thought": says("c", "assistant", "reasonText", id="r", text="hm"),
    "has thought": says("c", "assistant", "reasonFinished", id="r", totalTimeMs=3),
    "text": says("c", "assistant", "text", text="I edit"),
    "link": says("c", "assistant", "url", title="t", url="https://x.test"),
    "prepare": says("c", "assistant", "toolCallPrepare", argumentsText='{"path":', **CALL),
    "prepare more": says("c", "assistant", "toolCallPrepare", argumentsText=' "/a"}', **CALL),
    "run": says("c", "assistant", "toolCallRun", manualApproval=True, **WHOLE),
    "approve": tells("chat/toolCallApprove", {"chatId": "c", "toolCallId": "call-1"}),
    "run runs": says("c", "assistant", "toolCallRunning", **WHOLE),
    "diagnostics": ("server", {"jsonrpc": "2.0", "id": 0, "method": "editor/getDiagnostics",
                               "params": {}}),
    "diagnosed": answers(0, {"diagnostics": [{
        "uri": "file:///a", "severity": "error", "source": "x", "range": PLACE, "message": "m",
    }]}, "client"),
    "called": says("c", "assistant", "toolCalled", error=False, totalTimeMs=1,
                   outputs=[{"type": "text", "text": "done"}], **WHOLE),
    "title": says("c", "system", "metadata", title="A title"),
    "more text": says("c", "assistant", "text", text="Done."),
    "usage": says("c", "system", "usage", sessionTokens=10, lastMessageCost="0.01",
                  messageCost="0.01", sessionCost="0.01", limit={"context": 9, "output": 1}),
    "finished": finished("c"),
    "new prompt": asks(2, "chat/prompt", {"message": "Go on"}),
    "new running": running("new"),
    "new echo": says("new", "user", "text", text="Go on", contentId="m-2"),
    "new prompted": answers(2, prompted("new")),
    "new text": says("new", "assistant", "text", text="On"),
    "queued": asks(3, "chat/prompt", {"message": "And on", "chatId": "new"}),
    "queued prompted": answers(3, prompted("new")),
    "other prepare": says("new", "assistant", "toolCallPrepare", argumentsText="{}",
                          **{**CALL, "id": "call-2"}),
    "other run": says("new", "assistant", "toolCallRun", manualApproval=True, arguments={},
                      **{**CALL, "id": "call-2"}),
    "stop": tells("chat/promptStop", {"chatId": "new"}),
    "rejected": says("new", "assistant", "toolCallRejected", arguments={}, reason="user-choice",
                     **{**CALL, "id": "call-2"}),
    "repeated": says("new", "system", "text", text="\n\nDropped: And on"),
    "stopped": finished("new"),
    "fence": asks(4, "chat/queryCommands", {"query": "x"}),
    "fenced": answers(4, {"commands": []}),
    "delete": asks(5, "chat/delete", {"chatId": "new"}),
    "deleted": answers(5, {}),
    "later config": news("config/updated", {"chat": {"selectModel": "a/two"}}),
    "warning": news("$/showMessage", {"type": "warning", "message": "hm"}),
    "shutdown": asks(6, "shutdown"),
    "shut down": answers(6, None),
    "exit": tells("exit"),
}  # fmt: skip


NEXT_TURN = (
    asks(7, "chat/prompt", {"message": "Again", "chatId": "new"}),
    running("new"),
    says("new", "user", "text", text="Again", contentId="m-3"),
    answers(7, prompted("new")),
    finished("new"),
)
"""An additional turn of the second chat."""


def good_session() -> Session:
    """Return a copy of the session, which the caller may change."""
    return copy.deepcopy(_SESSION)


def edited(name: str, /, *path: str | int, **members: Any) -> Change:
    """Change members at a place in an entry; `...` removes one."""

    def change(session: Session) -> Session:
        place: Any = session[name][1]
        for key in path:
            place = place[key]
        for key, value in members.items():
            place[key] = value
            if value is ...:
                del place[key]
        return session

    return change


def content(name: str, /, **members: Any) -> Change:
    """Change members of an entry's content; `...` removes one."""
    return edited(name, "params", "content", **members)


def params(name: str, /, **members: Any) -> Change:
    """Change members of an entry's params; `...` removes one."""
    return edited(name, "params", **members)


def result(name: str, /, **members: Any) -> Change:
    """Change members of an entry's result; `...` removes one."""
    return edited(name, "result", **members)


def without(*names: str) -> Change:
    """Remove entries."""
    return lambda session: {key: entry for key, entry in session.items() if key not in names}


def after(name: str, *entries: tuple[Side, Mapping[str, Any]]) -> Change:
    """Insert entries after the one with this name."""

    def change(session: Session) -> Session:
        changed: Session = {}
        for key, entry in session.items():
            changed[key] = entry
            if key == name:
                changed.update({f"{name} + {i}": (s, dict(m)) for i, (s, m) in enumerate(entries)})
        return changed

    return change


def twice(name: str) -> Change:
    """Repeat an entry."""
    return lambda session: after(name, copy.deepcopy(session[name]))(session)


def moved(name: str, behind: str) -> Change:
    """Move an entry behind a different one."""

    def change(session: Session) -> Session:
        entry = session[name]
        return after(behind, entry)(without(name)(session))

    return change


def replaced(entries: Mapping[str, tuple[Side, Mapping[str, Any]]]) -> Change:
    """Replace entries."""
    return lambda session: session | {name: (s, dict(m)) for name, (s, m) in entries.items()}


def both(first: Change, second: Change) -> Change:
    """Combine two changes, in this order."""
    return lambda session: second(first(session))

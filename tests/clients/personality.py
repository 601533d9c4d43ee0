"""The clients in the field: how each starts its server, what it sends, and how it leaves.

Two generations of each where they differ: of October 2025 (`then`), and of 2026.
"""

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, Literal

import attrs

from tests.clients import readers, screens
from tests.eca_server.stranger import UNSET, Reader, frame, packet_pipe, packet_sockets


@attrs.frozen(kw_only=True)
class Personality:
    """The peculiarities of one client.

    Attributes:
        client: its `clientInfo`.
        assistant: `capabilities.codeAssistant`.
        options: its `initializationOptions`; UNSET: none.
        sends_process_id: True, False, or None for a null.
        screen: what its user sees.
        on_vscode_jsonrpc: whether that library stands between it and the pipes.
        reader: how it finds messages in what it reads.
        connect: the pipe; one that keeps writes apart where the client must be, and is, faster
            than the server's pauses, which a busy machine's test is not.
        read_size: bytes that it reads at once.
        encode: a message to a frame.
        nothing: the params of a method that has none; UNSET: it sends no params.
        adds: members that it puts into all params.
        names_itself: whether it runs `python -P -m eca_server server`, else the console script.
        asks_version: whether it runs the script with `--version` before.
        cwd: where the server is started.
        early: what it sends before `initialized`.
        at_start: requests it sends once it is ready; they may be refused.
        behavior: what it calls the behaviour in a prompt and in the news of a selection.
        mints_ids: whether it names a new chat itself.
        drops_behind: the requests whose answer makes it forget the rest of that read.
        never: the methods that it has no button for.
        answers: what it answers the server's requests by method.
        unknown: what becomes of the server's other requests.
        approves_all: whether it approves each call that needs no approval.
        leaves_by: the signal behind its `exit`, if there is one.
    """

    client: Mapping[str, Any]
    assistant: Mapping[str, Any]
    options: Any = UNSET
    sends_process_id: bool | None = True
    screen: type[screens.Screen]
    on_vscode_jsonrpc: bool = False
    reader: Callable[[], Reader] = readers.Buffered
    connect: Callable[[], tuple[int, int]] = os.pipe
    read_size: int = 65_536
    encode: Callable[[Any], bytes] = frame
    nothing: Any = attrs.field(factory=dict)
    adds: Mapping[str, Any] = attrs.field(factory=dict)
    names_itself: bool = False
    asks_version: bool = False
    cwd: Literal["project", "binary"] = "project"
    early: tuple[tuple[str, Any], ...] = ()
    at_start: tuple[str, ...] = ()
    behavior: Literal["behavior", "agent"] = "agent"
    mints_ids: bool = False
    drops_behind: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    answers: Mapping[str, Any] = attrs.field(factory=dict)
    unknown: Literal["refused", "junk", "never answered"] = "refused"
    approves_all: bool = False
    leaves_by: signal.Signals | None = None

    @property
    def initialize(self) -> dict[str, Any]:
        """The params of its `initialize`, but for the folders."""
        params: dict[str, Any] = {
            "clientInfo": self.client,
            "capabilities": {"codeAssistant": self.assistant},
        }
        if self.sends_process_id is not False:
            params["processId"] = os.getpid() if self.sends_process_id else None
        if self.options is not UNSET:
            params["initializationOptions"] = self.options
        return params


def with_a_line_end(value: Any) -> bytes:
    """Emacs counts a line end into the body."""
    return frame(json.dumps(value, ensure_ascii=False).encode() + b"\n")


def with_escaped_slashes(value: Any) -> bytes:
    """Neovim writes JSON so."""
    return frame(json.dumps(value).replace("/", "\\/").encode())


def diagnostics_answer(first: int, severity: str, **more: Any) -> dict[str, Any]:
    """An answer to `editor/getDiagnostics`, of an editor that counts from `first`: line 3."""
    start = {"line": 3 - 1 + first, "character": first}
    return {
        "diagnostics": [
            {
                "uri": "file:///p/a.py",
                "severity": severity,
                "range": {"start": start, "end": start},
                "message": "unused",
                **more,
            }
        ]
    }


PLACE = {"start": {"line": 7, "character": 1}, "end": {"line": 7, "character": 5}}
LOCATIONS = {"status": "success", "locations": [{"uri": "file:///p/b.py", "range": PLACE}]}
ANSWERED = {"chat/askQuestion": {"answer": "the blue one", "cancelled": False}}
TODAY = {**ANSWERED, "editor/getDefinition": LOCATIONS, "editor/getReferences": LOCATIONS}
"""Answers of clients with these capabilities: two places and the user's answer."""

ASKS = {"askQuestion": True}
EDITOR = {"diagnostics": True, "definition": True, "references": True}
LISTS = ("chat/list", "providers/list", "jobs/list")
QUERIES = frozenset({"chat/queryContext", "chat/queryCommands", "chat/queryFiles"})
MCP = frozenset({"mcp/startServer", "mcp/stopServer"})
CLEAR = frozenset({"chat/clear"})
NEWER = CLEAR | {*LISTS, "chat/open", "chat/queryFiles", "chat/update", "mcp/enableServer"}
"""Methods that clients gained after October 2025."""

EMACS: Mapping[str, Any] = {
    "client": {"name": "emacs", "version": "GNU Emacs 28.2 (build 1, x86_64)\n of 2023-05-13"},
    "screen": screens.Emacs,
    "encode": with_a_line_end,
    "nothing": None,
    "names_itself": True,
    "answers": {
        "editor/getDiagnostics": diagnostics_answer(
            0, "information", source="emacs-lisp", code=None
        ),
        **TODAY,
    },
    "unknown": "junk",
    "connect": packet_pipe,
    "read_size": 4096,
    "drops_behind": QUERIES | {"shutdown", "chat/delete", "chat/list", "chat/clear", "chat/update"},
    "leaves_by": signal.SIGKILL,
}
VSCODE: Mapping[str, Any] = {
    "client": {"name": "VsCode", "version": "XXX"},
    "options": {},
    "on_vscode_jsonrpc": True,
    "cwd": "binary",
}
INTELLIJ_SETTINGS = {"serverPath": None, "serverArgs": "", "usageStringFormat": "%s"}

PERSONALITIES: Mapping[str, Personality] = {
    "Emacs then": Personality(
        **EMACS,
        assistant={"chat": True, "editor": {"diagnostics": True}},
        options={"chatBehavior": None},
        reader=readers.emacs_then,
        never=NEWER,
        behavior="behavior",
    ),
    "Emacs": Personality(
        **EMACS,
        assistant={"chat": True, "chatCapabilities": ASKS, "editor": EDITOR},
        options={"chatAgent": None},
        at_start=LISTS,
        mints_ids=True,
    ),
    "VS Code then": Personality(
        **VSCODE,
        assistant={"chat": True},
        screen=screens.WebviewThen,
        behavior="behavior",
        never=NEWER | {"chat/selectedBehaviorChanged"},
    ),
    "VS Code": Personality(
        **VSCODE,
        assistant={"chat": True, "rewrite": True, "chatCapabilities": ASKS, "editor": EDITOR},
        screen=screens.Webview,
        early=(
            ("chat/queryContext", {"query": "", "contexts": []}),
            ("chat/selectedModelChanged", {"model": "simulator/echo", "variant": None}),
        ),
        at_start=LISTS,
        mints_ids=True,
        never=CLEAR,
        answers={"editor/getDiagnostics": diagnostics_answer(0, "warning", code=7), **TODAY},
        leaves_by=signal.SIGTERM,
    ),
    "IntelliJ": Personality(
        client={"name": "IntelliJ", "version": "0.29.0"},
        assistant={"chat": True, "chatCapabilities": ASKS, "editor": EDITOR},
        options=INTELLIJ_SETTINGS,
        sends_process_id=False,
        screen=screens.Webview,
        early=(("chat/queryCommands", {"query": "", "chatId": None}),),
        at_start=LISTS,
        mints_ids=True,
        never=CLEAR,
        answers={"editor/getDiagnostics": diagnostics_answer(0, "error"), **TODAY},
        unknown="never answered",
        leaves_by=signal.SIGTERM,
    ),
    "Neovim": Personality(
        client={"name": "Neovim", "version": "0.10.4"},
        assistant={"chat": True, "editor": {"diagnostics": True}},
        screen=screens.Neovim,
        reader=readers.neovim,
        connect=packet_sockets,
        encode=with_escaped_slashes,
        nothing=[],
        adds={"contexts": []},
        behavior="behavior",
        never=NEWER | MCP | {"chat/promptStop", "chat/delete", "chat/selectedBehaviorChanged"},
        answers={"editor/getDiagnostics": diagnostics_answer(0, "unknown", code=None)},
    ),
    "Desktop": Personality(
        client={"name": "Desktop", "version": "0.9.12"},
        assistant={"chat": True, "chatCapabilities": ASKS},
        on_vscode_jsonrpc=True,
        screen=screens.Desktop,
        answers=ANSWERED,
        never=CLEAR,
        nothing=UNSET,
        at_start=LISTS,
        mints_ids=True,
        leaves_by=signal.SIGTERM,
    ),
    "CLI": Personality(
        client={"name": "eca-cli"},
        assistant={"chat": True},
        sends_process_id=None,
        screen=screens.Terminal,
        asks_version=True,
        at_start=LISTS,
        never=MCP
        | CLEAR
        | {"chat/queryContext", "chat/queryCommands", "chat/update", "mcp/enableServer"},
        unknown="never answered",
        approves_all=True,
        leaves_by=signal.SIGTERM,
    ),
}

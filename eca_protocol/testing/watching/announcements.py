"""What the server tells beside the chats: settings, tool servers, tasks, messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.watching.observation import Notes

__all__ = ["Offers"]

_AT_FIRST: Final = (
    "models",
    "selectModel",
    "behaviors",
    "selectBehavior",
    "agents",
    "selectAgent",
    "welcomeMessage",
)
_LISTS: Final = {"selectModel": "models", "selectBehavior": "behaviors", "selectAgent": "agents"}
_CHOICES: Final = {
    "chat/selectedModelChanged": {"selectModel", "selectVariant", "variants"},
    "chat/selectedAgentChanged": {"selectAgent", "selectBehavior"},
    "chat/selectedBehaviorChanged": {"selectAgent", "selectBehavior"},
}
"""What the client's choice replaces of what it was told."""

_NULLABLE: Final = {"selectVariant"}
"""Null means here that none is selected."""


class Offers:
    """Judges `config/updated`, `tool/serverUpdated`, `$/progress` and `$/showMessage`."""

    def __init__(self, notes: Notes) -> None:
        self.revision = Revision.R2025_10
        self.native_tools: frozenset[str] = frozenset()
        self.mcp_servers: frozenset[str] = frozenset()
        self.is_unsure = False
        """Whether something was said that nobody could understand: it may be what seems missing."""
        self._notes = notes
        self._told: dict[str, Any] | None = None
        self._saw_servers = False
        self._saw_native = False
        self._came_before = ""  # the MCP server that was told of before the native one
        self._tasks: dict[str, int] = {}

    def client_chose(self, method: str, params: Mapping[str, Any]) -> None:
        """The user selected something."""
        if self._told is not None and not params.get("chatId"):
            for key in _CHOICES.get(method, ()):
                self._told.pop(key, None)

    def config(self, params: Mapping[str, Any]) -> None:
        """A `config/updated`."""
        chat = params.get("chat")
        if not isinstance(chat, Mapping) or params.get("chatId") is not None:
            return
        self._nulls(chat)
        if self._told is None:
            self._first(chat)
        else:
            for key, value in chat.items():
                if key in self._told and self._told[key] == value:
                    expected = "what has changed, and nothing else"
                    self._tell("W-11g", expected, f"{key} again", harms=False)
                    break
        told = {**(self._told or {}), **chat}
        self._models(chat)
        if self.revision is Revision.CURRENT and isinstance(variants := chat.get("variants"), list):
            selected = told.get("selectVariant")
            if selected not in (None, *variants):
                expected = "a selectVariant of the variants, or null"
                self._tell("W-11h", expected, repr(selected), harms=False)
        for one, many in _LISTS.items():
            if one in chat or (many in chat and one in told):
                self._selection(one, told.get(one), told.get(many))
        self._told = told

    def _first(self, chat: Mapping[str, Any]) -> None:
        if not self._tasks and not self.is_unsure:
            expected = "the start of a task before config/updated"
            self._tell("W-11e", expected, "none", harms=False)
        missing = [key for key in _AT_FIRST if key not in chat]
        if missing and not self.is_unsure:
            expected, got = f"{', '.join(_AT_FIRST)} at first", f"no {', '.join(missing)}"
            self._tell("W-11a", expected, got, harms=False)

    def _nulls(self, chat: Mapping[str, Any]) -> None:
        if nulls := [key for key, value in chat.items() if value is None and key not in _NULLABLE]:
            row = "W-11a" if self._told is None else "W-11g"
            self._tell(row, "no nulls", f"{', '.join(nulls)} null")

    def _models(self, chat: Mapping[str, Any]) -> None:
        models = chat.get("models")
        named = [*(models if isinstance(models, list) else []), chat.get("selectModel", "-/-")]
        for model in named:
            if not is_model(model):
                self._tell("W-21b", "models called provider/model", repr(model))
                return

    def _selection(self, one: str, selected: Any, known: Any) -> None:
        if self.is_unsure or not isinstance(known, list):
            return
        if not selected or selected not in known:
            self._tell("W-11b", f"a {one} of its list", repr(selected))

    def server(self, params: Mapping[str, Any]) -> None:
        """A `tool/serverUpdated`."""
        is_native = params.get("type") == "native"
        if not self._saw_servers:
            self._saw_servers = True
            if self.is_unsure:
                pass
            elif self._told is None:
                self._tell("W-11c", "config/updated before the first server", "none", harms=False)
            elif not is_native:
                self._came_before = repr(params.get("name"))
        if is_native and not self._saw_native and self._came_before:
            expected = "the native server before those of MCP"
            self._tell("W-11d", expected, self._came_before, harms=False)
        self._saw_native = self._saw_native or is_native
        if is_native:
            self._native(params)
            return
        self.mcp_servers |= {str(params.get("name"))}
        if params.get("status") == "running" and not isinstance(params.get("tools"), list):
            self._tell("CONF-10", "the tools of a server that is running", "none")

    def _native(self, params: Mapping[str, Any]) -> None:
        if params.get("name") != "ECA":
            got = repr(params.get("name"))
            self._tell("W-33a", "the native server's name, ECA", got, harms=False)
        if params.get("status") != "running":
            got = repr(params.get("status"))
            self._tell("CONF-8", "the native server running", got, harms=False)
        tools = params.get("tools")
        names = {
            tool["name"]
            for tool in (tools if isinstance(tools, list) else ())
            if isinstance(tool, Mapping) and isinstance(tool.get("name"), str)
        }
        self.native_tools |= names
        reserved = {"eca_task"} if self.revision is Revision.CURRENT else {"task", "eca_task"}
        if taken := names & reserved:
            expected = "no tool called task but CURRENT's list of them"
            self._tell("W-35b", expected, min(taken), harms=False)
        names -= reserved
        if self.revision < Revision.CURRENT:
            if plain := sorted(name for name in names if not name.startswith("eca_")):
                self._tell("W-33c", "native tools with the prefix eca_", plain[0])
        elif prefixed := sorted(name for name in names if name.startswith("eca_")):
            self._tell("W-33d", "native tools without prefix", prefixed[0])

    def task(self, params: Mapping[str, Any]) -> None:
        """A `$/progress`."""
        task, kind = params.get("taskId"), params.get("type")
        if not isinstance(task, str):
            return
        if kind == "start":
            if task in self._tasks:
                self._tell("W-11e", "one start of a task", f"a second one of {task!r}")
            self._tasks[task] = self._notes.index
        elif kind == "finish" and self._tasks.pop(task, None) is None and not self.is_unsure:
            self._tell("W-11e", "the finish of a task that runs", f"that of {task!r}")

    def message(self, params: Mapping[str, Any]) -> None:
        """A `$/showMessage`."""
        text = params.get("message")
        if isinstance(text, str) and not text.strip():
            self._tell("GEN-1", "a message that tells the user something", repr(text))

    def finish(self) -> None:
        """Nothing comes any more, and the server had the time to tell all."""
        if self.is_unsure:
            return
        if self._told is None:
            self._owes("LIFE-14", "config/updated", self._notes.index)
        elif not self._saw_native:
            self._owes("W-11c", "tool/serverUpdated of the native server", self._notes.index)
        for task, index in self._tasks.items():
            self._owes("W-11e", f"the finish of the task {task!r}", index)

    def _owes(self, row: str, expected: str, index: int) -> None:
        self._notes.tell_of(index, row, expected=expected, got="none")

    def _tell(self, row: str, expected: str, got: str, *, harms: bool = True) -> None:
        self._notes.tell(row, expected=expected, got=got, harms=harms)


def is_model(name: Any) -> bool:
    """Whether a model is called provider/model."""
    if not isinstance(name, str):
        return True
    provider, slash, model = name.partition("/")
    return bool(provider and slash and model)

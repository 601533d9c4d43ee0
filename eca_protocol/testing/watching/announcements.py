"""Notifications outside of chats: settings, tool servers, tasks, messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.members import at, list_at
from eca_protocol.testing.watching.observation import ObservationLog

AT_FIRST: Final = (
    "models",
    "selectModel",
    "behaviors",
    "selectBehavior",
    "agents",
    "selectAgent",
    "welcomeMessage",
)
"""The members of `chat` in the first `config/updated`."""

SELECTIONS: Final = {
    "selectModel": "models",
    "selectBehavior": "behaviors",
    "selectAgent": "agents",
}
"""The members that select, and the list of each."""

_CHOICES: Final = {
    "chat/selectedModelChanged": {"selectModel", "selectVariant", "variants"},
    "chat/selectedAgentChanged": {"selectAgent", "selectBehavior"},
    "chat/selectedBehaviorChanged": {"selectAgent", "selectBehavior"},
}
"""The announced settings that a selection of the client replaces."""

_NULLABLE: Final = frozenset({"selectVariant"})
"""Settings that may be null in CURRENT, if none is selected."""


class Announcements:
    """Checks `config/updated`, `tool/serverUpdated`, `$/progress` and `$/showMessage`."""

    def __init__(self, log: ObservationLog) -> None:
        self.native_tools: frozenset[str] = frozenset()
        self.mcp_servers: frozenset[str] = frozenset()
        self.has_unreadable = False
        """True if an unreadable message came: it may be the one that seems missing."""
        self._log = log
        self._announced: dict[str, Any] | None = None
        self._saw_servers = False
        self._saw_native = False
        self._came_before = ""  # the MCP server announced before the native one
        self._tasks: dict[str, int] = {}

    def on_selection(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a selection of the user."""
        if self._announced is not None and not params.get("chatId"):
            for key in _CHOICES.get(method, ()):
                self._announced.pop(key, None)

    def check_config(self, params: Mapping[str, Any]) -> None:
        """Check a `config/updated`."""
        chat = params.get("chat")
        if not isinstance(chat, Mapping):
            return
        self._check_nulls({**params, **chat})
        if params.get("chatId") is not None:
            return
        if self._announced is None:
            self._check_first(chat)
        else:
            for key, value in chat.items():
                if key in self._announced and self._announced[key] == value:
                    self._log.note("W-11g", "only changed settings", f"`{key}` again, unchanged")
                    break
        announced = {**(self._announced or {}), **chat}
        for model in (*list_at(chat, "models"), chat.get("selectModel", "-/-")):
            if not is_model(model):
                self._log.report("W-21b", "models named provider/model", repr(model))
                break
        variants = chat.get("variants")
        if self._log.revision is Revision.CURRENT and isinstance(variants, list):
            selected = announced.get("selectVariant")
            if selected not in (None, *variants):
                expected = "null or one of `variants` as `selectVariant`"
                self._log.note("W-11h", expected, repr(selected))
        for one, many in SELECTIONS.items():
            if one in chat or (many in chat and one in announced):
                self._check_selection(one, announced.get(one), announced.get(many))
        self._announced = announced

    def _check_first(self, chat: Mapping[str, Any]) -> None:
        if not self._tasks and not self.has_unreadable:
            self._log.note("W-11e", "a `$/progress` start before `config/updated`", "none")
        missing = [key for key in AT_FIRST if key not in chat]
        if missing and not self.has_unreadable:
            expected = f"{', '.join(AT_FIRST)} in the first update"
            self._log.note("W-11a", expected, f"no {', '.join(missing)}")

    def _check_nulls(self, chat: Mapping[str, Any]) -> None:
        nullable = _NULLABLE if self._log.revision is Revision.CURRENT else frozenset()
        nulls = [key for key, value in chat.items() if value is None and key not in nullable]
        if nulls:
            is_first = self._announced is None and not set(nulls).isdisjoint(AT_FIRST)
            row = "W-11a" if is_first else "W-11g"
            self._log.report(row, "no null members", f"null as {', '.join(nulls)}")

    def _check_selection(self, one: str, selected: Any, known: Any) -> None:
        if self.has_unreadable or not isinstance(known, list):
            return
        if not selected or selected not in known:
            self._log.report("W-11b", f"a `{one}` from its list", repr(selected))

    def check_server(self, params: Mapping[str, Any]) -> None:
        """Check a `tool/serverUpdated`."""
        is_native = params.get("type") == "native"
        if not self._saw_servers:
            self._saw_servers = True
            if self.has_unreadable:
                pass
            elif self._announced is None:
                self._log.note(
                    "W-11c", "`config/updated` before the first `tool/serverUpdated`", "none"
                )
            elif not is_native:
                self._came_before = repr(params.get("name"))
        if is_native and not self._saw_native and self._came_before:
            self._log.note("W-11d", "the native server before the MCP servers", self._came_before)
        self._saw_native = self._saw_native or is_native
        if is_native:
            self._check_native(params)
            return
        self.mcp_servers |= {str(params.get("name"))}
        if params.get("status") == "running" and not isinstance(params.get("tools"), list):
            self._log.report("CONF-10", "the tools of a running server", "none")

    def _check_native(self, params: Mapping[str, Any]) -> None:
        if params.get("name") != "ECA":
            got = repr(params.get("name"))
            self._log.note("W-33a", "ECA as the name of the native server", got)
        if params.get("status") != "running":
            got = repr(params.get("status"))
            self._log.note("CONF-8", "the native server with status running", got)
        tools = list_at(params, "tools")
        names = {at(each, "name") for each in tools if isinstance(at(each, "name"), str)}
        self.native_tools |= names
        reserved = {"eca_task"} if self._log.revision is Revision.CURRENT else {"task", "eca_task"}
        if taken := names & reserved:
            self._log.note("W-35b", "no tool named task, except CURRENT's task list", min(taken))
        names -= reserved
        if self._log.revision < Revision.CURRENT:
            if plain := sorted(name for name in names if not name.startswith("eca_")):
                self._log.report("W-33c", "native tools with the prefix `eca_`", plain[0])
        elif prefixed := sorted(name for name in names if name.startswith("eca_")):
            self._log.report("W-33d", "native tools without the prefix `eca_`", prefixed[0])

    def check_task(self, params: Mapping[str, Any]) -> None:
        """Check a `$/progress`."""
        task, kind = params.get("taskId"), params.get("type")
        if not isinstance(task, str):
            return
        if kind == "start":
            if task in self._tasks:
                self._log.report(
                    "W-11e", "exactly one start of a task", f"a second start of {task!r}"
                )
            self._tasks[task] = self._log.index
        elif kind == "finish" and self._tasks.pop(task, None) is None and not self.has_unreadable:
            self._log.report(
                "W-11e", "the finish of a running task", f"that of {task!r}, which is not running"
            )

    def check_message(self, params: Mapping[str, Any]) -> None:
        """Check a `$/showMessage`."""
        text = params.get("message")
        if isinstance(text, str) and not text.strip():
            self._log.report("GEN-1", "a message that is not blank", repr(text))

    def finish(self) -> None:
        """Report missing announcements; the server had the time to write them."""
        if self.has_unreadable:
            return
        if self._announced is None:
            self._report_missing("LIFE-14", "`config/updated`", self._log.index)
        elif not self._saw_native:
            self._report_missing(
                "W-11c", "`tool/serverUpdated` for the native server", self._log.index
            )
        for task, index in self._tasks.items():
            self._report_missing("W-11e", f"the finish of the task {task!r}", index)

    def _report_missing(self, row: str, expected: str, index: int) -> None:
        self._log.report_missing(index, row, expected, "none")


def is_model(name: Any) -> bool:
    """Return whether a model is named provider/model."""
    if not isinstance(name, str):
        return True
    provider, slash, model = name.partition("/")
    return bool(provider and slash and model)

"""The state of an editor, folded from a server's notifications, and the rules that they break.

`Fold` is as strict as the strictest reducer of any editor: it reports each broken `Rule`. It also
takes the client's actions that affect the rules: a deleted chat must stay silent, and a chat that
the client has not prompted must not appear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from eca_protocol import messages as m
from eca_protocol.fold.chat import ChatFold
from eca_protocol.fold.rules import Rule, Violation
from eca_protocol.fold.views import ChatView


class Fold:
    """The state that one connection shows.

        fold = Fold()
        for method, params in notifications:
            for violation in fold.take(method, params):
                print(violation.message)
        print(fold.chats["chat-1"].text())

    Attributes:
        chats: by id, in the order of their appearance; without the deleted ones.
        config: the latest value of each setting.
        servers: the tool servers, by name.
        providers: the providers' status, by id.
        jobs: the background jobs.
        tasks: the titles of the server's running tasks, by id.
        messages: the server's messages to the user outside of any chat.
        violations: the broken rules, in order.
    """

    def __init__(self) -> None:
        self.chats: dict[str, ChatView] = {}
        self.config: m.ChatConfig = m.ChatConfig()
        self.servers: dict[str, m.ToolServerUpdatedParams] = {}
        self.providers: dict[str, m.ProviderStatus] = {}
        self.jobs: tuple[m.JobSummary, ...] = ()
        self.tasks: dict[str, str] = {}
        self.messages: list[m.ShowMessageParams] = []
        self.violations: list[Violation] = []
        self._folds: dict[str, ChatFold] = {}
        self._deleted: set[str] = set()
        self._prompted: set[str] | None = None
        self._unnamed_prompts = 0
        self._user_choices: set[str] = set()  # selections of the user since the server's last one

    @property
    def can_prompt(self) -> bool:
        """True if the strictest editor can send a prompt with this configuration (W-11)."""
        return bool(
            self.config.select_model and (self.config.select_agent or self.config.select_behavior)
        )

    def on_prompt(self, chat_id: str | None) -> None:
        """Record that the client prompts a chat; None: the server chooses the id.

        After the first prompt only prompted or opened chats may appear.
        """
        self._prompted = self._prompted or set()
        if chat_id is None:
            self._unnamed_prompts += 1
        else:
            self._prompted.add(chat_id)
            self._deleted.discard(chat_id)

    def on_delete_request(self, chat_id: str) -> None:
        """Record that the client deletes a chat; its open contents may stay open (W-24)."""
        if chat_id in self._folds:
            self._folds[chat_id].abandon()

    def allow_report(self, chat_id: str) -> None:
        """Accept one text in a chat outside of any turn, about a fork or a rollback."""
        if chat_id in self._folds:
            self._folds[chat_id].allow_report()

    def on_deleted(self, chat_id: str) -> None:
        """Record that the server has deleted a chat."""
        self._drop_subagents_of(chat_id)
        self.chats.pop(chat_id, None)
        self._folds.pop(chat_id, None)
        self._deleted.add(chat_id)
        if self._prompted is not None:
            self._prompted.discard(chat_id)

    def take(self, method: str, params: Any) -> tuple[Violation, ...]:
        """Take a typed notification of the server; return the rules that it breaks.

        Notifications without an effect on the view, and unknown methods, are ignored.
        """
        before = len(self.violations)
        handler = _HANDLERS.get(method)
        if handler is not None:
            handler(self, params)
        return tuple(self.violations[before:])

    def _content(self, params: m.ChatContentReceivedParams) -> None:
        chat_id = params.chat_id
        fold = self._folds.get(chat_id)
        if fold is None:
            if chat_id in self._deleted:
                self._report(Rule.AFTER_DELETE, chat_id, str(params.content.type))
                return
            fold = self._new_chat(chat_id, params.parent_chat_id)
        elif fold.view.parent_id != params.parent_chat_id is not None:  # shown in a fork, too
            fold = self._new_chat(chat_id, params.parent_chat_id)
        fold.take(params.role, params.content)

    def _new_chat(self, chat_id: str, parent_id: str | None = None) -> ChatFold:
        if self._prompted is not None and not self._prompted & {chat_id, parent_id}:
            if self._unnamed_prompts:
                self._unnamed_prompts -= 1
            else:
                self._report(Rule.STRANGE_CHAT, chat_id, "one for a chat that it has not prompted")
            self._prompted.add(chat_id)
        fold = ChatFold(chat_id, lambda rule, got: self._report(rule, chat_id, got))
        fold.view.parent_id = parent_id
        self._folds[chat_id] = fold
        self.chats[chat_id] = fold.view
        return fold

    def _opened(self, params: m.ChatOpenedParams) -> None:
        self._deleted.discard(params.chat_id)
        if self._prompted is not None:
            self._prompted.add(params.chat_id)
        fold = self._folds.get(params.chat_id) or self._new_chat(params.chat_id)
        fold.replay()
        fold.view.title = params.title or fold.view.title

    def _cleared(self, params: m.ChatClearedParams) -> None:
        fold = self._folds.get(params.chat_id)
        if fold is not None and params.messages:
            fold.clear()
            self._drop_subagents_of(params.chat_id)

    def _drop_subagents_of(self, chat_id: str) -> None:
        """Remove the chats of subagents, which are shown inside their parent's calls."""
        for view in [each for each in self.chats.values() if each.parent_id == chat_id]:
            del self.chats[view.id], self._folds[view.id]

    def _status(self, params: m.ChatStatusChangedParams) -> None:
        if params.chat_id in self._deleted:
            self._report(Rule.AFTER_DELETE, params.chat_id, "a status")
        elif params.chat_id in self.chats:
            self.chats[params.chat_id].status = params.status

    def _config(self, params: m.ConfigUpdatedParams) -> None:
        if params.chat is None:
            return
        changes = attrs.asdict(
            params.chat, recurse=False, filter=lambda _, value: value is not None
        )
        if params.chat_id is None:
            self.config = attrs.evolve(self.config, **changes)
        elif params.chat_id in self.chats:
            view = self.chats[params.chat_id]
            view.selection = attrs.evolve(view.selection, **changes)
        for one, many in _LIST_OF_SELECTION.items():
            selection = changes.get(one, getattr(self.config, one))
            known = changes.get(many, getattr(self.config, many))
            self._user_choices -= {one} & changes.keys()
            is_current = one in changes or (many in changes and one not in self._user_choices)
            if is_current and selection and selection not in (known or ()):
                self._report(Rule.NOT_LISTED, params.chat_id or "", f"{one} {selection!r}")

    def on_selection(self, *, model: str | None = None, behavior: str | None = None) -> None:
        """Record the user's selection, which the server does not repeat."""
        if model is not None:
            self.config = attrs.evolve(self.config, select_model=model)
            self._user_choices |= {"select_model"}
        if behavior is not None:
            self.config = attrs.evolve(
                self.config, select_behavior=m.UnknownValue(behavior), select_agent=behavior
            )
            self._user_choices |= {"select_behavior", "select_agent"}

    def _server(self, params: m.ToolServerUpdatedParams) -> None:
        if not isinstance(params, m.UnknownServerUpdatedParams):
            self.servers[params.name] = params

    def _server_removed(self, params: m.ToolServerRemovedParams) -> None:
        self.servers.pop(params.name, None)

    def _provider(self, params: m.ProviderStatus) -> None:
        self.providers[params.id] = params

    def _jobs(self, params: m.JobsUpdatedParams) -> None:
        self.jobs = params.jobs

    def _task(self, params: m.ProgressParams) -> None:
        if params.type == "finish":
            self.tasks.pop(params.task_id, None)
        else:
            self.tasks[params.task_id] = params.title

    def _report(self, rule: Rule, chat_id: str, got: str) -> None:
        self.violations.append(Violation(rule=rule, chat_id=chat_id, got=got))


_LIST_OF_SELECTION = {
    "select_model": "models",
    "select_behavior": "behaviors",
    "select_agent": "agents",
}

_HANDLERS: Mapping[str, Callable[[Fold, Any], None]] = {
    "chat/contentReceived": Fold._content,
    "config/updated": Fold._config,
    "tool/serverUpdated": Fold._server,
    "tool/serverRemoved": Fold._server_removed,
    "providers/updated": Fold._provider,
    "jobs/updated": Fold._jobs,
    "$/progress": Fold._task,
    "$/showMessage": lambda fold, params: fold.messages.append(params),
    "chat/opened": Fold._opened,
    "chat/cleared": Fold._cleared,
    "chat/statusChanged": Fold._status,
    "chat/deleted": lambda fold, params: fold.on_deleted(params.chat_id),
}

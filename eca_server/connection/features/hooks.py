"""The user's hooks on a connection: those of turns, and those in the background.

Without hooks, their package is not imported. Events of the session and of chats never wait for a
hook.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from eca_protocol.server.calls import CallState
from eca_server.agent.tools.ask_user import AskUser
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.client.session import Session
from eca_server.config.directories import home_directory
from eca_server.config.settings import Config
from eca_server.connection.features.announcer import Announcer
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.host import Host
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.settings import Settings

if TYPE_CHECKING:
    from eca_server.agent.chat import Chats, Turn
    from eca_server.agent.chat.hooked import TurnHooks
    from eca_server.agent.chat.outlet import Outlet
    from eca_server.agent.hooks.background import BackgroundHooks
    from eca_server.agent.hooks.hooks import Hooks
    from eca_server.config.hook_settings import HookEvent


@attrs.define(eq=False)
class SessionHooks:
    """The hooks of a connection."""

    session: Session
    settings: Settings
    host: Host
    folders: Folders
    models: CurrentModels
    announcer: Announcer
    background: Lazy[BackgroundHooks] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.background = Lazy(self._make_background)

    async def of_turn(
        self, turn: Turn, config: Config, fields: Mapping[str, str]
    ) -> TurnHooks | None:
        """Return the hooks of a turn, after those at the session's start have ended, or None."""
        if not (config.hooks and self.host.options.runs_hooks):
            return None
        from eca_server.agent.chat.hooked import TurnHooks  # noqa: PLC0415 - only where there are hooks

        background = self.background.get()
        await background.wait("sessionStart")
        return TurnHooks(self._hooks(config), turn, fields, background)

    def begin_session(self) -> None:
        """Run the hooks at the session's start."""
        self._fire("sessionStart", {})

    def begin_session_of_added(self, before: Config) -> None:
        """Run the hooks at the session's start that the user has accepted only now."""
        config = self.settings.config
        added = {
            name: hook for name, hook in config.hooks.items() if before.hooks.get(name) != hook
        }
        if self._may_run and added:
            hooks = self._hooks(attrs.evolve(config, hooks=added))
            self.background.get().fire(hooks, "sessionStart", {})

    async def end_session(self) -> None:
        """Run the hooks at the session's end, within a deadline."""
        if self._may_run and (self.settings.config.hooks or self.background.made):
            await self.background.get().close(self._hooks(self.settings.config), {})

    def report_status(self, chat: Outlet) -> None:
        """Run the hooks for a changed status of a chat that is not deleted."""
        if self._has("chatStatusChanged"):
            fields = {**self._fields_of_chat(chat), **_status(chat)}
            self._fire("chatStatusChanged", fields, chat.id)

    def report_end(self, chats: Chats, chat_id: str) -> None:
        """Run the hooks at a chat's end, before its deletion; look up a stored chat first."""
        if self.background.made is not None:
            self.background.made.forget(chat_id)
        if not (chat_id and self._has("chatEnd")):
            return
        hooks = self._hooks(self.settings.config)
        if chats.subagent(chat_id) is not None:
            return
        known = chats.get(chat_id)
        chat = chats.open(chat_id) if known is None else known

        def report() -> None:
            if not chat.is_blank:
                self.background.get().fire(hooks, "chatEnd", self._fields_of_chat(chat), chat_id)

        async def look_up() -> None:
            report()

        if known is None:
            chat.mailbox.do(look_up)
        else:
            report()

    def fields(
        self, chat: Outlet, *, model: str | None, variant: str | None, behavior: str | None
    ) -> dict[str, str]:
        """Return the hooks' input about a chat."""
        if behavior is not None:
            behavior = self.session.profile.agent_name(behavior)
        fields = {
            "chat_id": chat.id,
            "agent": behavior,
            "behavior": behavior,
            "full_model": model,
            "variant": variant,
            "parent_chat_id": chat.parent_id,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _fields_of_chat(self, chat: Outlet) -> dict[str, str]:
        last = chat.settings
        return self.fields(chat, model=last.model, variant=last.variant, behavior=last.behavior)

    def _fire(self, event: HookEvent, fields: Mapping[str, Any], chat_id: str = "") -> None:
        if self._has(event):
            self.background.get().fire(self._hooks(self.settings.config), event, fields, chat_id)

    @property
    def _may_run(self) -> bool:
        """The permission to run hooks; before the introduction, there is none (W-10)."""
        return self.announcer.is_introduced and self.host.options.runs_hooks

    def _has(self, event: HookEvent) -> bool:
        hooks = self.settings.config.hooks.values()
        return self._may_run and any(hook.type == event for hook in hooks)

    def _hooks(self, config: Config) -> Hooks:
        from eca_server.agent.hooks.hooks import Hooks  # noqa: PLC0415 - as above

        roots = self.folders.workspace.roots
        directory = roots[0].path if roots else home_directory(self.host.options.environ)
        return Hooks(
            hooks=config.hooks,
            directory=directory,
            environment=self.models.child_variables,
            common_payload={
                "workspaces": [str(root.path) for root in roots],
                "cwd": str(directory),
            },
        )

    def _make_background(self) -> BackgroundHooks:
        from eca_server.agent.hooks.background import BackgroundHooks  # noqa: PLC0415 - as above

        return BackgroundHooks(self.host.nursery, partial(self.session.show, "warning"))


def _status(chat: Outlet) -> dict[str, Any]:
    """Return the hooks' input about a chat's status."""
    approvals, questions, running = [], [], []
    for call in chat.open_calls:
        own_name = call.naming.name.removeprefix(PREFIX)
        is_question = (call.naming.server, own_name) == (NATIVE, AskUser.name)
        if call.state is CallState.WAITING:
            approvals.append(call.naming.id)
        elif is_question:
            questions.append(call.naming.id)
        else:
            running.append(call.naming.id)
    status: dict[str, Any] = {
        "status": chat.status,
        "awaiting_user_input": bool(approvals or questions),
        "pending_approval_tool_call_ids": sorted(approvals),
        "pending_question_tool_call_ids": sorted(questions),
        "running_tool_call_ids": sorted(running),
    }
    if approvals or questions:
        status["waiting_reason"] = "toolApproval" if approvals else "userQuestion"
    return status

"""The view of one chat, folded content by content, and the rules that its stream breaks.

A content that breaks a rule is still shown if possible. A content of a call that was never
prepared is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from eca_protocol import messages as m
from eca_protocol.fold.rules import Rule
from eca_protocol.fold.views import (
    CallState,
    CallView,
    ChatView,
    HookView,
    LinkView,
    TextView,
    ThoughtView,
)

ReportViolation: TypeAlias = Callable[[Rule, str], None]
"""A function that takes each broken rule and a description of the received content."""

_ToolCall: TypeAlias = (
    m.ChatToolCallPrepareContent
    | m.ChatToolCallRunContent
    | m.ChatToolCallRunningContent
    | m.ChatToolCalledContent
    | m.ChatToolCallRejectedContent
)

FOLLOWING: Mapping[CallState, frozenset[CallState]] = {
    "preparing": frozenset({"preparing", "waiting", "ready", "rejected"}),
    "waiting": frozenset({"running", "called", "rejected"}),
    "ready": frozenset({"running", "called", "rejected"}),
    "running": frozenset({"called"}),
    "called": frozenset(),
    "rejected": frozenset(),
}
"""The states that may follow each state of a tool call (W-30)."""

ROLES: Mapping[type, frozenset[str]] = {
    m.ChatProgressContent: frozenset({"system"}),
    m.ChatUsageContent: frozenset({"system"}),
    m.ChatMetadataContent: frozenset({"system"}),
    m.ChatTextContent: frozenset({"user", "system", "assistant"}),
    **dict.fromkeys(
        (
            m.ChatURLContent,
            m.ChatImageContent,
            m.ChatReasonStartedContent,
            m.ChatReasonTextContent,
            m.ChatReasonFinishedContent,
            m.ChatToolCallPrepareContent,
            m.ChatToolCallRunContent,
            m.ChatToolCallRunningContent,
            m.ChatToolCalledContent,
            m.ChatToolCallRejectedContent,
        ),
        frozenset({"assistant"}),
    ),
}
"""The roles in which each type of content may come (W-26); other types have no role."""


class ChatFold:
    """The fold of one chat's contents into its view."""

    def __init__(self, chat_id: str, report: ReportViolation) -> None:
        self.view: ChatView = ChatView(id=chat_id)
        self._report = report
        self._is_abandoned = False
        self._allowed_reports = 0  # expected texts about forks and rollbacks
        self.clear()

    def clear(self) -> None:
        """Remove all contents; they may come again outside of any turn."""
        self.view.items.clear()
        self._calls: dict[str, CallView] = {}
        self._thoughts: dict[str, ThoughtView] = {}
        self._hooks: dict[str, HookView] = {}
        self._prepared: str | None = None
        self._turn_is_over = False

    def replay(self) -> None:
        """Accept earlier contents again, outside of any turn."""
        self._turn_is_over = False

    def allow_report(self) -> None:
        """Accept one text outside of any turn, about a fork or a rollback, at any time."""
        self._allowed_reports += 1

    def abandon(self) -> None:
        """Accept that open calls and reasonings are never ended."""
        self._is_abandoned = True

    def take(self, role: m.ChatRole, content: m.ChatContent) -> None:
        """Take the next content."""
        roles = ROLES.get(type(content))
        if roles is None:
            self._take_outside_turn(content)
            return
        if role not in roles:
            self._report(Rule.ROLE, f"{_type(content)} in the role {role!r}")
        match content:
            case m.ChatProgressContent():
                self._take_progress(content)
            case m.ChatMetadataContent(title=title):
                self.view.title = title
            case _:
                if role == "user":
                    self._turn_is_over = False  # some servers send it before their progress
                elif (
                    self._turn_is_over
                    and self._allowed_reports
                    and isinstance(content, m.ChatTextContent)
                ):
                    self._allowed_reports -= 1
                elif self._turn_is_over:
                    self._report(Rule.AFTER_FINISHED, _type(content))
                self._take_turn_content(role, content)

    def _take_outside_turn(self, content: m.ChatContent) -> None:
        match content:
            case m.ChatHookActionStartedContent(id=hook_id, name=name):
                self._hooks[hook_id] = HookView(id=hook_id, name=name)
                self.view.items.append(self._hooks[hook_id])
            case m.ChatHookActionFinishedContent(id=hook_id) if hook_id in self._hooks:
                self._hooks[hook_id].end = content
            case m.ChatHookActionFinishedContent(id=hook_id):
                self._report(Rule.UNKNOWN_HOOK, f"that of {hook_id!r}")
            case _:
                self.view.items.append(content)

    def _take_progress(self, content: m.ChatProgressContent) -> None:
        if content.state == "finished":
            self._finish_turn()
        else:
            if not content.text and content.state == "running":
                self._report(Rule.SILENT_PROGRESS, "none")
            self.view.activity = content.text
            self._turn_is_over = False

    def _finish_turn(self) -> None:
        if self._turn_is_over:
            self._report(Rule.SECOND_FINISHED, "a second `finished`")
        if not self._is_abandoned:
            self._report_open_items()
        self._calls = {id_: call for id_, call in self._calls.items() if not call.is_open}
        self._thoughts.clear()
        self.view.activity = ""
        self._prepared = None
        self._turn_is_over = True

    def _report_open_items(self) -> None:
        for call in self._calls.values():
            if call.is_open:
                self._report(Rule.CALL_OPEN, f"call {call.id!r} still {call.state}")
        for thought in self._thoughts.values():
            if thought.total_time_ms is None:
                self._report(Rule.THOUGHT_OPEN, f"none for {thought.id!r}")

    def _take_turn_content(self, role: m.ChatRole, content: m.ChatContent) -> None:
        match content:
            case m.ChatTextContent():
                self._take_text(role, content)
            case m.ChatUsageContent():
                self.view.usage = content
            case m.ChatURLContent(title=title, url=url):
                self.view.items.append(LinkView(title=title, url=url))
            case m.ChatImageContent():
                self.view.items.append(content)
            case m.ChatReasonStartedContent(id=thought_id):
                if thought_id in self._thoughts:
                    self._report(Rule.THOUGHT_ORDER, f"a second start of {thought_id!r}")
                thought = ThoughtView(id=thought_id)
                self._thoughts[thought_id] = thought
                self.view.items.append(thought)
            case m.ChatReasonTextContent() | m.ChatReasonFinishedContent():
                self._take_thought(content)
            case m.ChatToolCallPrepareContent():
                self._prepare_call(content)
            case (
                m.ChatToolCallRunContent()
                | m.ChatToolCallRunningContent()
                | m.ChatToolCalledContent()
                | m.ChatToolCallRejectedContent()
            ):
                self._continue_call(content)

    def _take_text(self, role: m.ChatRole, content: m.ChatTextContent) -> None:
        last = self.view.items[-1] if self.view.items else None
        if (
            isinstance(last, TextView)
            and last.role == role
            and content.content_id in {None, last.content_id}
        ):
            last.pieces.add(content.text)
            return
        text = TextView(role=role, content_id=content.content_id)
        text.pieces.add(content.text)
        self.view.items.append(text)

    def _take_thought(self, content: m.ChatReasonTextContent | m.ChatReasonFinishedContent) -> None:
        thought = self._thoughts.get(content.id)
        if thought is None:
            self._report(Rule.UNKNOWN_THOUGHT, f"{_type(content)} of {content.id!r}")
            return
        if thought.total_time_ms is not None:
            self._report(Rule.THOUGHT_ORDER, f"{_type(content)} of {content.id!r}")
        if isinstance(content, m.ChatReasonTextContent):
            thought.pieces.add(content.text)
        else:
            thought.total_time_ms = content.total_time_ms

    def _prepare_call(self, content: m.ChatToolCallPrepareContent) -> None:
        missing = [name for name in ("id", "name", "server") if not getattr(content, name)]
        if missing:
            self._report(Rule.PREPARE_INCOMPLETE, f"no {' and no '.join(missing)}")
        call = self._calls.get(content.id)
        if call is None:
            call = CallView(
                id=content.id, name=content.name, server=content.server, origin=content.origin
            )
            self._calls[content.id] = call
            self.view.items.append(call)
        elif content.id != self._prepared and call.state == "preparing":
            got = f"{content.id!r} again, behind {self._prepared!r}"
            self._report(Rule.PREPARE_INTERLEAVED, got)
        self._prepared = content.id
        self._move(call, content, "preparing")
        call.arguments_pieces.add(content.arguments_text)

    def _continue_call(
        self,
        content: m.ChatToolCallRunContent
        | m.ChatToolCallRunningContent
        | m.ChatToolCalledContent
        | m.ChatToolCallRejectedContent,
    ) -> None:
        call = self._calls.get(content.id)
        if call is None:
            self._report(Rule.UNKNOWN_CALL, f"{_type(content)} of {content.id!r}")
            return
        state: CallState = "running"
        match content:
            case m.ChatToolCallRunContent(manual_approval=asks):
                state = "waiting" if asks else "ready"
            case m.ChatToolCalledContent():
                if not content.error and call.state in {"waiting", "ready"}:
                    self._report(Rule.CALL_ORDER, f"toolCalled of {call.id!r}, which never ran")
                state = "called"
                call.outputs, call.error = content.outputs, content.error
                call.total_time_ms = content.total_time_ms
            case m.ChatToolCallRejectedContent():
                state = "rejected"
                call.reason = content.reason
        self._move(call, content, state)
        call.arguments = content.arguments

    def _move(self, call: CallView, content: _ToolCall, state: CallState) -> None:
        is_step = state == "running" and isinstance(content.details, m.SubagentDetails)
        if state not in FOLLOWING[call.state] and not (is_step and call.state == "running"):
            got = f"{_type(content)} of {call.id!r}, which is {call.state}"
            self._report(Rule.CALL_ORDER, got)
        if content.name and (content.name, content.server) != (call.name, call.server):
            got = f"{content.server}/{content.name} for {call.server}/{call.name}"
            self._report(Rule.CALL_CHANGED, got)
            call.name, call.server = content.name, content.server
        problem = _details_problem(content)
        if problem is not None:
            self._report(Rule.DETAILS, problem)
        call.state = state
        call.summary = content.summary or call.summary
        call.details = content.details or call.details


def _details_problem(content: _ToolCall) -> str | None:
    details = content.details
    if (content.server, content.name) == ("eca", "task") and not isinstance(details, m.TaskDetails):
        return "none of type 'task' for the tool eca/task, whose name is reserved for them"
    if isinstance(details, m.ShellCommandDetails) and not details.commands:
        return "'shellCommand' without commands"
    return None


def _type(content: m.ChatContent) -> str:
    return str(content.type)

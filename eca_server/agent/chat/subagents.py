"""Subagents: a tool whose call is a turn in a chat of its own.

Rules: the subagent's turn lives inside the call, so the end of the parent's turn ends it at once.
Its contents go only to clients that show subagent chats; other clients are sent only the calls that
need approval, as calls of the parent. The parent stores the subagent's messages (with the result of
the call, see `subagent_work`), its usage and the before-images of its changes.
"""

from __future__ import annotations

from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import Any, ClassVar, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol import messages as m
from eca_protocol.server.chat_states import ChatState
from eca_protocol.server.texts import Role
from eca_server.agent.chat.memory import RestoreState, Storage
from eca_server.agent.chat.outlet import Outlet
from eca_server.agent.chat.subagent_work import chat_id_of, details_of, reduced
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.chat.turn import Prompt, Steer, Turn
from eca_server.agent.tools.files import printable
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.agent.tools.schemas import object_schema, required, string
from eca_server.agent.tools.tool import (
    Effect,
    FileChange,
    PreparedCall,
    ToolError,
    ToolOutput,
    running_call,
)
from eca_server.config.agent_settings import Behavior
from eca_server.models.history import Subagent, TextPart
from eca_server.models.models import with_provider

SPAWN_TOOL: Final = "spawn_agent"
"""The tool's name."""

_NO_PROMPTS = (
    "This is a subagent's chat, which takes no prompts: write to the parent chat instead. "
    "This prompt was dropped:"
)
_WAITS: Final = "Waiting subagent"
_SHOWN = 64  # characters of a name or an activity in the summary
_LISTED = 200  # characters of a description, and agents of the list


@attrs.frozen(kw_only=True)
class SpawnAgent:
    """The tool `spawn_agent`.

    Attributes:
        agents: the agents that can be called, by name.
        model: the model, as `provider/model`, of an agent without one of its own.
        cap: the limit of an agent's answer.
        work: lets an agent do a task, and returns its chat when the turn has ended; None: the
            tool is only listed.
    """

    agents: Mapping[str, Behavior]
    model: str = ""
    variant: str | None = None
    cap: Cap = attrs.field(factory=Cap)
    work: Callable[[str, Subagent], Awaitable[SubagentChat]] | None = None

    name: ClassVar = SPAWN_TOOL
    effect: ClassVar[Effect] = "read"  # what the agent does is judged call by call

    @property
    def description(self) -> str:
        """The description for the model, with the agents."""
        listed = "\n".join(
            f"- {name}: {each.description[:_LISTED] or 'no description'}"
            for name, each in [*self.agents.items()][:_LISTED]
        )
        return (
            "Delegate a task to another agent. It sees only the task text, has its own tools, and "
            "cannot ask questions. Its last message is returned as the result. Calls in the same "
            f"answer run in parallel.\n\nAgents:\n{listed}"
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        return object_schema(
            agent=required(string("Name of the agent, as listed.")),
            task=required(string("What to do and report, with all context.")),
            activity=string("The task in 3 to 5 words, for the user."),
            model=string("provider/model; only if the user names one."),
            variant=string("Model variant; only if the user names one."),
        )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return a summary such as `explorer: read the tests`."""
        words = (arguments.get(key) for key in ("agent", "activity"))
        return ": ".join(printable(word[:_SHOWN]) for word in words if isinstance(word, str))

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Validate the arguments; start nothing."""
        requested = arguments["agent"].strip()
        name = next((each for each in self.agents if each.lower() == requested.lower()), None)
        if name is None:
            known = ", ".join([*self.agents][:_LISTED])
            raise ToolError(f"Unknown agent {requested[:_SHOWN]!r}. Available agents: {known}.")
        agent = self.agents[name]
        own = agent.default_model and with_provider(agent.default_model, self.model)
        model = arguments.get("model") or own or self.model
        inherited = self.variant if model == self.model else None
        worker = Subagent(
            name=name,
            model=model,
            variant=arguments.get("variant") or agent.variant or inherited,
            max_steps=agent.max_steps,
        )
        call_id = running_call.get()
        details = details_of(call_id, worker)

        async def run() -> ToolOutput:
            assert self.work is not None
            chat = await self.work(arguments["task"], worker)
            return ToolOutput.of(
                cut_middle(chat.result, self.cap),
                is_error=chat.has_failed,
                details=details_of(call_id, chat.worker),
            )

        return PreparedCall(run=run, summary=self.summary(arguments), details=details)


async def run_task(
    parent: Turn,
    task: str,
    agent: Subagent,
    body: Callable[[SubagentChat], Awaitable[None]],
    working: MutableMapping[str, SubagentChat],
) -> SubagentChat:
    """Run a task inside the running call; a cancellation ends all of it."""
    async with trio.open_nursery() as nursery:
        chat = SubagentChat(parent, nursery, task, agent, body)
        turn, call = chat.turn, chat.call
        parent.subagents.append(turn)
        working[chat.id] = chat
        call.worker = chat.done
        parent.show_call_progress(_WAITS)
        try:
            chat.changed()
            turn.begin()
            nursery.start_soon(turn.run)
            await turn.ended.wait()
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await turn.ended.wait()
            del working[chat.id]
            parent.subagents.remove(turn)
            call.is_refused_by_user |= any(each.is_refused_by_user for each in turn.calls.values())
            parent.usages += turn.usages
    return chat


class _ParentStorage(Storage):
    """The stored part of a subagent's chat: its parent's, which is rolled back with it."""

    def __init__(self, chat_id: str, parent: Turn) -> None:
        super().__init__(chat_id, None, RestoreState.NEW, lambda: None)
        self._parent = parent

    async def store_before_images(
        self, content_id: str, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """Store before-images with the parent's turn, so that its rollback restores the files."""
        return await self._parent.will_change(changes)


class SubagentChat(Outlet):
    """The outlet of a subagent's turn: a chat that exists while its parent waits for it."""

    def __init__(
        self,
        parent: Turn,
        nursery: trio.Nursery,
        task: str,
        agent: Subagent,
        body: Callable[[SubagentChat], Awaitable[None]],
    ) -> None:
        call = parent.calls[running_call.get()]
        chat_id, outlet = chat_id_of(call.naming.id), parent.outlet
        services = attrs.evolve(outlet.services, nursery=nursery)
        super().__init__(chat_id, services, _ParentStorage(chat_id, parent), outlet.id)
        self.set(model=agent.model, variant=agent.variant, behavior=agent.name)
        self._state = ChatState.RUNNING
        self.call = call
        self._agent = agent
        self._parent = parent
        self._steps = 0
        self._parent_waits = False
        self._approval_ids: set[str] = set()
        self._last_words = ""
        self.turn = Turn(self, Prompt(text=task, body=lambda _: body(self)))

    def stop(self) -> None:
        """End the turn; the parent's turn continues with the result so far."""
        if self.state is ChatState.RUNNING:
            self._state = ChatState.STOPPING
            self.changed()
            self.turn.stop()
            self.services.nursery.start_soon(self.turn.close_late)

    def delete(self) -> None:
        """End the turn and write nothing more (W-24)."""
        if self.state is not ChatState.DELETED:
            self._state = ChatState.DELETED
            self.turn.delete()

    def closed(self) -> None:
        """Write the end of the turn, unless the chat is deleted."""
        if self.state is not ChatState.DELETED:
            self._state = ChatState.IDLE
            self.changed()
            self.turn.finish(self.turn.last_words())

    def refuse(self, text: str) -> None:
        """Notify the user that a prompt was dropped: now, or at the end of a stop."""
        if self.turn.stopped:
            self.turn.steers.append(Steer(text=text))
        else:
            self.turn.report(f"{_NO_PROMPTS}\n\n{text}")

    @property
    def state(self) -> ChatState:
        """The state of the turn."""
        return self._state

    @property
    def is_busy(self) -> bool:
        """True if the turn runs."""
        return not self.turn.is_closed

    @property
    def open_calls(self) -> Iterable[ToolCall]:
        """The tool calls that run or wait for the user."""
        return self.turn.calls.open.values()

    @property
    def is_shown(self) -> bool:
        """True if the client is shown this chat, by its running turn."""
        return self._shows_itself and self.is_busy and not self.turn.is_mute

    @property
    def _shows_itself(self) -> bool:
        return self.services.session.profile.display.shows_subagents

    @property
    def has_failed(self) -> bool:
        """True if there is no complete answer."""
        return self.turn.failed or self.turn.stopped

    @property
    def worker(self) -> Subagent:
        """The agent with the number of its steps so far."""
        steps = sum(message.role == "assistant" for message in self.turn.messages)
        return attrs.evolve(self._agent, steps=steps)

    def done(self) -> Subagent:
        """Return the agent with its steps and messages so far."""
        return attrs.evolve(self.worker, messages=reduced(self.turn.messages))

    @property
    def result(self) -> str:
        """The result for the parent: the model's last text, and the reason if the agent failed."""
        texts = (
            "".join(part.text for part in message.parts if isinstance(part, TextPart))
            for message in reversed(self.turn.messages)
            if message.role == "assistant"
        )
        last_text = next((text for text in texts if text.strip()), "")
        reason = ""
        if self.turn.stopped:
            reason = "The user stopped this agent."
        elif self.turn.failed:
            reason = f"This agent failed: {self._last_words}"
        elif any(call.is_refused_by_user for call in self.turn.calls.values()):
            reason = "The user rejected a tool call of this agent."
        parts = [*filter(None, (last_text, reason))]
        return "\n\n".join(parts) or "The agent ended without an answer."

    def emit(self, role: Role, content: m.ChatContent) -> None:
        """Write a content through the parent, so that nothing follows the parent's end."""
        if role == "system" and isinstance(content, m.ChatTextContent):
            self._last_words = content.text.strip()
        if isinstance(content, m.ChatToolCallRunContent):
            self._show_step()
        if not self._shows_itself:
            for each in self._of_calls_needing_approval(content):
                self._parent.emit("assistant", each)
        elif not self._parent.is_mute:
            self.services.session.emit(self.id, role, content, parent_chat_id=self.parent_id)
        if isinstance(content, m.ChatProgressContent):
            self._show_waiting()

    def _show_step(self) -> None:
        """Show the number of the agent's steps in the parent's call, once each."""
        worker = self.worker
        if worker.steps > self._steps and self._shows_itself:
            self._steps = worker.steps
            self.call.show(details_of(self.call.naming.id, worker))

    def _show_waiting(self) -> None:
        """Show in the parent's progress whether a call waits for the user, when that changes."""
        if self._parent.waits != self._parent_waits:
            self._parent_waits = self._parent.waits
            self._parent.show_call_progress(_WAITS)

    def _of_calls_needing_approval(self, content: m.ChatContent) -> Iterator[m.ChatContent]:
        if isinstance(content, m.ChatToolCallRunContent) and content.manual_approval:
            self._approval_ids.add(content.id)
            yield m.ChatToolCallPrepareContent(
                id=content.id,
                name=content.name,
                server=content.server,
                origin=content.origin,
                arguments_text=json.dumps(content.arguments).decode(),
                summary=content.summary,
            )
        if isinstance(content, _OF_CALLS) and content.id in self._approval_ids:
            yield content


_OF_CALLS = (
    m.ChatToolCallRunContent,
    m.ChatToolCallRunningContent,
    m.ChatToolCalledContent,
    m.ChatToolCallRejectedContent,
)

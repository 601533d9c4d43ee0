"""An agent that works for another one: a tool whose call is a turn in a chat of its own.

The rules it keeps: that turn lives inside the call and ends with it, so whatever ends the parent's
turn ends it at once; what it says goes only to clients that know whose chat it is; of the others
only the calls that ask are told, as calls of the parent. What is kept of it is the parent's: its
result with what was said (`subagent_work`), what it took, what the files it changed were before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
import trio

from eca_protocol.messages import (
    ChatContent,
    ChatProgressContent,
    ChatTextContent,
    ChatToolCalledContent,
    ChatToolCallPrepareContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
)
from eca_server.chat.chat import Chat
from eca_server.chat.subagent_work import chat_id_of, details_of, kept
from eca_server.chat.turn import Body, Prompt, Turn
from eca_server.config import Behavior
from eca_server.content_formatting import Role
from eca_server.llm.history import Subagent, TextPart
from eca_server.tools.files import printable
from eca_server.tools.output import Cap, cut_middle
from eca_server.tools.tool import (
    Effect,
    FileChange,
    PreparedCall,
    ToolError,
    ToolOutput,
    running_call,
)

__all__ = ["SPAWN_TOOL", "SpawnAgent", "SubagentChat", "Task", "run_task"]

SPAWN_TOOL: Final = "spawn_agent"
"""The tool's name."""

_NO_PROMPTS = (
    "This agent works for another one and takes no prompts: write to the chat it works for. "
    "A prompt that was dropped:"
)
_WAITS: Final = "Waiting subagent"
_SHOWN = 64  # characters of a name or an activity in the summary
_LISTED = 200  # characters of a description, and agents of the list


@attrs.frozen(kw_only=True)
class Task:
    """What a call asks for.

    Attributes:
        text: what is to be done.
        agent: who does it.
    """

    text: str
    agent: Subagent


@attrs.frozen(kw_only=True)
class SpawnAgent:
    """The tool `spawn_agent`.

    Attributes:
        agents: who can be called, by name.
        model: `provider/model`, who answers for an agent without one of its own.
        variant: of that model.
        cap: of what an agent's answer may be.
        work: has a task done, in a chat whose one turn has ended then; None: the tool is only
            told of.
    """

    agents: Mapping[str, Behavior]
    model: str = ""
    variant: str | None = None
    cap: Cap = attrs.field(factory=Cap)
    work: Callable[[Task], Awaitable[SubagentChat]] | None = None

    name: ClassVar = SPAWN_TOOL
    effect: ClassVar[Effect] = "read"  # what the agent does is judged call by call

    @property
    def description(self) -> str:
        """For the model: what it does, and who there is."""
        listed = "\n".join(
            f"- {name}: {each.description[:_LISTED] or 'no description'}"
            for name, each in [*self.agents.items()][:_LISTED]
        )
        return (
            "Have another agent do a task. It begins with nothing but your words, works with tools "
            "of its own, cannot ask back, and its last message is the result. Several calls in one "
            f"answer work at the same time.\n\nAgents:\n{listed}"
        )

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The arguments."""
        text = {"type": "string"}
        return {
            "type": "object",
            "properties": {
                "agent": {**text, "description": "Who does it, as listed."},
                "task": {**text, "description": "What to do and to report, with all it must know."},
                "activity": {**text, "description": "The task in three to five words, for a user."},
                "model": {**text, "description": "provider/model, if the user asks for one."},
                "variant": {**text, "description": "Of the model, if the user asks for one."},
            },
            "required": ["agent", "task"],
        }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`explorer: reads the tests`."""
        words = (arguments.get(key) for key in ("agent", "activity"))
        return ": ".join(printable(word[:_SHOWN]) for word in words if isinstance(word, str))

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Nothing begins before it may."""
        wanted = arguments["agent"].strip()
        name = next((each for each in self.agents if each.lower() == wanted.lower()), None)
        if name is None:
            known = ", ".join([*self.agents][:_LISTED])
            raise ToolError(f"There is no agent {wanted[:_SHOWN]!r}. Agents: {known}.")
        agent = self.agents[name]
        model = arguments.get("model") or agent.default_model or self.model
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
            chat = await self.work(Task(text=arguments["task"], agent=worker))
            return ToolOutput(
                parts=(TextPart(cut_middle(chat.result, self.cap)),),
                is_error=chat.has_failed,
                details=details_of(call_id, chat.worker),
            )

        return PreparedCall(run=run, summary=self.summary(arguments), details=details)


async def run_task(parent: Turn, task: Task, body: Body) -> SubagentChat:
    """Have a task done inside the call that runs; cancelled, nothing of it runs on."""
    async with trio.open_nursery() as nursery:
        chat = SubagentChat(running_call.get(), parent, nursery, task.agent)
        parent.subagents.append(chat)
        parent.calls[running_call.get()].worker = chat.done
        parent.tell_of_calls(_WAITS)
        try:
            await chat.answer(task.text, body)
        finally:
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await chat.turn.ended.wait()
            parent.subagents.remove(chat)
            refused = any(call.is_refused_by_user for call in chat.turn.calls.values())
            parent.calls[running_call.get()].is_refused_by_user |= refused
            parent.usages += chat.turn.usages
    return chat


class SubagentChat(Chat):
    """The chat in which an agent works for another one, as long as that waits."""

    turn: Turn

    def __init__(self, call_id: str, parent: Turn, nursery: trio.Nursery, agent: Subagent) -> None:
        chat = parent.chat
        super().__init__(chat_id_of(call_id), chat.session, nursery, watch=chat.watch)
        self.set(model=agent.model, variant=agent.variant, behavior=agent.name)
        self.parent_id = chat.id
        self._agent = agent
        self._parent = parent
        self._call_id = call_id
        self._steps = 0
        self._parent_waits = False
        self._asked: set[str] = set()
        self._last_words = ""

    async def answer(self, text: str, body: Body) -> None:
        """Let its one turn begin and end."""
        self.prompt(Prompt(text=text, body=body))
        assert self._turn is not None
        self.turn = self._turn
        await self.turn.ended.wait()

    def end(self) -> None:
        """The parent's turn ends, and with it this one: what it still says is dropped."""
        self.turn.stop()
        self.turn.finish()

    def refuse(self, text: str) -> None:
        """Tell the user that a prompt of theirs goes nowhere: now, or at the end of a stop."""
        if self.turn.stopped:
            self.steer(text)
        else:
            self.turn.say(f"{_NO_PROMPTS}\n\n{text}", role="system")

    @property
    def is_shown(self) -> bool:
        """Whether the client is told of a chat of this id now, by the one turn there is."""
        return self.session.profile.shows_subagents and self.is_busy and not self.turn.is_mute

    @property
    def has_failed(self) -> bool:
        """Whether there is no whole answer."""
        return self.turn.failed or self.turn.stopped

    @property
    def worker(self) -> Subagent:
        """The agent with the steps it has taken by now."""
        steps = sum(message.role == "assistant" for message in self.turn.messages)
        return attrs.evolve(self._agent, steps=steps)

    def done(self) -> Subagent:
        """The agent with what it has done by now."""
        return attrs.evolve(self.worker, messages=kept(self.turn.messages))

    @property
    def result(self) -> str:
        """What the parent is told: the last words of the model, and why it ended if it failed."""
        texts = (
            "".join(part.text for part in message.parts if isinstance(part, TextPart))
            for message in reversed(self.turn.messages)
            if message.role == "assistant"
        )
        said = next((text for text in texts if text.strip()), "")
        if self.turn.stopped:
            return "\n\n".join([*filter(None, [said]), "The user stopped this agent."])
        if self.turn.failed:
            return "\n\n".join(filter(None, [said, f"This agent failed: {self._last_words}"]))
        if any(call.is_refused_by_user for call in self.turn.calls.values()):
            return "\n\n".join([*filter(None, [said]), "The user rejected a call of this agent."])
        return said or "The agent has ended and said nothing."

    def emit(self, role: Role, content: ChatContent) -> None:
        """Say it by the parent, so that nothing is said after the parent's end."""
        if role == "system" and isinstance(content, ChatTextContent):
            self._last_words = content.text
        if isinstance(content, ChatToolCallRunContent):
            self._tell_step()
        if self.session.profile.shows_subagents:
            self._parent.relay(self.id, role, content)
        else:
            for each in self._of_calls_that_ask(content):
                self._parent.show(each)
        if isinstance(content, ChatProgressContent):
            self._tell_of_waiting()

    def _tell_step(self) -> None:
        """Show in the parent's call how many answers the agent has given, once each."""
        worker = self.worker
        if worker.steps > self._steps and self.session.profile.shows_subagents:
            self._steps = worker.steps
            self._parent.calls[self._call_id].show(details_of(self._call_id, worker))

    def _tell_of_waiting(self) -> None:
        """Show in the parent's progress that a call waits for the user, and that none does now."""
        if self._parent.waits != self._parent_waits:
            self._parent_waits = self._parent.waits
            self._parent.tell_of_calls(_WAITS)

    async def keep_before_images(
        self, turn: Turn, changes: Sequence[FileChange]
    ) -> Callable[[], None]:
        """What the files were is kept as if the parent changed them: its rollback restores them."""
        return await self._parent.will_change(changes)

    def _of_calls_that_ask(self, content: ChatContent) -> Iterator[ChatContent]:
        if isinstance(content, ChatToolCallRunContent) and content.manual_approval:
            self._asked.add(content.id)
            yield ChatToolCallPrepareContent(
                id=content.id,
                name=content.name,
                server=content.server,
                origin=content.origin,
                arguments_text="",
                summary=content.summary,
            )
        if isinstance(content, _OF_CALLS) and content.id in self._asked:
            yield content

    def _tell_status(self) -> None:
        self.watch(self)  # no client has opened this chat, so none is told


_OF_CALLS = (
    ChatToolCallRunContent,
    ChatToolCallRunningContent,
    ChatToolCalledContent,
    ChatToolCallRejectedContent,
)

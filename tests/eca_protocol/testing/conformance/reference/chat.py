"""Chats and their turns: the order of contents, the queue, stop and delete."""

from __future__ import annotations

import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

import anyio
import attrs

from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall

if TYPE_CHECKING:
    from tests.eca_protocol.testing.conformance.reference.server import Server

PIECE = 1024  # characters, which are 4 KiB at most

Content = dict[str, Any]


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt of the user."""

    text: str
    model: str
    behavior: str
    contexts: list[dict[str, Any]]


class Chat:
    """One conversation: its history, its cost, the running turn and the queued prompts."""

    def __init__(self, chat_id: str, server: Server) -> None:
        self.id = chat_id
        self.server = server
        self.history: list[dict[str, Any]] = server.store.load(chat_id)
        self.tokens = 0
        self.cost = 0.0
        self.queue: deque[Prompt] = deque()
        self.turn: Turn | None = None
        self.deleted = False
        self.title_scope: anyio.CancelScope | None = None

    def say(self, role: str, content: Content) -> None:
        if not self.deleted:
            params = {"chatId": self.id, "role": role, "content": content}
            self.server.notify("chat/contentReceived", params)

    def prompt(self, prompt: Prompt) -> dict[str, Any]:
        self.queue.append(prompt)
        if self.turn is None:
            self.start_turn()
        return self.answer(prompt)

    def answer(self, prompt: Prompt) -> dict[str, Any]:
        return {"chatId": self.id, "model": prompt.model, "status": "prompting"}

    def start_turn(self) -> None:
        self.turn = self.server.parts.turn(self, self.queue.popleft())
        self.turn.begin()
        self.server.tasks.start_soon(self.turn.run)

    def stop(self) -> None:
        """End the running turn and drop the queue."""
        if self.title_scope is not None:
            self.title_scope.cancel()
        if self.turn is not None and not self.turn.stopped:
            self.turn.dropped = [prompt.text for prompt in self.queue]
            self.queue.clear()
            self.turn.stop()

    async def delete(self, *, tells_the_end: bool) -> None:
        """Delete the chat; only the end of its turn may still be sent."""
        self.stop()
        if self.turn is not None and tells_the_end:
            self.turn.finish()
        self.deleted = True
        if self.turn is not None:
            await self.turn.ended.wait()

    async def make_title(self, scope: anyio.CancelScope, model: Model, text: str) -> None:
        pieces: list[str] = []

        def take(event: dict[str, Any]) -> None:
            choices = event.get("choices", ())
            pieces.extend(choice["delta"].get("content") or "" for choice in choices)

        instruction = "Answer with a title of a few words for what the user writes."
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        with scope:
            try:
                request = {"messages": messages, "tools": [], "turn": None}
                await self.server.ask_model(model, request, take)
            except ModelFault:
                return
            if not scope.cancel_called:
                self.say("system", {"type": "metadata", "title": "".join(pieces)})


class Turn:
    """The life of one prompt."""

    def __init__(self, chat: Chat, prompt: Prompt) -> None:
        self.chat = chat
        self.server = chat.server
        self.prompt = prompt
        self.calls: list[ToolCall] = []  # of the answer that comes or is worked on
        self.dropped: list[str] = []
        self.stopped = False
        self.ended = anyio.Event()
        self.last_cost: float | None = None
        self._scope = anyio.CancelScope()
        self._text = ""
        self._reasoning: str | None = None
        self._reasoning_began = 0.0

    def begin(self) -> None:
        self.progress("Waiting for the model")
        content = {"type": "text", "text": self.prompt.text, "contentId": str(uuid.uuid4())}
        self.chat.say("user", content)

    def progress(self, text: str) -> None:
        self.chat.say("system", {"type": "progress", "state": "running", "text": text})

    def send_system_text(self, text: str) -> None:
        """Send a text of the server, separated from the model's text."""
        for piece in in_pieces(f"\n\n{text}\n\n"):
            self.chat.say("system", {"type": "text", "text": piece})

    def stop(self) -> None:
        self.stopped = True
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            try:
                await self.converse()
            except ModelFault as fault:
                self.send_system_text(str(fault))
        self.close()
        await self.end()
        self.ended.set()
        if self.chat.queue and self.chat.turn is None:
            self.chat.start_turn()

    async def end(self) -> None:
        """Store and free the chat, then announce the end."""
        if not self.chat.deleted:
            self.server.store.save(self.chat.id, self.chat.history)
        self.chat.turn = None
        self.finish()

    def close(self) -> None:
        """Close open calls and send the last contents."""
        self.end_reasoning()
        if self._text:
            self.chat.history.append({"role": "assistant", "content": self._text})
        for call in self.calls:
            call.cut_short()
        if not self.stopped:
            self.send_usage()
        elif self.dropped:
            self.send_system_text("Dropped by the stop:\n" + "\n".join(self.dropped))

    def finish(self) -> None:
        self.chat.say("system", {"type": "progress", "state": "finished", "text": ""})

    async def converse(self) -> None:
        text = self.prompt.text
        if text.startswith("/"):
            expanded = await self.server.commands.expand(text[1:])
            if expanded is None:
                self.send_system_text(self.server.commands.run(text[1:], self.chat))
                return
            text = expanded
        model = self.server.models.get(self.prompt.model)
        if model is None:
            self.send_system_text(f"There is no model {self.prompt.model!r}.")
            return
        wants_title = self.server.config.get("chat", {}).get("title") is not False
        if not self.chat.history and wants_title:
            self.chat.title_scope = anyio.CancelScope()
            self.server.tasks.start_soon(self.chat.make_title, self.chat.title_scope, model, text)
        shown = [await self.server.show_context(context) for context in self.prompt.contexts]
        self.chat.history.append({"role": "user", "content": "\n\n".join([*shown, text])})
        while True:
            await self.ask(model)
            if not self.calls:
                return
            for call in self.calls:
                await call.run()
            self.progress("Waiting for the model")

    async def ask(self, model: Model) -> None:
        """Send one request, pass its stream on, and store the answer."""
        self.calls, self._text = [], ""
        instructions = f"You help the user of an editor. Behaviour: {self.prompt.behavior}."
        messages = [{"role": "system", "content": instructions}, *self.chat.history]
        tools = self.server.toolbox.offered(self.prompt.behavior)
        request = {"messages": messages, "tools": tools, "turn": self}
        await self.server.ask_model(model, request, lambda event: self.take(event, model))
        self.end_reasoning()
        for call in self.calls:
            call.end_preparing()
        if self.calls:
            tool_calls = [call.as_asked() for call in self.calls]
            message = {"role": "assistant", "content": self._text, "tool_calls": tool_calls}
            self.chat.history.append(message)
            self._text = ""

    def take(self, event: dict[str, Any], model: Model) -> None:
        """Handle an event of the model's stream, perhaps just before a stop."""
        if self.stopped:
            return
        if not isinstance(event, dict) or "error" in event:
            raise ModelFault(f"{model.name} reports: {event}")
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            if reasoning := delta.get("reasoning_content"):
                self.take_reasoning(reasoning)
            if text := delta.get("content"):
                self.end_reasoning()
                self.take_text(text)
            for piece in delta.get("tool_calls") or ():
                self.end_reasoning()
                self.take_call(piece)
        if usage := event.get("usage"):
            self.count(usage, model)

    def take_text(self, text: str) -> None:
        self._text += text
        for piece in in_pieces(text):
            self.chat.say("assistant", {"type": "text", "text": piece})

    def take_reasoning(self, text: str) -> None:
        if self._reasoning is None:
            self._reasoning, self._reasoning_began = str(uuid.uuid4()), anyio.current_time()
            self.chat.say("assistant", {"type": "reasonStarted", "id": self._reasoning})
        for piece in in_pieces(text):
            content = {"type": "reasonText", "id": self._reasoning, "text": piece}
            self.chat.say("assistant", content)

    def end_reasoning(self) -> None:
        if self._reasoning is not None:
            took = int((anyio.current_time() - self._reasoning_began) * 1000)
            content = {"type": "reasonFinished", "id": self._reasoning, "totalTimeMs": took}
            self.chat.say("assistant", content)
            self._reasoning = None

    def take_call(self, piece: dict[str, Any]) -> None:
        """Handle a piece of a call; only the first call is streamed (W-30)."""
        index, function = piece["index"], piece.get("function") or {}
        while len(self.calls) <= index:
            self.calls.append(self.server.parts.tool_call(self, function.get("name") or "?"))
        call = self.calls[index]
        call.arguments_text += function.get("arguments") or ""
        if index == 0:
            call.prepare_rest()

    def count(self, usage: dict[str, Any], model: Model) -> None:
        into, out = usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)
        self.chat.tokens += into + out
        if model.cost:
            cost = (into * model.cost["input"] + out * model.cost["output"]) / 1e6
            self.last_cost = (self.last_cost or 0.0) + cost
            self.chat.cost += cost

    def send_usage(self) -> None:
        self.chat.say("system", self.usage())

    def usage(self) -> Content:
        content: Content = {"type": "usage", "sessionTokens": self.chat.tokens}
        if self.last_cost is not None:
            content["lastMessageCost"] = content["messageCost"] = f"{self.last_cost:.6f}"
            content["sessionCost"] = f"{self.chat.cost:.6f}"
        model = self.server.models.get(self.prompt.model)
        if model is not None and model.limit.keys() >= {"context", "output"}:
            content["limit"] = {name: model.limit[name] for name in ("context", "output")}
        return content


def in_pieces(text: str) -> list[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]

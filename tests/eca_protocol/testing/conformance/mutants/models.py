"""Mutants of what a model is asked, what is passed on of its answer, and when the prompt is."""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Prompt, Turn
from tests.eca_protocol.testing.conformance.reference.model import Model
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server

Message = dict[str, Any]


@breaks("ARROW:chat-tool-call-2", "Offers tools to the model only where there are MCP servers.")
class OnlyServersHaveTools(Turn):
    async def request(self, model: Model, messages: Any, tools: Any) -> None:
        await super().request(model, messages, tools if "mcpServers" in self.server.config else [])


@breaks("ARROW:chat-tool-call-4")
class CallsSwallowSentences(Turn):
    """Waits at the end of a sentence for what comes behind it, and forgets it before a call."""

    held = ""

    def take_text(self, text: str) -> None:
        text, self.held = self.held + text, ""
        if text.endswith("."):
            self.held = text
        else:
            super().take_text(text)

    def take_call(self, piece: dict[str, Any]) -> None:
        self.held = ""
        super().take_call(piece)

    def store_answer(self) -> None:
        if self.held and not self.stopped:
            super().take_text(self.held)
        super().store_answer()


@breaks("W-21a", "Answers a prompt when the model does, or when its turn has come to another end.")
class AnswersWithTheFirstWord(Server):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._late: dict[str, Message] = {}  # the answers to prompts, by chat

    def write(self, message: Message) -> None:
        params, result = message.get("params") or {}, message.get("result") or {}
        chat = self.chats.get(result.get("chatId", ""))
        if "status" in result and chat is not None and chat.turn is not None and not chat.queue:
            self._late[chat.id] = message
            return
        content = params.get("content", {})
        is_early = content.get("state") == "running" or content.get("type") == "metadata"
        if not is_early and params.get("role") != "user":
            self._answer(params.get("chatId", ""))
        super().write(message)

    async def delete(self, params: Params) -> dict[str, Any]:
        self._answer(params.text("chatId"))
        return await super().delete(params)

    def _answer(self, chat_id: str) -> None:
        if chat_id in self._late:
            super().write(self._late.pop(chat_id))


@breaks("W-21f", "Ends the turn that runs for a prompt whose model it does not know.")
class UnknownModelsPushIn(Chat):
    def prompt(self, prompt: Prompt) -> dict[str, Any]:
        if self.turn is not None and prompt.model not in self.server.models:
            self.turn._scope.cancel()
        return super().prompt(prompt)

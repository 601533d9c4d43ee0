"""Mutants of turns: their order, their texts, the queue, what they cost."""

from typing import Any

import anyio
import attrs

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Prompt, Turn
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.wire import Fault

Content = dict[str, Any]


@breaks("W-20a", "Echoes the prompt before it sends progress.")
class StartsWithTheEcho(Turn):
    def begin(self) -> None:
        self.echo()
        self.progress("Waiting for the model")


@breaks("W-20c", "Echoes the prompt after the answer to it.")
class EchoesBehindTheAnswer(Turn):
    def begin(self) -> None:
        self.progress("Waiting for the model")

    async def run(self) -> None:
        self.echo()
        await super().run()


@breaks("W-20e", "Says `finished` a moment before the chat takes the next prompt.")
class BusyAtTheEnd(Turn):
    async def end(self) -> None:
        self.finish()
        await anyio.sleep(0.05)
        self.chat.turn = None


@breaks("W-22e", "Leaves a turn open in which a tool was called.")
class NeverFinishes(Turn):
    def finish(self) -> None:
        if self.stopped or not any("tool_calls" in message for message in self.chat.history):
            super().finish()


@breaks("CHAT-12", "Keeps the last of several pieces of the model's text for itself.")
class DropsTheLastDelta(Turn):
    held = ""
    has_begun = False

    def take_text(self, text: str) -> None:
        if self.has_begun:
            held, self.held = self.held, text
            super().take_text(held)
        else:
            self.has_begun = True
            super().take_text(text)


@breaks("CHAT-12", "Passes the model's text on when it is whole.")
class OnlyAtTheEnd(Turn):
    held = ""

    def take_text(self, text: str) -> None:
        self.held += text

    def store_answer(self) -> None:
        if self.held and not self.stopped:
            super().take_text(self.held)
        super().store_answer()


@breaks("W-6a", "Passes a text on in one piece, however long.")
class WholeTexts(Turn):
    def take_text(self, text: str) -> None:
        self._text += text
        self.chat.say("assistant", {"type": "text", "text": text})


@breaks("W-21d")
class HangsAtTheSecondTry(Turn):
    """Asks again where nothing of an answer came, and never ends if that fails as well."""

    async def request(self, model: Model, messages: Any, tools: Any) -> None:
        try:
            return await super().request(model, messages, tools)
        except ModelFault:
            if self._text:
                raise
        try:
            await super().request(model, messages, tools)
        except ModelFault:
            await anyio.sleep_forever()


@breaks("W-21e", "Names the selected model for one that it does not know.")
class AnotherModelIsTold(Chat):
    def answer(self, prompt: Prompt) -> dict[str, Any]:
        answer = super().answer(prompt)
        if prompt.model not in self.server.models:
            answer["model"] = self.server.selected_model
        return answer


@breaks("W-22a", "Refuses a prompt to a chat that is busy.")
class BusyIsAFault(Server):
    def prompt(self, params: Params) -> Any:
        chat = self.chats.get(params.text("chatId"))
        if chat is not None and chat.turn is not None:
            raise Fault(-32603, "the chat is busy")
        return super().prompt(params)


@breaks("W-22b", "Sends the echo of a prompt that waits at once.")
class EchoesWhatWaits(Chat):
    def prompt(self, prompt: Prompt) -> dict[str, Any]:
        if self.turn is not None:
            self.server.parts.turn(self, prompt).echo()
        return super().prompt(prompt)


@breaks("CHAT-2", "Tells the model of no turn but this.")
class NoMemory(Turn):
    async def request(self, model: Model, messages: Any, tools: Any) -> None:
        users = [index for index, each in enumerate(messages) if each["role"] == "user"]
        await super().request(model, [messages[0], *messages[users[-1] :]], tools)


@breaks("CHAT-39", "Begins with what another chat has said so far.")
class ChatsShareTheirPast(Chat):
    def __init__(self, chat_id: str, server: Server) -> None:
        super().__init__(chat_id, server)
        for other in server.chats.values():
            if any("It was the" in str(message) for message in other.history):  # one of its case
                self.history = list(other.history)


@breaks("CHAT-3", "Changes the prompt on its way to the model.")
class Shouts(Turn):
    async def user_message(self, text: str) -> dict[str, Any]:
        message = await super().user_message(text)
        return {**message, "content": message["content"].replace("  ", " ")}


@breaks("CHAT-4", "Asks the selected model, whichever the prompt names.")
class AlwaysTheSameModel(Server):
    def prompt(self, params: Params) -> Any:
        asked = params.text("model")
        if asked in self.models:
            params._value["model"] = self.selected_model
        answer = super().prompt(params)
        return {**answer, "model": asked or answer["model"]}


@breaks("W-28a", "Takes no notice of the behaviour that is selected.")
class SelectionIsForgotten(Server):
    def select_behavior(self, params: Params) -> None:
        before = self.behavior
        super().select_behavior(params)
        self.behavior = before


@breaks("CHAT-11", "Says the pieces of one of many chats in the name of another.")
class MixesChats(Chat):
    def say(self, role: str, content: Content) -> None:
        many = [chat for chat in self.server.chats.values() if chat.turn and "one of" in chat.id]
        others = [chat for chat in many if chat is not self]
        is_text = content["type"] == "text" and role == "assistant"
        if is_text and self in many and len(others) > 20:
            super(MixesChats, others[0]).say(role, content)
        else:
            super().say(role, content)


@breaks("W-22e", "Does not finish a turn whose model it does not know.")
class UnknownModelsHaveNoEnd(Turn):
    def finish(self) -> None:
        if self.prompt.model in self.server.models:
            super().finish()


@breaks("CHAT-30", "Sends a slash command to the model.")
class CommandsAreWords(Turn):
    async def converse(self) -> None:
        if ":" not in self.prompt.text:
            text = self.prompt.text.replace("/", " ", 1)
            self.prompt = attrs.evolve(self.prompt, text=text)
        await super().converse()


@breaks("CHAT-1", "Opens a chat with an empty id where none is given.")
class ChatsWithoutName(Server):
    def new_chat_id(self) -> str:
        return ""


@breaks("CHAT-14", "Says that it runs when it has finished.")
class ProgressBehindTheEnd(Turn):
    def finish(self) -> None:
        super().finish()
        if not self.stopped:
            self.progress("Idle")


@breaks("W-6c", "Sends long words of the user's back in pieces, and loses what is between two.")
class EchoesLosePieces(Turn):
    def echo(self) -> None:
        for piece in range(0, len(self.prompt.text), 4096):
            text = self.prompt.text[piece : piece + 4095]
            content = {"type": "text", "text": text, "contentId": f"{id(self)}-{piece}"}
            self.chat.say("user", content)

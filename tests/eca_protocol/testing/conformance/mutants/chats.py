"""Mutants of chats and turns whose fault is no rewrite of a message."""

from pathlib import Path
from typing import Any

import anyio
import attrs

from tests.eca_protocol.testing.conformance.mutants.registry import breaks, breaks_current
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Turn
from tests.eca_protocol.testing.conformance.reference.current_chat import CurrentChat, CurrentTurn
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.store import Store

Message = dict[str, Any]


@breaks("W-22e", "Finishes each turn twice.")
class FinishesTwice(Turn):
    def finish(self) -> None:
        super().finish()
        super().finish()


@breaks("W-20e", "Says `finished` a moment before the chat takes the next prompt.")
class BusyAtTheEnd(Turn):
    async def end(self) -> None:
        self.finish()
        await anyio.sleep(0.05)
        self.chat.turn = None


@breaks("W-6a", "Passes a text on in one piece, however long.")
class WholeTexts(Turn):
    def take_text(self, text: str) -> None:
        self._text += text
        self.chat.say("assistant", {"type": "text", "text": text})


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


@breaks("W-42e", "Ends the turn when the editor's answer makes no sense.")
class SenselessAnswersEndTheTurn(Server):
    async def ask(self, method: str, params: Any, *, seconds: float) -> Any:
        answer = await super().ask(method, params, seconds=seconds)
        if isinstance(answer, dict) and not isinstance(answer.get("diagnostics"), list):
            raise ModelFault("The editor's answer makes no sense.")
        return answer


@breaks("W-22c", "Continues with the next prompt after a stop.")
class QueueOutlivesTheStop(Chat):
    def stop(self) -> None:
        waiting = list(self.queue)
        super().stop()
        if not self.deleted:
            self.queue.extend(waiting)


@breaks("W-23f", "Reads on, and drops what it reads, after a stop.")
class ConnectionStaysOpen(Server):
    async def ask_model(self, model: Model, request: Message, take: Any) -> None:
        ended, scope, faults = anyio.Event(), anyio.CancelScope(), []

        async def read() -> None:
            with scope:
                try:
                    await super(ConnectionStaysOpen, self).ask_model(model, request, take)
                except ModelFault as fault:
                    faults.append(fault)
            ended.set()

        self.tasks.start_soon(read)
        try:
            await ended.wait()
        finally:
            if request["turn"] is None or request["turn"].chat.deleted:
                scope.cancel()
        if faults:
            raise faults[0]


@breaks("W-24b", "Lets a turn run on, unheard, when its chat is deleted.")
class DeletedChatsRun(Chat):
    async def delete(self, *, tells_the_end: bool) -> None:
        if self.turn is not None and tells_the_end:
            self.turn.finish()
        self.deleted = True


@breaks("W-24f", "Keeps a deleted chat's history.")
class DeletedHistoryStays(Server):
    async def delete(self, params: Params) -> Any:
        chat = self.chats.get(params.text("chatId"))
        result = await super().delete(params)
        if chat is not None:
            chat.deleted = False
            chat.tokens = 0
            self.chats[chat.id] = chat
        return result


@breaks("W-25d", "Sends a title after a stop.")
class TitlesAfterAStop(Chat):
    def stop(self) -> None:
        scope, self.title_scope = self.title_scope, None
        super().stop()
        self.title_scope = scope


@breaks("CHAT-2", "Stores chats when the server is shut down, and loses them when it is killed.")
class ChatsAreStoredAtTheShutdown(Store):
    def __init__(self, roots: list[Path]) -> None:
        super().__init__(roots)
        self.unsaved: dict[str, list[dict[str, Any]]] = {}

    def save(self, chat_id: str, history: list[dict[str, Any]]) -> None:
        self.unsaved[chat_id] = list(history)

    def forget(self, chat_id: str) -> None:
        self.unsaved.pop(chat_id, None)
        super().forget(chat_id)

    def close(self) -> None:
        for chat_id, history in self.unsaved.items():
            super().save(chat_id, history)


@breaks("W-24f", "Hides a deleted chat, which the next server finds again.")
class DeletedChatsStayStored(Store):
    def __init__(self, roots: list[Path]) -> None:
        super().__init__(roots)
        self.hidden: set[str] = set()

    def load(self, chat_id: str) -> list[dict[str, Any]]:
        return [] if chat_id in self.hidden else super().load(chat_id)

    def forget(self, chat_id: str) -> None:
        self.hidden.add(chat_id)


@breaks("W-27a", "Counts the tokens of the last turn only.")
class TokensOfOneTurn(Turn):
    def begin(self) -> None:
        self.chat.tokens = 0
        super().begin()


@breaks("W-27a", "Counts the tokens of the title's request, too.")
class TitlesAreCounted(Chat):
    async def make_title(self, scope: anyio.CancelScope, model: Model, text: str) -> None:
        self.tokens += 11
        await super().make_title(scope, model, text)


@breaks("CHAT-18", "Counts output tokens, not input tokens.")
class TokensOneWay(Turn):
    def count(self, usage: dict[str, Any], model: Model) -> None:
        super().count(usage, model)
        self.chat.tokens -= usage.get("prompt_tokens", 0)


@breaks_current("W-31c")
class RejectionGoesOn(CurrentTurn):
    """Asks the model again after the user's rejection."""

    def is_over(self) -> bool:
        return False


@breaks_current("W-43b", "Gives a flag the id of the content that it is at.")
class FlagsShareAnId(CurrentChat):
    def flag_id(self, content_id: str) -> str:
        return content_id

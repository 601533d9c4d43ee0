"""Mutants of thoughts, titles, tokens and costs."""

from typing import Any

import anyio

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Turn
from tests.eca_protocol.testing.conformance.reference.model import Model
from tests.eca_protocol.testing.conformance.reference.server import Server

Content = dict[str, Any]


@breaks("W-27e", "Tells usage behind `finished`.")
class UsageAfterTheEnd(Turn):
    def send_usage(self) -> None:
        return None

    def finish(self) -> None:
        super().finish()
        if not self.stopped:
            super().send_usage()


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


@breaks("W-25a", "Offers tools with the request for a title.")
class TitlesWithTools(Chat):
    def title_tools(self) -> list[dict[str, Any]]:
        return self.server.toolbox.offered("agent")


@breaks("W-25b", "Speaks of titles in what it tells the model of the chat.")
class ChatsSpeakOfTitles(Turn):
    def instructions(self) -> str:
        return f"{super().instructions()} Do not write a title above an answer."


@breaks("W-25c", "Asks for titles although they are turned off.")
class AlwaysTitles(Server):
    @property
    def wants_titles(self) -> bool:
        return True


@breaks("CHAT-18", "Counts output tokens, not input tokens.")
class TokensOneWay(Turn):
    def count(self, usage: dict[str, Any], model: Model) -> None:
        super().count(usage, model)
        self.chat.tokens -= usage.get("prompt_tokens", 0)

"""Mutants of thoughts, titles, tokens and costs."""

from __future__ import annotations

from typing import Any

import anyio

from tests.eca_protocol.testing.conformance.mutants.otherwise import SaysOtherwise
from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Turn
from tests.eca_protocol.testing.conformance.reference.model import Model
from tests.eca_protocol.testing.conformance.reference.server import Server

Content = dict[str, Any]


@breaks("W-20d", "Ends a turn without usage.")
class NoUsage(Turn):
    def send_usage(self) -> None:
        return None


@breaks("W-27e", "Tells usage behind `finished`.")
class UsageAfterTheEnd(Turn):
    def send_usage(self) -> None:
        return None

    def finish(self) -> None:
        super().finish()
        if not self.stopped:
            super().send_usage()


@breaks("W-26a", "Says usage in the assistant's name.")
class UsageOfTheAssistant(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        return ("assistant" if content["type"] == "usage" else role), content


@breaks("W-26d", "Appends a text of its own to the model's last word.")
class SystemTextsStick(Turn):
    def paragraph(self, text: str) -> str:
        return text


@breaks("W-26b", "Does not finish a reasoning.")
class ThoughtsStayOpen(Turn):
    def end_reasoning(self) -> None:
        self._reasoning = None


@breaks("CHAT-15", "Gives the texts of a reasoning another id.")
class ThoughtsChangeTheirId(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "reasonText":
            content = {**content, "id": content["id"] + "-text"}
        return role, content


@breaks("FIELD:ChatReasonFinishedContent.totalTimeMs", "Does not tell how long a reasoning took.")
class ThoughtsWithoutTime(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "reasonFinished":
            content = {"type": content["type"], "id": content["id"]}
        return role, content


@breaks("FIELD:ChatUsageContent.sessionTokens", "Writes a count as a text.")
class TokensAsText(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "usage":
            content = {**content, "sessionTokens": str(content["sessionTokens"])}
        return role, content


@breaks("FIELD:ChatUsageContent.lastMessageCost", "Writes the cost of a message as a number.")
class CostsAsNumbers(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if "lastMessageCost" in content:
            content = {**content, "lastMessageCost": float(content["lastMessageCost"])}
        return role, content


@breaks("W-27b", "Writes costs with a dollar sign.")
class CostsWithASign(Turn):
    def usage(self) -> Content:
        content = super().usage()
        for name in ("lastMessageCost", "messageCost", "sessionCost"):
            if name in content:
                content[name] = "$" + content[name]
        return content


@breaks("W-27c", "Writes half a limit.")
class HalfALimit(Turn):
    def usage(self) -> Content:
        content = super().usage()
        if "limit" in content:
            content["limit"] = {"context": content["limit"]["context"]}
        return content


@breaks("W-27d", "Leaves `messageCost` away.")
class OneCost(Turn):
    def usage(self) -> Content:
        content = super().usage()
        content.pop("messageCost", None)
        return content


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


@breaks("CHAT-20", "Tells the limit of the output as that of the context.")
class LimitsAreExchanged(Turn):
    def usage(self) -> Content:
        content = super().usage()
        if "limit" in content:
            context, output = content["limit"].values()
            content["limit"] = {"context": output, "output": context}
        return content


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


@breaks("CHAT-21", "Asks for a title and does not tell it.")
class TitlesStayHere(Chat):
    def say(self, role: str, content: Content) -> None:
        if content["type"] != "metadata":
            super().say(role, content)


@breaks("CHAT-19", "Tells the cost of the last message as that of the session.")
class SessionsCostOneTurn(Turn):
    def usage(self) -> Content:
        content = super().usage()
        if "sessionCost" in content:
            content["sessionCost"] = content["lastMessageCost"]
        return content


@breaks("CHAT-16", "Tells a reasoning's time with the wrong sign.")
class ThoughtsBackInTime(SaysOtherwise):
    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if "totalTimeMs" in content:
            content = {**content, "totalTimeMs": -1 - content["totalTimeMs"]}
        return role, content


@breaks("CHAT-18", "Counts output tokens, not input tokens.")
class TokensOneWay(Turn):
    def count(self, usage: dict[str, Any], model: Model) -> None:
        super().count(usage, model)
        self.chat.tokens -= usage.get("prompt_tokens", 0)

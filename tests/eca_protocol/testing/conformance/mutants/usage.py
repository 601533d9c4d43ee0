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


@breaks("W-20d")
class NoUsage(Turn):
    """Ends a turn without usage."""

    def send_usage(self) -> None:
        return None


@breaks("W-27e")
class UsageAfterTheEnd(Turn):
    """Tells usage behind `finished`."""

    def send_usage(self) -> None:
        return None

    def finish(self) -> None:
        super().finish()
        if not self.stopped:
            super().send_usage()


@breaks("W-26a")
class UsageOfTheAssistant(SaysOtherwise):
    """Says usage in the assistant's name."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        return ("assistant" if content["type"] == "usage" else role), content


@breaks("W-26d")
class SystemTextsStick(Turn):
    """Appends a text of its own to the model's last word."""

    def paragraph(self, text: str) -> str:
        return text


@breaks("W-26b")
class ThoughtsStayOpen(Turn):
    """Does not finish a reasoning."""

    def end_reasoning(self) -> None:
        self._reasoning = None


@breaks("CHAT-15")
class ThoughtsChangeTheirId(SaysOtherwise):
    """Gives the texts of a reasoning another id."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "reasonText":
            content = {**content, "id": content["id"] + "-text"}
        return role, content


@breaks("FIELD:ChatReasonFinishedContent.totalTimeMs")
class ThoughtsWithoutTime(SaysOtherwise):
    """Does not tell how long a reasoning took."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "reasonFinished":
            content = {"type": content["type"], "id": content["id"]}
        return role, content


@breaks("FIELD:ChatUsageContent.sessionTokens")
class TokensAsText(SaysOtherwise):
    """Writes a count as a text."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if content["type"] == "usage":
            content = {**content, "sessionTokens": str(content["sessionTokens"])}
        return role, content


@breaks("FIELD:ChatUsageContent.lastMessageCost")
class CostsAsNumbers(SaysOtherwise):
    """Writes the cost of a message as a number."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if "lastMessageCost" in content:
            content = {**content, "lastMessageCost": float(content["lastMessageCost"])}
        return role, content


@breaks("W-27b")
class CostsWithASign(Turn):
    """Writes costs with a dollar sign."""

    def usage(self) -> Content:
        content = super().usage()
        for name in ("lastMessageCost", "messageCost", "sessionCost"):
            if name in content:
                content[name] = "$" + content[name]
        return content


@breaks("W-27c")
class HalfALimit(Turn):
    """Writes half a limit."""

    def usage(self) -> Content:
        content = super().usage()
        if "limit" in content:
            content["limit"] = {"context": content["limit"]["context"]}
        return content


@breaks("W-27d")
class OneCost(Turn):
    """Leaves `messageCost` away."""

    def usage(self) -> Content:
        content = super().usage()
        content.pop("messageCost", None)
        return content


@breaks("W-27a")
class TokensOfOneTurn(Turn):
    """Counts the tokens of the last turn only."""

    def begin(self) -> None:
        self.chat.tokens = 0
        super().begin()


@breaks("W-27a")
class TitlesAreCounted(Chat):
    """Counts the tokens of the title's request, too."""

    async def make_title(self, scope: anyio.CancelScope, model: Model, text: str) -> None:
        self.tokens += 11
        await super().make_title(scope, model, text)


@breaks("CHAT-20")
class LimitsAreExchanged(Turn):
    """Tells the limit of the output as that of the context."""

    def usage(self) -> Content:
        content = super().usage()
        if "limit" in content:
            context, output = content["limit"].values()
            content["limit"] = {"context": output, "output": context}
        return content


@breaks("W-25a")
class TitlesWithTools(Chat):
    """Offers tools with the request for a title."""

    def title_tools(self) -> list[dict[str, Any]]:
        return self.server.toolbox.offered("agent")


@breaks("W-25b")
class ChatsSpeakOfTitles(Turn):
    """Speaks of titles in what it tells the model of the chat."""

    def instructions(self) -> str:
        return f"{super().instructions()} Do not write a title above an answer."


@breaks("W-25c")
class AlwaysTitles(Server):
    """Asks for titles although they are turned off."""

    @property
    def wants_titles(self) -> bool:
        return True


@breaks("CHAT-21")
class TitlesStayHere(Chat):
    """Asks for a title and does not tell it."""

    def say(self, role: str, content: Content) -> None:
        if content["type"] != "metadata":
            super().say(role, content)


@breaks("CHAT-19")
class SessionsCostOneTurn(Turn):
    """Tells the cost of the last message as that of the session."""

    def usage(self) -> Content:
        content = super().usage()
        if "sessionCost" in content:
            content["sessionCost"] = content["lastMessageCost"]
        return content


@breaks("CHAT-16")
class ThoughtsBackInTime(SaysOtherwise):
    """Tells a reasoning's time with the wrong sign."""

    def changed(self, role: str, content: Content) -> tuple[str, Content]:
        if "totalTimeMs" in content:
            content = {**content, "totalTimeMs": -1 - content["totalTimeMs"]}
        return role, content


@breaks("CHAT-18")
class TokensOneWay(Turn):
    """Counts output tokens, not input tokens."""

    def count(self, usage: dict[str, Any], model: Model) -> None:
        super().count(usage, model)
        self.chat.tokens -= usage.get("prompt_tokens", 0)

"""A chat on a client's screen, drawn from contents as strictly as the strictest client draws it.

Where a client would raise, hang, or show something wrong, `Broken` is raised.
"""

from collections.abc import Mapping
from typing import Any

import attrs

OPEN = {"prepared", "asking", "ready", "running"}


class Broken(AssertionError):
    """A user of this client is left with something that does not work."""


def need(condition: object, what: str, value: object) -> None:
    if not condition:
        raise Broken(f"{what}: {value!r}")


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@attrs.define(kw_only=True)
class Card:
    """A tool call: `prepared`, then `asking` or `ready`, `running`, then `called`, `rejected`."""

    name: str
    server: str
    state: str = "prepared"
    arguments_text: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    details: Mapping[str, Any] = attrs.field(factory=dict)
    output: str = ""
    error: bool = False


@attrs.define(kw_only=True)
class Chat:
    """A chat's tab or buffer.

    Attributes:
        busy: the progress that is shown; empty: the user may write.
        ends: how many turns have ended.
        open_thoughts: the reasonings that have begun and not ended.
    """

    answer: str = ""
    echoed: str = ""
    thought: str = ""
    busy: str = ""
    ends: int = 0
    title: str = ""
    usage: Mapping[str, Any] = attrs.field(factory=dict)
    open_thoughts: set[str] = attrs.field(factory=set)
    cards: dict[str, Card] = attrs.field(factory=dict)

    @property
    def asking(self) -> str | None:
        """The call that the user is asked about."""
        return next((id_ for id_, card in self.cards.items() if card.state == "asking"), None)

    def draw(self, content: Mapping[str, Any], role: str) -> None:
        """Add a content; a type that is not known is ignored."""
        match content["type"]:
            case "text":
                self.write(content.get("text"), role)
            case "progress":
                self.progress(content)
            case "usage":
                need(
                    is_count(content.get("sessionTokens")),
                    "tokens are shown only as a number",
                    content,
                )
                self.usage = content
            case "metadata":
                need(is_text(content.get("title")), "a title is a text", content)
                self.title = content["title"]
            case "url":
                need(
                    is_text(content.get("title")) and is_text(content.get("url")), "a link", content
                )
            case "reasonStarted" | "reasonText" | "reasonFinished":
                self.think(content)
            case "toolCallPrepare":
                self.prepare(content)
            case "toolCallRun" | "toolCallRunning" | "toolCalled" | "toolCallRejected":
                self.call(content)

    def write(self, text: Any, role: str) -> None:
        need(is_text(text), "a text is a text", text)
        match role:
            case "user":
                self.echoed += text
            case "assistant":
                self.answer += text

    def progress(self, content: Mapping[str, Any]) -> None:
        if content["state"] == "finished":
            need(self.busy, "a turn ends once", content)
            self.busy = ""
            self.ends += 1
        else:
            need(is_text(content.get("text")), "progress is inserted as it comes", content)
            need(content["text"], "a chat without progress text is not busy", content)
            self.busy = content["text"]

    def think(self, content: Mapping[str, Any]) -> None:
        id_ = content["id"]
        if content["type"] == "reasonStarted":
            self.open_thoughts.add(id_)
            return
        need(id_ in self.open_thoughts, "a thought that never began", content)
        if content["type"] == "reasonText":
            self.thought += content["text"]
        else:
            need(isinstance(content["totalTimeMs"], (int, float)), "a thought's time", content)
            self.open_thoughts.discard(id_)

    def prepare(self, content: Mapping[str, Any]) -> None:
        for key in ("id", "name", "server"):
            need(content.get(key), f"a call is not shown without its {key}", content)
        need(is_text(content["argumentsText"]), "a piece of arguments is a text", content)
        need(
            (content["server"], content["name"]) != ("eca", "task"),
            "the client's own name",
            content,
        )
        card = Card(name=content["name"], server=content["server"])
        card = self.cards.setdefault(content["id"], card)
        need(card.state == "prepared", "the call is taken back to where nobody approves", content)
        card.arguments_text += content["argumentsText"]

    def call(self, content: Mapping[str, Any]) -> None:
        need(content["id"] in self.cards, "a call that was not prepared has no card", content)
        card = self.cards[content["id"]]
        need(card.state in OPEN, "a call that was closed goes on", content)
        need(isinstance(content["arguments"], dict), "arguments are pairs", content)
        card.arguments = content["arguments"]
        card.details = content.get("details") or {}
        if card.details.get("type") == "fileChange":
            for key in ("path", "diff"):
                need(is_text(card.details.get(key)), f"the card crashes without {key}", content)
            for key in ("linesAdded", "linesRemoved"):
                need(is_count(card.details.get(key)), f"{key} is a number", content)
        match content["type"]:
            case "toolCallRun":
                card.state = "asking" if content["manualApproval"] else "ready"
            case "toolCallRunning":
                card.state = "running"
            case "toolCallRejected":
                card.state = "rejected"
            case "toolCalled":
                need(all(isinstance(each, dict) for each in content["outputs"]), "outputs", content)
                card.state, card.error = "called", content["error"]
                card.output = "".join(each.get("text", "") for each in content["outputs"])


class EmacsChat(Chat):
    """Prices are put into a text unlooked at, whenever the mode line is drawn."""

    def draw(self, content: Mapping[str, Any], role: str) -> None:
        if content["type"] == "usage":
            for key in ("sessionCost", "messageCost"):
                need(is_text(content.get(key, "")), "a price is a text", content)
            for value in (content.get("limit") or {}).values():
                need(is_count(value), "a limit is a number", content)
        super().draw(content, role)


class NeovimChat(Chat):
    """One call is current: it is asked about when the progress says so, word by word."""

    @property
    def asking(self) -> str | None:
        return super().asking if self.busy == "Waiting for tool call approval" else None

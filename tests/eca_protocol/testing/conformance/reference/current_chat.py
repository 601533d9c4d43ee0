"""Chats, turns and calls as CURRENT has them, where they differ from October's."""

from __future__ import annotations

import re
import shlex
import uuid
from typing import TYPE_CHECKING, Any

from tests.eca_protocol.testing.conformance.reference.chat import Chat, Prompt, Turn
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import ShellCommand, Tool, Toolbox

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.eca_protocol.testing.conformance.reference.model import Model
    from tests.eca_protocol.testing.conformance.reference.server import Server

Content = dict[str, Any]
Shown = tuple[str, Content]  # the role and the content

KINDS_SHOWN_AGAIN = ("text", "reason", "toolCall", "flag")
ENDS = ("text", "toolCalled", "toolCallRejected", "reasonFinished")
"""The types of content that a flag may follow."""


class CurrentChat(Chat):
    """A chat that can be shown again, flagged, copied and cleared.

    Attributes:
        shown: the contents that a client sees of the chat.
        kind: the kind of the chat in the list, empty for a usual one.
        title: the title that the client gave it.
    """

    def __init__(self, chat_id: str, server: Server) -> None:
        super().__init__(chat_id, server)
        self.shown: list[Shown] = []
        self.kind = ""
        self.title = ""

    def say(self, role: str, content: Content) -> None:
        super().say(role, content)
        if content["type"].startswith(KINDS_SHOWN_AGAIN):
            self.shown.append((role, content))

    def show(self, contents: Iterable[Shown]) -> None:
        """Write contents of the past."""
        for role, content in contents:
            super().say(role, content)

    def announce_open(self) -> None:
        opened = {"chatId": self.id, **({"title": self.title} if self.title else {})}
        self.server.notify("chat/opened", opened)

    def announce_cleared(self) -> None:
        self.server.notify("chat/cleared", {"chatId": self.id, "messages": True})

    def show_again(self) -> None:
        """Clear the client's view of the chat and fill it anew."""
        self.announce_cleared()
        self.show(self.shown)

    def place_of(self, content_id: str) -> int | None:
        """Return the index of the content that ends what has this id."""
        matches = [
            index
            for index, (_, content) in enumerate(self.shown)
            if content["type"] in ENDS
            and content_id in (content.get("contentId"), content.get("id"))
        ]
        return matches[-1] if matches else None

    def flag_id(self, content_id: str) -> str:
        """Return the id of a new flag at this content."""
        return str(uuid.uuid4())

    def add_flag(self, content_id: str, text: str) -> None:
        place = self.place_of(content_id)
        if place is not None:
            flag = {"type": "flag", "text": text, "contentId": self.flag_id(content_id)}
            self.shown.insert(place + 1, ("system", flag))
            self.show_again()

    def remove_flag(self, flag_id: str) -> None:
        self.shown = [
            (role, content)
            for role, content in self.shown
            if (content["type"], content.get("contentId")) != ("flag", flag_id)
        ]
        self.show_again()

    def copy_up_to(self, content_id: str, copy: CurrentChat) -> None:
        """Copy the history up to a content into another chat."""
        place = self.place_of(content_id)
        copy.history = list(self.history)
        copy.shown = self.shown[:place]

    def answer(self, prompt: Prompt) -> dict[str, Any]:
        starts = prompt.model in self.server.models
        return {**super().answer(prompt), "status": "prompting" if starts else "error"}


class CurrentTurn(Turn):
    """A turn whose gauge follows each request, and which ends with the user's rejection."""

    has_shown_usage = False

    async def ask(self, model: Model) -> None:
        if self.is_over():
            self.calls = []
            return
        await super().ask(model)
        if not self.stopped:
            self.has_shown_usage = True
            self.chat.say("system", self.usage())

    def is_over(self) -> bool:
        """Return whether the user has rejected a call of the last answer."""
        return any(call._decision is False for call in self.calls)

    def send_usage(self) -> None:
        if not self.has_shown_usage:
            super().send_usage()

    def count(self, usage: dict[str, Any], model: Model) -> None:
        self.chat.tokens = 0  # the last request holds the whole context
        super().count(usage, model)


class CurrentToolCall(ToolCall):
    """A call with a summary from the start; a command names its parts."""

    def common(self) -> dict[str, Any]:
        common = super().common()
        if common["origin"] == "native":
            common["name"] = common["name"].removeprefix("eca_")
        return common

    def say(self, kind: str, **fields: Any) -> None:
        if kind == "toolCallPrepare" and (summary := self.summary()):
            fields["summary"] = summary
        super().say(kind, **fields)

    def details(self) -> dict[str, Any]:
        if not isinstance(self.tool, ShellCommand) or not self.arguments:
            return super().details()
        return {"type": "shellCommand", "commands": self.parts(), "background": False}

    def parts(self) -> list[dict[str, Any]]:
        """Return the commands of a pipeline, each with the key that an approval would save."""
        line = str(self.arguments.get("command"))
        parts = []
        for text in [line] if self.hides_commands(line) else re.split(r"\|\|?|&&|;", line):
            program, *arguments = shlex.split(text) or [""]
            part: dict[str, Any] = {"command": program, "args": arguments}
            if not self.hides_commands(line):
                part["approvalKey"] = f"shell:{program}"
                part["remembered"] = part["approvalKey"] in self.turn.server.toolbox.approved
            parts.append(part)
        return parts

    def hides_commands(self, line: str) -> bool:
        """Return whether a command may run others than it names."""
        return "$(" in line or "`" in line or bool(re.match(r"\s*(ba)?sh\b", line))

    def verdict(self) -> str:
        verdict = super().verdict()
        parts = self.parts() if isinstance(self.tool, ShellCommand) and verdict == "ask" else []
        is_known = bool(parts) and all(part.get("remembered") for part in parts)
        return "allow" if is_known else verdict

    def decide(self, approves: bool, *, for_session: bool = False) -> None:
        is_command = isinstance(self.tool, ShellCommand)
        if is_command and approves and for_session and self.state == "waiting":
            keys = {part.get("approvalKey") for part in self.parts()}
            self.turn.server.toolbox.approved |= keys - {None}
        super().decide(approves, for_session=for_session and not is_command)


class CurrentToolbox(Toolbox):
    """The same tools; the client sees them without a prefix."""

    def listed(self, tools: Iterable[Tool], behavior: str) -> list[dict[str, Any]]:
        return [
            {**tool, "name": tool["name"].removeprefix("eca_")}
            for tool in super().listed(tools, behavior)
        ]

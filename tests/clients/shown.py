"""The views of a chat in two clients: the page's list of messages, and Emacs' buffer of text.

Drawn after the sources of the web page (VS Code, IntelliJ, Desktop) and of the Emacs plugin, as far
as they decide what a user reads. What they drop is dropped here, too.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import attrs


@attrs.define
class Block:
    """One message of the page: a text, a reasoning, or a tool call."""

    kind: str
    who: str = ""
    text: str = ""
    state: str = ""
    seconds: float | None = None
    details: Any = None
    outputs: Any = None
    name: str = ""


@attrs.define
class PageChat:
    """A chat of the page.

    Attributes:
        blocks: its messages, by a key of their own.
        busy: the progress, or empty.
    """

    blocks: dict[object, Block] = attrs.field(factory=dict)
    busy: str = ""

    def texts(self, who: str) -> list[str]:
        """The texts of that role, each a message."""
        return [each.text for each in self.blocks.values() if each.who == who]


class Page:
    """The page after messages: what a user can read."""

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        self.chats: dict[str, PageChat] = {}
        for message in messages:
            self.take(message)

    def take(self, message: Mapping[str, Any]) -> None:
        """Read a message of the server's; what the plugin does not listen to is lost."""
        params = message.get("params") or {}
        match message.get("method"):
            case "chat/opened":
                self.chats.setdefault(params["chatId"], PageChat())
            case "chat/cleared" if params["messages"] and params["chatId"] in self.chats:
                self.chats[params["chatId"]].blocks.clear()
            case "chat/statusChanged" if params["status"] == "idle":
                self.chats.setdefault(params["chatId"], PageChat()).busy = ""
            case "chat/contentReceived" if "parentChatId" not in params:
                chat = self.chats.setdefault(params["chatId"], PageChat())
                self._draw(chat, params["role"], params["content"])

    def _draw(self, chat: PageChat, role: str, content: Mapping[str, Any]) -> None:
        blocks = chat.blocks
        match content["type"]:
            case "text":
                last = next(reversed(blocks.values()), None)
                if role == "assistant" and last and (last.kind, last.who) == ("text", role):
                    last.text += content["text"]
                else:
                    blocks[object()] = Block("text", role, content["text"])
            case "reasonStarted":
                blocks[content["id"]] = Block("reason", state="thinking")
            case "reasonText" if content["id"] in blocks:
                blocks[content["id"]].text += content["text"]
            case "reasonFinished" if content["id"] in blocks:
                blocks[content["id"]].state = "done"
                blocks[content["id"]].seconds = content.get("totalTimeMs")
            case "toolCallPrepare":
                call = blocks.setdefault(content["id"], Block("call", name=content["name"]))
                call.state, call.details = "preparing", content.get("details")
                call.text += content["argumentsText"]
            case "toolCallRun" | "toolCallRunning" | "toolCalled" | "toolCallRejected" as kind:
                if content["id"] in blocks:  # else it is not shown at all
                    self._draw_call(blocks[content["id"]], kind, content)
            case "progress":
                chat.busy = content["text"] if content["state"] == "running" else ""
                for block in blocks.values():
                    if block.kind == "reason" and not chat.busy:
                        block.state = "done"

    def _draw_call(self, call: Block, kind: str, content: Mapping[str, Any]) -> None:
        call.details = content.get("details")
        if kind in ("toolCallRun", "toolCallRunning"):
            call.text = json.dumps(content["arguments"])
            call.state = "asking" if content.get("manualApproval") else "running"
        elif kind == "toolCallRejected":
            call.state = "rejected"
        else:
            call.state = "failed" if content["error"] else "succeeded"
            call.outputs = content["outputs"]
            call.seconds = content.get("totalTimeMs")
            assert call.seconds != 0, "the page shows a time of 0 as the character 0"


class Buffer:
    """Emacs' buffer after messages: texts of the model and the server, one behind the other."""

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        self.text = ""
        self.images: list[str] = []
        self.messages: list[str] = []
        for message in messages:
            self.take(message)

    def take(self, message: Mapping[str, Any]) -> None:
        """Read a message of the server's."""
        params = message.get("params") or {}
        content = params.get("content") or {}
        if message.get("method") == "$/showMessage":
            self.messages.append(params["message"])
        elif content.get("type") == "text":
            self.text += f"\n{content['text']}\n" if params["role"] == "user" else content["text"]
        elif content.get("type") == "image":
            self.images.append(content["mediaType"])

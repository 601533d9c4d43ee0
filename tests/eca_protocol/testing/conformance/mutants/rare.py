"""Mutants with a fault that only a particular situation shows."""

import json
from pathlib import Path
from typing import Any, ClassVar

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.connection import REQUESTS
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.store import Store
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import (
    EditFile,
    FileChange,
    Tool,
    Toolbox,
)
from tests.eca_protocol.testing.conformance.reference.wire import Fault
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace


@breaks("ARROW:chat-tool-call-11", "Does not send the last result of several calls to the model.")
class LastResultIsLost(ToolCall):
    def called(self, output: str, *, error: bool) -> None:
        calls = self.turn.calls
        self.is_in_history = self.is_in_history and (len(calls) < 2 or self is not calls[-1])
        super().called(output, error=error)


@breaks("CHAT-12", "Loses a small piece of a text after 3,000 characters.")
class LatePieceIsLost(Turn):
    is_lost = False

    def take_text(self, text: str) -> None:
        if len(self._text) > 3000 and len(text) < 100 and not self.is_lost:
            self.is_lost = True
        else:
            super().take_text(text)


@breaks("W-22e", "Ends a turn twice that is stopped while a call waits for approval.")
class WaitingCallEndsTwice(Turn):
    waits = False

    def stop(self) -> None:
        self.waits = any(call.state == "waiting" for call in self.calls)
        super().stop()

    def finish(self) -> None:
        super().finish()
        if self.waits:
            super().finish()


@breaks("W-22e", "Ends a turn once more at a decision that comes after it.")
class LateDecisionEndsTheTurn(Server):
    def decide(self, params: Params, approves: bool, for_session: bool) -> None:
        super().decide(params, approves, for_session)
        chat = self.chats.get(params.text("chatId"))
        if chat is not None and chat.turn is None:
            chat.say("system", {"type": "progress", "state": "finished", "text": ""})


@breaks("W-41e", "Ends the turn at a context of an unknown type.")
class UnknownContextEndsTheTurn(Turn):
    async def user_message(self, text: str) -> dict[str, Any]:
        message = await super().user_message(text)
        if "was skipped" in message["content"]:
            raise ModelFault("The prompt has a context of an unknown type.")
        return message


@breaks("W-41e", "Skips what follows an unknown context, too.")
class NothingFollowsAnUnknownContext(Turn):
    async def user_message(self, text: str) -> dict[str, Any]:
        message = await super().user_message(text)
        shown, is_skipped, rest = message["content"].partition("was skipped)")
        return {**message, "content": f"{shown}{is_skipped}\n\n{text}"} if rest else message


@breaks("W-4a", "Answers a request without an id, with id null.")
class AnswersWithoutAnId(Server):
    def receive(self, message: Any) -> None:
        super().receive(message)
        if isinstance(message, dict) and message.get("method") in REQUESTS and "id" not in message:
            self.write({"jsonrpc": "2.0", "id": None, "result": {}})


@breaks("W-21d", "Skips an error in the model's stream, and takes the rest for the answer.")
class ErrorEventsAreSkipped(Turn):
    def take(self, event: dict[str, Any], model: Model) -> None:
        if not isinstance(event, dict) or "error" not in event:
            super().take(event, model)


@breaks("W-30d", "Allows what one rule allows and another denies.")
class AllowanceWins(Toolbox):
    def verdict(self, tool: Tool, behavior: str, arguments: dict[str, Any]) -> str:
        if self.rules("allow", tool, arguments):
            return "allow"
        return super().verdict(tool, behavior, arguments)


@breaks("W-30d", "Ignores a rule that denies a tool with certain arguments.")
class DenialsOfArgumentsAreIgnored(Toolbox):
    def rules(self, verdict: str, tool: Tool, arguments: dict[str, Any]) -> bool:
        return super().rules(verdict, tool, {} if verdict == "deny" else arguments)


class _Announced(EditFile):
    """An edit that writes the text of its announcement, whatever the file holds by then."""

    announced: FileChange | None = None

    def preview(self, arguments: dict[str, Any]) -> FileChange | None:
        self.announced = super().preview(arguments)
        return self.announced

    async def run(self, arguments: dict[str, Any]) -> str:
        self.change(arguments)
        assert self.announced is not None
        Path(self.announced.path).write_text(self.announced.after, "utf-8")
        return "It is written."


@breaks("TOOL-13", "Writes what an edit has announced, and loses what changed since.")
class AnnouncedTextIsWritten(Toolbox):
    natives = tuple(_Announced if kind is EditFile else kind for kind in Toolbox.natives)


@breaks("CONF-3", "Ends at a configuration file that is no JSON.")
class BrokenFileIsFatal(Workspace):
    def configuration(self) -> dict[str, Any]:
        file = self.roots[0] / ".eca" / "config.json"
        if file.exists():
            json.loads(file.read_bytes())
        return super().configuration()


class _FirstOfItsHome(Server):
    """A server that ends where another one runs in its workspace."""

    running: ClassVar[set[Path]] = set()

    async def run(self) -> int:
        try:
            return await super().run()
        finally:
            if self.state != "locked":
                self.running -= set(self.workspace.roots)


@breaks("LIFE-3", "Ends at the lock of another server.")
class OneServerInAHome(_FirstOfItsHome):
    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)
        if self.running.intersection(self.workspace.roots):
            self.state = "locked"
            self.end(1)
            raise Fault(-32603, "another server runs here")
        self.running.update(self.workspace.roots)
        return result


@breaks("LIFE-3", "Refuses to start with a configuration file that is no JSON.")
class BrokenFilePreventsTheStart(Server):
    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)
        file = self.workspace.resolve(".eca/config.json")
        try:
            json.loads(file.read_bytes() if file.exists() else b"{}")
        except ValueError as error:
            raise Fault(-32603, str(error)) from error
        return result


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

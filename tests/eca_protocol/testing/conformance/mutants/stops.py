"""Mutants of stop and delete."""

from contextlib import suppress
from typing import Any

import anyio

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Chat, Turn
from tests.eca_protocol.testing.conformance.reference.mcp import MCPTool
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import ToolFault
from tests.eca_protocol.testing.conformance.reference.wire import Fault


@breaks("W-22c", "Continues with the next prompt after a stop.")
class QueueOutlivesTheStop(Chat):
    def stop(self) -> None:
        waiting = list(self.queue)
        super().stop()
        if not self.deleted:
            self.queue.extend(waiting)


@breaks("W-22d", "Does not repeat the prompts that a stop drops.")
class DroppedWordsAreLost(Turn):
    def send_dropped_prompts(self) -> None:
        return None


@breaks("W-22f", "Ends a turn that there is not.")
class StopOfNothing(Server):
    def stop(self, params: Params) -> None:
        chat_id = params.text("chatId", needed=True)
        if chat_id not in self.chats or self.chats[chat_id].turn is None:
            Chat(chat_id, self).say("system", {"type": "progress", "state": "finished", "text": ""})
        super().stop(params)


@breaks("W-23d", "Tells usage after a stop.")
class UsageAfterAStop(Turn):
    def send_dropped_prompts(self) -> None:
        super().send_dropped_prompts()
        self.send_usage()


@breaks("W-23e", "Takes 0.8 s to stop.")
class SlowStop(Turn):
    async def end(self) -> None:
        if self.stopped:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.8)
        await super().end()


@breaks("W-23f", "Reads on, and drops what it reads, after a stop.")
class ConnectionStaysOpen(Turn):
    async def request(self, model: Model, messages: Any, tools: Any) -> None:
        ended, scope = anyio.Event(), anyio.CancelScope()
        faults: list[ModelFault] = []

        async def read() -> None:
            with scope:
                try:
                    await super(ConnectionStaysOpen, self).request(model, messages, tools)
                except ModelFault as fault:
                    faults.append(fault)
            ended.set()

        self.server.tasks.start_soon(read)
        try:
            await ended.wait()
        finally:
            if self.chat.deleted:
                scope.cancel()
        if faults:
            raise faults[0]

    def take(self, event: dict[str, Any], model: Model) -> None:
        if not self.stopped:
            super().take(event, model)


@breaks("W-23g", "Says the last of the model's text after the end of a stopped turn.")
class LateDelta(Turn):
    def finish(self) -> None:
        super().finish()
        if self.stopped and self.server.state == "ready":
            self.chat.say("assistant", {"type": "text", "text": "late"})


@breaks("W-23g", "Says one thing more after a stop.")
class ProgressAfterTheEnd(Turn):
    def finish(self) -> None:
        super().finish()
        if self.stopped and self.server.state == "ready":
            self.progress("Stopped")


@breaks("CHAT-34", "Answers prompts after a stop, and does nothing about them.")
class StoppedForGood(Chat):
    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = self.is_stopped or self.turn is not None
        super().stop()

    def start_turn(self) -> None:
        if not self.is_stopped:
            super().start_turn()


@breaks("CHAT-34")
class GhostOfARequest(Model):
    """Takes a connection that a stop closes before a word came for a fault, and asks once more."""

    async def ask(self, messages: Any, tools: Any, take: Any) -> None:
        came: list[Any] = []
        try:
            await super().ask(messages, tools, lambda event: (came.append(event), take(event)))
        except anyio.get_cancelled_exc_class():
            if not came:
                with anyio.move_on_after(0.2, shield=True), suppress(ModelFault):
                    await super().ask(messages, tools, lambda event: None)
            raise


@breaks("W-24a", "Says how a deleted turn ends.")
class DeletedChatsSpeak(Chat):
    def say(self, role: str, content: dict[str, Any]) -> None:
        deleted, self.deleted = self.deleted, self.deleted and self.server.client == "emacs"
        super().say(role, content)
        self.deleted = deleted


@breaks("W-24b", "Lets a turn run on, unheard, when its chat is deleted.")
class DeletedChatsRun(Chat):
    async def delete(self, *, tells_the_end: bool) -> None:
        if self.turn is not None and tells_the_end:
            self.turn.finish()
        self.deleted = True


@breaks("CHAT-36", "Answers a delete with null.")
class DeleteIsNull(Server):
    async def delete(self, params: Params) -> Any:
        await super().delete(params)


@breaks("W-24e", "Refuses to delete what there is not.")
class UnknownDeletesFail(Server):
    def delete(self, params: Params) -> Any:
        if params.text("chatId") not in self.chats:
            raise Fault(-32602, "params.chatId: expected a chat that there is")
        return super().delete(params)


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


@breaks("W-25d", "Tells a title after a stop.")
class TitlesAfterAStop(Chat):
    def stop(self) -> None:
        scope, self.title_scope = self.title_scope, None
        super().stop()
        self.title_scope = scope


@breaks("W-30g", "Does not close a call that waits when it is stopped.")
class StopLeavesCallsOpen(ToolCall):
    def cut_short(self) -> None:
        if self.state == "running":
            super().cut_short()


@breaks("CHAT-33", "Says one word more of the model's after a stop, before the end.")
class TalksOn(Turn):
    def close(self) -> None:
        if self.stopped:
            self.chat.say("assistant", {"type": "text", "text": "one more"})
        super().close()


@breaks("W-23a", "Cannot be stopped before the model has said something.")
class DeafBeforeTheFirstWord(Turn):
    has_begun = False

    def take(self, event: dict[str, Any], model: Model) -> None:
        self.has_begun = True
        super().take(event, model)

    def stop(self) -> None:
        is_over = self.server.state == "shutdown" or self.server.exit_code is not None
        if self.has_begun or self.chat.deleted or is_over:
            super().stop()


@breaks("W-23c", "Waits for the answer of an MCP server, whatever the user wants.")
class ServersAreNotStopped(MCPTool):
    async def run(self, arguments: dict[str, Any]) -> str:
        with anyio.CancelScope(shield=True), anyio.move_on_after(4):
            return await super().run(arguments)
        raise ToolFault("It took too long.")


@breaks("W-24c", "Says nothing of a deleted turn's end to the client that needs it.")
class DeletesAlike(Chat):
    async def delete(self, *, tells_the_end: bool) -> None:
        await super().delete(tells_the_end=False)

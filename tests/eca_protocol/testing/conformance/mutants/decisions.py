"""Mutants of approvals by the user and the configuration."""

from typing import Any

import anyio
import attrs

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall


@breaks("W-30d", "Calls what is denied with an error.")
class DenialIsAnError(ToolCall):
    def rejected(self, reason: str) -> None:
        if reason == "user-config":
            self.called("It was denied.", error=True)
        else:
            super().rejected(reason)


@breaks("W-30f", "Tells the user's no as the configuration's.")
class RefusalIsConfiguration(ToolCall):
    def rejected(self, reason: str) -> None:
        super().rejected("user-config" if self._decision is False else reason)


@breaks("W-31b", "Ends the turn after a rejection by the user.")
class RejectionEndsTheTurn(Turn):
    by_user = True

    async def ask(self, model: Any) -> None:
        last = self.chat.history[-1]
        was_rejected = last["role"] == "tool" and "rejected" in last["content"]
        if was_rejected and any(call._decision is False for call in self.calls) is self.by_user:
            self.calls = []
        else:
            await super().ask(model)


@breaks("W-31a", "Ends the turn after a rejection by the configuration.")
class DenialEndsTheTurn(RejectionEndsTheTurn):
    by_user = False


@breaks("TOOL-14", "Ends the turn behind a call that the user has approved.")
class ApprovalEndsTheTurn(Turn):
    async def ask(self, model: Any) -> None:
        if any(call._decision for call in self.calls):
            self.calls = []
        else:
            await super().ask(model)


@breaks("TOOL-18", "Runs what the user has rejected, in silence.")
class RejectedCallsRun(ToolCall):
    async def approved(self) -> bool:
        yes = await super().approved()
        if not yes and self.tool is not None:
            await self.tool.run(self.arguments)
        return yes


@breaks("W-34a", "Keeps a decision on a call that does not wait yet.")
class EarlyDecisionsAreKept(ToolCall):
    def decide(self, approves: bool, *, for_session: bool = False) -> None:
        if self.state == "waiting":
            super().decide(approves, for_session=for_session)
        else:
            self._decision = approves
            self._decided.set()


class _RunsAtItsEnd(Turn):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.past: list[ToolCall] = []
        self.late: list[ToolCall] = []

    async def ask(self, model: Any) -> None:
        self.past += self.calls
        await super().ask(model)

    async def end(self) -> None:
        for call in self.late:
            assert call.tool is not None
            await call.tool.run(call.arguments)
        await super().end()


@breaks("W-34a", "Runs in silence, at the end of the turn, what was rejected and then approved.")
class ApprovedAfterAll(Server):
    def __init__(self, transport: Any, config: Any, parts: Any) -> None:
        super().__init__(transport, config, attrs.evolve(parts, turn=_RunsAtItsEnd))

    def decide(self, params: Params, approves: bool, for_session: bool) -> None:
        super().decide(params, approves, for_session)
        chat = self.chats.get(params.text("chatId"))
        if approves and chat is not None and isinstance(chat.turn, _RunsAtItsEnd):
            approved = params.text("toolCallId")
            rejected = [call for call in chat.turn.past if call._decision is False]
            chat.turn.late += [call for call in rejected if call.id == approved]


@breaks("W-34b")
class WaitsTooLate(ToolCall):
    """Listens to the user a moment after it has asked, from the fifth call of a chat on."""

    async def approved(self) -> bool:
        if sum(message["role"] == "tool" for message in self.turn.chat.history) > 3:
            self.state = "preparing"
            await anyio.sleep(0.05)
            self.state = "waiting"
        return await super().approved()

"""Mutants of what CURRENT's server tells, lists and answers, beside the chats themselves."""

from typing import Any, ClassVar

from tests.eca_protocol.testing.conformance.mutants.registry import breaks_current
from tests.eca_protocol.testing.conformance.reference.current import CurrentServer
from tests.eca_protocol.testing.conformance.reference.params import Params

Result = dict[str, Any]


@breaks_current("W-11h")
class SelectsStrangeVariants(CurrentServer):
    """Selects the variant that the client names, also one that the model has not."""

    def variants(self, selected: str) -> dict[str, Any]:
        return {**super().variants(selected), "selectVariant": selected or None}


@breaks_current("W-22g")
class UnknownStopsAreSilent(CurrentServer):
    """Says nothing when an unknown chat is stopped."""

    def answer_idle_stop(self, chat_id: str) -> None:
        if chat_id in self.chats:
            super().answer_idle_stop(chat_id)


@breaks_current("W-28d")
class AgentIsNoCode(CurrentServer):
    """Takes the `agent` of a prompt for an agent of its own."""

    def requested_behavior(self, params: Params) -> str:
        asked = params.text("agent")
        return asked if asked == "agent" else super().requested_behavior(params)


@breaks_current("W-28d")
class StrangeNamesMeanTheSelected(CurrentServer):
    """Answers a prompt for `build` with the selected agent."""

    names: ClassVar[dict[str, str]] = {"agent": "code"}

    def named_agent(self, name: str) -> str:
        return self.behavior if name == "build" else super().named_agent(name)


@breaks_current("W-28d")
class OlderNames(CurrentServer):
    """Lists the agents by their names of October."""

    agents: ClassVar[list[str]] = ["agent", "plan"]

    def named_agent(self, name: str) -> str:
        return "agent" if name in ("code", "build") else name


@breaks_current("W-44b")
class AlwaysMeta(CurrentServer):
    """Tells of the rest of a chat that is shown as a whole."""

    def has_meta(self, params: Params) -> bool:
        return True


@breaks_current("FIELD:ChatForkResponse.chatId")
class ForkNamesItsSource(CurrentServer):
    """Answers a fork with the id of the chat that was forked."""

    def fork(self, params: Params) -> Result:
        return {**super().fork(params), "chatId": params.text("chatId")}


@breaks_current("FIELD:ChatQueryFilesResponse.files")
class FilesByTheirBeginning(CurrentServer):
    """Finds files whose path begins with the query."""

    def query_files(self, params: Params) -> Result:
        found = super().query_files(params)
        wanted = params.text("query")
        return {**found, "files": [x for x in found["files"] if x["path"].startswith(wanted)]}

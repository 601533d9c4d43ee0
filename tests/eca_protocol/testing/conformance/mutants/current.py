"""Mutants of what CURRENT's server tells, lists and answers, beside the chats themselves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from eca_protocol.revisions import Revision
from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.current import CurrentMCPServer, CurrentServer
from tests.eca_protocol.testing.conformance.reference.current_chat import (
    CurrentChat,
    CurrentToolbox,
)
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.tools import Tool, Toolbox

Result = dict[str, Any]

breaks_current = partial(breaks, edition=Revision.CURRENT)


@breaks_current("W-3g")
class JobsByOneKey(CurrentServer):
    """Reads the id of a job by its right name alone."""

    def job_id(self, params: Params) -> str:
        return params.text("jobId", needed=True)


@breaks_current("W-11h")
class SelectsStrangeVariants(CurrentServer):
    """Selects the variant that the client names, also one that the model has not."""

    def variants(self, selected: str) -> dict[str, Any]:
        return {**super().variants(selected), "selectVariant": selected or None}


@breaks_current("W-11h")
class SaysNoVariant(CurrentServer):
    """Leaves `selectVariant` away where none is in force."""

    def variants(self, selected: str) -> dict[str, Any]:
        return {name: each for name, each in super().variants(selected).items() if each is not None}


@breaks_current("W-24d")
class DeletesInSilence(CurrentServer):
    """Does not tell that a chat was deleted."""

    def announce_deleted(self, chat_id: str) -> None:
        return None


@breaks_current("W-22g")
class IdleStopsAreSilent(CurrentServer):
    """Says nothing when a chat is stopped that does not run."""

    def answer_idle_stop(self, chat_id: str) -> None:
        return None


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


@breaks_current("W-33d")
class ListsPrefixes(CurrentToolbox):
    """Lists the native tools with their prefix."""

    def listed(self, tools: Iterable[Tool], behavior: str) -> list[dict[str, Any]]:
        return Toolbox.listed(self, tools, behavior)


@breaks_current("W-36c")
class NoLoginIsAFailure(CurrentMCPServer):
    """Calls a server failed that waits for a login."""

    login_status = "failed"


@breaks_current("W-44b")
class AlwaysMeta(CurrentServer):
    """Tells of the rest of a chat that is shown as a whole."""

    def has_meta(self, params: Params) -> bool:
        return True


@breaks_current("W-44b")
class NeverMeta(CurrentServer):
    """Does not tell where the rest of a chat is."""

    def has_meta(self, params: Params) -> bool:
        return False


@breaks_current("W-44c")
class UnknownJobsWereKilled(CurrentServer):
    """Takes an unknown job for one that was killed."""

    def read_job(self, params: Params) -> Result:
        return {**super().read_job(params), "status": "killed"}


@breaks_current("FIELD:InitializeResponse.globalConfigPath")
class RelativePath(CurrentServer):
    """Names the user's configuration by a path that is not absolute."""

    def config_path(self) -> str:
        return "~/.config/eca/config.json"


@breaks_current("FIELD:ChatListResponse.chats")
class ListsRunningChats(CurrentServer):
    """Lists only chats that run."""

    def list_chats(self, params: Params) -> Result:
        chats = super().list_chats(params)["chats"]
        return {"chats": [each for each in chats if each["status"] == "running" or "kind" in each]}


@breaks_current("FIELD:ChatSummary.kind")
class EveryChatIsInline(CurrentServer):
    """Lists every chat as an inline one."""

    def summary(self, chat: CurrentChat) -> Result:
        return {**super().summary(chat), "kind": "inline"}


@breaks_current("FIELD:ChatSummary.kind")
class NoChatIsInline(CurrentServer):
    """Lists inline chats as usual ones."""

    def summary(self, chat: CurrentChat) -> Result:
        return {name: each for name, each in super().summary(chat).items() if name != "kind"}


@breaks_current("FIELD:ChatOpenResponse.found")
class NothingIsFound(CurrentServer):
    """Shows a chat again and says that it was not found."""

    def open_chat(self, params: Params) -> Result:
        return {**super().open_chat(params), "found": False}


@breaks_current("FIELD:ChatForkResponse.chatId")
class ForkNamesItsSource(CurrentServer):
    """Answers a fork with the id of the chat that was forked."""

    def fork(self, params: Params) -> Result:
        return {**super().fork(params), "chatId": params.text("chatId")}


@breaks_current("FIELD:ChatForkResponse.chatId")
class ForkIsNotNamed(CurrentServer):
    """Answers a fork without the id of the copy."""

    def fork(self, params: Params) -> Result:
        super().fork(params)
        return {}


@breaks_current("FIELD:ChatQueryFilesResponse.files")
class FilesByTheirBeginning(CurrentServer):
    """Finds files whose path begins with the query."""

    def query_files(self, params: Params) -> Result:
        found = super().query_files(params)
        wanted = params.text("query")
        return {**found, "files": [x for x in found["files"] if x["path"].startswith(wanted)]}


@breaks_current("FIELD:ProvidersListResult.providers")
class NoProviders(CurrentServer):
    """Lists no provider."""

    def list_providers(self, params: Params) -> Result:
        return {"providers": []}


@breaks_current("FIELD:ToolServerRemovedParams.name")
class RemovesInSilence(CurrentServer):
    """Does not tell that an MCP server was removed."""

    def announce_removed(self, name: str) -> None:
        return None

"""Scenarios with unusual messages: unknown, older, or of another server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from eca_protocol.testing.conformance.client.harness import ClientHarness, Scenario, scenarios_in
from eca_protocol.testing.conformance.client.scripted_server import DECISIONS, MODEL

__all__ = ["SCENARIOS"]


class UnknownNotifications(Scenario, rows="W-4c"):
    """The server sends unknown notifications."""

    async def after_greeting(self) -> None:
        await self.notify("$/conformance", {"a": 1})
        await self.notify("conformance/unknown", {})
        await self.notify("chat/conformance", {"chatId": "no-such-chat"})


class UnknownKeys(Scenario, rows="W-3e"):
    """Every object of the server has unknown keys."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        yield from super().frames(_with_strange_keys(message))


def _with_strange_keys(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_strange_keys(each) for each in value]
    if isinstance(value, Mapping):
        known = {key: _with_strange_keys(each) for key, each in value.items()}
        return {"x-strange": {"a": [1]}, "": None, **known}
    return value


class NullsForWhatIsAbsent(Scenario, rows="W-3b W-60a", triggers=("chat/prompt",)):
    """Optional members are null, as the upstream server writes them."""

    def frames(self, message: Mapping[str, Any]) -> Iterator[bytes]:
        params = message.get("params")
        if isinstance(params, Mapping) and "content" in params:
            content = params["content"]
            if content["type"].startswith("toolCall"):
                content = {"summary": None, "details": None, **content}
                message = {**message, "params": {**params, "content": content}}
        yield from super().frames(message)

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        await super().body(chat_id, params)
        counts = {"sessionTokens": 1, "messageInputTokens": 1, "messageOutputTokens": 1}
        usage = {"type": "usage", **counts, "limit": None, "messageCost": None}
        await self.content(chat_id, "system", usage)


class MembersLeftOut(Scenario, rows="W-60b", triggers=("chat/prompt",)):
    """Members that the upstream server omits are missing."""

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        await super().body(chat_id, params)
        await self.content(chat_id, "system", {"type": "usage", "sessionTokens": 1})
        await self.content(chat_id, "system", {"type": "progress", "state": "running"})


class ValuesBeyondTheText(Scenario, rows="W-60c"):
    """The server sends contents, states and types that no edition lists."""

    async def after_greeting(self) -> None:
        await self.notify(
            "tool/serverUpdated", {"type": "conformance", "name": "strange", "status": "odd"}
        )

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        await self.content(chat_id, "assistant", {"type": "conformance", "odd": [1]})
        await self.content(chat_id, "conformance", {"type": "text", "text": "by whom?"})
        await self.progress(chat_id, "conformance", "odd")
        await super().body(chat_id, params)


class OlderNames(Scenario, rows="W-60d"):
    """The configuration comes in the names that servers used before and after October 2025."""

    async def greet(self) -> None:
        await super().greet()
        await self.notify(
            "config/updated",
            {"models": [MODEL], "chatBehaviors": ["agent"], "chatDefaultModel": MODEL},
        )
        await self.notify("config/updated", {"chat": {"agents": ["agent"], "selectAgent": "agent"}})


class ErrorsWithoutCode(Scenario, rows="W-60e"):
    """The first query is refused with a text as the code, as the upstream server does."""

    refused: bool = False

    async def on_request(self, method: str, id_: Any, params: Mapping[str, Any]) -> None:
        if method.startswith("chat/query") and not self.refused:
            self.refused = True
            error = {"code": "internal-error", "message": "refused by the conformance suite"}
            await self.send_message({"jsonrpc": "2.0", "id": id_, "error": error})
        else:
            await super().on_request(method, id_, params)

    def judge(self, harness: ClientHarness) -> None:
        if self.refused:
            harness.check_undisturbed("W-60e")
        else:
            harness.untestable("W-60e", "the client never sends a query")


class MoreAfterTheEnd(Scenario, rows="W-60f", triggers=("chat/prompt",)):
    """Usage and a second `finished` follow the end of a turn."""

    async def after_turn(self, chat_id: str) -> None:
        await self.content(chat_id, "system", {"type": "usage", "sessionTokens": 9})
        await self.progress(chat_id, "finished", "")


class TitlesAtAnyTime(Scenario, rows="W-60g", triggers=("chat/prompt",)):
    """A title comes before, in, and behind a turn."""

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        await self.content(chat_id, "system", {"type": "metadata", "title": "One"})
        await super().body(chat_id, params)

    async def after_turn(self, chat_id: str) -> None:
        await self.content(chat_id, "system", {"type": "metadata", "title": "Two"})


class ReasonsInEverySpelling(Scenario, rows="W-32c", triggers=("chat/prompt",)):
    """Calls are rejected for reasons in every spelling that servers use."""

    async def body(self, chat_id: str, params: Mapping[str, Any]) -> None:
        await super().body(chat_id, params)
        for number, reason in enumerate(
            ("user", "user-choice", "user-config", "user-deny", "hook")
        ):
            send = partial(self.call_content, chat_id, f"odd-{number}", "eca_read_file", "Reading")
            await send("toolCallPrepare", argumentsText="{}")
            await send("toolCallRun", arguments={}, manualApproval=False)
            await send("toolCallRejected", arguments={}, reason=reason)


class AnyArguments(Scenario, rows="W-32a", triggers=DECISIONS):
    """The arguments of a call are an object of any JSON values."""

    async def call(self, chat_id: str, **details: Any) -> None:
        await super().call(chat_id, arguments={"a": [1, None, {"b": 1.5}], "c": {}, "": False})


SCENARIOS = scenarios_in(globals())
